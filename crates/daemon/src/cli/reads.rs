//! Commands that only read: status, channels, history, search.

use std::path::PathBuf;

use cairn_core::ports::{Hit, HitKind};
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::client::with_params;
use super::connect::{Surroundings, channel_path};
use super::export::export;
use super::failure::Failure;
use super::global::{ChannelArg, Global};
use super::table::Table;
use super::{out, outbox, platforms, values};
use crate::admin::{AgentStatus, StatusRecord, UNINDEXED};
use crate::records::{ChannelRecord, EntryRecord, Wakefulness};
use crate::text::{columns, counted, cut, grouped, minute, one_line, percent, plain};

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cairn status\n  cairn status --json")]
pub(crate) struct StatusArgs {}

/// Arguments of `channels`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cairn channels\n  cairn channels --json")]
pub(crate) struct ChannelsArgs {}

/// Arguments of `history`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn history main                   the first 100 entries
  cairn history main --from 101        the next page, from the last seq + 1 on
  cairn history main --limit 10000 --json
  cairn history main --export ~/main   all: ~/main/dialog/YYYY-MM-DD.jsonl")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// First entry, by its seq
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::number(0, u64::MAX))]
    from: Option<u64>,
    /// Last entry, by its seq
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::number(0, u64::MAX))]
    to: Option<u64>,
    /// Most entries, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
          value_parser = values::limit())]
    limit: u64,
    /// Write the whole history into this folder, one file a day (UTC), one entry a line as --json has it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "limit"])]
    export: Option<PathBuf>,
}

/// Arguments of `search`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn search main 'harbour crossing'
  cairn search main Lisbon --kind memory --limit 5 --json

Words may come in any order and all are optional; the best results are first.")]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// Words to search for
    #[arg(value_name = "QUERY")]
    query: String,
    /// Most results, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
          value_parser = values::limit())]
    limit: u64,
    /// Only results of this kind
    #[arg(long, value_name = "K", value_parser = PossibleValuesParser::new(["entry", "summary", "memory"]))]
    kind: Option<String>,
}

/// `cairn status`.
pub(crate) async fn status(global: Global, _args: StatusArgs) -> Result<(), Failure> {
    let session = Surroundings::load(&global).await?.reading().await?;
    let status = session.client.get::<StatusRecord>("/v1/status").await.map_err(Failure::from);
    let status = session.finish(status).await?;
    if global.json {
        return out::json(&status);
    }
    let running = match (status.running, status.pid) {
        (true, pid) => format!("running ({}, process {pid})", status.state),
        (false, _) => "not running; start it with `cairn run`".to_owned(),
    };
    out::line(&format!("daemon    {running}"))?;
    out::line(&format!("version   {}", status.version))?;
    out::line(&format!("state     {}", status.state_dir))?;
    if let Some(error) = &status.store.error {
        out::line(&format!("trouble   {}", one_line(error)))?;
    }
    out::line(&format!("config    {}", status.config_file.as_deref().unwrap_or("built-in defaults")))?;
    if let Some(socket) = &status.socket {
        out::line(&format!("socket    {socket}"))?;
    }
    if status.running {
        out::line(&format!(
            "up        {} s, since {}",
            grouped(status.uptime_seconds),
            minute(status.started_at)
        ))?;
    }
    status.agents.iter().flat_map(drawn_agent).try_for_each(|line| out::line(&line))?;
    if let Some(spend) = &status.spend {
        let cap = spend.per_day.map(|cap| format!(" of {cap:.2}")).unwrap_or_default();
        out::line(&format!("spent     {:.2}{cap} today (UTC)", spend.today))?;
    }
    out::line(&format!("channels  {}, {} awake", grouped(status.channels), grouped(status.awake)))?;
    outbox::drawn(status.outbox).iter().try_for_each(|line| out::line(line))?;
    status.platforms.iter().flat_map(platforms::drawn).try_for_each(|line| out::line(&line))
}

/// An agent, and below it the models of its chain in the order in which they are tried.
fn drawn_agent(agent: &AgentStatus) -> Vec<String> {
    let head = format!("agent     {} ({}, {} tokens)", agent.id, agent.model, grouped(agent.window_tokens));
    let chain = agent.chain.iter().map(|one| {
        let (window, origin) = (grouped(one.window_tokens), one.window_source.origin());
        format!("            {}: window {window} tokens ({origin}), {}", one.model, one_line(&one.told()))
    });
    [head].into_iter().chain(chain).collect()
}

