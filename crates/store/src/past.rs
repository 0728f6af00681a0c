//! The past: the records of a turn or a run, and conversations and memories as they were after a record.

use cairn_core::conversation::Conversation;
use cairn_core::trace::{TurnRecords, WhichTurn, is_of_run};
use cairn_types::event::{CompactionEvent, DeliveryEvent, Event, MessageEvent, Receipt, Record, TurnEvent};
use cairn_types::ids::{ChannelId, MemoryId, MessageId, OutboxId, RunId, TurnId};
use cairn_types::memory::Memory;
use cairn_types::ports::StoreError;
use jiff::Timestamp;

use crate::files::disk::Layout;
use crate::index::search::matched;
use crate::journal::open::Checkpoint;
use crate::journal::reader::Follower;
use crate::store::{Inner, Store};
use crate::views::archive::Reads;
use crate::views::changes::Changes;
use crate::views::db::Db;
use crate::views::{Meta, memories};

/// How many records before a turn are looked at for its messages, which may have waited for long.
const BEFORE_MAX: usize = 10_000;

impl Store {
    /// The records of a turn; `None`: the channel has no such turn.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn turn_records(
        &self,
        channel: &ChannelId,
        which: WhichTurn,
    ) -> Result<Option<TurnRecords>, StoreError> {
        let channel = channel.clone();
        self.read("reading a turn", move |_, reads| turn_records(reads, &channel, which)).await
    }

    /// The records that tell of a compaction run, in order; none: the channel has no such run.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn run_records(&self, channel: &ChannelId, run: RunId) -> Result<Vec<Record>, StoreError> {
        let channel = channel.clone();
        let read = move |inner: &Inner, reads: &Reads<'_>| {
            let mut found = Vec::new();
            for offset in reads.offsets(&channel, 1, u64::MAX)?.rev() {
                inner.goes_on()?;
                let record = reads.journal.read(offset?.at)?;
                if !is_of_run(&record.event, &run) {
                    continue;
                }
                let is_start = matches!(record.event, Event::Compaction(CompactionEvent::RunStarted { .. }));
                found.push(record);
                if is_start {
                    break;
                }
            }
            found.reverse();
            Ok(found)
        };
        self.read("reading a run", read).await
    }

    /// A conversation as it was after each of these records of its channel, which are in order. The channel is read up to
    /// there: from its kept snapshot on, where that is older, else from its first record.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn conversations_at(
        &self,
        channel: &ChannelId,
        at: Vec<u64>,
    ) -> Result<Vec<Conversation>, StoreError> {
        let channel = channel.clone();
        let read = move |_: &Inner, reads: &Reads<'_>| {
            let quarantined = reads.db.meta()?.is_some_and(|meta| meta.quarantined);
            reads.conversations_at(&channel, &at, quarantined)
        };
        self.read("reading a conversation of the past", read).await
    }

    /// Memories as they were after a record, at that time; those that were forgotten since are not there. Where one was
    /// changed since, the journal is read up to there.
    ///
    /// # Errors
    /// A view or the journal failed.
    pub async fn memories_at(
        &self,
        ids: Vec<MemoryId>,
        n: u64,
        at: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        self.read("reading memories of the past", move |inner, reads| {
            let mut found = Vec::with_capacity(ids.len());
            for id in &ids {
                found.extend(memories::get(reads.db, id)?);
            }
            if found.iter().any(|memory| memory.updated_at > at) {
                let now: Vec<MemoryId> = found.into_iter().map(|memory| memory.id).collect();
                found = replayed(inner, &now, n)?;
            }
            Ok(found)
        })
        .await
    }
}

/// The words of a question by which a memory was found, as the question has them.
pub fn matched_words(question: &str, memory: &Memory) -> Vec<String> {
    matched(question, memory)
}

/// Memories as the journal's records up to one of them make them.
fn replayed(inner: &Inner, ids: &[MemoryId], n: u64) -> Result<Vec<Memory>, StoreError> {
    let (db, mut meta) = (Db::in_memory(), Meta::default());
    let mut follower = Follower::new(&Layout::of(&inner.options.dir).journal, Checkpoint::default());
    let durable = inner.durable().tail;
    let mut changes = Changes::new(&db);
    while let Some((record, position)) = follower.next(&durable)? {
        inner.goes_on()?;
        if record.n > n {
            break;
        }
        memories::apply(&mut changes, &record, position)?;
    }
    changes.write(&mut meta)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(memories::get(&db, id)?);
    }
    Ok(found)
}

