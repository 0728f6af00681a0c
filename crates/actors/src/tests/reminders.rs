//! Reminders: each fires once, over kills, jumps of the clock and failures, and what was missed says that it is late.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_core::reminder::{NewReminder, When};
use cairn_core::silence::SILENCE;
use cairn_types::event::{DeliveryEvent, Event, MessageEvent, NewRecord, RegistryEvent, ReminderEvent};
use cairn_types::ids::ReminderId;
use cairn_types::message::{Author, Provenance};
use cairn_types::ports::StoreError;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::common::model::{Kind, Plan, words};
use super::common::*;
use crate::RuntimeError;

const HOUR: i64 = 3_600;

/// When the tests begin.
fn begin() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn after(secs: i64) -> When {
    When::Once(begin() + SignedDuration::from_secs(secs))
}

fn by_ada(text: &str, when: When) -> NewReminder {
    let by = Author { id: "fake/ada".to_owned(), name: "Ada".to_owned() };
    let provenance = Provenance::default();
    NewReminder { id: None, by, text: text.to_owned(), when, zone: "UTC".to_owned(), provenance }
}

async fn remind(live: &Live, new: NewReminder) -> ReminderId {
    live.runtime.set_reminder(&group(), new, true).await.unwrap().id
}

fn is_fired(event: &Event) -> bool {
    matches!(event, Event::Message(MessageEvent::Accepted(pending)) if pending.reminder.is_some())
}

fn fired(world: &World) -> usize {
    world.store.count(is_fired)
}

