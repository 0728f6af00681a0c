//! Memories, in a list and one by one.

use cairn_types::ids::{ChannelId, Seq};
use cairn_types::memory::Memory;

use super::{
    Block, Cell, Column, Show, Target, channel, entries, link, or_dash, section, table, time, words,
};
use crate::records::{MemoryChanged, MemoryStep, MemoryUse, MemoryView, turn_outcome};
use crate::text::counted;

impl Show for [Memory] {
    fn show(&self) -> Vec<Block> {
        let columns = [
            Column::narrow("id"),
            Column::narrow("kind"),
            Column::wide("scope"),
            Column::wide("about"),
            Column::wide("seen").right(),
            Column::narrow("said by"),
            Column::narrow("made"),
            Column::narrow("text"),
        ];
        let row = |memory: &Memory| {
            [
                link(Target::Memory(memory.id.clone()), &memory.id),
                words(memory.kind.name()),
                words(&memory.scope),
                words(memory.subject.as_deref().unwrap_or_default()),
                words(memory.sightings),
                words(speaker_name(memory)),
                time(memory.created_at),
                words(&memory.text),
            ]
        };
        vec![table("Memories", columns, self.iter().map(row))]
    }
}

impl Show for MemoryView {
    fn show(&self) -> Vec<Block> {
        let memory = &self.memory;
        let mut facts = vec![
            ("id", words(&memory.id)),
            ("agent", words(&memory.agent)),
            ("kind", words(memory.kind.name())),
            ("about", or_dash(memory.subject.as_deref())),
            ("recalled in", words(recalled_in(memory))),
            ("importance", words(format!("{:.2}", memory.importance))),
            ("seen", words(counted(memory.sightings.into(), "time", "times"))),
            ("source", source(memory)),
            ("said by", words(said_by(memory))),
            ("trust", words(self.whose())),
            ("said", time(memory.said_at())),
            ("made", time(memory.created_at)),
            ("changed", time(memory.updated_at)),
            ("used", words(counted(memory.uses.into(), "time", "times"))),
            ("last used", memory.recalled_at.map_or_else(|| words("never"), time)),
        ];
        facts.extend(memory.until.map(|until| ("held until", time(until))));
        let by = memory.superseded_by.as_ref();
        facts.extend(by.map(|by| ("replaced by", link(Target::Memory(by.clone()), by))));
        let mut blocks = vec![Block::Text(memory.text.clone()), Block::Facts(facts)];
        blocks.extend(history(&self.history));
        blocks.extend(used_in(&self.used_in));
        blocks
    }
}

/// Where it was said, and who wrote it down.
fn source(memory: &Memory) -> Cell {
    let source = &memory.source;
    let by = format!("by {}", source.model);
    let Some(from) = &source.channel else {
        return words(if source.is_typed() { "typed by an operator" } else { &by });
    };
    let mut cell = place(from, source.from_seq, source.to_seq);
    if let Some(summary) = &source.summary {
        cell.extend(words(", with summary "));
        cell.extend(link(Target::Summary(from.clone(), summary.clone()), summary));
    }
    cell.extend(words(format!(", {}", if source.is_typed() { "/remember" } else { &by })));
    cell
}

fn place(of: &ChannelId, from: Option<Seq>, to: Option<Seq>) -> Cell {
    let mut cell = channel(of);
    if let Some(from) = from {
        cell.extend(words(", "));
        cell.extend(entries(of, from, to.unwrap_or(from)));
    }
    cell
}

/// The speaker's name, or else their id, of operators too.
fn speaker_name(memory: &Memory) -> &str {
    let by = memory.source.by.as_ref().map(|by| by.name.as_str());
    by.or_else(|| memory.said_by()).unwrap_or_default()
}

/// Whose word it is, and that it is an operator's only where it is.
fn said_by(memory: &Memory) -> String {
    let source = &memory.source;
    let who = match (source.by.as_ref().or(source.told_by.as_ref()), memory.speaker()) {
        (Some(by), _) => format!("{} ({})", by.name, by.id),
        (None, Some(speaker)) => speaker.to_owned(),
        (None, None) if source.is_typed() => return "an operator".to_owned(),
        (None, None) => return "-".to_owned(),
    };
    match source.is_typed() && source.by.is_some() {
        _ if source.is_of_member() => format!("{who}, a member, not an operator"),
        true => format!("{who}, an operator"),
        false => who,
    }
}

/// The places in which it may be recalled while `memory.share` is `person`.
fn recalled_in(memory: &Memory) -> String {
    match memory.follows() {
        Some(person) => format!("{}, and private chats with {person} (memory.share)", memory.scope),
        None => memory.scope.to_string(),
    }
}

fn history(steps: &[MemoryStep]) -> Vec<Block> {
    let columns = [
        Column::narrow("at"),
        Column::narrow("what"),
        Column::wide("where"),
        Column::wide("by"),
        Column::narrow("text"),
    ];
    let rows = steps.iter().map(step_row);
    let mut blocks = section("History", "What became of the memory, oldest first", columns, rows);
    let left_out: u64 = steps.iter().map(|step| step.left_out).sum();
    if left_out > 0 {
        let steps = counted(left_out, "step", "steps");
        blocks.push(Block::Note(words(format!("{steps} in between are not listed"))));
    }
    blocks
}

fn step_row(step: &MemoryStep) -> [Cell; 5] {
    let mut what = step.what.name().to_owned();
    if step.what == MemoryChanged::Edited {
        what.extend(step.kind.map(|kind| format!(", kind {}", kind.name())));
        what.extend(step.importance.map(|importance| format!(", importance {importance:.2}")));
    }
    let who = step.by.as_ref().map(|by| format!("{} ({})", by.name, by.id));
    let by: Vec<_> = who.into_iter().chain(step.model.clone()).collect();
    [
        time(step.at),
        words(what),
        step.channel.as_ref().map_or_else(|| words("-"), |of| place(of, step.from_seq, step.to_seq)),
        or_dash((!by.is_empty()).then(|| by.join(", "))),
        words(step.text.as_deref().unwrap_or("as before")),
    ]
}

fn used_in(uses: &[MemoryUse]) -> Vec<Block> {
    let columns = [
        Column::narrow("ended"),
        Column::wide("channel"),
        Column::narrow("turn"),
        Column::wide("model"),
        Column::narrow("outcome"),
    ];
    let row = |used: &MemoryUse| {
        let (outcome, why) = turn_outcome(Some(&used.outcome));
        [
            time(used.at),
            channel(&used.channel),
            link(Target::Turn(used.channel.clone(), used.turn.clone()), &used.turn),
            or_dash(used.model.as_deref()),
            words(why.map_or_else(|| outcome.to_owned(), |why| format!("{outcome}: {why}"))),
        ]
    };
    let caption = "The last turns that had the memory, newest first";
    section("Used in", caption, columns, uses.iter().rev().map(row))
}
