//! Commands about channels: channels, context, artifact, compact, new.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use axum::http::Method;
use cairn_types::event::{RunOutcome, RunReport};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::{ChannelArg, Global};
use crate::client::{encode, with_params};
use crate::connect::{Connector, channel_path};
use crate::failure::{Failure, exit};
use crate::out::Table;
use crate::pages::PageArgs;
use crate::{args, draw, out, pages};
use cairn_api::records::{
    ArtifactPage, ArtifactRecord, ChannelRecord, CompactRecord, ContextRecord, NewGenerationRecord,
    RoomRecord,
};
use cairn_api::text::{counted, day, grouped, minute, plain};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn channels
  cairn channels --limit 50
  cairn channels --after main/local/ops --json

Channels are listed by name; --after takes a channel's name. For a sleeping
channel the list shows the last stored figures, without waking it.")]
pub struct ChannelsArgs {
    #[command(flatten)]
    page: PageArgs,
}

pub async fn channels(global: Global, args: ChannelsArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let list = ("/v1/channels", Vec::new());
    let shown = |channels: &[ChannelRecord], first: bool| {
        out::list(channels, first, "no channels yet; `cairn chat` starts one")
    };
    let rest = pages::print(&connector, global.json, list, args.page, shown).await?;
    if let (false, Some(rest)) = (global.json, rest) {
        out::note(&format!("there are more: --after {rest}"));
    }
    Ok(())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn context main
  cairn context main --json
  cairn context helper/local/ops

The bar shows how full the window is and where the tiers start. NO_COLOR turns
colours off.")]
pub struct ContextArgs {
    #[command(flatten)]
    channel: ChannelArg,
}

pub async fn context(global: Global, args: ContextArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    let record: ContextRecord = connector.get(&channel_path(&channel, "context")).await?;
    out::record(global.json, &record, |record| draw::context(record, out::width()))
}

#[derive(Debug, Subcommand)]
pub enum ArtifactCommand {
    /// List the artifacts of a channel, oldest first
    #[command(after_help = "Examples:\n  cairn artifact list main\n  cairn artifact list main --json")]
    List {
        #[command(flatten)]
        channel: ChannelArg,
    },
    /// Show lines of an artifact
    #[command(after_help = "\
Examples:
  cairn artifact show main a3               the first 1000 lines, up to 1 MiB
  cairn artifact show main a3 --from 501 --count 20
  cairn artifact show main a3 --offset 1048576     the middle of a giant line

Showing an artifact does not count as reading it: it still expires.")]
    Show {
        #[command(flatten)]
        channel: ChannelArg,
        /// The artifact, such as a3
        #[arg(value_name = "ID")]
        id: String,
        /// First line
        #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
              value_parser = args::number(1, u64::MAX))]
        from: u64,
        /// Maximum number of lines
        #[arg(long, value_name = "N", default_value_t = 1_000, allow_negative_numbers = true,
              value_parser = args::number(1, u64::MAX))]
        count: u64,
        /// Bytes of the first line to skip
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true,
              value_parser = args::number(0, u64::MAX))]
        offset: u64,
    },
    /// Write an artifact to a file, byte for byte: a file from the bot, a recording, or a whole result
    #[command(after_help = "\
Examples:
  cairn artifact save main a1 cat.png
  cairn artifact save main r5d41402a said.ogg

Only you may read the file. An existing file is not overwritten.")]
    Save {
        #[command(flatten)]
        channel: ChannelArg,
        /// The artifact, such as a1
        #[arg(value_name = "ID")]
        id: String,
        /// Where to write it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub async fn artifact(global: Global, command: ArtifactCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        ArtifactCommand::List { channel } => {
            let channel = connector.channel(&channel.channel, None)?;
            let records: Vec<ArtifactRecord> = connector.get(&channel_path(&channel, "artifacts")).await?;
            out::record(global.json, &records, |records| artifacts(records))
        }
        ArtifactCommand::Save { channel, id, file } => {
            let channel = connector.channel(&channel.channel, None)?;
            let path = channel_path(&channel, &format!("artifacts/{}/content", encode(id.trim())));
            let bytes = connector.bytes(&path).await?;
            save(&file, &bytes)?;
            out::note(&format!("{} bytes are in {}", grouped(bytes.len() as u64), file.display()));
            Ok(())
        }
        ArtifactCommand::Show { channel, id, from, count, offset } => {
            let channel = connector.channel(&channel.channel, None)?;
            let params = [("from", from), ("count", count), ("offset", offset)];
            let params = params.map(|(name, n)| (name, Some(n.to_string())));
            let path = channel_path(&channel, &format!("artifacts/{}", encode(id.trim())));
            let page: ArtifactPage = connector.get(&with_params(&path, &params)).await?;
            out::record(global.json, &page, |page| plain(&page.text) + "\n")?;
            if let (false, Some(next)) = (global.json, &page.next) {
                let (shown, lines) = (grouped(page.count), grouped(page.artifact.lines));
                let offset =
                    if next.offset > 0 { format!(" --offset {}", next.offset) } else { String::new() };
                out::note(&format!("{shown} of {lines} lines; to continue: --from {}{offset}", next.from));
            }
            Ok(())
        }
    }
}

