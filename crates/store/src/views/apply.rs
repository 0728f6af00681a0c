//! What a journal record does to the views. A function of the rows and the record alone: replaying the journal onto
//! empty views gives the same rows.

use cairn_types::event::{
    ArtifactEvent, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent, MemoryEvent, MessageEvent,
    Record, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, Generation, LOCAL_PLATFORM, MessageId, Seq, TurnId};
use cairn_types::message::{Entry, LOST_TURN, Pending};
use cairn_types::ports::{OutboxCounts, OutboxItem, StoreError};
use cairn_types::summary::MarkerKind;
use jiff::Timestamp;

use super::blocks::OFFSETS_BLOCK;
use super::changes::Changes;
use super::codec::{Key, Table, encode_small, first_of_block, view_error};
use super::rows::{
    CallRow, ChannelState, DAY, MessageRow, Meta, Offset, OutboxRow, SeqRow, Speaker, SummaryRow,
};
use super::{memories, messages, registry_view, reminders, trail, vectors};
use crate::journal::line::last_n;
use crate::journal::open::Checkpoint;
use crate::journal::segment::Position;

/// Seconds of a channel's own time; message ids that are older are forgotten (`docs/design/storage.md`).
const MESSAGE_AGE: i64 = 30 * DAY;

/// Most message ids remembered per channel, about (`docs/design/storage.md`).
const MESSAGES_KEPT: u64 = 100_000;

