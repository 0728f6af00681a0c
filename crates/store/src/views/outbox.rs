//! What a journal record does to the deliveries that are listed.

use cairn_core::event::{Event, Receipt, Record};
use cairn_core::ids::{ChannelId, OutboxId};
use cairn_core::ports::{DeliveryState, OutboxItem, StoreError};

use super::codec::Key;
use super::db::Changes;
use super::rows::{ChannelState, OutboxRow};

/// Applies an event of a delivery. A draft is none of those that are listed.
pub(super) fn apply(
    changes: &mut Changes<'_>,
    state: &mut ChannelState,
    channel: &ChannelId,
    record: &Record,
) -> Result<(), StoreError> {
    match &record.event {
        Event::OutboxIntended { draft: true, .. } => Ok(()),
        Event::OutboxIntended { id, turn, seq, note, reply_to, edits, draft: false } => {
            let item = OutboxItem {
                id: id.clone(),
                channel: channel.clone(),
                turn: turn.clone(),
                seq: *seq,
                at: record.at,
                note: note.clone(),
                reply_to: reply_to.clone(),
                edits: edits.clone(),
                sent: Vec::new(),
                attempted_at: None,
                state: DeliveryState::Owed,
            };
            let key = Key::outbox(channel, id);
            state.owed += u64::from(!changes.has(&key)?);
            changes.put(key, &OutboxRow { item, n: record.n })
        }
        Event::OutboxAttempted { id, .. } => change(changes, channel, id, |item| {
            item.attempted_at.get_or_insert(record.at);
        }),
        Event::OutboxPutOff { id, .. } => change(changes, channel, id, |item| item.attempted_at = None),
        Event::OutboxSent { id, message, .. } => change(changes, channel, id, |item| {
            item.attempted_at = None;
            item.sent.push(message.clone());
        }),
        Event::OutboxSettled { id, receipt } => {
            let key = Key::outbox(channel, id);
            let was_owed =
                changes.get::<OutboxRow>(&key)?.is_some_and(|row| row.item.state == DeliveryState::Owed);
            state.owed = state.owed.saturating_sub(u64::from(was_owed));
            match receipt {
                Receipt::Delivered { .. } => {
                    changes.remove(key);
                    Ok(())
                }
                Receipt::Dead { reason } => {
                    let dead = DeliveryState::Dead { reason: reason.clone() };
                    change(changes, channel, id, |item| item.state = dead)
                }
                Receipt::Unknown { reason, .. } => {
                    let unknown = DeliveryState::Unknown { reason: reason.clone() };
                    change(changes, channel, id, |item| item.state = unknown)
                }
            }
        }
        Event::OutboxRetried { id } => {
            let mut again = 0;
            change(changes, channel, id, |item| {
                again = u64::from(item.state != DeliveryState::Owed);
                item.state = DeliveryState::Owed;
                item.attempted_at = None;
            })?;
            state.owed += again;
            Ok(())
        }
        Event::OutboxDropped { id } => {
            let key = Key::outbox(channel, id);
            let row = changes.get::<OutboxRow>(&key)?;
            let was_owed = row.is_some_and(|row| row.item.state == DeliveryState::Owed);
            state.owed = state.owed.saturating_sub(u64::from(was_owed));
            changes.remove(key);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn change(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    id: &OutboxId,
    how: impl FnOnce(&mut OutboxItem),
) -> Result<(), StoreError> {
    let key = Key::outbox(channel, id);
    let Some(mut row) = changes.get::<OutboxRow>(&key)? else { return Ok(()) };
    how(&mut row.item);
    changes.put(key, &row)
}
