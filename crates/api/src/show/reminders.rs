//! Reminders.

use cairn_core::reminder::{local_time, zone};
use cairn_types::reminder::Reminder;

use super::{Block, Cell, Column, Show, Span, channel, or_dash, table, time, words};
use crate::records::ReminderRecord;
use crate::text::one_line;

impl Show for [ReminderRecord] {
    fn show(&self) -> Vec<Block> {
        let columns = [
            Column::narrow("id"),
            Column::wide("channel"),
            Column::narrow("due"),
            Column::narrow("every"),
            Column::wide("by"),
            Column::narrow("text"),
        ];
        let row = |record: &ReminderRecord| {
            let Reminder { id, by, text, rule, .. } = &record.reminder;
            let every = rule.as_ref().map_or_else(Cell::new, |rule| vec![Span::Code(rule.to_string())]);
            let due = due(&record.reminder);
            [words(id), channel(&record.channel), due, every, words(&by.id), words(one_line(text))]
        };
        vec![table("Reminders", columns, self.iter().map(row))]
    }
}

impl Show for ReminderRecord {
    fn show(&self) -> Vec<Block> {
        let Reminder { id, by, text, due: _, rule, zone, set_at, provenance: _ } = &self.reminder;
        let facts = vec![
            ("id", words(id)),
            ("channel", channel(&self.channel)),
            ("due", due(&self.reminder)),
            ("every", or_dash(rule.as_ref())),
            ("time zone", words(zone)),
            ("set by", words(format!("{} ({})", one_line(&by.name), by.id))),
            ("set at", time(*set_at)),
        ];
        vec![Block::Facts(facts), Block::Text(text.clone())]
    }
}

/// When it fires, as the clocks of its time zone show it.
fn due(reminder: &Reminder) -> Cell {
    words(local_time(reminder.due, &zone(&reminder.zone)))
}