/// `cairn channels`.
pub(crate) async fn channels(global: Global, _args: ChannelsArgs) -> Result<(), Failure> {
    let session = Surroundings::load(&global).await?.reading().await?;
    let records = session.client.get::<Vec<ChannelRecord>>("/v1/channels").await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("no channels yet; `cairn chat` begins one");
    }
    let mut table =
        Table::new(&["channel", "state", "entries", "usage", "tier", "summaries", "last"], &[2, 3, 5]);
    for record in &records {
        table.row(vec![
            record.channel.to_string(),
            if record.state == Wakefulness::Awake { "awake" } else { "asleep" }.to_owned(),
            grouped(record.entries),
            percent(record.usage_ratio),
            record.tier.name().to_owned(),
            grouped(record.summaries),
            minute(record.last_at),
        ]);
    }
    // Names are there to be copied whole.
    out::raw(table.render(usize::MAX).as_bytes())
}

/// `cairn history`.
pub(crate) async fn history(global: Global, args: HistoryArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel.channel, None)?;
    let session = surroundings.reading().await?;
    if let Some(dir) = &args.export {
        let exported = export(&session.client, &channel, dir).await;
        let exported = session.finish(exported).await?;
        return if global.json { out::json(&exported) } else { out::raw(exported.drawn().as_bytes()) };
    }
    let params = [
        ("from", args.from.map(|from| from.to_string())),
        ("to", args.to.map(|to| to.to_string())),
        ("limit", Some(args.limit.to_string())),
    ];
    let path = with_params(&channel_path(&channel, "history"), &params);
    let records = session.client.get::<Vec<EntryRecord>>(&path).await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    for record in &records {
        out::raw(drawn_entry(record).as_bytes())?;
    }
    let last = records.last().and_then(|record| record.seq);
    if let (true, Some(last)) = (records.len() as u64 == args.limit, last) {
        let next = last.next();
        out::note(&format!("{}; the next page: --from {next}", counted(args.limit, "entry", "entries")));
    }
    Ok(())
}

fn drawn_entry(record: &EntryRecord) -> String {
    let seq = record.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let who = match (&record.author, record.role) {
        (Some(author), _) => one_line(&author.name),
        (None, cairn_core::message::Role::Tool) => "tool".to_owned(),
        (None, _) => assistant(),
    };
    let artifact = record.artifact.as_ref().map_or_else(String::new, |id| format!("  artifact {id}"));
    let shortened = if record.shortened { "  (the model sees head and tail)" } else { "" };
    let mut block =
        format!("{seq:>6}  {}  {who}  [{}]{artifact}{shortened}\n", minute(record.at), record.place);
    let calls = record.tool_calls.iter().map(|call| format!("calls {} {}", call.name, call.arguments));
    for line in plain(&record.text()).lines().map(str::to_owned).chain(calls) {
        block.push_str(&format!("        {line}\n"));
    }
    block
}

fn assistant() -> String {
    "assistant".to_owned()
}

/// `cairn search`.
pub(crate) async fn search(global: Global, args: SearchArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel.channel, None)?;
    if args.query.trim().is_empty() {
        return Err(Failure::usage("the query is empty", "give the words to search for"));
    }
    let session = surroundings.reading().await?;
    let params = [("q", Some(args.query)), ("limit", Some(args.limit.to_string())), ("kind", args.kind)];
    let path = with_params(&channel_path(&channel, "search"), &params);
    let found = session.client.get_with_header::<Vec<Hit>>(&path, UNINDEXED).await.map_err(Failure::from);
    let (hits, lacks) = session.finish(found).await?;
    if let Some(lacks) = lacks {
        out::note(&format!(
            "note: incomplete: the index is being made, and what {lacks} records of the journal say is not in it yet"
        ));
    }
    if global.json {
        return out::json(&hits);
    }
    if hits.is_empty() {
        return out::line("nothing found");
    }
    let width = out::width();
    for hit in &hits {
        out::raw(drawn_hit(hit, width).as_bytes())?;
    }
    Ok(())
}

fn drawn_hit(hit: &Hit, width: usize) -> String {
    let what = match hit.kind {
        HitKind::Entry => hit.author.as_ref().map_or_else(assistant, |author| one_line(&author.name)),
        HitKind::Summary => format!("summary {}", hit.id),
        HitKind::Memory => format!("memory {}", hit.id),
    };
    let seq = hit.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let head = format!("{seq:>6}  {:6.2}  {}  {what}: ", hit.score, minute(hit.at));
    let room = width.saturating_sub(columns(&head)).max(20);
    format!("{head}{}\n", cut(&one_line(&hit.text), room))
}
