//! Conversations at rest: channels, restoring one, entries by number, message ids.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use cairn_core::conversation::{Conversation, Reaction};
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, Record, RunEnd, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ArtifactId, ChannelId, MessageId, Seq, SummaryId, TextId, TurnId};
use cairn_types::message::{Artifact, EXPIRED_TEXT, Entry, Pending};
use cairn_types::model::Usage;
use cairn_types::ports::{ChannelRow, OutboxItem, Seen, StoreError};
use jiff::Timestamp;

use super::blocks::{Packed, unpack};
use super::changes::Changes;
use super::codec::{Key, Table, decode, decode_small, view_error};
use super::db::{Db, Row};
use super::messages;
use super::rows::{COMMAND, ChannelState, MessageRow, Offset, OutboxRow, SeqRow, Speaker, SummaryRow};
use crate::journal::reader::Reader;
use crate::journal::segment::Position;

/// Records that are looked at for each call that is asked for: a turn without tools has six or seven for its one.
const RECORDS_A_CALL: usize = 16;

/// Rows and journal, read together.
pub(crate) struct Reads<'a> {
    pub(crate) db: &'a Db,
    pub(crate) journal: &'a Reader,
}

impl Reads<'_> {
    pub(crate) fn channels(&self) -> Result<Vec<ChannelRow>, StoreError> {
        let mut rows = Vec::new();
        for item in self.channel_states() {
            let (channel, state) = item?;
            rows.push(state.row(channel));
        }
        rows.sort_by(|a, b| a.channel.cmp(&b.channel));
        Ok(rows)
    }

    fn channel_states(&self) -> impl Iterator<Item = Result<(ChannelId, ChannelState), StoreError>> {
        self.db.scan(&Key::table(Table::Channel)).map(|item| {
            let (key, payload) = item?;
            Ok((channel_of(&key)?, decode(&payload)?))
        })
    }

    /// Channels with records behind number `since` that lists show nothing of, the longest first.
    pub(crate) fn unlisted(&self, since: u64) -> Result<Vec<ChannelId>, StoreError> {
        let mut found = Vec::new();
        for item in self.channel_states() {
            let (channel, state) = item?;
            if state.last_n > since && state.current_outline().is_none() {
                found.push((Reverse(state.next_seq), channel));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, channel)| channel).collect())
    }

    pub(crate) fn channel(&self, channel: &ChannelId) -> Result<Option<ChannelRow>, StoreError> {
        let state = self.db.get::<ChannelState>(&Key::channel(channel))?;
        Ok(state.map(|state| state.row(channel.clone())))
    }

    /// The private chats of a platform, by name.
    pub(crate) fn private_chats(&self, platform: &str) -> Result<Vec<ChannelId>, StoreError> {
        let prefix = Key::privates(platform);
        self.db.scan(&prefix).map(|row| named(row?.0.get(prefix.0.len()..).unwrap_or_default())).collect()
    }

    /// Who has spoken in a channel, by person.
    pub(crate) fn speakers(&self, channel: &ChannelId) -> Result<Vec<(String, Speaker)>, StoreError> {
        let prefix = Key::speakers(channel);
        let speaker = |row: Result<Row, StoreError>| {
            let (key, payload) = row?;
            let person = key.get(prefix.0.len()..key.len().saturating_sub(1)).unwrap_or_default();
            let person = std::str::from_utf8(person).map_err(|error| view_error(error.to_string()))?;
            Ok((person.to_owned(), decode(&payload)?))
        };
        self.db.scan(&prefix).map(speaker).collect()
    }

    /// Channels with something unfinished, by name.
    pub(crate) fn unfinished(&self) -> Result<Vec<ChannelId>, StoreError> {
        let rows = self.db.scan(&Key::table(Table::Unfinished));
        rows.map(|row| channel_of(&row?.0)).collect()
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

    pub(crate) fn kept_text(&self, id: &TextId) -> Result<Option<String>, StoreError> {
        self.db.payload(&Key::text(id).0)?.map(|payload| decode_small(&payload)).transpose()
    }

    /// The record number `n` of a channel; `None`: the channel has no such record.
    pub(crate) fn record(&self, channel: &ChannelId, n: u64) -> Result<Option<Record>, StoreError> {
        let block = self.db.range(&Key::event(channel, 0), &Key::event(channel, n)).next_back();
        let Some((_, payload)) = block.transpose()? else { return Ok(None) };
        let offset = unpack::<Offset>(&payload)?.into_iter().find(|offset| offset.n == n);
        offset.map(|offset| self.journal.read(offset.at)).transpose()
    }

    /// The offsets of a channel's records, from one number to another.
    pub(crate) fn offsets(
        &self,
        channel: &ChannelId,
        from: u64,
        to: u64,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Offset, StoreError>>, StoreError> {
        // The block that may have the first of them begins before it.
        let before = self.db.range(&Key::event(channel, 0), &Key::event(channel, from)).next_back();
        let first = before.transpose()?.map_or_else(|| Key::event(channel, from), |(key, _)| Key(key));
        let offsets = self.db.range(&first, &Key::event(channel, to)).flat_map(each::<Offset>);
        Ok(offsets
            .filter(move |offset| offset.as_ref().map_or(true, |offset| (from..=to).contains(&offset.n))))
    }

    /// How the entries of a channel stand, from one number to another.
    pub(super) fn seqs(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
    ) -> impl DoubleEndedIterator<Item = Result<SeqRow, StoreError>> {
        let rows = self.db.range(&Key::seq(channel, from), &Key::seq(channel, to)).flat_map(each::<SeqRow>);
        rows.filter(move |row| row.as_ref().map_or(true, |row| (from..=to).contains(&row.seq)))
    }

    fn message_row(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> Result<Option<MessageRow>, StoreError> {
        messages::get(&Changes::new(self.db), channel, message)
    }

    /// The event that has a summary; one whose words have expired says so.
    pub(crate) fn summary_event(
        &self,
        channel: &ChannelId,
        id: &SummaryId,
    ) -> Result<Option<Event>, StoreError> {
        let Some(ordinal) = id.ordinal() else { return Ok(None) };
        let rows = self.db.items::<SummaryRow>(&Key::summary(channel, ordinal))?.unwrap_or_default();
        let Some(row) = rows.iter().find(|row| row.ordinal == ordinal) else { return Ok(None) };
        let mut event = self.record(channel, row.n)?.map(|record| record.event);
        if let Some(Event::Compaction(CompactionEvent::RunEnded(RunEnd { summary: Some(summary), .. }))) =
            &mut event
            && summary.text.is_empty()
        {
            EXPIRED_TEXT.clone_into(&mut summary.text);
        }
        Ok(event)
    }

    /// The runs of a channel that ended with a summary, of all sessions, in their order, each with its time.
    pub(crate) fn summaries(&self, channel: &ChannelId) -> Result<Vec<(Timestamp, RunEnd)>, StoreError> {
        let mut ends = Vec::new();
        for row in self.db.scan(&Key::summaries(channel)).flat_map(each::<SummaryRow>) {
            let n = row?.n;
            if let Some(Record { at, event: Event::Compaction(CompactionEvent::RunEnded(end)), .. }) =
                self.record(channel, n)?
            {
                ends.push((at, end));
            }
        }
        Ok(ends)
    }

    pub(crate) fn seen(&self, channel: &ChannelId, message: &MessageId) -> Result<Seen, StoreError> {
        let Some(row) = self.message_row(channel, message)? else { return Ok(Seen::New) };
        let (turn, fingerprint) = match self.record(channel, row.n)?.map(|record| record.event) {
            Some(Event::Message(MessageEvent::Accepted(pending))) => {
                let Pending { turn, fingerprint, .. } = self.edited(channel, pending, row.edited)?;
                (turn, fingerprint)
            }
            Some(Event::Message(MessageEvent::CommandTaken { .. } | MessageEvent::Refused { .. })) => {
                (TurnId::from(COMMAND), String::new())
            }
            _ => return Err(view_error(format!("record {} is not that of message {message}", row.n))),
        };
        let Some(end) = row.end else { return Ok(Seen::Open { turn, fingerprint }) };
        match self.record(channel, end)?.map(|record| record.event) {
            Some(Event::Turn(TurnEvent::Ended(end))) => {
                Ok(Seen::Ended { turn: end.turn.clone(), fingerprint, end: Box::new(end) })
            }
            Some(Event::Message(MessageEvent::CommandTaken { .. } | MessageEvent::Refused { .. })) => {
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

    /// Entries of a range of numbers, in order; deleted and expired ones without their words.
    pub(crate) fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.read_entries(channel, from, to, limit, true)
    }

    /// How the turns ended whose last entries are in a range, by these.
    pub(crate) fn turn_ends(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
    ) -> Result<HashMap<Seq, TurnEnd>, StoreError> {
        let mut ends = HashMap::new();
        for row in self.seqs(channel, from, to) {
            let SeqRow { seq, end: Some(n), .. } = row? else { continue };
            if let Some(Event::Turn(TurnEvent::Ended(end))) =
                self.record(channel, n)?.map(|record| record.event)
            {
                ends.insert(seq, end);
            }
        }
        Ok(ends)
    }

    /// People's reactions to the entries of a range, in order, without those that were taken back.
    pub(crate) fn reactions(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
    ) -> Result<HashMap<Seq, Vec<Reaction>>, StoreError> {
        let mut all = HashMap::new();
        for row in self.seqs(channel, from, to) {
            let SeqRow { seq, reactions, .. } = row?;
            let mut stand: Vec<Reaction> = Vec::new();
            for n in reactions {
                let event = self.record(channel, n)?.map(|record| record.event);
                let Some(Event::Message(MessageEvent::Reacted { by, emoji, removed, .. })) = event else {
                    continue;
                };
                stand.retain(|one| one.by.id != by.id || one.emoji != emoji);
                if !removed {
                    stand.push(Reaction { seq, by, emoji });
                }
            }
            if !stand.is_empty() {
                all.insert(seq, stand);
            }
        }
        Ok(all)
    }

    /// The entries that a message and its corrections became, in order.
    pub(crate) fn said(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        let mut entries = Vec::new();
        for seq in self.seqs_of(channel, message)? {
            entries.extend(self.entries(channel, seq, seq, 1)?);
        }
        Ok(entries)
    }

    pub(crate) fn seqs_of(&self, channel: &ChannelId, message: &MessageId) -> Result<Vec<Seq>, StoreError> {
        let own = self.message_row(channel, message)?;
        let corrections = messages::corrections(&Changes::new(self.db), channel, message)?;
        let mut seqs: Vec<Seq> = own.into_iter().chain(corrections).filter_map(|row| row.seq).collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// The last number that was given up to and including that record.
    pub(crate) fn last_seq_at(&self, channel: &ChannelId, n: u64) -> Result<Option<Seq>, StoreError> {
        for offset in self.offsets(channel, 0, n)?.rev() {
            if let Event::Turn(event) = self.journal.read(offset?.at)?.event
                && let Some((_, last)) = event.numbers()
            {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// The entries whose words stand in those records of a channel, by record.
    ///
    /// Turns begin with the oldest message that waits, so that what follows a turn whose first message came later is of later
    /// records: unless lines were `quarantined`, and with them that of a turn that took some up. Within a turn a message may
    /// have passed others that waited.
    pub(crate) fn words_in(
        &self,
        channel: &ChannelId,
        (from_n, to_n): (u64, u64),
        quarantined: bool,
    ) -> Result<HashMap<u64, Seq>, StoreError> {
        let before = match self.last_seq_at(channel, from_n.saturating_sub(1)) {
            // What stands before is damaged: then all numbers are looked at.
            Err(StoreError::Damaged { .. }) => None,
            found => found?,
        };
        let first = before.map_or(Seq(1), Seq::next);
        let mut found = HashMap::new();
        let mut turn: Option<TurnId> = None;
        for row in self.seqs(channel, first, Seq(u64::MAX)) {
            let row = row?;
            if let Some((of, _)) = &row.taken {
                // Of the turn that is met first the beginning may have been before.
                let begins = turn.as_ref().is_some_and(|turn| turn != of);
                if begins && row.n > to_n && !row.lost && !quarantined {
                    break;
                }
                turn = Some(of.clone());
            }
            let records = [Some(row.n), row.edited].into_iter().flatten();
            found.extend(records.filter(|n| (from_n..=to_n).contains(n)).map(|n| (n, row.seq)));
        }
        Ok(found)
    }

    pub(crate) fn artifact(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> Result<Option<Artifact>, StoreError> {
        if let Some(kept) = self.db.get(&Key::artifact(Table::Artifact, channel, id))? {
            return Ok(Some(kept));
        }
        self.db.get(&Key::artifact(Table::ExpiredArtifact, channel, id))
    }

    /// The artifacts of a channel that have not expired, with `expired` all.
    pub(crate) fn artifacts(&self, channel: &ChannelId, expired: bool) -> Result<Vec<Artifact>, StoreError> {
        let tables: &[Table] =
            if expired { &[Table::ExpiredArtifact, Table::Artifact] } else { &[Table::Artifact] };
        let mut artifacts = Vec::new();
        for table in tables {
            for item in self.db.scan(&Key::artifacts(*table, channel)) {
                artifacts.push(decode(&item?.1)?);
            }
        }
        Ok(artifacts)
    }

    /// Which of these have expired.
    pub(crate) fn expired(
        &self,
        channel: &ChannelId,
        ids: Vec<ArtifactId>,
    ) -> Result<Vec<ArtifactId>, StoreError> {
        let mut expired = Vec::new();
        for id in ids {
            if self.db.has(&Key::artifact(Table::ExpiredArtifact, channel, &id).0)? {
                expired.push(id);
            }
        }
        Ok(expired)
    }

    /// Whether the words of an entry are known to have expired.
    pub(crate) fn is_expired(&self, channel: &ChannelId, seq: Seq) -> Result<bool, StoreError> {
        Ok(self.seqs(channel, seq, seq).next().transpose()?.is_some_and(|row| row.expired))
    }

    /// The entries whose words have expired, as ranges in their order.
    pub(crate) fn expired_ranges(&self, channel: &ChannelId) -> Result<Vec<(Seq, Seq)>, StoreError> {
        let mut ranges: Vec<(Seq, Seq)> = Vec::new();
        for row in self.seqs(channel, Seq(1), Seq(u64::MAX)) {
            let row = row?;
            match ranges.last_mut() {
                _ if !row.expired => {}
                Some((_, to)) if to.next() == row.seq => *to = row.seq,
                _ => ranges.push((row.seq, row.seq)),
            }
        }
        Ok(ranges)
    }

    /// What the newest calls of a channel's turns took, oldest first: at most so many, of the newest records.
    pub(crate) fn call_usages(
        &self,
        channel: &ChannelId,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Usage)>, StoreError> {
        let mut usages = Vec::new();
        for offset in self.offsets(channel, 0, u64::MAX)?.rev().take(limit * RECORDS_A_CALL) {
            let record = self.journal.read(offset?.at)?;
            if let Event::Turn(TurnEvent::UsageReported { usage, .. }) = record.event {
                usages.push((record.at, usage));
                if usages.len() == limit {
                    break;
                }
            }
        }
        usages.reverse();
        Ok(usages)
    }

    /// Entries of a range; `hides`: as they are shown, deleted and expired ones without their words.
    fn read_entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
        hides: bool,
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for row in self.seqs(channel, from, to).take(limit) {
            let row = row?;
            let entry = if hides { self.shown(channel, row) } else { self.entry(channel, row) };
            entries.push(Arc::new(entry?));
        }
        Ok(entries)
    }

    /// An entry as it is shown: a deleted or expired one without its words.
    pub(super) fn shown(&self, channel: &ChannelId, row: SeqRow) -> Result<Entry, StoreError> {
        let (deleted, expired, copy) = (row.deleted, row.expired, row.copy.clone());
        let mut entry = self.entry(channel, row)?;
        entry.artifact = entry.artifact.or(copy);
        Ok(match (deleted, expired) {
            (true, _) => entry.deleted(),
            (false, true) => entry.expired(),
            (false, false) => entry,
        })
    }

    fn entry(&self, channel: &ChannelId, row: SeqRow) -> Result<Entry, StoreError> {
        let seq = row.seq;
        let missing = || view_error(format!("record {} of entry {seq} is not in the journal", row.n));
        let record = self.record(channel, row.n)?.ok_or_else(missing)?;
        match (record.event, row.taken) {
            (_, Some((turn, generation))) if row.lost => Ok(Entry::lost(seq, &turn, generation, record.at)),
            (Event::Message(MessageEvent::Accepted(pending)), Some((turn, generation))) => {
                let pending = self.edited(channel, pending, row.edited)?;
                Ok(pending.to_entry(seq, &turn, generation))
            }
            (Event::Turn(TurnEvent::EntryAdded { entry }), None) if entry.seq == seq => Ok(entry),
            _ => Err(missing()),
        }
    }

    /// A message as its last edit before a turn took it up left it.
    fn edited(
        &self,
        channel: &ChannelId,
        mut pending: Pending,
        edited: Option<u64>,
    ) -> Result<Pending, StoreError> {
        let Some(n) = edited else { return Ok(pending) };
        match self.record(channel, n)?.map(|record| record.event) {
            Some(Event::Message(MessageEvent::Edited { parts, addressed, fingerprint, tokens, .. })) => {
                pending.parts = parts;
                pending.addressed = addressed;
                pending.fingerprint = fingerprint;
                pending.tokens = tokens;
                Ok(pending)
            }
            _ => Err(view_error(format!("record {n} is not an edit of message {}", pending.message))),
        }
    }

    /// Restores a channel, and says how many records were read beyond its snapshot.
    pub(crate) fn restore(
        &self,
        channel: &ChannelId,
        quarantined: bool,
    ) -> Result<Option<(Conversation, usize)>, StoreError> {
        if !self.db.has(&Key::channel(channel).0)? {
            // A channel that was never seen has no events: it must not begin a second time because its row is lost.
            return match self.db.range(&Key::event(channel, 0), &Key::event(channel, u64::MAX)).next() {
                None => Ok(None),
                Some(_) => Err(view_error("the row of a channel is missing")),
            };
        }
        let snapshot = match self.snapshot(channel) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                tracing::warn!(%channel, %error, "the saved snapshot cannot be used; restoring from the first event");
                None
            }
        };
        let fresh = || Conversation::new(channel.clone());
        if let Some(snapshot) = snapshot {
            match self.replay(snapshot, quarantined) {
                Ok(restored) => return Ok(Some(restored)),
                Err(error) => {
                    tracing::warn!(%channel, %error,
                        "events do not fit the saved snapshot; restoring from the first event");
                }
            }
        }
        self.replay(fresh(), quarantined).map(Some)
    }

    fn snapshot(&self, channel: &ChannelId) -> Result<Option<Conversation>, StoreError> {
        let Some(payload) = self.db.payload(&Key::snapshot(channel).0)? else { return Ok(None) };
        let mut snapshot: Conversation = decode_small(&payload)?;
        let seqs = snapshot.missing_entries();
        let entries = match (seqs.first(), seqs.last()) {
            // As they were said: the snapshot knows which of them were without their words, and the fold does the rest.
            (Some(first), Some(last)) => self.read_entries(channel, *first, *last, usize::MAX, false)?,
            _ => Vec::new(),
        };
        let mut pending = Vec::new();
        for message in snapshot.missing_pending() {
            pending.extend(self.pending(channel, &message)?);
        }
        Ok(snapshot.fill(entries, pending).then_some(snapshot))
    }

    fn pending(&self, channel: &ChannelId, message: &MessageId) -> Result<Option<Pending>, StoreError> {
        let Some(row) = self.message_row(channel, message)? else { return Ok(None) };
        match self.record(channel, row.n)?.map(|record| record.event) {
            Some(Event::Message(MessageEvent::Accepted(pending))) => {
                self.edited(channel, pending, row.edited).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Folds in all events after the conversation's last one.
    fn replay(
        &self,
        mut conversation: Conversation,
        quarantined: bool,
    ) -> Result<(Conversation, usize), StoreError> {
        let mut n_read = 0;
        let channel = conversation.channel.clone();
        let offsets = self.offsets(&channel, conversation.last_n + 1, u64::MAX)?;
        self.journal.read_each(offsets.map(|offset| Ok(offset?.at)), |record, position| {
            n_read += 1;
            self.fold(&mut conversation, &record, position, quarantined)
        })?;
        Ok((conversation, n_read))
    }

    fn fold(
        &self,
        conversation: &mut Conversation,
        record: &Record,
        position: Position,
        quarantined: bool,
    ) -> Result<(), StoreError> {
        let Err(error) = conversation.apply(record) else { return Ok(()) };
        if !quarantined {
            return Err(self.journal.misfit(position, error.to_string()));
        }
        // The line that ended a turn or a run may be among those quarantined.
        match &record.event {
            Event::Turn(TurnEvent::Started { .. }) => conversation.open_turn = None,
            Event::Compaction(CompactionEvent::RunStarted { .. }) => conversation.run = None,
            _ => {}
        }
        if let Err(error) = conversation.apply(record) {
            let (channel, n) = (&conversation.channel, record.n);
            tracing::warn!(%channel, n, %error,
                "skipped an event that no longer fits because journal lines were quarantined");
        }
        Ok(())
    }

    /// A conversation as it was after each of these records of its channel, which are in order.
    pub(crate) fn conversations_at(
        &self,
        channel: &ChannelId,
        at: &[u64],
        quarantined: bool,
    ) -> Result<Vec<Conversation>, StoreError> {
        let (Some(first), Some(last)) = (at.first(), at.last()) else { return Ok(Vec::new()) };
        let snapshot = self.snapshot(channel).unwrap_or_else(|error| {
            tracing::warn!(%channel, %error, "the saved snapshot cannot be used; reading from the first event");
            None
        });
        // There is one alone, mostly of a while ago: it serves for what was said since.
        let snapshot = snapshot.filter(|snapshot| snapshot.last_n <= *first);
        let mut conversation = snapshot.unwrap_or_else(|| Conversation::new(channel.clone()));
        let mut found = Vec::with_capacity(at.len());
        let offsets = self.offsets(channel, conversation.last_n + 1, *last)?;
        self.journal.read_each(offsets.map(|offset| Ok(offset?.at)), |record, position| {
            while at.get(found.len()).is_some_and(|n| *n < record.n) {
                found.push(conversation.clone());
            }
            self.fold(&mut conversation, &record, position, quarantined)
        })?;
        found.resize(at.len(), conversation);
        Ok(found)
    }
}

/// What a block holds, one by one.
fn each<T: Packed>(block: Result<Row, StoreError>) -> std::vec::IntoIter<Result<T, StoreError>> {
    let items = block.and_then(|(_, payload)| unpack(&payload));
    let items: Vec<_> = match items {
        Ok(items) => items.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    };
    items.into_iter()
}

/// The channel of the key of its row.
pub(super) fn channel_of(key: &[u8]) -> Result<ChannelId, StoreError> {
    named(key.get(1..).unwrap_or_default())
}

/// The channel whose name is the last part of a key.
fn named(part: &[u8]) -> Result<ChannelId, StoreError> {
    let name = part.get(..part.len().saturating_sub(1)).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|error| view_error(error.to_string()))?;
    name.parse().map_err(|_| view_error("a channel's name cannot be read"))
}