/// Messages of a channel from one look at a block of old ones to the next. A look with each message would read all blocks again
/// and again, and take the place of others in the cache.
const LOOK_EVERY: u64 = 8;

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
        let mut state: ChannelState =
            changes.get(&Key::channel(channel))?.unwrap_or_else(|| ChannelState::new(record.at));
        let was_due = state.is_due();
        state.go_on_to(record.at);
        state.last_n = record.n;
        state.outline.take_if(|outline| outline.n < record.n);
        add_offset(changes, &mut state, channel, Offset { n: record.n, at: position })?;
        in_channel(changes, &mut state, channel, record)?;
        reminders::apply(changes, channel, record)?;
        match (was_due, state.is_due()) {
            (false, true) => changes.put_bytes(Key::unfinished(channel), Vec::new()),
            (true, false) => changes.remove(Key::unfinished(channel)),
            _ => {}
        }
        changes.put_decoded(Key::channel(channel), state);
        meta.last_at = meta.last_at.max(Some(record.at));
    }
    memories::apply(changes, record, position)?;
    trail::apply(changes, record, position)?;
    registry_view::apply(changes, record)?;
    match &record.event {
        Event::Maintenance(MaintenanceEvent::LinesQuarantined { .. }) => meta.quarantined = true,
        Event::Maintenance(MaintenanceEvent::WordsExpired { channel, entries, .. }) => {
            expire(changes, channel, entries)?
        }
        Event::Maintenance(MaintenanceEvent::TextKept { id, text }) => {
            changes.put_bytes(Key::text(id), encode_small(text)?);
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
        Event::Artifact(event) => apply_artifact(changes, channel, record.at, event),
        Event::Memory(_)
        | Event::Approval(_)
        | Event::Reminder(_)
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
        MessageEvent::Edited { message, addressed, .. } => {
            state.awaited |= *addressed && state.pending > 0;
            edit(changes, channel, record, message)
        }
        MessageEvent::Deleted { message, seqs } => delete(changes, channel, message, seqs),
        // A command may pass messages that wait: it does not tell how far a channel is taken in.
        MessageEvent::CommandTaken { message, .. } => see_only(changes, state, channel, record, message),
        MessageEvent::Reacted { seq, .. } => {
            change_seq(changes, channel, *seq, |row| row.reactions.push(record.n))
        }
        MessageEvent::SystemSet { .. } => Ok(()),
        MessageEvent::Refused { message } => {
            state.last_message = Some(message.clone());
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
            take_up(changes, state, channel, record, turn, messages, *first_seq)?;
            state.open = Some((turn.clone(), messages.clone()));
        }
        TurnEvent::Joined { turn, messages, first_seq } => {
            take_up(changes, state, channel, record, turn, messages, *first_seq)?;
            if let Some((_, open)) = state.open.as_mut().filter(|open| open.0 == *turn) {
                open.extend_from_slice(messages);
            }
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
        | TurnEvent::HistoryWithheld { .. }
        | TurnEvent::ModelLearnt(_) => {}
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
        CompactionEvent::WindowSlid { marker, .. } => state.owes_run |= marker.kind == MarkerKind::Truncated,
        CompactionEvent::RunEnded(end) => {
            state.run = false;
            state.owes_run = end.owes_run;
            if let Some(ordinal) = end.summary.as_ref().and_then(|summary| summary.id.ordinal()) {
                let key = Key::summary(channel, ordinal);
                let mut rows = changes.items::<SummaryRow>(&key)?.unwrap_or_default();
                rows.push(SummaryRow { ordinal, n: record.n });
                changes.put_items(key, rows);
            }
        }
        CompactionEvent::RunAttemptFailed { .. }
        | CompactionEvent::RunCheckpointed { .. }
        | CompactionEvent::StackRetired { .. }
        | CompactionEvent::ResultsPruned { .. }
        | CompactionEvent::UsageSpent { .. } => {}
    }
    Ok(())
}

fn apply_artifact(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    at: Timestamp,
    event: &ArtifactEvent,
) -> Result<(), StoreError> {
    for id in event.ids() {
        let kept = Key::artifact(Table::Artifact, channel, id);
        let expired = Key::artifact(Table::ExpiredArtifact, channel, id);
        let known = changes.get(&kept)?.or(changes.get(&expired)?);
        let now = match (event, known) {
            (ArtifactEvent::Stored { artifact }, _) => artifact.clone(),
            (_, Some(mut artifact)) => {
                cairn_core::artifact::note(&mut artifact, at, event);
                artifact
            }
            // Its own record was lost.
            (_, None) => continue,
        };
        let (key, other) = if now.expired_at.is_some() { (expired, kept) } else { (kept, expired) };
        changes.put(key, &now)?;
        if changes.has(&other)? {
            changes.remove(other);
        }
        if let (ArtifactEvent::Stored { .. }, Some(seq)) = (event, now.message) {
            change_seq(changes, channel, seq, |row| row.copy = Some(now.id.clone()))?;
        }
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
    if pending.direct && channel.platform() != LOCAL_PLATFORM {
        let key = Key::private(channel);
        if !changes.has(&key)? {
            changes.put_bytes(key, Vec::new());
        }
    }
    let author = Key::speaker(channel, &pending.author.id);
    let mut speaker: Speaker = changes.get(&author)?.unwrap_or_else(|| Speaker::new(pending.at));
    speaker.said(pending.at, &pending.author.name);
    changes.put_decoded(author, speaker);
    let row = MessageRow::of(&pending.message, record, state.now());
    remember(changes, state, channel, row)
}

/// A command, or what a limit refused, is seen and done with at once: delivered again, it is passed over.
fn see_only(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    message: &MessageId,
) -> Result<(), StoreError> {
    if messages::get(changes, channel, message)?.is_some() {
        return Ok(());
    }
    let row = MessageRow { end: Some(record.n), ..MessageRow::of(message, record, state.now()) };
    remember(changes, state, channel, row)
}

/// Writes how a message id stands since the record that brought it, and forgets old ones.
fn remember(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    row: MessageRow,
) -> Result<(), StoreError> {
    state.messages += u64::from(messages::put(changes, channel, row)?);
    forget_old_messages(changes, state, channel)
}

/// Adds a record's offset to the last block of its channel; a full block is followed by a new one.
fn add_offset(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    offset: Offset,
) -> Result<(), StoreError> {
    if state.places > 0 {
        let offsets = changes.items_mut::<Offset>(&Key::event(channel, state.places))?;
        let offsets = offsets.ok_or_else(|| view_error("a block is missing"))?;
        if offsets.len() < OFFSETS_BLOCK {
            offsets.push(offset);
            return Ok(());
        }
    }
    state.places = offset.n;
    changes.put_items(Key::event(channel, offset.n), vec![offset]);
    Ok(())
}

/// Changes how an entry stands, if there is one.
fn change_seq(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    seq: Seq,
    change: impl Fn(&mut SeqRow),
) -> Result<(), StoreError> {
    if let Some(rows) = changes.items_mut::<SeqRow>(&Key::seq(channel, seq))? {
        rows.iter_mut().filter(|row| row.seq == seq).for_each(change);
    }
    Ok(())
}

/// Adds an entry. Numbers are given one after the other.
fn put_seq(changes: &mut Changes<'_>, channel: &ChannelId, row: SeqRow) -> Result<(), StoreError> {
    let key = Key::seq(channel, row.seq);
    match changes.items_mut(&key)? {
        Some(rows) => rows.push(row),
        None if row.seq.0 != first_of_block(row.seq.0) => return Err(view_error("a block is missing")),
        None => changes.put_items(key, vec![row]),
    }
    Ok(())
}

/// Forgets message ids that are too old, of the next block. Those without an answer yet stay.
fn forget_old_messages(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
) -> Result<(), StoreError> {
    if !state.messages.is_multiple_of(LOOK_EVERY) {
        return Ok(());
    }
    // Where there are too many, they are too old sooner: as if they had come at an even pace.
    let oldest = MESSAGE_AGE * MESSAGES_KEPT.cast_signed() / state.messages.max(MESSAGES_KEPT).cast_signed();
    let now = state.now();
    let is_old = |row: &MessageRow| row.end.is_some() && now - row.second > oldest;
    let (looked_at, n_forgotten) = messages::forget_next(changes, channel, state.looked_at.as_ref(), is_old)?;
    state.looked_at = looked_at;
    state.messages -= n_forgotten;
    Ok(())
}

fn take_up(
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
        let waiting = messages::get(changes, channel, message)?.filter(|row| row.seq.is_none());
        let taken = Some((turn.clone(), state.generation));
        let seq_row = match waiting {
            Some(row) => {
                state.pending = state.pending.saturating_sub(1);
                let MessageRow { n, edited, deleted, .. } = row;
                messages::put(changes, channel, MessageRow { seq: Some(state.next_seq), ..row })?;
                SeqRow { taken, edited, deleted, ..SeqRow::of(state.next_seq, n) }
            }
            None => SeqRow { taken, lost: true, ..SeqRow::of(state.next_seq, record.n) },
        };
        put_seq(changes, channel, seq_row)?;
        state.next_seq = state.next_seq.next();
    }
    state.awaited &= state.pending > 0;
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
        if let Some(row) = messages::get(changes, channel, message)? {
            messages::put(changes, channel, MessageRow { end: None, ..row })?;
        }
    }
    // Only the last turn is ever opened again.
    change_seq(changes, channel, Seq(state.next_seq.0.saturating_sub(1)), |row| row.end = None)?;
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
        if let Some(row) = messages::get(changes, channel, &message)? {
            messages::put(changes, channel, MessageRow { end: Some(record.n), ..row })?;
        }
    }
    let last = Seq(state.next_seq.0.saturating_sub(1));
    change_seq(changes, channel, last, |row| row.end = Some(record.n))
}