#[tokio::test(start_paused = true)]
async fn a_reminder_starts_a_turn_at_its_time_and_answers_no_message() {
    let (world, live) = started().await;
    live.ask_in_group("a", "hello").await;
    remind(&live, by_ada("tea", after(2 * HOUR))).await;
    tokio::time::sleep(Duration::from_secs(7_000)).await;
    assert_eq!(fired(&world), 0);
    world.store.until(2, is_settled).await;
    let asked = last_request(&world);
    assert!(
        asked.contains("reminder 1, which Ada set on 2026-01-01 00:00 UTC for 2026-01-01 02:00 UTC"),
        "{asked}"
    );
    assert!(asked.contains("tea") && !asked.contains("late"), "{asked}");
    assert_eq!(world.net.words(&group()).len(), 2);
    let answers_nothing =
        |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Intended { reply_to: None, .. }));
    assert_eq!(world.store.count(answers_nothing), 1);
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(fired(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_fires_late_once_after_a_kill_at_each_moment() {
    let (world, live) = started().await;
    remind(&live, by_ada("tea", after(HOUR))).await;
    remind(&live, by_ada("milk", When::Every("0 * * * *".to_owned()))).await;
    drop(live);
    world.off.store(50 * HOUR, Ordering::SeqCst);
    let n_set = world.store.records().len();
    let whole = fires_two(&world.over(world.store.after_kill_at(n_set))).await;
    for n in n_set..whole {
        let first = world.over(world.store.after_kill_at(n_set));
        fires_two(&first).await;
        let again = first.over(first.store.after_kill_at(n));
        fires_two(&again).await;
    }
}

/// Starts over a store with a reminder that is over and one that recurs. Returns how many records there are in the end.
async fn fires_two(world: &World) -> usize {
    let live = world.start().await;
    world.store.until(2, is_fired).await;
    world.store.until(1, is_turn_ended).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(fired(world), 2);
    let said: Vec<String> = world.store.history(&group()).iter().map(|entry| entry.text()).collect();
    for text in ["tea", "milk"] {
        let of = said.iter().filter(|said| said.starts_with("(This is") && said.ends_with(text));
        let of = of.filter(|said| said.contains("It is late"));
        assert_eq!(of.count(), 1, "{said:?}");
    }
    let left = live.runtime.reminders(None, 10).await.unwrap();
    assert_eq!(left.iter().map(|(_, left)| left.text.as_str()).collect::<Vec<_>>(), ["milk"]);
    world.store.records().len()
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_forward_is_noticed_within_a_minute_and_one_put_back_repeats_nothing() {
    let (world, live) = started().await;
    remind(&live, by_ada("tea", after(24 * HOUR))).await;
    remind(&live, by_ada("milk", When::Every("0 9 * * *".to_owned()))).await;
    settle().await;
    world.off.store(30 * HOUR, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(61)).await;
    world.store.until(2, is_fired).await;
    world.off.store(-30 * HOUR, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(fired(&world), 2);
    // The next ones are at nine of the second and the third day, by the clock as it is now.
    tokio::time::sleep(Duration::from_secs((30 + 2 * 24 + 10) * 3_600)).await;
    assert_eq!(fired(&world), 4);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_and_an_alarm_that_fails_put_it_off() {
    let (world, live) = started().await;
    remind(&live, by_ada("tea", after(HOUR))).await;
    *world.store.away.lock() = Some(StoreError::DiskFull { path: "/state".to_owned() });
    tokio::time::sleep(Duration::from_secs(4_000)).await;
    assert_eq!(fired(&world), 0);
    *world.store.away.lock() = None;
    world.bomb.store(true, Ordering::SeqCst);
    world.store.until(1, is_fired).await;
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(fired(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_one_and_one_of_a_banned_person_never_fire() {
    let (world, live) = started().await;
    let first = remind(&live, by_ada("tea", after(HOUR))).await;
    remind(&live, by_ada("milk", after(HOUR))).await;
    let group = group();
    let cancel = |owner| live.runtime.cancel_reminder(&group, &first, "fake/ben", owner);
    assert!(matches!(cancel(Some("fake/ben")).await, Err(RuntimeError::Reminder(_))));
    assert_eq!(cancel(None).await.unwrap().text, "tea");
    assert!(matches!(cancel(None).await, Err(RuntimeError::Reminder(_))));
    let ban = RegistryEvent::BanSet {
        user: "fake/ada".to_owned(),
        reason: None,
        until: None,
        by: "local/operator".to_owned(),
    };
    world.store.push(vec![NewRecord { channel: None, at: begin(), event: Event::Registry(ban) }]);
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(fired(&world), 0);
    let cancelled = |event: &Event| matches!(event, Event::Reminder(ReminderEvent::Cancelled { .. }));
    assert_eq!(world.store.count(cancelled), 2);
    assert!(live.runtime.reminders(Some(&group), 10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_schedule_may_say_nothing_also_in_a_private_chat() {
    let (world, live) = started().await;
    let schedule = NewReminder {
        id: Some(ReminderId::of_schedule("morning")),
        ..by_ada("Anything new?", When::Every("0 9 * * *".to_owned()))
    };
    live.runtime.set_reminder(&local(), schedule, true).await.unwrap();
    world.model.plan(Kind::Reply, Plan::Text(SILENCE.to_owned()));
    world.store.until(1, is_turn_ended).await;
    assert!(words(&world.model.requests(Kind::Reply)[0]).contains("schedule `morning`"));
    let silent = |event: &Event| {
        let Event::Turn(cairn_types::event::TurnEvent::Ended(end)) = event else { return false };
        end.outcome == cairn_types::event::TurnOutcome::Silent
    };
    assert_eq!(world.store.count(silent), 1);
    tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
    world.store.until(2, is_turn_ended).await;
    assert_eq!((fired(&world), world.store.count(silent)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_model_sets_reminders_for_who_asks_and_they_count_as_all_that_it_saw() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let set = json!({ "text": "tea", "after": "2h" });
    world.model.plan(Kind::Reply, Plan::Calls(vec![("remind", set), ("remind", json!({ "text": "x" }))]));
    live.ask_in_group("a", "remind me of tea in two hours").await;
    let found = live.runtime.reminders(Some(&group()), 10).await.unwrap();
    let [(_, reminder)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((reminder.text.as_str(), reminder.id.as_str()), ("tea", "2-1"));
    assert!(reminder.provenance.people.contains(&reminder.by.id), "{reminder:?}");
    world.store.until(1, is_fired).await;
    world.store.until(2, is_turn_ended).await;
    assert!(last_request(&world).contains("reminder 2-1"));
    // Another one may not follow at once.
    let again = json!({ "text": "more", "after": "1m" });
    world.model.plan(Kind::Reply, Plan::Calls(vec![("remind", json!({ "text": "tea", "after": "2h" }))]));
    live.ask_in_group("b", "once more").await;
    world.model.plan(Kind::Reply, Plan::Calls(vec![("remind", again)]));
    world.store.until(2, is_fired).await;
    world.store.until(4, is_turn_ended).await;
    assert!(live.runtime.reminders(None, 10).await.unwrap().is_empty());
}
