//! What a journal record does to the deliveries that are listed.

use cairn_core::event::Record;
use cairn_core::ids::ChannelId;
use cairn_core::ports::{OutboxItem, StoreError};

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
    let Some(id) = OutboxItem::named_by(&record.event) else { return Ok(()) };
    let key = Key::outbox(channel, id);
    let before = changes.get::<OutboxRow>(&key)?;
    let was_owed = before.as_ref().is_some_and(|row| row.item.is_owed());
    let after = match (OutboxItem::intended(channel, record), before) {
        (Some(item), _) => Some(OutboxRow { item, n: record.n }),
        (None, Some(mut row)) => row.item.apply(record).then_some(row),
        (None, None) => return Ok(()),
    };
    let is_owed = after.as_ref().is_some_and(|row| row.item.is_owed());
    state.owed = (state.owed + u64::from(is_owed)).saturating_sub(u64::from(was_owed));
    match after {
        Some(row) => changes.put(key, &row),
        None => {
            changes.remove(key);
            Ok(())
        }
    }
}
