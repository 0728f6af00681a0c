//! Reminders: what may be set, when each fires, and the message that it becomes.

mod phrase;
mod rule;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::conversation::Conversation;
use cairn_types::event::{Event, MessageEvent, ReminderEvent};
use cairn_types::ids::ReminderId;
use cairn_types::message::{Author, Part, Pending, Provenance, fingerprint, pending_tokens};
use cairn_types::reminder::{Fired, Reminder};
use cairn_types::text::escape::escape_name;
use cairn_types::texts::{Key, Saying};

use crate::silence::SILENCE;

pub use phrase::{When, read};
pub use rule::{PERIOD_MIN, Rule};

/// Most reminders of one person in a channel.
pub const PERSON_MAX: usize = 20;

/// Most reminders of a channel, of schedules too.
pub const CHANNEL_MAX: usize = 50;

/// Longest text of a reminder, in characters.
pub const TEXT_MAX: usize = 1_000;

/// A reminder is set for at most five years ahead.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(5 * 366 * 24);

/// A reminder that fires later than this says that it is late.
const LATE: SignedDuration = SignedDuration::from_mins(5);

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReminder {
    /// `None`: it gets the next number of its channel. A reminder of the same id is replaced.
    pub id: Option<ReminderId>,
    pub by: Author,
    pub text: String,
    pub when: When,
    /// An IANA time zone.
    pub zone: String,
    /// Whose text it may hold besides that of `by`.
    pub provenance: Provenance,
}

/// The time zone of that name; UTC where there is none.
pub fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// The five fields of a recurrence that is written as after `every`.
///
/// # Errors
/// It is none. The message says why.
pub fn rule_of(every: &str) -> Result<String, Saying> {
    let phrase = format!("every {}", every.trim());
    match read(&phrase, Timestamp::UNIX_EPOCH, &TimeZone::UTC)? {
        (When::Every(rule), "") => Rule::read(&rule).map(|_| rule),
        _ => Err(Key::ReminderHow.into()),
    }
}

/// Checks a request against the limits, and gives it an id.
///
/// # Errors
/// It is empty, too long, in the past, too far ahead, too frequent, or there are too many. The message says which.
pub fn set(conversation: &Conversation, new: NewReminder, now: Timestamp) -> Result<Reminder, Saying> {
    let NewReminder { id, by, text, when, zone: zone_name, provenance } = new;
    let text = text.trim();
    if text.is_empty() {
        return Err(Key::ReminderNoText.into());
    }
    let n_chars = text.chars().count();
    if n_chars > TEXT_MAX {
        return Err(Key::ReminderTooLong.with("chars", n_chars).with("max", TEXT_MAX));
    }
    let (due, rule) = match when {
        When::Once(at) => (at, None),
        When::Every(text) => {
            let rule = Rule::read(&text)?;
            let next = rule.next(now, &zone(&zone_name)).ok_or(Key::ReminderNever)?;
            (next, Some(text))
        }
    };
    if due <= now {
        return Err(Key::ReminderOver.into());
    }
    if rule.is_none() && due.duration_since(now) > AHEAD_MAX {
        return Err(Key::ReminderFar.into());
    }
    let known = &conversation.reminders;
    let replaces = id.as_ref().is_some_and(|id| known.contains_key(id));
    let of_person = known.values().filter(|reminder| reminder.by.id == by.id && !reminder.id.is_schedule());
    let is_schedule = id.as_ref().is_some_and(ReminderId::is_schedule);
    if !is_schedule && of_person.count() >= PERSON_MAX {
        return Err(Key::ReminderPersonMax.with("max", PERSON_MAX));
    }
    if !replaces && known.len() >= CHANNEL_MAX {
        return Err(Key::ReminderChatMax.with("max", CHANNEL_MAX));
    }
    let id = id.unwrap_or_else(|| ReminderId::from((conversation.newest_reminder + 1).to_string()));
    let text = text.to_owned();
    Ok(Reminder { id, by, text, due, rule, zone: zone_name, set_at: now, provenance })
}

/// Folds in that a reminder was set or cancelled. Whatever names an unknown one changes nothing: its record may be erased.
pub fn fold(reminders: &mut BTreeMap<ReminderId, Reminder>, event: &Event) {
    match event {
        Event::Reminder(ReminderEvent::Set(reminder)) => {
            reminders.insert(reminder.id.clone(), reminder.clone());
        }
        Event::Reminder(ReminderEvent::Cancelled { id, .. }) => drop(reminders.remove(id)),
        Event::Message(MessageEvent::Accepted(Pending { reminder: Some(done), .. })) => {
            fired(reminders, done)
        }
        _ => {}
    }
}

/// Folds in that a reminder has fired.
pub(crate) fn fired(reminders: &mut BTreeMap<ReminderId, Reminder>, fired: &Fired) {
    match (reminders.get_mut(&fired.id), fired.next) {
        (Some(reminder), Some(next)) => reminder.due = next,
        _ => drop(reminders.remove(&fired.id)),
    }
}

/// The reminders that are due, in their order.
pub fn due(conversation: &Conversation, now: Timestamp) -> Vec<Reminder> {
    let due = conversation.reminders.values().filter(|reminder| reminder.due <= now);
    let mut due: Vec<Reminder> = due.cloned().collect();
    due.sort_by_key(|reminder| reminder.due);
    due
}

/// The message that a reminder becomes. It stands for all times up to now, and says when the next one is.
pub fn fire(conversation: &Conversation, reminder: &Reminder, now: Timestamp) -> Pending {
    let zone = zone(&reminder.zone);
    let rule = reminder.rule.as_deref().and_then(|rule| Rule::read(rule).ok());
    let next = rule.and_then(|rule| rule.next(now, &zone));
    let parts = vec![Part::text(frame(reminder, &zone, now)), Part::text(reminder.text.as_str())];
    let mut pending = Pending {
        message: reminder.message(),
        turn: conversation.next_turn(),
        at: now,
        fingerprint: fingerprint(&reminder.by, &parts),
        author: reminder.by.clone(),
        parts,
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        provenance: reminder.provenance.clone(),
        spoken: false,
        reminder: Some(Fired { id: reminder.id.clone(), next }),
        tokens: 0,
    };
    pending.tokens = pending_tokens(&pending);
    pending
}

/// What the model is told of a reminder, before its text.
fn frame(reminder: &Reminder, zone: &TimeZone, now: Timestamp) -> String {
    let Reminder { id, by, due, set_at, .. } = reminder;
    let (due_at, set_at) = (local_time(*due, zone), local_time(*set_at, zone));
    let late = if now.duration_since(*due) > LATE {
        format!(" It is late: it is {} now. Say so.", local_time(now, zone))
    } else {
        String::new()
    };
    if id.is_schedule() {
        return format!(
            "(This is the schedule `{}` of {due_at}, not a message of a person.{late} If there is nothing to say, write {SILENCE} \
             and nothing else. Do what it says:)",
            id.as_str().trim_start_matches("schedule:")
        );
    }
    format!(
        "(This is reminder {id}, which {} set on {set_at} for {due_at}, not a message of now.{late} Remind of it, or do what it \
         asks:)",
        escape_name(&by.name)
    )
}

/// The text of a reminder that fires, of the message that it became; `None`: the message is no reminder.
pub fn fired_text(message: &str) -> Option<&str> {
    let (frame, text) = message.split_once(":)\n")?;
    frame.starts_with("(This is reminder ").then_some(text)
}

/// A time as people read it, in a zone.
pub fn local_time(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string()
}

/// The beginning of a text that is quoted in an error.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
