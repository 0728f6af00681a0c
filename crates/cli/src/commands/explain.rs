//! `cairn explain`: what a turn was made of, the exact request of a call, and how it differs from the one before.

use cairn_core::spend::money;
use cairn_types::event::RunOutcome;
use cairn_types::model::{ModelError, Usage};
use cairn_types::text::when::When;
use cairn_types::trace::{CUT_SHORT, CallTrace};
use clap::Args;

use crate::args::{ChannelArg, Global};
use crate::client::{encode, with_params};
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::out::Table;
use crate::{args, out};
use cairn_api::records::{
    CallRecord, Change, Explanation, PromptDiff, PromptRecord, RecalledRecord, RegionDiff, RunExplanation,
    SaidRecord, StandsRecord, ToolCallRecord, cut_words,
};
use cairn_api::text::{counted, cut, grouped, minute, one_line, percent, plain};

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
  cairn explain main --message 1184             by a message of its chat
  cairn explain main t12 --prompt > body.json   what the model was sent
  cairn explain main t12 --diff                 what is new in it
  cairn explain main --run r3                   a compaction run, and --prompt

The request is made again from the journal, and its hash is compared with the
one of the body that was sent. Where they differ, stderr says so and why:
words that have expired, were deleted or were erased are not there any more.")]
pub struct ExplainArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// The turn, such as t12 [default: the last]
    #[arg(value_name = "TURN", conflicts_with_all = ["at", "message"])]
    turn: Option<String>,
    /// The turn that was under way then, or the last one before: as in 2026-11-22T23:14Z, 2h (ago), yesterday
    #[arg(long, value_name = "TIME", value_parser = args::when, conflicts_with = "message")]
    at: Option<When>,
    /// The turn of a message, by its id on its platform: a person's, or the bot's answer
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// A compaction run instead of a turn, such as r3
    #[arg(long, value_name = "ID", conflicts_with_all = ["turn", "at", "message", "diff"])]
    run: Option<String>,
    /// Print the body of the request, byte for byte
    #[arg(long, conflicts_with = "diff")]
    prompt: bool,
    /// Show what the request has that the one before it had not
    #[arg(long)]
    diff: bool,
    /// Which call of the turn or run, from 1 [default: the last; for --diff the first, beside the turn before]
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
        return out::record(global.json, &run, |run| run_text(run, out::width().min(100)));
    }
    let explanation: Explanation = connector.get(&path("explain")).await?;
    out::record(global.json, &explanation, |explanation| text(explanation, out::width().min(100)))
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

/// A turn as sections, no line wider than `width` but for what people said.
fn text(turn: &Explanation, width: usize) -> String {
    let mut lines = heading(turn);
    section(&mut lines, "Question", turn.question.iter().flat_map(|said| said_lines(said, width)));
    section(&mut lines, "Recalled", memories(&turn.recalled, width));
    section(&mut lines, "Almost recalled", memories(&turn.near, width));
    section(&mut lines, "In the window", window(turn, width));
    section(&mut lines, "Calls of models", turn.calls.iter().flat_map(call_lines));
    section(&mut lines, "Tools", tools(&turn.tools, width));
    section(&mut lines, "Compactions beside it", beside(&turn.beside, width));
    section(&mut lines, "Time", times(turn));
    section(&mut lines, "Answer", turn.answer.iter().flat_map(|said| said_lines(said, width)));
    section(&mut lines, "Not known", turn.missing.iter().map(|missing| format!("  {}", one_line(missing))));
    if !turn.calls.is_empty() {
        let name = one_line(&format!("{} {}", turn.channel, turn.turn));
        lines.push(String::new());
        lines.push(format!("the exact request: cairn explain {name} --prompt"));
        lines.push(format!("what is new in it: cairn explain {name} --diff"));
    }
    lines.join("\n") + "\n"
}

