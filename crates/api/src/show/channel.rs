//! Channels, in a list.

use cairn_types::tier::Tier;

use super::{Block, Column, Show, bad, channel, table, time, words};
use crate::records::{ChannelRecord, Wakefulness};
use crate::text::{grouped, percent};

impl Show for [ChannelRecord] {
    fn show(&self) -> Vec<Block> {
        let columns = [
            Column::narrow("channel"),
            Column::wide("name"),
            Column::wide("state"),
            Column::narrow("entries").right(),
            Column::narrow("usage").right(),
            Column::narrow("tier"),
            Column::wide("summaries").right(),
            Column::wide("last"),
        ];
        let row = |record: &ChannelRecord| {
            let tier = record.tier.name();
            [
                channel(&record.channel),
                words(record.name.as_deref().unwrap_or("-")),
                words(if record.state == Wakefulness::Awake { "awake" } else { "asleep" }),
                words(grouped(record.entries)),
                words(percent(record.usage_ratio)),
                if record.tier >= Tier::Aggressive { bad(tier) } else { words(tier) },
                words(grouped(record.summaries)),
                time(record.last_at),
            ]
        };
        vec![table("Channels by name", columns, self.iter().map(row))]
    }
}
