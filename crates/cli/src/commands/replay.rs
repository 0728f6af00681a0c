//! `cairn replay`: sends the messages of a file one after another, and reports what became of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use cairn_api::message::{MessageRequest, read_object};
use cairn_types::event::RunOutcome;
use cairn_types::ids::{ChannelId, RunId, TurnId};
use cairn_types::memory::{Memory, Scope};
use cairn_types::message::Role;
use cairn_types::ports::Reply;
use cairn_types::tier::Tier;
use cairn_types::tool::shown_name;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::Global;
use crate::client::{CallError, Client, with_params};
use crate::commands::chat::{Heard, NoAnswer, pieces, unattended};
use crate::commands::history::Pages;
use crate::connect::{Connector, channel_path};
use crate::failure::{Failure, exit};
use crate::{jsonl, out};
use cairn_api::records::GaugeRecord;
use cairn_api::text::{counted, grouped, one_line};

#[derive(Debug, Args)]
#[command(after_help = "\
Each line is a JSON object:
  {\"user\": \"ann\", \"text\": \"hello\", \"at\": \"2026-11-20T10:00:00Z\", \"id\": \"m1\"}
`at` and `id` are optional. A second run skips messages that were answered.
Tool calls that need approval are denied, since nobody can be asked.

Examples:
  cairn replay talk.jsonl --channel talk
  gunzip -c talk.jsonl.gz | cairn replay - --json")]
pub struct ReplayArgs {
    /// The file; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent to talk to [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// The channel to talk in
    #[arg(long, value_name = "C", default_value = "main")]
    channel: String,
    /// Do not wait for compaction runs between messages and at the end
    #[arg(long)]
    no_wait: bool,
}

/// A replay under way.
struct Replay {
    client: Client,
    channel: ChannelId,
    wait: bool,
}

pub async fn replay(global: Global, args: ReplayArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel, args.agent.as_deref())?;
    let limits = &connector.loaded.config.limits;
    let messages = read_messages(&args.file, limits.max_message_bytes)?;
    let connection = connector.changing().await?;
    let replay = Replay { client: connection.client.clone(), channel, wait: !args.no_wait };
    let report = connection.carry_out(Box::pin(replay.run(&messages))).await?;
    out::record(global.json, &report, ReplayRecord::text)?;
    if report.failed > 0 { Err(Failure::Silent(exit::FAILED)) } else { Ok(()) }
}

