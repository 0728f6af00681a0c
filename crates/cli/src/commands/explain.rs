//! `cairn explain`: what a turn was made of, the exact request of a call, and how it differs from the one before.

use cairn_types::text::when::When;
use clap::Args;

use crate::args::{ChannelArg, Global};
use crate::client::{encode, with_params};
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::{args, out};
use cairn_api::records::{Change, Explanation, PromptDiff, PromptRecord, RegionDiff, RunExplanation};
use cairn_api::text::{counted, cut, one_line, plain};

/// Characters of a line of a difference.
const DIFF_LINE: usize = 400;

/// Lines that are the same, shown around those that are not.
const CONTEXT_LINES: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn explain main                            the last turn
  cairn explain main t12
  cairn explain main --at '2026-11-22 23:14'    the turn of that time (UTC)
  cairn explain main --message 1184             the turn of a message
  cairn explain main t12 --prompt > body.json   the request as it was sent
  cairn explain main t12 --diff                 only the new part
  cairn explain main --run r3                   a compaction run

Cairn rebuilds the request from the journal, and compares its hash with that
of the body that was sent. If they differ, stderr gives the reason: texts that
expired, were deleted or were erased are missing.")]
pub struct ExplainArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// The turn, such as t12 [default: the last]
    #[arg(value_name = "TURN", conflicts_with_all = ["at", "message"])]
    turn: Option<String>,
    /// The turn running at that time, or the last one before: 2026-11-22T23:14Z, 2h (ago), yesterday
    #[arg(long, value_name = "TIME", value_parser = args::when, conflicts_with = "message")]
    at: Option<When>,
    /// The turn of a message, by the id that the platform gave a person's message or the bot's answer
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// A compaction run instead of a turn, such as r3
    #[arg(long, value_name = "ID", conflicts_with_all = ["turn", "at", "message", "diff"])]
    run: Option<String>,
    /// Print the body of the request, byte for byte
    #[arg(long, conflicts_with = "diff")]
    prompt: bool,
    /// Show what is new since the previous request
    #[arg(long)]
    diff: bool,
    /// The call of the turn or run, from 1 [default: the last; for --diff the first, compared with the turn before]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(1, u64::MAX))]
    call: Option<u64>,
}

pub async fn explain(global: Global, args: ExplainArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    let which = match (&args.turn, args.at, &args.message) {
        (Some(turn), _, _) => turn.trim().to_owned(),
        (None, Some(at), _) => format!("at:{}", at.to),
        (None, None, Some(message)) => format!("message:{message}"),
        (None, None, None) => "last".to_owned(),
    };
    let params = [("call", args.call.map(|call| call.to_string()))];
    let of = match &args.run {
        Some(run) => format!("runs/{}", encode(run.trim())),
        None => format!("turns/{}", encode(&which)),
    };
    let path = |what: &str| with_params(&channel_path(&channel, &format!("{of}/{what}")), &params);
    if args.diff {
        let diff: PromptDiff = connector.get(&path("diff")).await?;
        return out::record(global.json, &diff, diff_text);
    }
    if args.prompt {
        let prompt: PromptRecord = connector.get(&path("prompt")).await?;
        return if global.json { out::json(&prompt) } else { print_body(&prompt) };
    }
    if args.run.is_some() {
        let run: RunExplanation = connector.get(&path("explain")).await?;
        return out::record(global.json, &run, run_text);
    }
    let explanation: Explanation = connector.get(&path("explain")).await?;
    out::record(global.json, &explanation, turn_text)
}

fn print_body(prompt: &PromptRecord) -> Result<(), Failure> {
    if !prompt.exact {
        let which = format!("call {} of {}", prompt.call, prompt.of);
        out::note(&format!("{which}: not the exact request: {}", prompt.why_not.join("; ")));
    }
    if prompt.body.is_empty() {
        return Ok(());
    }
    out::body(&prompt.body)
}

/// A turn, and the commands that show more of it.
fn turn_text(turn: &Explanation) -> String {
    let mut text = out::of(turn);
    if !turn.calls.is_empty() {
        let name = one_line(&format!("{} {}", turn.channel, turn.turn));
        text.push_str(&format!("\nthe exact request: cairn explain {name} --prompt\n"));
        text.push_str(&format!("only the new part: cairn explain {name} --diff\n"));
    }
    text
}

/// A compaction run, and the commands that show more of it.
fn run_text(run: &RunExplanation) -> String {
    let mut text = out::of(run) + "\n";
    let (name, id) = (one_line(run.channel.as_str()), one_line(run.run.as_str()));
    if !run.calls.is_empty() {
        text.push_str(&format!("the exact request: cairn explain {name} --run {id} --prompt\n"));
    }
    if let Some(summary) = &run.summary {
        text.push_str(&format!("the summary: cairn summary show {name} {}\n", one_line(summary.as_str())));
    }
    text
}

fn diff_text(diff: &PromptDiff) -> String {
    let against = match &diff.against {
        Some((turn, call)) => format!("call {call} of {}", one_line(turn.as_str())),
        None => "nothing: no model was called before".to_owned(),
    };
    let mut lines =
        vec![format!("call {} of {}, compared with {against}", diff.call, one_line(diff.turn.as_str()))];
    lines.extend(diff.why_not.iter().map(|why| format!("not exact: {}", one_line(why))));
    let mut same = 0;
    for region in &diff.regions {
        if region.change == Change::Same {
            same += 1;
            continue;
        }
        lines.extend(same_line(&mut same));
        lines.extend([String::new(), region_heading(region)]);
        lines.extend(region_lines(region));
    }
    lines.extend(same_line(&mut same));
    lines.join("\n") + "\n"
}

fn same_line(same: &mut u64) -> Option<String> {
    let n = std::mem::take(same);
    (n > 0).then(|| format!("\n  ({} unchanged)", counted(n, "part", "parts")))
}

fn region_heading(region: &RegionDiff) -> String {
    let mark = match region.change {
        Change::Added => "+",
        Change::Removed => "-",
        Change::Changed | Change::Same => "~",
    };
    let id = region.id.as_ref().map(|id| format!(" {}", one_line(id))).unwrap_or_default();
    format!("{mark} {}{id}", region.kind)
}

/// The lines that differ, with some around them.
fn region_lines(region: &RegionDiff) -> Vec<String> {
    let differs: Vec<bool> = region.lines.iter().map(|line| line.change != Change::Same).collect();
    let is_near = |idx: usize| {
        let from = idx.saturating_sub(CONTEXT_LINES);
        differs.iter().skip(from).take(idx - from + CONTEXT_LINES + 1).any(|differs| *differs)
    };
    let mut lines = Vec::new();
    let mut is_cut = false;
    for (idx, line) in region.lines.iter().enumerate() {
        if !is_near(idx) {
            is_cut = true;
            continue;
        }
        if std::mem::take(&mut is_cut) {
            lines.push("    …".to_owned());
        }
        let mark = match line.change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Changed | Change::Same => ' ',
        };
        lines.push(format!("  {mark} {}", cut(&plain(&line.text), DIFF_LINE)));
    }
    lines
}
