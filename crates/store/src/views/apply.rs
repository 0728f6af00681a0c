//! What a journal record does to the views. A function of the rows and the record alone: replaying the journal onto
//! empty views gives the same rows.

use cairn_core::event::{
    ArtifactEvent, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent, MemoryEvent, MessageEvent,
    Record, TurnEvent, TurnOutcome,
};
use cairn_core::ids::{ChannelId, Generation, LOCAL_PLATFORM, MessageId, Seq, TurnId};
use cairn_core::message::{Entry, LOST_TURN, Pending};
use cairn_core::ports::{OutboxCounts, OutboxItem, StoreError};
use jiff::{SignedDuration, Timestamp};

use super::codec::{Key, Table, encode, trailing_number};
use super::db::Changes;
use super::rows::{COMMAND, CallRow, ChannelState, MessageRow, Meta, OutboxRow, SeqRow, position_bytes};
use super::{memories, pairing_store};
use crate::journal::open::{Checkpoint, last_n};
use crate::journal::segment::Position;

/// Message ids older than this are forgotten (`docs/design/storage.md`).
const MESSAGE_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Most message ids remembered per channel (`docs/design/storage.md`).
const MESSAGES_KEPT: u64 = 100_000;

/// Message ids looked at for forgetting whenever one comes: more than one, so that the number falls.
const FORGOTTEN_AT_ONCE: usize = 3;

/// Applies a record; one that is applied already changes nothing.
pub(crate) fn apply(
    changes: &mut Changes<'_>,
    meta: &mut Meta,
    record: &Record,
    position: Position,
) -> Result<(), StoreError> {
    if record.n <= meta.n {
        return Ok(());
    }
    if let Some(channel) = &record.channel {
        changes.put_bytes(Key::event(channel, record.n), position_bytes(position).to_vec());
        let mut state: ChannelState =
            changes.get(&Key::channel(channel))?.unwrap_or_else(|| ChannelState::new(record.at));
        let was_due = state.is_due();
        state.last_at = record.at;
        state.last_n = record.n;
        in_channel(changes, &mut state, channel, record)?;
        match (was_due, state.is_due()) {
            (false, true) => changes.put_bytes(Key::unfinished(channel), Vec::new()),
            (true, false) => changes.remove(Key::unfinished(channel)),
            _ => {}
        }
        changes.put(Key::channel(channel), &state)?;
        meta.last_at = meta.last_at.max(Some(record.at));
    }
    memories::apply(changes, record)?;
    pairing_store::apply(changes, record)?;
    match &record.event {
        Event::Maintenance(MaintenanceEvent::LinesQuarantined { .. }) => meta.quarantined = true,
        Event::Maintenance(MaintenanceEvent::WordsExpired { channel, entries, .. }) => {
            expire(changes, channel, entries)?
        }
        _ => {}
    }
    if !is_of_no_daemon(&record.event) {
        meta.stopped = Some(matches!(record.event, Event::Maintenance(MaintenanceEvent::DaemonStopped)));
    }
    meta.advance(Checkpoint { n: last_n(&record.event, record.n), position });
    Ok(())
}

/// What may be written while no daemon runs, behind the record of its stop: by an erasure, and by retention by hand.
fn is_of_no_daemon(event: &Event) -> bool {
    match event {
        Event::Maintenance(MaintenanceEvent::PersonErased { .. })
        | Event::Delivery(DeliveryEvent::Dropped { .. }) => true,
        Event::Maintenance(MaintenanceEvent::WordsExpired { .. })
        | Event::Memory(MemoryEvent::Forgotten { .. })
        // By `verify --quarantine`.
        | Event::Artifact(ArtifactEvent::Expired { lost: true, .. }) => true,
        Event::Turn(TurnEvent::Ended(end)) => matches!(end.outcome, TurnOutcome::Stopped),
        _ => false,
    }
}