/// A compaction run as sections.
fn run_text(run: &RunExplanation, width: usize) -> String {
    let outcome = run.outcome.map_or("under way", RunOutcome::name);
    let cost = run.cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    let (asked, said) = (grouped(run.usage.input_tokens), grouped(run.usage.output_tokens));
    let mut lines = vec![
        format!("run {} of {}", one_line(run.run.as_str()), one_line(run.channel.as_str())),
        format!("{}  {outcome}, {asked} + {said} tokens{cost}", minute(run.started_at)),
    ];
    lines.extend(run.reason.iter().map(|reason| one_line(reason)));
    section(&mut lines, "Work", run_work(run));
    section(&mut lines, "Calls of models", run.calls.iter().flat_map(call_lines));
    let failed = run.failed.iter().map(|failed| {
        let what =
            format!("  {}  attempt {}: {}", minute(failed.at), failed.attempt, one_line(&failed.reason));
        cut(&what, width)
    });
    section(&mut lines, "Attempts that failed", failed);
    section(&mut lines, "Not known", run.missing.iter().map(|missing| format!("  {}", one_line(missing))));
    let name = one_line(run.channel.as_str());
    lines.push(String::new());
    if !run.calls.is_empty() {
        lines.push(format!(
            "the exact request: cairn explain {name} --run {} --prompt",
            one_line(run.run.as_str())
        ));
    }
    if let Some(summary) = &run.summary {
        lines.push(format!("the summary: cairn summary show {name} {}", one_line(summary.as_str())));
    }
    lines.join("\n") + "\n"
}

fn run_work(run: &RunExplanation) -> Vec<String> {
    let mut lines = vec![format!("  started by {}", run.trigger.name())];
    let messages = counted(run.messages, "message", "messages");
    lines.push(match run.sources.as_slice() {
        [] => format!("  entries {} to {}, {messages}", run.from_seq, run.to_seq),
        sources => {
            let ids: Vec<_> = sources.iter().map(|id| one_line(id.as_str())).collect();
            format!("  merges {}: entries {} to {}", ids.join(", "), run.from_seq, run.to_seq)
        }
    });
    lines.extend(run.instruction.iter().map(|wish| format!("  asked to attend to: {}", one_line(wish))));
    if run.chunks > 0 {
        lines.push(format!("  {} on the way", counted(run.chunks, "chunk finished", "chunks finished")));
    }
    let after = run.tokens_after.map_or_else(|| "?".to_owned(), grouped);
    lines.push(format!("  the window: {} → {after} tokens", grouped(run.tokens_before)));
    let saved = (run.memories > 0).then(|| counted(run.memories, "memory saved", "memories saved"));
    lines.extend(saved.map(|saved| format!("  {saved}")));
    lines
}

fn heading(turn: &Explanation) -> Vec<String> {
    let outcome = turn.outcome.replace('_', " ");
    let undone = if turn.undone { ", taken back since" } else { "" };
    let cost = turn.cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    let mut lines = vec![
        format!("turn {} of {}", one_line(turn.turn.as_str()), one_line(turn.channel.as_str())),
        format!(
            "{}  {outcome}{undone}, {} + {} tokens{cost}",
            minute(turn.started_at),
            grouped(turn.usage.input_tokens),
            grouped(turn.usage.output_tokens)
        ),
    ];
    if let Some(failure) = &turn.failure {
        lines.push(one_line(failure));
    }
    if turn.interruptions > 0 {
        lines.push(format!(
            "taken up again after {}",
            counted(u64::from(turn.interruptions), "failure", "failures")
        ));
    }
    lines
}

fn section(lines: &mut Vec<String>, title: &str, body: impl IntoIterator<Item = String>) {
    let mut body = body.into_iter().peekable();
    if body.peek().is_some() {
        lines.extend([String::new(), title.to_owned()]);
        lines.extend(body);
    }
}

fn said_lines(said: &SaidRecord, width: usize) -> Vec<String> {
    let who = said.author.as_ref().map_or("model", |author| author.name.as_str());
    let why = cut_words(said.finish).map(|why| format!("  ({why})")).unwrap_or_default();
    let head = format!("  {}  {}  {}{why}", said.seq, minute(said.at), one_line(who));
    let mut lines = vec![cut(&head, width)];
    lines.extend(plain(&said.text).lines().map(|line| format!("    {line}")));
    lines
}

