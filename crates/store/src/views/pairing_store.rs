//! What the daemon knows beside conversations, in one row each: pairings and chats that moved, and a day's usage.

use cairn_core::event::{CompactionEvent, Event, MaintenanceEvent, Record, TurnEvent};
use cairn_core::pairing_store::{RegistryState, UsageDay};
use cairn_core::ports::StoreError;

use super::codec::{Key, Table};
use super::db::{Changes, Db};

/// Applies what a record says of them.
pub(super) fn apply(changes: &mut Changes<'_>, record: &Record) -> Result<(), StoreError> {
    match &record.event {
        Event::Registry(_) | Event::Maintenance(MaintenanceEvent::PersonErased { .. }) => {
            let key = Key::table(Table::PairingStore);
            let mut state: RegistryState = changes.get(&key)?.unwrap_or_default();
            state.apply(record);
            changes.put(key, &state)
        }
        Event::Turn(TurnEvent::UsageReported { .. })
        | Event::Compaction(CompactionEvent::UsageSpent { .. }) => {
            let key = Key::table(Table::Usage);
            let mut day: UsageDay = changes.get(&key)?.unwrap_or_default();
            day.apply(record);
            changes.put(key, &day)
        }
        _ => Ok(()),
    }
}

pub(crate) fn state(db: &Db) -> Result<RegistryState, StoreError> {
    Ok(db.get(&Key::table(Table::PairingStore))?.unwrap_or_default())
}

pub(crate) fn usage_day(db: &Db) -> Result<UsageDay, StoreError> {
    Ok(db.get(&Key::table(Table::Usage))?.unwrap_or_default())
}