fn in_channel(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
) -> Result<(), StoreError> {
    match &record.event {
        Event::Message(event) => apply_message(changes, state, channel, record, event),
        Event::Turn(event) => apply_turn(changes, state, channel, record, event),
        Event::Compaction(event) => apply_compaction(changes, state, channel, record, event),
        Event::Delivery(_) => apply_delivery(changes, state, channel, record),
        Event::Maintenance(MaintenanceEvent::LinesQuarantined { next_seq: Some(next_seq), .. }) => {
            state.open = None;
            fill_gap(changes, state, channel, record, &TurnId::from(LOST_TURN), *next_seq)
        }
        Event::Artifact(_)
        | Event::Memory(_)
        | Event::Approval(_)
        | Event::Registry(_)
        | Event::Maintenance(_) => Ok(()),
    }
}

fn apply_message(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    event: &MessageEvent,
) -> Result<(), StoreError> {
    match event {
        MessageEvent::Accepted(pending) => accept(changes, state, channel, record, pending),
        MessageEvent::Edited { message, fingerprint, addressed, .. } => {
            state.awaited |= *addressed && state.pending > 0;
            edit(changes, channel, record, message, fingerprint)
        }
        MessageEvent::Deleted { message, seqs } => delete(changes, channel, message, seqs),
        MessageEvent::CommandTaken { message, .. } | MessageEvent::Refused { message } => {
            see_only(changes, state, channel, record, message)
        }
    }
}

fn apply_turn(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    event: &TurnEvent,
) -> Result<(), StoreError> {
    match event {
        TurnEvent::Started { turn, messages, first_seq } => {
            start_turn(changes, state, channel, record, turn, messages, *first_seq)?;
        }
        TurnEvent::Reopened { turn, messages } => reopen_turn(changes, state, channel, turn, messages)?,
        TurnEvent::EntryAdded { entry } => add_entry(changes, state, channel, record, entry)?,
        TurnEvent::Ended(end) => end_turn(changes, state, channel, record, &end.turn)?,
        TurnEvent::SessionStarted { generation } => start_generation(state, *generation),
        TurnEvent::ToolUsed(used) => {
            let row = CallRow { channel: channel.clone(), tool: used.tool.clone(), outcome: used.outcome };
            changes.put(Key::call(record.n), &row)?;
        }
        TurnEvent::UsageReported { .. }
        | TurnEvent::Interrupted { .. }
        | TurnEvent::Undone { .. }
        | TurnEvent::ModelChosen { .. }
        | TurnEvent::ModelLearnt { .. } => {}
    }
    Ok(())
}

fn apply_compaction(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    event: &CompactionEvent,
) -> Result<(), StoreError> {
    match event {
        CompactionEvent::RunStarted { run } => {
            if let Some(idx) = state.queued.iter().position(|queued| *queued == run.trigger) {
                state.queued.remove(idx);
            }
            state.run = true;
        }
        CompactionEvent::RunQueued { request } => state.queued.push(request.trigger),
        CompactionEvent::EmergencyApplied { .. } => state.owes_run = true,
        CompactionEvent::RunEnded(end) => {
            state.run = false;
            state.owes_run = end.owes_run;
            if let Some(summary) = &end.summary {
                changes.put(Key::summary(channel, &summary.id), &record.n)?;
            }
        }
        CompactionEvent::RunAttemptFailed { .. }
        | CompactionEvent::RunCheckpointed { .. }
        | CompactionEvent::StackRetired { .. }
        | CompactionEvent::WindowSlid { .. }
        | CompactionEvent::ResultsPruned { .. }
        | CompactionEvent::UsageSpent { .. } => {}
    }
    Ok(())
}

fn accept(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    pending: &Pending,
) -> Result<(), StoreError> {
    state.pending += 1;
    state.awaited |= pending.addressed || channel.platform() == LOCAL_PLATFORM;
    if !pending.message.is_correction() {
        state.last_message = Some(pending.message.clone());
    }
    let row = MessageRow {
        n: record.n,
        at: record.at,
        turn: pending.turn.clone(),
        fingerprint: pending.fingerprint.clone(),
        edited: None,
        deleted: false,
        seq: None,
        end: None,
    };
    remember(changes, state, channel, &pending.message, &row)
}

/// A command, or what a limit refused, is seen and done with at once: delivered again, it is passed over.
fn see_only(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    message: &MessageId,
) -> Result<(), StoreError> {
    state.last_message = Some(message.clone());
    if changes.has(&Key::message(channel, message))? {
        return Ok(());
    }
    let row = MessageRow {
        n: record.n,
        at: record.at,
        turn: TurnId::from(COMMAND),
        fingerprint: String::new(),
        edited: None,
        deleted: false,
        seq: None,
        end: Some(record.n),
    };
    remember(changes, state, channel, message, &row)
}