fn memories(memories: &[RecalledRecord], width: usize) -> Vec<String> {
    if memories.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["score", "memory", "by the words", "text"], &[0]).wrapped();
    for memory in memories {
        let changed = if memory.changed { " (it says something else now)" } else { "" };
        let text = memory.text.as_ref().map_or_else(|| "forgotten since".to_owned(), |text| one_line(text));
        table.row(vec![
            memory.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}")),
            memory.id.to_string(),
            cut(&one_line(&memory.words.join(" ")), 20),
            format!("{text}{changed}"),
        ]);
    }
    indented(&table.render(width - 2))
}

fn window(turn: &Explanation, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if !turn.stands.is_empty() {
        let mut table = Table::new(&["stands", "for", "tokens", "by", "it begins"], &[2]);
        turn.stands.iter().for_each(|item| table.row(stands_row(item)));
        lines.extend(indented(&table.render(width - 2)));
    }
    let entries = turn.entries.map(|(from, to)| format!("  entries {from}-{to} as they were said"));
    lines.extend(entries);
    lines
}

fn stands_row(item: &StandsRecord) -> Vec<String> {
    let provisional = if item.provisional { ", provisional" } else { "" };
    vec![
        item.id.as_ref().map_or_else(|| "a marker".to_owned(), ToString::to_string),
        format!("{}-{}", item.from_seq, item.to_seq),
        grouped(u64::from(item.tokens)),
        format!("{}{provisional}", item.made_by.as_deref().map_or_else(|| "-".to_owned(), one_line)),
        one_line(&item.line),
    ]
}

fn call_lines(call: &CallRecord) -> Vec<String> {
    let frame = call.frame.as_ref();
    let served =
        frame.map(|frame| format!(" ({}, {})", one_line(&frame.wire.model), frame.wire.format.name()));
    let mut lines = vec![format!("  {}  {}{}", call.call, one_line(&call.model), served.unwrap_or_default())];
    match call.trace.as_ref().and_then(|trace| trace.work.as_ref()) {
        Some(work) => {
            let range = work.entries.map(|(from, to)| format!("entries {from} to {to}"));
            let range = range.unwrap_or_else(|| "a merge".to_owned());
            lines.push(format!("     {range}, round {} of the talk", work.round));
        }
        None => {
            let why = call.why.as_deref().map_or_else(|| "the first of the chain".to_owned(), one_line);
            lines.push(format!("     why: {why}"));
        }
    }
    for tried in &call.tried {
        let (model, error) = (one_line(&tried.model), one_line(&tried.error));
        lines.push(format!("     tried before: {model}, {} ({error})", counted(tried.n, "time", "times")));
    }
    lines.push(format!("     {}", took(call)));
    if let Some(trace) = &call.trace {
        lines.push(format!("     {}", ended(call, trace)));
        if trace.last_call {
            lines.push("     told that no more tools can be called".to_owned());
        }
    }
    if let Some(remedies) = frame.map(|frame| &frame.wire.remedies).filter(|remedies| !remedies.is_empty()) {
        lines.push(format!("     asked otherwise, since its server refuses it: {}", remedies.join(", ")));
    }
    if call.tools > 0 {
        lines.push(format!("     called {}", counted(call.tools as u64, "tool", "tools")));
    }
    lines
}

/// When a call ended, and how.
fn ended(call: &CallRecord, trace: &CallTrace) -> String {
    let total = seconds(trace.total_ms);
    match unanswered(call) {
        // That it was refused stands where its tokens would.
        Some(_) if call.usage == Usage::default() => return format!("ended after {total}"),
        Some(why) => return format!("ended after {total}; {why}"),
        None => {}
    }
    let first = trace.first_ms.map(|ms| format!("first word after {}, ", seconds(ms))).unwrap_or_default();
    match trace.failure.as_deref() {
        None => match cut_words(call.finish) {
            Some(why) => format!("{first}ended after {total}: {why}"),
            None => format!("{first}whole after {total}"),
        },
        Some(CUT_SHORT) => format!("{first}cut short after {total}"),
        Some(failure) => format!("{first}cut short after {total}: {}", one_line(failure)),
    }
}

