//! A part of a channel's history, by time, by person or by turn, from either end.

use std::sync::Arc;

use cairn_core::history::HistoryQuery;
use cairn_core::ids::{ChannelId, Seq, TurnId};
use cairn_core::message::Entry;
use cairn_core::ports::StoreError;
use jiff::Timestamp;

use super::archive::Reads;
use super::codec::view_error;

/// Entries that are looked at for one page: of a person who says little, most of a history may have to be.
const LOOKED_AT: usize = 10_000;

/// Entries that fit, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryPage {
    pub entries: Vec<Arc<Entry>>,
    /// The entry that the next page begins with; of the newest, the one that it ends with. None at the end.
    pub next: Option<Seq>,
}

impl Reads<'_> {
    /// Entries that fit. Times are looked for by halving, since entries stand in the order of their times.
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
        let (mut from, mut to) = (query.from.max(Seq(1)), last.seq);
        if let Some(since) = query.said.since {
            from = self.first_that(channel, (from, to), |at| at >= since)?;
        }
        if let Some(until) = query.said.until {
            to = Seq(self.first_that(channel, (from, to), |at| at > until)?.0.saturating_sub(1));
        }
        if from > to {
            return Ok(page);
        }
        let mut rows = self.seqs(channel, from, to);
        let mut n_looked_at = 0;
        while let Some(row) = if query.newest { rows.next_back() } else { rows.next() }.transpose()? {
            if page.entries.len() == query.limit || n_looked_at == LOOKED_AT {
                page.next = Some(row.seq);
                break;
            }
            n_looked_at += 1;
            let entry = self.shown(channel, row)?;
            if query.said.fits(entry.at, entry.author.as_ref()) {
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

    /// The first entry of a range whose time is such, where those of all that follow are; the one behind the range when none is.
    fn first_that(
        &self,
        channel: &ChannelId,
        (from, to): (Seq, Seq),
        is_such: impl Fn(Timestamp) -> bool,
    ) -> Result<Seq, StoreError> {
        let (mut low, mut high) = (from.0, to.0.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.seqs(channel, Seq(middle), Seq(middle)).next().transpose()?;
            let row = row.ok_or_else(|| view_error(format!("the row of entry {middle} is missing")))?;
            if is_such(self.shown(channel, row)?.at) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Seq(low))
    }
}