/// What is looked for, from the newest record of a channel back.
struct Search {
    which: WhichTurn,
    /// The delivery that has brought the message that is looked for.
    delivery: Option<OutboxId>,
    /// The turn that is meant, once it is known which.
    turn: Option<TurnId>,
}

impl Search {
    /// Whether this record begins the turn.
    fn is_it(&mut self, record: &Record) -> bool {
        match &record.event {
            Event::Turn(TurnEvent::Joined { turn, messages, .. })
                if matches!(self.which, WhichTurn::Message(_)) && self.takes(turn, record, messages) =>
            {
                self.turn.get_or_insert_with(|| turn.clone());
            }
            Event::Turn(TurnEvent::Reopened { turn, .. }) if self.takes(turn, record, &[]) => {
                self.turn.get_or_insert_with(|| turn.clone());
            }
            Event::Delivery(DeliveryEvent::Sent { id, message, .. }) if self.wants(message) => {
                self.delivery = Some(id.clone());
            }
            Event::Delivery(DeliveryEvent::Settled { id, receipt: Receipt::Delivered { messages } })
                if messages.iter().any(|message| self.wants(message)) =>
            {
                self.delivery = Some(id.clone());
            }
            Event::Delivery(DeliveryEvent::Intended { id, turn, .. })
                if self.delivery.as_ref() == Some(id) =>
            {
                self.turn.get_or_insert_with(|| turn.clone());
            }
            Event::Turn(TurnEvent::Started { turn, messages, .. }) => {
                return match &self.turn {
                    Some(known) => known == turn,
                    None => self.takes(turn, record, messages),
                };
            }
            _ => {}
        }
        false
    }

    fn takes(&self, turn: &TurnId, record: &Record, messages: &[MessageId]) -> bool {
        match &self.which {
            WhichTurn::Last => true,
            WhichTurn::Id(id) => id == turn,
            WhichTurn::At(at) => record.at <= *at,
            WhichTurn::Message(id) => messages.iter().any(|message| message == id || message.is_of(id)),
        }
    }

    fn wants(&self, message: &MessageId) -> bool {
        matches!(&self.which, WhichTurn::Message(id) if id == message)
    }
}

fn turn_records(
    reads: &Reads<'_>,
    channel: &ChannelId,
    which: WhichTurn,
) -> Result<Option<TurnRecords>, StoreError> {
    let mut search = Search { which, delivery: None, turn: None };
    // Newest first: those of the turn after it are let go when it turns out that it is not meant.
    let (mut later, mut after): (Vec<Record>, Option<TurnId>) = (Vec::new(), None);
    let mut offsets = reads.offsets(channel, 1, u64::MAX)?.rev();
    let found = loop {
        let Some(offset) = offsets.next() else { return Ok(None) };
        let record = reads.journal.read(offset?.at)?;
        let is_it = search.is_it(&record);
        let started = match &record.event {
            Event::Turn(TurnEvent::Started { turn, messages, .. }) => Some((turn.clone(), messages.clone())),
            _ => None,
        };
        later.push(record);
        match started {
            Some(started) if is_it => break started,
            Some((turn, _)) => {
                after = Some(turn);
                later.clear();
            }
            None => {}
        }
    };
    let (turn, messages) = found;
    let (mut missing, mut before): (Vec<MessageId>, _) = (messages, None);
    for offset in offsets.take(BEFORE_MAX) {
        let record = reads.journal.read(offset?.at)?;
        match &record.event {
            Event::Message(MessageEvent::Accepted(pending)) => {
                missing.retain(|message| *message != pending.message);
            }
            Event::Turn(TurnEvent::Started { turn, .. }) if before.is_none() => before = Some(turn.clone()),
            _ => {}
        }
        later.push(record);
        if missing.is_empty() && before.is_some() {
            break;
        }
    }
    later.reverse();
    Ok(Some(TurnRecords { turn, records: later, before, after }))
}