/// Why nothing was said. `None`: something was, or nothing failed.
fn unanswered(call: &CallRecord) -> Option<String> {
    let trace = call.trace.as_ref()?;
    let failure = trace.failure.as_deref()?;
    if trace.first_ms.is_some() || call.usage.output_tokens > 0 {
        return None;
    }
    Some(match failure {
        CUT_SHORT => "stopped before its first word".to_owned(),
        code if ModelError::REFUSALS.contains(&code) => format!("refused: {}", one_line(code)),
        code => format!("failed: {}", one_line(code)),
    })
}

/// What a call took, as far as it took anything of anybody's.
fn took(call: &CallRecord) -> String {
    let estimated = match call.estimated {
        0 => String::new(),
        estimated => format!(" (our estimate of the request: {})", grouped(estimated)),
    };
    if call.usage == Usage::default() {
        let why = unanswered(call).unwrap_or_else(|| "no tokens of anybody's".to_owned());
        return format!("{why}{estimated}");
    }
    let (asked, said) = (grouped(call.usage.input_tokens), grouped(call.usage.output_tokens));
    let origin = if call.is_estimate { ", estimated" } else { "" };
    let cost = call.trace.as_ref().and_then(|trace| trace.cost);
    let cost = cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    let cached = percent(call.cached_share);
    format!("{asked} + {said} tokens{origin}{cost}, {cached} from the cache{estimated}")
}

/// Calls of compactions, one a line.
fn beside(calls: &[CallRecord], width: usize) -> Vec<String> {
    let line = |call: &CallRecord| {
        let work = call.trace.as_ref()?.work.as_ref()?;
        let entries = work.entries.map(|(from, to)| format!(", entries {from}-{to}")).unwrap_or_default();
        let run = format!("{}, call {}{entries}", one_line(work.run.as_str()), work.round);
        Some(cut(&format!("  {run}: {}, {}", one_line(&call.model), took(call)), width))
    };
    calls.iter().filter_map(line).collect()
}

fn tools(tools: &[ToolCallRecord], width: usize) -> Vec<String> {
    if tools.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["tool", "outcome", "took", "bytes", "arguments"], &[2, 3]);
    for used in tools {
        let error = used.error.as_ref().map(|error| format!(" ({})", one_line(error))).unwrap_or_default();
        table.row(vec![
            one_line(&used.tool),
            used.outcome.clone(),
            seconds(used.duration_ms),
            grouped(used.bytes),
            one_line(&format!("{}{error}", used.arguments)),
        ]);
    }
    indented(&table.render(width - 2))
}

fn times(turn: &Explanation) -> Vec<String> {
    let widest = turn.times.iter().map(|stage| stage.part.len()).max().unwrap_or_default();
    let line = |stage: &cairn_api::records::StageRecord| {
        format!("  {:widest$}  {:>9}", one_line(&stage.part), seconds(stage.ms))
    };
    turn.times.iter().map(line).collect()
}

/// As in `0.31 s`, `12.4 s`.
fn seconds(ms: u64) -> String {
    let seconds = ms as f64 / 1000.0;
    if ms < 10_000 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

fn indented(table: &str) -> Vec<String> {
    table.lines().map(|line| format!("  {line}")).collect()
}

fn diff_text(diff: &PromptDiff) -> String {
    let against = match &diff.against {
        Some((turn, call)) => format!("call {call} of {}", one_line(turn.as_str())),
        None => "nothing: no model was called before".to_owned(),
    };
    let mut lines = vec![format!("call {} of {}, beside {against}", diff.call, one_line(diff.turn.as_str()))];
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
    (n > 0).then(|| format!("\n  ({} as before)", counted(n, "part", "parts")))
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
