//! Reminders by channel, and the channels by when the first of theirs is due.

use std::collections::BTreeMap;

use cairn_core::reminder;
use cairn_core::store_port::Due;
use cairn_types::event::{Event, MessageEvent, Record};
use cairn_types::ids::{ChannelId, ReminderId};
use cairn_types::message::Pending;
use cairn_types::ports::StoreError;
use cairn_types::reminder::Reminder;
use jiff::Timestamp;

use super::archive::Reads;
use super::changes::Changes;
use super::codec::{Key, Table, decode};

/// Channels that are due at once, at the most. The others follow when these have fired.
const DUE_MAX: usize = 4_096;

type Reminders = BTreeMap<ReminderId, Reminder>;

pub(super) fn apply(
    changes: &mut Changes<'_>,
    channel: &ChannelId,
    record: &Record,
) -> Result<(), StoreError> {
    match &record.event {
        Event::Reminder(_) | Event::Message(MessageEvent::Accepted(Pending { reminder: Some(_), .. })) => {}
        _ => return Ok(()),
    }
    let key = Key::reminders(channel);
    let mut reminders: Reminders = changes.get(&key)?.unwrap_or_default();
    let before = first(&reminders);
    reminder::fold(&mut reminders, &record.event);
    let now = first(&reminders);
    if let Some(before) = before.filter(|_| before != now) {
        changes.remove(Key::due(before, channel));
    }
    match now {
        Some(now) => {
            changes.put(Key::due(now, channel), channel)?;
            changes.put(key, &reminders)?;
        }
        None if before.is_some() => changes.remove(key),
        None => {}
    }
    Ok(())
}

fn first(reminders: &Reminders) -> Option<Timestamp> {
    reminders.values().map(|reminder| reminder.due).min()
}

impl Reads<'_> {
    pub(crate) fn due(&self, now: Timestamp) -> Result<Due, StoreError> {
        let mut due = Due::default();
        for item in self.db.scan(&Key::table(Table::Due)) {
            let (key, payload) = item?;
            match Key::due_at(&key) {
                Some(at) if at > now || due.channels.len() == DUE_MAX => {
                    due.next = Some(at);
                    break;
                }
                _ => due.channels.push(decode(&payload)?),
            }
        }
        Ok(due)
    }

    /// The reminders of a channel, or of all by name, at most so many, in the order in which they are due.
    pub(crate) fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> Result<Vec<(ChannelId, Reminder)>, StoreError> {
        let mut found = Vec::new();
        for item in self.db.scan(&channel.map_or_else(|| Key::table(Table::Reminder), Key::reminders)) {
            let (key, payload) = item?;
            let reminders: Reminders = decode(&payload)?;
            let channel = super::archive::channel_of(&key)?;
            found.extend(reminders.into_values().map(|reminder| (channel.clone(), reminder)));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        found.sort_by_key(|(_, reminder)| reminder.due);
        Ok(found)
    }
}
