//! Conversations at rest: channels, restoring one, entries by number, message ids.

use std::sync::Arc;

use cairn_core::conversation::Conversation;
use cairn_core::event::{Event, Record, TurnEnd, TurnOutcome};
use cairn_core::ids::{ChannelId, MessageId, Seq, SummaryId};
use cairn_core::message::{Entry, Pending};
use cairn_core::model::Usage;
use cairn_core::ports::{ChannelRow, OutboxItem, Seen, StoreError};

use super::codec::{Key, Table, decode, trailing_number, view_error};
use super::db::Db;
use super::rows::{ChannelState, MessageRow, OutboxRow, SeqRow, position_of};
use crate::journal::reader::Reader;
use crate::journal::segment::Position;

/// Rows and journal, read together.
pub(crate) struct Reads<'a> {
    /// The rows.
    pub(crate) db: &'a Db,
    /// The journal.
    pub(crate) journal: &'a Reader,
}

impl Reads<'_> {
    /// All channels, by name.
    pub(crate) fn channels(&self) -> Result<Vec<ChannelRow>, StoreError> {
        let mut rows = Vec::new();
        for item in self.db.scan(&Key::table(Table::Channel)) {
            let (key, payload) = item?;
            let state: ChannelState = decode(&payload)?;
            rows.push(state.row(channel_of(&key)?));
        }
        rows.sort_by(|a, b| a.channel.cmp(&b.channel));
        Ok(rows)
    }

    /// Deliveries neither settled nor dropped, oldest first.
    pub(crate) fn deliveries(&self) -> Result<Vec<OutboxItem>, StoreError> {
        let mut rows = Vec::new();
        for item in self.db.scan(&Key::table(Table::Outbox)) {
            rows.push(decode::<OutboxRow>(&item?.1)?);
        }
        rows.sort_by_key(|row| row.n);
        Ok(rows.into_iter().map(|row| row.item).collect())
    }

    /// The record of that number in a channel.
    pub(crate) fn record(&self, channel: &ChannelId, n: u64) -> Result<Option<Record>, StoreError> {
        let Some(payload) = self.db.payload(&Key::event(channel, n).0)? else { return Ok(None) };
        self.journal.read(parse_position(&payload)?).map(Some)
    }

    /// The event that has a summary.
    pub(crate) fn summary_event(
        &self,
        channel: &ChannelId,
        id: &SummaryId,
    ) -> Result<Option<Event>, StoreError> {
        let Some(n) = self.db.get::<u64>(&Key::summary(channel, id))? else { return Ok(None) };
        Ok(self.record(channel, n)?.map(|record| record.event))
    }

    /// How a message id stands.
    pub(crate) fn seen(&self, channel: &ChannelId, message: &MessageId) -> Result<Seen, StoreError> {
        let Some(row) = self.db.get::<MessageRow>(&Key::message(channel, message))? else {
            return Ok(Seen::New);
        };
        let MessageRow { turn, fingerprint, end, .. } = row;
        let Some(end) = end else { return Ok(Seen::Open { turn, fingerprint }) };
        match self.record(channel, end)?.map(|record| record.event) {
            Some(Event::TurnEnded(end)) => {
                Ok(Seen::Ended { turn: end.turn.clone(), fingerprint, end: Box::new(end) })
            }
            Some(Event::CommandTaken { .. }) => {
                let end = TurnEnd {
                    turn: turn.clone(),
                    outcome: TurnOutcome::Unanswered,
                    model: None,
                    usage: Usage::default(),
                    recalled: Vec::new(),
                };
                Ok(Seen::Ended { turn, fingerprint, end: Box::new(end) })
            }
            _ => Err(view_error(format!("record {end} is not the end of a turn"))),
        }
    }

    /// Entries of a range of numbers, in order.
    pub(crate) fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for item in self.db.range(&Key::seq(channel, from), &Key::seq(channel, to)).take(limit) {
            let (key, payload) = item?;
            let seq = Seq(trailing_number(&key).unwrap_or_default());
            entries.push(Arc::new(self.entry(channel, seq, decode(&payload)?)?));
        }
        Ok(entries)
    }

    fn entry(&self, channel: &ChannelId, seq: Seq, row: SeqRow) -> Result<Entry, StoreError> {
        let missing = || view_error(format!("record {} of entry {seq} is not in the journal", row.n));
        let record = self.record(channel, row.n)?.ok_or_else(missing)?;
        match (record.event, row.taken) {
            (_, Some((turn, generation))) if row.lost => Ok(Entry::lost(seq, &turn, generation, record.at)),
            (Event::Accepted(pending), Some((turn, generation))) => {
                Ok(pending.to_entry(seq, &turn, generation))
            }
            (Event::EntryAdded { entry }, None) if entry.seq == seq => Ok(entry),
            _ => Err(missing()),
        }
    }

    /// Restores a channel.
    pub(crate) fn restore(
        &self,
        channel: &ChannelId,
        quarantined: bool,
    ) -> Result<Option<Conversation>, StoreError> {
        if !self.db.has(&Key::channel(channel).0)? {
            return Ok(None);
        }
        let head = match self.head(channel) {
            Ok(head) => head,
            Err(error) => {
                tracing::warn!(%channel, %error, "the kept head is of no use; restoring from the first event");
                None
            }
        };
        let fresh = || Conversation::new(channel.clone());
        if let Some(head) = head {
            match self.replay(head, quarantined) {
                Ok(conversation) => return Ok(Some(conversation)),
                Err(error) => {
                    tracing::warn!(%channel, %error, "events do not fit the kept head; restoring from the first");
                }
            }
        }
        self.replay(fresh(), quarantined).map(Some)
    }

    fn head(&self, channel: &ChannelId) -> Result<Option<Conversation>, StoreError> {
        let Some(mut head) = self.db.get::<Conversation>(&Key::head(channel))? else { return Ok(None) };
        let seqs = head.missing_entries();
        let entries = match (seqs.first(), seqs.last()) {
            (Some(first), Some(last)) => self.entries(channel, *first, *last, usize::MAX)?,
            _ => Vec::new(),
        };
        let mut pending = Vec::new();
        for message in head.missing_pending() {
            pending.extend(self.pending(channel, &message)?);
        }
        Ok(head.fill(entries, pending).then_some(head))
    }

    fn pending(&self, channel: &ChannelId, message: &MessageId) -> Result<Option<Pending>, StoreError> {
        let Some(row) = self.db.get::<MessageRow>(&Key::message(channel, message))? else { return Ok(None) };
        Ok(self.record(channel, row.n)?.and_then(|record| match record.event {
            Event::Accepted(pending) => Some(pending),
            _ => None,
        }))
    }

    /// Folds in all events after the conversation's last one.
    fn replay(&self, mut conversation: Conversation, quarantined: bool) -> Result<Conversation, StoreError> {
        let channel = conversation.channel.clone();
        let from = Key::event(&channel, conversation.last_n + 1);
        for item in self.db.range(&from, &Key::event(&channel, u64::MAX)) {
            let position = parse_position(&item?.1)?;
            let record = self.journal.read(position)?;
            let Err(error) = conversation.apply(&record) else { continue };
            if !quarantined {
                return Err(self.journal.misfit(position, error.to_string()));
            }
            // The line that ended a turn or a run may be among those set aside.
            match &record.event {
                Event::TurnStarted { .. } => conversation.open_turn = None,
                Event::RunStarted { .. } => conversation.run = None,
                _ => {}
            }
            if let Err(error) = conversation.apply(&record) {
                tracing::warn!(%channel, n = record.n, %error, "passed over an event that does not fit since journal lines were set aside");
            }
        }
        Ok(conversation)
    }
}

fn parse_position(payload: &[u8]) -> Result<Position, StoreError> {
    position_of(payload).ok_or_else(|| view_error("a position cannot be read"))
}

fn channel_of(key: &[u8]) -> Result<ChannelId, StoreError> {
    let name = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|error| view_error(error.to_string()))?;
    name.parse().map_err(|_| view_error("a channel's name cannot be read"))
}