/// Writes how a message id stands since the record that brought it, and forgets old ones.
fn remember(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    message: &MessageId,
    row: &MessageRow,
) -> Result<(), StoreError> {
    let key = Key::message(channel, message);
    match changes.get::<MessageRow>(&key)? {
        Some(before) => changes.remove(Key::age(channel, before.n)),
        None => state.messages += 1,
    }
    changes.put(key, row)?;
    changes.put_bytes(Key::age(channel, row.n), encode(message)?);
    forget_old_messages(changes, state, channel, row.at)
}

/// Forgets the oldest message ids that are too old or too many, a few at a time. Those without an answer yet stay.
fn forget_old_messages(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    now: Timestamp,
) -> Result<(), StoreError> {
    for (age_key, payload) in changes.first(&Key::ages(channel), FORGOTTEN_AT_ONCE)? {
        let message: MessageId = super::codec::decode(&payload)?;
        let key = Key::message(channel, &message);
        let Some(row) = changes.get::<MessageRow>(&key)? else { continue };
        let old = now.duration_since(row.at) > MESSAGE_AGE || state.messages > MESSAGES_KEPT;
        if !old || row.end.is_none() || trailing_number(&age_key) != Some(row.n) {
            break;
        }
        changes.remove(Key(age_key));
        changes.remove(key);
        state.messages -= 1;
    }
    Ok(())
}

fn start_turn(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    turn: &TurnId,
    messages: &[MessageId],
    first_seq: Seq,
) -> Result<(), StoreError> {
    fill_gap(changes, state, channel, record, turn, first_seq)?;
    for message in messages {
        let key = Key::message(channel, message);
        let waiting = changes.get::<MessageRow>(&key)?.filter(|row| row.seq.is_none());
        let taken = Some((turn.clone(), state.generation));
        let seq_row = match waiting {
            Some(row) => {
                state.pending = state.pending.saturating_sub(1);
                let MessageRow { n, edited, deleted, .. } = row;
                changes.put(key, &MessageRow { seq: Some(state.next_seq), ..row })?;
                SeqRow { n, taken, edited, deleted, expired: false, lost: false, end: None }
            }
            None => SeqRow { taken, lost: true, ..SeqRow::of(record.n) },
        };
        changes.put(Key::seq(channel, state.next_seq), &seq_row)?;
        state.next_seq = state.next_seq.next();
    }
    state.awaited &= state.pending > 0;
    state.open = Some((turn.clone(), messages.to_vec()));
    Ok(())
}

fn start_generation(state: &mut ChannelState, generation: Generation) {
    state.generation = generation;
    state.open = None;
    state.run = false;
    state.queued.clear();
    state.owes_run = false;
}

/// The messages of a turn that had ended wait for its end again.
fn reopen_turn(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    turn: &TurnId,
    messages: &[MessageId],
) -> Result<(), StoreError> {
    for message in messages {
        let key = Key::message(channel, message);
        if let Some(row) = changes.get::<MessageRow>(&key)? {
            changes.put(key, &MessageRow { end: None, ..row })?;
        }
    }
    state.open = Some((turn.clone(), messages.to_vec()));
    Ok(())
}

/// The messages of a turn have ended with it.
fn end_turn(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    turn: &TurnId,
) -> Result<(), StoreError> {
    let Some((_, messages)) = state.open.take_if(|open| open.0 == *turn) else { return Ok(()) };
    for message in messages {
        let key = Key::message(channel, &message);
        if let Some(row) = changes.get::<MessageRow>(&key)? {
            changes.put(key, &MessageRow { end: Some(record.n), ..row })?;
        }
    }
    let last = Key::seq(channel, Seq(state.next_seq.0.saturating_sub(1)));
    if let Some(row) = changes.get::<SeqRow>(&last)? {
        changes.put(last, &SeqRow { end: Some(record.n), ..row })?;
    }
    Ok(())
}