/// A pending message says something else.
fn edit(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    record: &Record,
    message: &MessageId,
) -> Result<(), StoreError> {
    let Some(row) = messages::get(changes, channel, message)? else { return Ok(()) };
    messages::put(changes, channel, MessageRow { edited: Some(record.n), ..row }).map(drop)
}

/// A message and its corrections are shown to nobody any more.
fn delete(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    message: &MessageId,
    seqs: &[Seq],
) -> Result<(), StoreError> {
    let own = messages::get(changes, channel, message)?;
    let corrections = messages::corrections(changes, channel, message)?;
    let mut seqs = seqs.to_vec();
    for row in own.into_iter().chain(corrections) {
        seqs.extend(row.seq);
        messages::put(changes, channel, MessageRow { deleted: true, ..row })?;
    }
    vectors::remove(changes, channel, seqs.iter().map(|seq| (*seq, *seq)))?;
    seqs.into_iter().try_for_each(|seq| change_seq(changes, channel, seq, |row| row.deleted = true))
}

/// The words of entries are shown to nobody any more.
fn expire(changes: &mut Changes<'_>, channel: &ChannelId, entries: &[(Seq, Seq)]) -> Result<(), StoreError> {
    vectors::remove(changes, channel, entries.iter().copied())?;
    let mut seqs = entries.iter().flat_map(|(from, to)| from.0..=to.0);
    seqs.try_for_each(|seq| change_seq(changes, channel, Seq(seq), |row| row.expired = true))
}

fn add_entry(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
    entry: &Entry,
) -> Result<(), StoreError> {
    fill_gap(changes, state, channel, record, &entry.turn, entry.seq)?;
    put_seq(changes, channel, SeqRow::of(entry.seq, record.n))?;
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
        put_seq(changes, channel, SeqRow { taken, lost: true, ..SeqRow::of(state.next_seq, record.n) })?;
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
        if row.item.is_owed() {
            changes.remove(Key::owed_to(&row.item.channel).number(row.n));
        }
    }
    if let Some(row) = after {
        *counts.of(&row.item.state) += 1;
        let named = (&row.item.channel, &row.item.id);
        changes.put(Key::outbox_order(row.n), &named)?;
        if row.item.is_owed() {
            changes.put(Key::owed_to(&row.item.channel).number(row.n), &named)?;
        }
    }
    changes.put(key, &counts)
}
