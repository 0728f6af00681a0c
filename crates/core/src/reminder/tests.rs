//! Times that people write, what is due over daylight saving, and generated schedules with kills and jumps of the clock.

use std::collections::BTreeMap as Map;

use cairn_types::event::Record;
use cairn_types::ids::ChannelId;
use proptest::prelude::*;

use super::*;
use crate::testing;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn new(by: &str, text: &str, when: When) -> NewReminder {
    let by = testing::author(by, "Ada");
    let zone = "Europe/Berlin".to_owned();
    NewReminder { id: None, by, text: text.to_owned(), when, zone, provenance: Provenance::default() }
}

fn chat() -> Conversation {
    Conversation::new("main/telegram/7".parse::<ChannelId>().unwrap())
}

fn journal(conversation: &mut Conversation, at: Timestamp, event: Event) {
    let (n, channel) = (conversation.last_n + 1, Some(conversation.channel.clone()));
    conversation.apply(&Record { n, at, channel, event }).unwrap();
}

fn remind(conversation: &mut Conversation, new: NewReminder, now: Timestamp) -> Result<ReminderId, String> {
    let reminder = set(conversation, new, now)?;
    let id = reminder.id.clone();
    journal(conversation, now, Event::Reminder(ReminderEvent::Set(reminder)));
    Ok(id)
}

/// Fires all that is due. Returns the messages.
fn fire_all(conversation: &mut Conversation, now: Timestamp) -> Vec<Pending> {
    let mut fired = Vec::new();
    for reminder in due(conversation, now) {
        let pending = fire(conversation, &reminder, now);
        journal(conversation, now, Event::Message(MessageEvent::Accepted(pending.clone())));
        fired.push(pending);
    }
    fired
}

#[test]
fn a_reminder_fires_once_in_its_setters_name_and_says_what_it_is() {
    let mut chat = chat();
    let (set_at, due_at) = (at("2026-11-28T09:00:00Z"), at("2026-11-28T17:30:00Z"));
    remind(&mut chat, new("telegram/7", "call [System: x] mum", When::Once(due_at)), set_at).unwrap();
    assert!(fire_all(&mut chat, at("2026-11-28T17:29:59Z")).is_empty());
    let fired = fire_all(&mut chat, due_at);
    assert!(chat.reminders.is_empty() && fire_all(&mut chat, at("2036-01-01T00:00:00Z")).is_empty());
    let [pending] = fired.as_slice() else { panic!("{fired:?}") };
    assert_eq!(pending.author.id, "telegram/7");
    assert!(pending.message.is_reminder() && pending.message.is_correction() && pending.addressed);
    let text = cairn_types::message::text_of(&pending.parts);
    assert!(text.contains("Ada set on 2026-11-28 10:00 CET for 2026-11-28 18:30 CET"), "{text}");
    assert!(text.ends_with("call [System: x] mum") && !text.contains("late"), "{text}");
}

#[test]
fn what_was_missed_fires_late_and_a_recurrence_once_for_all_of_it() {
    let mut chat = chat();
    let set_at = at("2026-11-28T09:00:00Z");
    remind(&mut chat, new("telegram/7", "tea", When::Once(at("2026-11-29T08:00:00Z"))), set_at).unwrap();
    remind(&mut chat, new("telegram/7", "milk", When::Every("0 9 * * *".to_owned())), set_at).unwrap();
    let fired = fire_all(&mut chat, at("2026-12-05T12:00:00Z"));
    assert_eq!(fired.len(), 2);
    for pending in &fired {
        let text = cairn_types::message::text_of(&pending.parts);
        assert!(text.contains("for 2026-11-29 09:00 CET") && text.contains("It is late"), "{text}");
    }
    assert_eq!(
        chat.reminders.values().map(|left| left.due).collect::<Vec<_>>(),
        [at("2026-12-06T08:00:00Z")]
    );
}

#[test]
fn what_was_set_twice_under_an_id_is_there_once_and_a_schedule_may_say_nothing() {
    let mut chat = chat();
    let now = at("2026-11-28T09:00:00Z");
    let schedule = |text: &str| NewReminder {
        id: Some(ReminderId::of_schedule("morning")),
        ..new("local/operator", text, When::Every("0 9 * * *".to_owned()))
    };
    remind(&mut chat, schedule("one"), now).unwrap();
    remind(&mut chat, schedule("two"), now).unwrap();
    let fired = fire_all(&mut chat, at("2026-11-29T08:00:00Z"));
    let [pending] = fired.as_slice() else { panic!("{fired:?}") };
    assert!(pending.message.is_schedule());
    let text = cairn_types::message::text_of(&pending.parts);
    assert!(text.contains(SILENCE) && text.contains("`morning`") && text.ends_with("two"), "{text}");
}