/// A pending message says something else.
fn edit(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    record: &Record,
    message: &MessageId,
    fingerprint: &str,
) -> Result<(), StoreError> {
    let key = Key::message(channel, message);
    let Some(row) = changes.get::<MessageRow>(&key)? else { return Ok(()) };
    let (edited, fingerprint) = (Some(record.n), fingerprint.to_owned());
    changes.put(key, &MessageRow { edited, fingerprint, ..row })
}

/// A message and its corrections are shown to nobody any more.
fn delete(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    message: &MessageId,
    seqs: &[Seq],
) -> Result<(), StoreError> {
    let mut keys = vec![Key::message(channel, message)];
    let corrections = changes.first(&Key::corrections(channel, message), usize::MAX)?;
    keys.extend(corrections.into_iter().map(|(key, _)| Key(key)));
    let mut seqs = seqs.to_vec();
    for key in keys {
        if let Some(row) = changes.get::<MessageRow>(&key)? {
            seqs.extend(row.seq);
            changes.put(key, &MessageRow { deleted: true, ..row })?;
        }
    }
    for seq in seqs {
        let key = Key::seq(channel, seq);
        if let Some(row) = changes.get::<SeqRow>(&key)? {
            changes.put(key, &SeqRow { deleted: true, ..row })?;
        }
    }
    Ok(())
}

/// The words of entries are shown to nobody any more.
fn expire(changes: &mut Changes<'_>, channel: &ChannelId, entries: &[(Seq, Seq)]) -> Result<(), StoreError> {
    for seq in entries.iter().flat_map(|(from, to)| from.0..=to.0) {
        let key = Key::seq(channel, Seq(seq));
        if let Some(row) = changes.get::<SeqRow>(&key)? {
            changes.put(key, &SeqRow { expired: true, ..row })?;
        }
    }
    Ok(())
}

fn add_entry(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    entry: &Entry,
) -> Result<(), StoreError> {
    fill_gap(changes, state, channel, record, &entry.turn, entry.seq)?;
    changes.put(Key::seq(channel, entry.seq), &SeqRow::of(record.n))?;
    state.next_seq = entry.seq.next();
    Ok(())
}

/// Numbers that were lost with their lines get a row that says so, as the conversation's fold gives them an entry.
fn fill_gap(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    turn: &TurnId,
    seq: Seq,
) -> Result<(), StoreError> {
    while state.next_seq < seq {
        let taken = Some((turn.clone(), state.generation));
        let row = SeqRow { taken, lost: true, ..SeqRow::of(record.n) };
        changes.put(Key::seq(channel, state.next_seq), &row)?;
        state.next_seq = state.next_seq.next();
    }
    Ok(())
}

/// Applies an event of a delivery. A draft is none of those that are listed.
fn apply_delivery(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
) -> Result<(), StoreError> {
    let Some(id) = OutboxItem::named_by(&record.event) else { return Ok(()) };
    let key = Key::outbox(channel, id);
    let before = changes.get::<OutboxRow>(&key)?;
    let after = match (OutboxItem::intended(channel, record), before.clone()) {
        (Some(item), _) => Some(OutboxRow { item, n: record.n }),
        (None, Some(mut row)) => row.item.apply(record).then_some(row),
        (None, None) => return Ok(()),
    };
    let owed = |row: &Option<OutboxRow>| u64::from(row.as_ref().is_some_and(|row| row.item.is_owed()));
    state.owed = (state.owed + owed(&after)).saturating_sub(owed(&before));
    count_delivery(changes, before.as_ref(), after.as_ref())?;
    match after {
        Some(row) => changes.put(key, &row),
        None => {
            changes.remove(key);
            Ok(())
        }
    }
}

/// Keeps the order of deliveries and their numbers by state.
fn count_delivery(
    changes: &mut Changes<'_>,
    before: Option<&OutboxRow>,
    after: Option<&OutboxRow>,
) -> Result<(), StoreError> {
    let key = Key::table(Table::OutboxCounts);
    let mut counts: OutboxCounts = changes.get(&key)?.unwrap_or_default();
    if let Some(row) = before {
        let count = counts.of(&row.item.state);
        *count = count.saturating_sub(1);
        changes.remove(Key::outbox_order(row.n));
    }
    if let Some(row) = after {
        *counts.of(&row.item.state) += 1;
        changes.put(Key::outbox_order(row.n), &(&row.item.channel, &row.item.id))?;
    }
    changes.put(key, &counts)
}