/// Writes a new file that only its owner can read: it may be what somebody said.
fn save(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut open| open.write_all(bytes));
    written.map_err(|error| {
        Failure::failed(
            format!("cannot write {}: {error}", file.display()),
            "name a new file in an existing folder",
        )
    })
}

fn artifacts(records: &[ArtifactRecord]) -> String {
    if records.is_empty() {
        return "no artifacts: no result of a tool was large, no message was larger than the window, and no \
                recording was kept\n"
            .to_owned();
    }
    let mut table = Table::new(&["id", "from", "bytes", "lines", "stored", "read", "state"], &[2, 3]);
    for record in records {
        let gone = |at| if record.lost { "lost".to_owned() } else { format!("expired {}", day(at)) };
        table.row(vec![
            record.id.to_string(),
            match (&record.sent_in, record.message) {
                (Some(message), _) => format!("sent in {}", plain(message.as_str())),
                (None, Some(seq)) => format!("message {seq}"),
                (None, None) => plain(&record.tool),
            },
            grouped(record.bytes),
            grouped(record.lines),
            minute(record.stored_at),
            minute(record.used_at),
            record.expired_at.map_or_else(|| "kept".to_owned(), gone),
        ]);
    }
    table.render(out::width())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn compact main --wait
  cairn compact main 'keep every figure of the budget' --wait

Summarises all but the last turn, even below every threshold. A current run
ends first. With an INSTRUCTION and nothing else to summarise, the
newest summary is rewritten. Without --wait the run continues in the daemon;
if no daemon runs, the command always waits. An agent with engine =
\"sliding\" has no runs: the command drops all turns but the last.")]
pub struct CompactArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// Details that the summary must keep or stress
    #[arg(value_name = "INSTRUCTION")]
    instruction: Option<String>,
    /// Wait until the run ends, and print its outcome and summary
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cairn new main

The archived conversation stays in `cairn history` and `cairn search`, and its
memories are kept.")]
pub struct NewArgs {
    #[command(flatten)]
    channel: ChannelArg,
}

pub async fn compact(global: Global, args: CompactArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    let connection = connector.changing_what_is_there().await?;
    let wait = args.wait || connection.is_inside();
    let body = json!({ "instruction": args.instruction, "wait": wait });
    let path = channel_path(&channel, "compact");
    let answer = connection.client.post::<CompactRecord>(&path, &body).await.map_err(Failure::from);
    let record = connection.finish(answer).await?;
    out::record(global.json, &record, |record| compacted(record) + "\n")?;
    match record.outcome {
        None | Some(RunOutcome::Committed | RunOutcome::Superseded) => Ok(()),
        Some(RunOutcome::Rejected | RunOutcome::Failed | RunOutcome::Cancelled) => {
            Err(Failure::Silent(exit::FAILED))
        }
    }
}

/// What became of a compaction: a sentence, and below it the summary.
pub fn compacted(record: &CompactRecord) -> String {
    if let Some(RoomRecord { messages, tokens_before, tokens_after }) = &record.made {
        return format!(
            "{} left the window at once: {} -> {} tokens; they stay in the history",
            counted(*messages, "message", "messages"),
            grouped(*tokens_before),
            grouped(*tokens_after),
        );
    }
    match (&record.run, &record.end) {
        (None, _) => {
            record.nothing.map_or_else(|| "nothing to compact".to_owned(), |nothing| nothing.to_string())
        }
        (Some(run), None) if record.queued => format!("a run is under way; run {run} follows it"),
        (Some(run), None) => format!("run {run} is under way"),
        (Some(_), Some(end)) => match &record.summary {
            Some(summary) => format!("{}\n\n{}", run_end(end), plain(summary)),
            None => run_end(end),
        },
    }
}

/// How a run ended, in a sentence.
pub fn run_end(end: &RunReport) -> String {
    let mut text = format!(
        "run {} {}: {}, {} -> {} tokens, {}, {} ms",
        end.run,
        end.outcome.name(),
        counted(end.messages, "message", "messages"),
        grouped(end.tokens_before),
        grouped(end.tokens_after),
        counted(end.memories, "memory", "memories"),
        grouped(end.duration_ms),
    );
    if let Some(reason) = &end.reason {
        text.push_str(&format!(" ({})", cairn_api::text::one_line(reason)));
    }
    text
}

pub async fn new(global: Global, args: NewArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    let path = channel_path(&channel, "new");
    let record: NewGenerationRecord = connector.change(Method::POST, &path, &json!({})).await?;
    out::record(global.json, &record, |record| format!("{}: {}\n", record.channel, begun(record)))
}

/// What is said of a new session.
pub fn begun(record: &NewGenerationRecord) -> String {
    format!("session {} starts; the previous conversation is archived", record.generation.0)
}