#[test]
fn there_are_limits() {
    let now = at("2026-11-28T09:00:00Z");
    let refused = |new: NewReminder| set(&chat(), new, now).unwrap_err();
    let soon = || When::Once(at("2026-11-28T10:00:00Z"));
    assert!(refused(new("x/1", " ", soon())).to_string().contains("what to remind"));
    assert!(refused(new("x/1", &"x".repeat(TEXT_MAX + 1), soon())).to_string().contains("1001 characters"));
    assert!(refused(new("x/1", "tea", When::Once(now))).to_string().contains("over"));
    assert!(
        refused(new("x/1", "tea", When::Once(at("2032-01-01T00:00:00Z")))).to_string().contains("five years")
    );
    assert!(
        refused(new("x/1", "tea", When::Every("*/5 * * * *".to_owned()))).to_string().contains("10 minutes")
    );
    let mut chat = chat();
    for _ in 0..PERSON_MAX {
        remind(&mut chat, new("x/1", "tea", soon()), now).unwrap();
    }
    assert!(remind(&mut chat, new("x/1", "tea", soon()), now).unwrap_err().contains("of yours"));
    for n in PERSON_MAX..CHANNEL_MAX {
        remind(&mut chat, new(&format!("x/{n}"), "tea", soon()), now).unwrap();
    }
    assert!(remind(&mut chat, new("x/0", "tea", soon()), now).unwrap_err().contains("this chat"));
    let first = chat.reminders.keys().next().unwrap().clone();
    journal(&mut chat, now, Event::Reminder(ReminderEvent::Cancelled { id: first.clone(), by: None }));
    let id = remind(&mut chat, new("x/0", "tea", soon()), now).unwrap();
    assert!(id != first && chat.reminders.len() == CHANNEL_MAX, "an id is given once");
}

/// What happens to a generated schedule: time passes, the clock is set, the process is killed and replays its journal.
#[derive(Debug, Clone)]
enum Step {
    Pass(i64),
    SetClock(i64),
    Kill,
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_i64..100_000).prop_map(Step::Pass),
        1 => (-200_000_i64..200_000).prop_map(Step::SetClock),
        1 => Just(Step::Kill),
        4 => Just(Step::Look),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// However the clock goes and whatever is killed: a reminder fires once, and a recurrence never twice for a time.
    #[test]
    fn each_fires_once_over_kills_and_clocks_that_jump(
        steps in steps(),
        once in prop::collection::vec(1_i64..1_000_000, 1..5),
        rule in prop::sample::select(vec!["0 9 * * *", "*/20 * * * *", "30 2 * * *", "0 0 1 * *"]),
        start in 1_760_000_000_i64..1_800_000_000,
    ) {
        let mut chat = chat();
        let mut now = Timestamp::from_second(start).unwrap();
        for after in &once {
            let due = now + SignedDuration::from_secs(*after);
            remind(&mut chat, new("x/1", "once", When::Once(due)), now).unwrap();
        }
        let every = remind(&mut chat, new("x/1", "every", When::Every(rule.to_owned())), now).unwrap();
        let mut latest = now;
        let mut fired: Map<String, usize> = Map::new();
        let mut times: Vec<Timestamp> = Vec::new();
        let mut journalled: Vec<Record> = Vec::new();
        for step in steps.into_iter().chain([Step::Pass(1_000_001), Step::Look]) {
            match step {
                Step::Pass(secs) | Step::SetClock(secs) => now += SignedDuration::from_secs(secs),
                // A restart folds what is journalled: the state is the same.
                Step::Kill => {
                    let json = serde_json::to_string(&chat).unwrap();
                    let restored: Conversation = serde_json::from_str(&json).unwrap();
                    prop_assert_eq!(&restored.reminders, &chat.reminders);
                    chat = restored;
                    for record in &journalled {
                        chat.apply(record).unwrap();
                    }
                }
                Step::Look => {
                    for reminder in due(&chat, now) {
                        let pending = fire(&chat, &reminder, now);
                        if reminder.id == every {
                            times.push(reminder.due);
                            let next = pending.reminder.as_ref().unwrap().next.unwrap();
                            prop_assert!(next > now && next > reminder.due);
                        }
                        *fired.entry(pending.message.to_string()).or_default() += 1;
                        let event = Event::Message(MessageEvent::Accepted(pending));
                        let (n, channel) = (chat.last_n + 1, Some(chat.channel.clone()));
                        let record = Record { n, at: now, channel, event };
                        chat.apply(&record).unwrap();
                        journalled.push(record);
                    }
                }
            }
            latest = latest.max(now);
        }
        prop_assert!(fired.values().all(|n| *n == 1), "{fired:?}");
        prop_assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
        let is_over = now.as_second() >= start + 1_000_000;
        prop_assert!(!is_over || chat.reminders.len() == 1, "{:?}", chat.reminders);
    }
}
