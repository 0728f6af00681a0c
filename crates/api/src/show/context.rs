//! A channel's window, beside the bar: its figures, the compaction run, and the last ones.

use cairn_types::event::{RunOutcome, RunReport};
use cairn_types::ids::RunId;

use super::{Block, Cell, Column, Show, Target, bad, link, section, time, words};
use crate::records::ContextRecord;
use crate::text::{counted, day, grouped, percent, seconds};

/// Ended runs that are shown.
const RUNS: usize = 5;

impl Show for ContextRecord {
    fn show(&self) -> Vec<Block> {
        let (tokens, origin) = (grouped(self.window_tokens), self.window_source.origin());
        let reserve = grouped(self.output_reserve_tokens);
        let mut facts = vec![
            ("agent", words(&self.agent)),
            ("model", words(self.answers().unwrap_or_else(|| self.model.clone()))),
            ("engine", words(&self.engine.id)),
            ("session", words(self.generation.0)),
            ("window", words(format!("{tokens} tokens ({origin}), {reserve} kept for the answer"))),
        ];
        if self.artifacts.count > 0 {
            let bytes = grouped(self.artifacts.bytes);
            facts.push(("artifacts", words(format!("{}, {bytes} bytes", grouped(self.artifacts.count)))));
        }
        facts.extend(window(self));
        let columns = [
            Column::narrow("run"),
            Column::wide("started by"),
            Column::narrow("before").right(),
            Column::narrow("after").right(),
            Column::wide("messages").right(),
            Column::wide("memories").right(),
            Column::wide("took").right(),
            Column::narrow("outcome"),
        ];
        let row = |end: &RunReport| {
            let reason = end.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let outcome = format!("{}{reason}", end.outcome.name());
            [
                link(Target::Run(self.channel.clone(), end.run.clone()), &end.run),
                words(end.trigger.name()),
                words(grouped(end.tokens_before)),
                words(grouped(end.tokens_after)),
                words(grouped(end.messages)),
                words(grouped(end.memories)),
                words(seconds(end.duration_ms)),
                if end.outcome == RunOutcome::Committed { words(outcome) } else { bad(outcome) },
            ]
        };
        let rows = self.outcomes.iter().rev().take(RUNS).map(row);
        let mut blocks = vec![Block::Facts(facts)];
        blocks.extend(section("Last runs", "The last runs, newest first", columns, rows));
        blocks
    }
}

/// The facts of a window that everybody in its chat may see.
pub fn window(record: &ContextRecord) -> Vec<(&'static str, Cell)> {
    let mut facts = vec![("summaries", words(stack(record)))];
    facts.extend(shortened(record).map(|what| ("sent shorter", words(what))));
    if record.regions.pending.entries > 0 {
        let waiting = counted(record.regions.pending.entries, "message", "messages");
        facts.push(("waiting", words(format!("{waiting}, not in the window yet"))));
    }
    facts.extend([
        ("compaction", run(record)),
        ("from the cache", words(format!("{} of what was sent", percent(record.cached_share)))),
        ("token estimates", words(estimates(record))),
    ]);
    facts
}

fn stack(record: &ContextRecord) -> String {
    let markers = match record.markers.len() as u64 {
        0 => String::new(),
        n => format!(", {}", counted(n, "marker", "markers")),
    };
    let from = record.summaries.iter().map(|item| (item.from_seq, item.from_at)).min();
    let to = record.summaries.iter().map(|item| (item.to_seq, item.to_at)).max();
    let (Some((from, from_at)), Some((to, to_at))) = (from, to) else { return format!("none yet{markers}") };
    let top = record.summaries.iter().map(|item| item.level).max().unwrap_or(0);
    let levels: Vec<String> = (0..=top)
        .map(|level| (level, record.summaries.iter().filter(|item| item.level == level).count()))
        .filter(|(_, n)| *n > 0)
        .map(|(level, n)| format!("{n} of level {level}"))
        .collect();
    let (levels, from_at, to_at) = (levels.join(", "), day(from_at), day(to_at));
    format!("{levels}, for entries {from} to {to} ({from_at} to {to_at}){markers}")
}

/// What is sent shorter than it is kept; `None`: nothing.
fn shortened(record: &ContextRecord) -> Option<String> {
    let counts =
        [(record.pruned.results, "result", "results"), (record.pruned.messages, "message", "messages")];
    let some = counts.iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| counted(*n, one, many));
    let what = some.collect::<Vec<_>>().join(" and ");
    let won = grouped(record.pruned.tokens_won);
    (!what.is_empty()).then(|| format!("{what}, {won} tokens less; the originals are kept"))
}

fn run(record: &ContextRecord) -> Cell {
    let id = |run: &RunId| link(Target::Run(record.channel.clone(), run.clone()), run);
    if let Some(run) = &record.run {
        let mut cell = words("run ");
        cell.extend(id(&run.id));
        cell.extend(words(format!(
            " over entries {} to {}, {}",
            run.from_seq,
            run.to_seq,
            run.trigger.name()
        )));
        if run.attempt > 1 {
            cell.extend(words(format!(", attempt {}", run.attempt)));
        }
        cell.extend(words(", since "));
        cell.extend(time(run.started_at));
        return cell;
    }
    match record.outcomes.last() {
        _ if record.engine.owns_compaction => {
            words(format!("no runs: the engine {} makes room itself", record.engine.id))
        }
        None => words("no run yet"),
        Some(end) => {
            let (before, after) = (grouped(end.tokens_before), grouped(end.tokens_after));
            let mut cell = words("none under way; the last, ");
            cell.extend(id(&end.run));
            cell.extend(words(format!(", {}: {before} to {after} tokens", end.outcome.name())));
            cell
        }
    }
}

/// How far estimates of tokens are from what the model's provider reports.
fn estimates(record: &ContextRecord) -> String {
    let correction = &record.correction;
    match correction.reported {
        0 => "not corrected: the provider has not reported any tokens yet".to_owned(),
        reported => format!(
            "×{:.3} ({} estimated, {} reported)",
            correction.ratio,
            grouped(correction.estimated),
            grouped(reported)
        ),
    }
}
