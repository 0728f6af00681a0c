//! A part of a channel's history, by time, by person or by turn, from either end.

use std::sync::Arc;

use cairn_types::event::Event;
use cairn_types::ids::{ChannelId, Seq, TurnId};
use cairn_types::message::Entry;
use cairn_types::people::said::HistoryQuery;
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::archive::Reads;

/// Entries that are looked at for one page: of a person who says little, most of a history may have to be.
const LOOKED_AT: usize = 10_000;

/// Once a page has so many bytes of words it takes no more: it is larger by one text at the most.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;

/// Entries that fit, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryPage {
    pub entries: Vec<Arc<Entry>>,
    /// The entry that the next page begins with; of the newest, the one that it ends with. None at the end.
    pub next: Option<Seq>,
}

/// Of its words and of what its calls were given.
fn bytes_of(entry: &Entry) -> usize {
    let calls = entry.tool_calls.iter().map(|call| call.arguments.to_string().len());
    entry.text().len() + calls.sum::<usize>()
}

impl Reads<'_> {
    /// Entries that fit.
    pub(crate) fn history(
        &self,
        channel: &ChannelId,
        query: &HistoryQuery,
    ) -> Result<HistoryPage, StoreError> {
        let mut page = HistoryPage::default();
        if query.from > query.to {
            return Ok(page);
        }
        let Some(last) = self.seqs(channel, query.from, query.to).next_back().transpose()? else {
            return Ok(page);
        };
        let (mut from, to) = (query.from.max(Seq(1)), last.seq);
        if let Some(since) = query.said.since {
            from = from.max(self.first_since(channel, since)?);
        }
        if from > to {
            return Ok(page);
        }
        let mut rows = self.seqs(channel, from, to);
        let (mut n_looked_at, mut n_bytes) = (0, 0);
        while let Some(row) = if query.newest { rows.next_back() } else { rows.next() }.transpose()? {
            if page.entries.len() == query.limit || n_looked_at == LOOKED_AT || n_bytes >= PAGE_BYTES {
                page.next = Some(row.seq);
                break;
            }
            n_looked_at += 1;
            let entry = self.shown(channel, row)?;
            if query.said.fits(entry.at, entry.author.as_ref()) {
                n_bytes += bytes_of(&entry);
                page.entries.push(Arc::new(entry));
            }
        }
        if query.newest {
            page.entries.reverse();
        }
        Ok(page)
    }

    /// The first and the last entry of a turn. Rows alone are read, the newest first.
    pub(crate) fn turn_range(
        &self,
        channel: &ChannelId,
        turn: &TurnId,
    ) -> Result<Option<(Seq, Seq)>, StoreError> {
        let mut rows = self.seqs(channel, Seq(1), Seq(u64::MAX)).rev();
        let (mut first, mut last) = (None, Seq(u64::MAX));
        while let Some(row) = rows.next().transpose()? {
            // What the model and its tools add stands behind the messages that a turn took up.
            match (&row.taken, first) {
                (Some((of, _)), _) if of == turn => first = Some(row.seq),
                (Some(_), Some(_)) => break,
                (Some(_), None) => last = Seq(row.seq.0.saturating_sub(1)),
                (None, _) => {}
            }
        }
        Ok(first.map(|first| (first, last)))
    }

    /// The first entry that came into the history since then. What came before was said before; what came since may have been
    /// said before, too: a message that waited, or was read after a pause, keeps its time. Records stand in the order of their
    /// times, so that they can be looked for by halving.
    fn first_since(&self, channel: &ChannelId, since: Timestamp) -> Result<Seq, StoreError> {
        let Some(last) = self.offsets(channel, 1, u64::MAX)?.next_back().transpose()? else {
            return Ok(Seq(u64::MAX));
        };
        let (mut low, mut high) = (1, last.n + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.offsets(channel, middle, u64::MAX)?.next().transpose()? {
                Some(offset) if self.journal.read(offset.at)?.at < since => low = offset.n + 1,
                _ => high = middle,
            }
        }
        for offset in self.offsets(channel, low, u64::MAX)? {
            if let Event::Turn(event) = self.journal.read(offset?.at)?.event
                && let Some((first, _)) = event.numbers()
            {
                return Ok(first);
            }
        }
        Ok(Seq(u64::MAX))
    }
}
