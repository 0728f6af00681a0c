//! Summaries, in a list and one by one.

use cairn_types::ids::{ChannelId, SummaryId};

use super::{Block, Cell, Column, Show, Target, channel, entries, link, section, table, time, words};
use crate::records::{SummaryLine, SummaryState, SummaryView};
use crate::text::{counted, day, grouped, seconds};

/// Its text is not among the blocks: a browser has it beside its source.
impl Show for SummaryView {
    fn show(&self) -> Vec<Block> {
        let line = &self.line;
        let mut source = words(counted(self.entries, "entry with its text", "entries with their text"));
        if self.wordless > 0 {
            source.extend(words(format!(", {} deleted or expired", grouped(self.wordless))));
        }
        let mut run = link(Target::Run(self.channel.clone(), self.run.clone()), &self.run);
        run.extend(words(format!(", {}, {}", self.trigger.name(), seconds(self.duration_ms))));
        let facts = vec![
            ("summary", words(&line.id)),
            ("channel", channel(&self.channel)),
            ("replaces", entries(&self.channel, line.from_seq, line.to_seq)),
            ("said", words(format!("{} to {}", day(line.from_at), day(line.to_at)))),
            ("level", words(line.level)),
            ("tokens", words(grouped(line.tokens.into()))),
            ("by", words(&line.made_by)),
            ("made", time(line.made_at)),
            ("run", run),
            ("state", state(&self.channel, line)),
            ("source", source),
        ];
        let columns = columns();
        let rows = self.sources.iter().map(|line| row(&self.channel, line));
        let mut blocks = vec![Block::Facts(facts)];
        blocks.extend(section("Merged from", "Summaries that it was merged from", columns, rows));
        blocks
    }
}

/// Summaries of a channel, in that order.
pub fn summaries<'l>(channel: &ChannelId, lines: impl Iterator<Item = &'l SummaryLine>) -> Vec<Block> {
    vec![table("Summaries", columns(), lines.map(|line| row(channel, line)))]
}

fn columns() -> [Column; 9] {
    [
        Column::narrow("summary"),
        Column::narrow("level").right(),
        Column::narrow("entries"),
        Column::wide("from"),
        Column::wide("to"),
        Column::wide("tokens").right(),
        Column::wide("by"),
        Column::wide("made"),
        Column::narrow("state"),
    ]
}

fn row(channel: &ChannelId, line: &SummaryLine) -> [Cell; 9] {
    [
        summary(channel, &line.id),
        words(line.level),
        words(format!("{} to {}", line.from_seq, line.to_seq)),
        words(day(line.from_at)),
        words(day(line.to_at)),
        words(grouped(line.tokens.into())),
        words(&line.made_by),
        time(line.made_at),
        state(channel, line),
    ]
}

fn state(channel: &ChannelId, line: &SummaryLine) -> Cell {
    let (what, other) = match &line.state {
        SummaryState::Window => ("in the window", None),
        SummaryState::Merged(into) => ("merged into ", Some(into)),
        SummaryState::Replaced(by) => ("replaced by ", Some(by)),
        SummaryState::Archived => ("of an earlier session", None),
    };
    let mut cell = words(what);
    cell.extend(other.into_iter().flat_map(|id| summary(channel, id)));
    if line.provisional {
        cell.extend(words(", provisional"));
    }
    cell
}

fn summary(channel: &ChannelId, id: &SummaryId) -> Cell {
    link(Target::Summary(channel.clone(), id.clone()), id)
}