impl Replay {
    async fn run(&self, messages: &[MessageRequest]) -> Result<ReplayRecord, Failure> {
        let started = Instant::now();
        let answered = answered(&self.client, &self.channel).await?;
        let mut tally = Tally::new(messages.len() as u64, self.gauge(None).await?);
        let progress = progress_bar(messages.len() as u64);
        for message in messages {
            let id = message.id.as_deref().unwrap_or_default();
            if answered.contains(id) {
                tally.skipped += 1;
                step(&progress, &tally);
                continue;
            }
            let heard = |heard: Heard<'_>| match heard {
                Heard::Denied(approval) => tally.deny(&approval.tool),
                Heard::Waiting(why) => progress.suspend(|| out::note(&one_line(why))),
            };
            match self.send(message, heard).await {
                Ok(_reply) => tally.turns += 1,
                Err(NoAnswer::Refused(error)) => {
                    tally.failed += 1;
                    progress.suspend(|| out::note(&format!("error: message {id}: {}", error.message)));
                    progress.suspend(|| out::note(&format!("hint: {}", error.hint)));
                }
                Err(NoAnswer::Lost(failure)) => return Err(failure),
            }
            let below = self.wait.then_some(Tier::Aggressive);
            tally.observe(self.gauge(below).await?);
            step(&progress, &tally);
        }
        if self.wait {
            // Nothing is below calm: this returns when no run is under way or due.
            tally.observe(self.gauge(Some(Tier::Calm)).await?);
        }
        progress.finish_and_clear();
        let memories = n_memories(&self.client, &self.channel).await?;
        Ok(tally.report(memories, started.elapsed().as_secs_f64()))
    }

    /// Sends a message and waits for its answer. Limits of the daemon are waited out; where it stops, no more is sent.
    async fn send(&self, message: &MessageRequest, heard: impl FnMut(Heard<'_>)) -> Result<Reply, NoAnswer> {
        let path = channel_path(&self.channel, "messages");
        let events = loop {
            match self.client.events(&path, message).await {
                Ok(events) => break events,
                Err(CallError::Api {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    retry_after_secs: Some(secs),
                    ..
                }) => tokio::time::sleep(Duration::from_secs(secs.clamp(1, 60))).await,
                Err(error @ CallError::Api { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => {
                    return Err(NoAnswer::Lost(error.into()));
                }
                Err(error) => return Err(error.into()),
            }
        };
        unattended(&self.client, pieces(events), heard).await.map_err(|error| match error {
            NoAnswer::Refused(error) if error.code == "stopping" => {
                NoAnswer::Lost(Failure::failed(error.message, error.hint))
            }
            error => error,
        })
    }

    /// How full the window is, once it is calm enough. `None` for a channel in which nothing was said yet.
    async fn gauge(&self, below: Option<Tier>) -> Result<Option<GaugeRecord>, Failure> {
        let body = json!({ "below": below });
        match self.client.post(&channel_path(&self.channel, "wait"), &body).await {
            Ok(gauge) => Ok(Some(gauge)),
            Err(CallError::Api { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The ids of messages whose turn ended with a reply.
async fn answered(client: &Client, channel: &ChannelId) -> Result<HashSet<String>, Failure> {
    let mut turns: HashMap<TurnId, (Vec<String>, bool)> = HashMap::new();
    let mut pages = Pages::of(client, channel);
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            // The channel does not exist yet.
            Ok(None) | Err(Failure::Said { code: exit::NOT_FOUND, .. }) => break,
            Err(failure) => return Err(failure),
        };
        for entry in page.iter().filter(|entry| entry.seq.is_some()) {
            let (ids, answered) = turns.entry(entry.turn.clone()).or_default();
            match entry.role {
                Role::User => ids.extend(entry.message.as_ref().map(ToString::to_string)),
                // An answer that still calls tools does not end its turn.
                Role::Assistant => *answered = entry.tool_calls.is_empty(),
                Role::Tool => *answered = false,
            }
        }
    }
    Ok(turns.into_values().filter(|(_, answered)| *answered).flat_map(|(ids, _)| ids).collect())
}

/// A progress bar on stderr, hidden when that is not a terminal.
pub(super) fn progress_bar(n_messages: u64) -> ProgressBar {
    let bar = ProgressBar::new(n_messages);
    // A template that cannot be read leaves the default one in place.
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len}  {elapsed}  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Shows how far the replay is, the tier and the runs.
fn step(bar: &ProgressBar, tally: &Tally) {
    let (tier, under_way) =
        tally.gauge.as_ref().map_or((Tier::Calm, false), |gauge| (gauge.tier, gauge.run.is_some()));
    let run = if under_way { ", 1 under way" } else { "" };
    let emergencies = match tally.n_emergencies() {
        0 => String::new(),
        n => format!("  {}", counted(n, "emergency", "emergencies")),
    };
    bar.set_message(format!("{}  {} runs{run}{emergencies}", tier.name(), tally.ended.len()));
    bar.set_position(tally.skipped + tally.turns + tally.failed);
}

const EXPECTED: &str = r#"expected {"user": "…", "text": "…"}, with "at" (RFC 3339) and "id" where known"#;

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    user: String,
    text: String,
    at: Option<String>,
    id: Option<String>,
}

/// Reads the messages of a file, `-` for stdin. One without an id gets one that derives from line and content.
fn read_messages(file: &Path, max_text_bytes: usize) -> Result<Vec<MessageRequest>, Failure> {
    let (shown, bytes) = (file.display(), jsonl::read(file)?);
    let messages = jsonl::each(&bytes, |line_no, line| message(line, line_no, max_text_bytes));
    messages.map_err(|(line_no, reason)| {
        Failure::failed(format!("{shown}, line {line_no}: {reason}"), format!("{EXPECTED}; nothing was sent"))
    })
}

fn message(line: &[u8], line_no: usize, max_text_bytes: usize) -> Result<MessageRequest, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    let Line { user, text, at, id } =
        read_object(text.as_bytes()).map_err(|why| format!("not a message: {}", without_line(&why)))?;
    if user.trim().is_empty() {
        return Err("`user` is empty".to_owned());
    }
    if text.trim().is_empty() {
        return Err("`text` is empty".to_owned());
    }
    if text.contains('\0') {
        return Err("`text` has a NUL character".to_owned());
    }
    if text.len() > max_text_bytes {
        return Err(format!(
            "`text` is longer than {max_text_bytes} bytes (`max_message_bytes` in `[limits]`)"
        ));
    }
    if let Some(at) = &at {
        at.parse::<Timestamp>().map_err(|error| format!("`at` is not a valid time: {error}"))?;
    }
    let id = id.unwrap_or_else(|| format!("l{line_no}-{:016x}", hash(line)));
    Ok(MessageRequest { user, text, id: Some(id), agent: None, at })
}

/// The error without its line, which is always 1 here.
fn without_line(why: &str) -> String {
    why.replace(" at line 1 column ", ", column ")
}

/// FNV-1a with 64 bits: the same on every machine and in every version.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ReplayRecord {
    messages: u64,
    skipped: u64,
    turns: u64,
    failed: u64,
    /// Calls of tools that were denied, since they need approval, by tool.
    denied: BTreeMap<String, u64>,
    /// Runs that ended meanwhile, by outcome.
    runs: BTreeMap<&'static str, u64>,
    emergencies: u64,
    /// Memories of the channel's chat at the end.
    memories: u64,
    /// Summaries in the window at the end.
    summaries: u64,
    seconds: f64,
}

/// Counts while the replay goes on.
struct Tally {
    messages: u64,
    skipped: u64,
    turns: u64,
    failed: u64,
    denied: BTreeMap<String, u64>,
    /// Runs that had ended before: not counted.
    before: BTreeMap<RunId, RunOutcome>,
    emergencies_before: u64,
    ended: BTreeMap<RunId, RunOutcome>,
    gauge: Option<GaugeRecord>,
}

impl Tally {
    /// Begins to count, from the gauge as it is before the first message.
    fn new(messages: u64, gauge: Option<GaugeRecord>) -> Self {
        let before = gauge.as_ref().map(outcomes).unwrap_or_default();
        let emergencies_before = gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        let (ended, denied) = (BTreeMap::new(), BTreeMap::new());
        Self { messages, skipped: 0, turns: 0, failed: 0, denied, before, emergencies_before, ended, gauge }
    }

    fn deny(&mut self, tool: &str) {
        *self.denied.entry(shown_name(tool)).or_default() += 1;
    }

    /// Takes in a gauge. Its last outcomes overlap with those of the one before, as one turn ends few runs.
    fn observe(&mut self, gauge: Option<GaugeRecord>) {
        if let Some(gauge) = gauge {
            let new = outcomes(&gauge).into_iter().filter(|(run, _)| !self.before.contains_key(run));
            self.ended.extend(new);
            self.gauge = Some(gauge);
        }
    }

    fn n_emergencies(&self) -> u64 {
        let now = self.gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        now.saturating_sub(self.emergencies_before)
    }

    fn report(&self, memories: u64, seconds: f64) -> ReplayRecord {
        let all = [
            RunOutcome::Committed,
            RunOutcome::Rejected,
            RunOutcome::Failed,
            RunOutcome::Superseded,
            RunOutcome::Cancelled,
        ];
        let count = |outcome| self.ended.values().filter(|ended| **ended == outcome).count() as u64;
        ReplayRecord {
            messages: self.messages,
            skipped: self.skipped,
            turns: self.turns,
            failed: self.failed,
            denied: self.denied.clone(),
            runs: all.into_iter().map(|outcome| (outcome.name(), count(outcome))).collect(),
            emergencies: self.n_emergencies(),
            memories,
            summaries: self.gauge.as_ref().map_or(0, |gauge| gauge.summaries),
            seconds,
        }
    }
}

impl ReplayRecord {
    fn text(&self) -> String {
        let runs: Vec<_> = self
            .runs
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(name, n)| format!("{} {name}", grouped(*n)))
            .collect();
        let runs = if runs.is_empty() { "none".to_owned() } else { runs.join(", ") };
        let denied: Vec<_> =
            self.denied.iter().map(|(tool, n)| format!("{} of {}", grouped(*n), one_line(tool))).collect();
        let denied = match denied.join(", ") {
            none if none.is_empty() => none,
            calls => format!("denied, since nobody can be asked for approval: {calls}\n"),
        };
        format!(
            "{}: {} answered, {} answered before, {} failed\n{denied}runs: {runs}\n{}, {} in the window, {}\n{:.1} s\n",
            counted(self.messages, "message", "messages"),
            grouped(self.turns),
            grouped(self.skipped),
            grouped(self.failed),
            counted(self.emergencies, "emergency", "emergencies"),
            counted(self.summaries, "summary", "summaries"),
            counted(self.memories, "memory", "memories"),
            self.seconds,
        )
    }
}

fn outcomes(gauge: &GaugeRecord) -> BTreeMap<RunId, RunOutcome> {
    gauge.outcomes.iter().map(|end| (end.run.clone(), end.outcome)).collect()
}

/// How many memories were learnt in a channel.
pub async fn n_memories(client: &Client, channel: &ChannelId) -> Result<u64, Failure> {
    let scope = Scope::learnt_in(channel, None);
    let params = [
        ("agent", Some(channel.agent().to_string())),
        ("scope", Some(scope.to_string())),
        ("limit", Some("10000".to_owned())),
    ];
    let memories: Vec<Memory> = client.get(&with_params("/v1/memories", &params)).await?;
    Ok(memories.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_derive_from_line_and_content() {
        let two = br#"{"user":"a","text":"x"}
{"user":"a","text":"x"}"#;
        let messages = jsonl::each(two, |line_no, line| message(line, line_no, 10)).unwrap();
        let ids: Vec<_> = messages.iter().map(|message| message.id.clone().unwrap()).collect();
        assert_eq!(ids, ["l1-1af746b2cecc6e6e", "l2-1af746b2cecc6e6e"]);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "a published value of FNV-1a");
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        let good = r#"{"user":"a","text":"x","at":"2026-11-20T10:00:00Z","id":"m1"}"#;
        let cases = [
            ("hello", "not a message: it is not a JSON object"),
            (r#"["a","x",null,null]"#, "not a message: it is not a JSON object"),
            (r#"{"user":"a","text":"x""#, "not a message: EOF while parsing an object, column "),
            (r#"{"user":"a"}"#, "not a message: missing field `text`"),
            (r#"{"user":"a","text":"\ud800"}"#, "surrogate"),
            (r#"{"user":"a","text":"\u0000"}"#, "NUL"),
            (r#"{"user":"a","text":"  "}"#, "`text` is empty"),
            (r#"{"user":"","text":"x"}"#, "`user` is empty"),
            (r#"{"user":"a","text":"12345678901"}"#, "longer than 10 bytes"),
            (r#"{"user":"a","text":"x","at":"yesterday"}"#, "`at` is not a valid time"),
        ];
        for (bad, expected) in cases {
            let text = format!("{good}\n\n{bad}\n");
            let read = jsonl::each(text.as_bytes(), |line_no, line| message(line, line_no, 10));
            let (line_no, reason) = read.unwrap_err();
            assert_eq!(line_no, 3, "{bad}");
            assert!(reason.contains(expected), "{bad}: {reason}");
        }
    }
}
