//! Commands to a channel: compact and new.

use axum::http::Method;
use cairn_core::event::{Outcome, RunOutcome};
use clap::Args;
use serde_json::json;

use super::connect::{Surroundings, channel_path};
use super::failure::Failure;
use super::global::{ChannelArg, Global};
use super::{exit, out};
use crate::records::{CompactRecord, NewGenerationRecord, RoomRecord};
use crate::text::{counted, grouped, plain};

/// Arguments of `compact`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn compact main --wait
  cairn compact main 'keep every figure of the budget' --wait

All but the last turn is summarised, below every threshold, too; during a run
it waits for that run. With an INSTRUCTION the newest summary is made again
where nothing else is left. Without --wait the run goes on in the daemon. When
no daemon runs, the command waits in any case. An agent with engine =
\"sliding\" has no runs: all but its last turn leaves the window at once.")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// What the summary is to attend to
    #[arg(value_name = "INSTRUCTION")]
    instruction: Option<String>,
    /// Wait for the end of the run and print its outcome and its summary
    #[arg(long)]
    wait: bool,
}

/// Arguments of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cairn new main

The archived conversation stays in `cairn history` and `cairn search`;
memories stay, too.")]
pub(crate) struct NewArgs {
    #[command(flatten)]
    channel: ChannelArg,
}

/// `cairn compact`.
pub(crate) async fn compact(global: Global, args: CompactArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel.channel, None)?;
    let session = surroundings.changing_what_is_there().await?;
    let wait = args.wait || session.is_inside();
    let body = json!({ "instruction": args.instruction, "wait": wait });
    let path = channel_path(&channel, "compact");
    let answer = session.client.post::<CompactRecord>(&path, &body).await.map_err(Failure::from);
    let record = session.finish(answer).await?;
    if global.json {
        out::json(&record)?;
    } else {
        out::line(&told(&record))?;
    }
    match record.outcome {
        None | Some(RunOutcome::Committed | RunOutcome::Superseded) => Ok(()),
        Some(RunOutcome::Rejected | RunOutcome::Failed | RunOutcome::Cancelled) => {
            Err(Failure::Silent(exit::FAILED))
        }
    }
}

/// What became of a compaction: a sentence, and below it the summary.
pub(crate) fn told(record: &CompactRecord) -> String {
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
            Some(summary) => format!("{}\n\n{}", told_end(end), plain(summary)),
            None => told_end(end),
        },
    }
}

/// How a run ended, in a sentence.
pub(crate) fn told_end(end: &Outcome) -> String {
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
        text.push_str(&format!(" ({})", crate::text::one_line(reason)));
    }
    text
}

/// `cairn new`.
pub(crate) async fn new(global: Global, args: NewArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel.channel, None)?;
    let session = surroundings.changing_what_is_there().await?;
    let path = channel_path(&channel, "new");
    let answer = session.client.call::<NewGenerationRecord>(Method::POST, &path, None::<&()>).await;
    let (_, record) = session.finish(answer.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&record);
    }
    out::line(&format!(
        "{}: generation {} begins; what was before is archived",
        record.channel, record.generation.0
    ))
}
