//! Tool calls.

use cairn_types::tool::ToolOutcome;

use super::{Block, Column, Show, Span, Target, bad, channel, link, table, time, words};
use crate::records::ToolUseRecord;
use crate::text::seconds;

impl Show for [ToolUseRecord] {
    fn show(&self) -> Vec<Block> {
        let columns = [
            Column::narrow("at"),
            Column::narrow("channel"),
            Column::wide("turn"),
            Column::wide("caused by"),
            Column::narrow("tool"),
            Column::narrow("outcome"),
            Column::wide("took").right(),
            Column::narrow("arguments"),
        ];
        let row = |record: &ToolUseRecord| {
            let used = &record.used;
            let allowed = used.allowed_by.as_ref().map(|entry| format!(" (always_allow: {entry})"));
            let outcome = format!("{}{}", used.outcome.name(), allowed.unwrap_or_default());
            let outcome = if used.outcome == ToolOutcome::Done { words(outcome) } else { bad(outcome) };
            let mut arguments = vec![Span::Code(used.arguments.to_string())];
            arguments.extend(used.error.iter().map(|error| Span::Bad(format!(" {error}"))));
            [
                time(record.at),
                channel(&record.channel),
                link(Target::Turn(record.channel.clone(), used.turn.clone()), &used.turn),
                words(Vec::from_iter(used.caused_by.clone()).join(", ")),
                words(&used.tool),
                outcome,
                words(seconds(used.duration_ms)),
                arguments,
            ]
        };
        vec![table("Tool calls", columns, self.iter().map(row))]
    }
}
