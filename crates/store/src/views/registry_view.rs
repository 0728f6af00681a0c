//! Pairings, bans, moved chats, the usage of a day, and what was spent: what the daemon knows beside conversations.

use cairn_core::registry::{RegistryState, UsageDay, day_of};
use cairn_core::spend::{SpendKey, SpendSum, spent};
use cairn_types::event::{CompactionEvent, Event, MaintenanceEvent, Record, TurnEvent};
use cairn_types::ports::StoreError;
use jiff::SignedDuration;
use jiff::civil::Date;

use super::changes::Changes;
use super::codec::{Key, Table, decode, spend_key, view_error};
use super::db::Db;

/// Days for which sums of what was spent are kept: a year, and the month that it is compared with.
const SPEND_AGE: SignedDuration = SignedDuration::from_hours(400 * 24);

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
            changes.put_decoded(key, day);
            spend(changes, record)
        }
        _ => Ok(()),
    }
}

/// Adds what a record says was spent, and forgets days that are too old, a few rows at a time: more than are added.
fn spend(changes: &mut Changes<'_>, record: &Record) -> Result<(), StoreError> {
    let added = spent(record);
    for age_key in changes.first(&Key::table(Table::Spend), 2 * added.len())? {
        let day = spend_key(&age_key.0).map(|key| key.day);
        let is_old = day.is_none_or(|day| day_of(record.at).duration_since(day) > SPEND_AGE);
        if !is_old {
            break;
        }
        changes.remove(age_key);
    }
    for (key, added) in added {
        let key = Key::spend(&key);
        let mut sum: SpendSum = changes.get(&key)?.unwrap_or_default();
        sum += added;
        changes.put_decoded(key, sum);
    }
    Ok(())
}

/// What was spent on these days.
pub(crate) fn spent_between(db: &Db, from: Date, to: Date) -> Result<Vec<(SpendKey, SpendSum)>, StoreError> {
    let end = to.tomorrow().unwrap_or(to);
    let rows = db.range(&Key::spend_day(from), &Key::spend_day(end)).map(|row| {
        let (key, payload) = row?;
        let key = spend_key(&key).ok_or_else(|| view_error("the key of what was spent cannot be read"))?;
        Ok((key, decode(&payload)?))
    });
    rows.collect()
}

pub(crate) fn state(db: &Db) -> Result<RegistryState, StoreError> {
    Ok(db.get(&Key::table(Table::PairingStore))?.unwrap_or_default())
}

pub(crate) fn usage_day(db: &Db) -> Result<UsageDay, StoreError> {
    Ok(db.get(&Key::table(Table::Usage))?.unwrap_or_default())
}
