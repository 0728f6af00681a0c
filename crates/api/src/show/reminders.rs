//! Reminders.

use cairn_types::reminder::Reminder;

use super::{Block, Cell, Column, Show, channel, or_dash, table, time, words};
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
            let Reminder { id, by, text, due, rule, .. } = &record.reminder;
            let every = rule.as_ref().map_or_else(Cell::new, words);
            [words(id), channel(&record.channel), time(*due), every, words(&by.id), words(one_line(text))]
        };
        vec![table("Reminders", columns, self.iter().map(row))]
    }
}

impl Show for ReminderRecord {
    fn show(&self) -> Vec<Block> {
        let Reminder { id, by, text, due, rule, zone, set_at, provenance: _ } = &self.reminder;
        let facts = vec![
            ("id", words(id)),
            ("channel", channel(&self.channel)),
            ("due", time(*due)),
            ("every", or_dash(rule.as_ref())),
            ("time zone", words(zone)),
            ("set by", words(format!("{} ({})", one_line(&by.name), by.id))),
            ("set at", time(*set_at)),
        ];
        vec![Block::Facts(facts), Block::Text(text.clone())]
    }
}
