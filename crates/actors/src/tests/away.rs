//! While the store is away: turns wait for it, and nothing of that counts against them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_types::event::{Event, MaintenanceEvent, TurnEvent};
use cairn_types::ports::{Admission, Answer, Progress, StoreError};
use futures::StreamExt as _;

use super::common::model::{Kind, Plan, words};
use super::common::*;

fn gone() -> StoreError {
    let message = "cannot connect to it: Connection refused".to_owned();
    StoreError::Database { message }
}

fn is_interrupted(event: &Event) -> bool {
    matches!(event, Event::Turn(TurnEvent::Interrupted { .. }))
}

fn has_calls(event: &Event) -> bool {
    matches!(event, Event::Turn(TurnEvent::EntryAdded { entry }) if !entry.tool_calls.is_empty())
}

fn plan_a_call(world: &World) {
    let arguments = serde_json::json!({ "query": "x" });
    world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", arguments)]));
}

/// The store goes away while the model is asked; then the model calls a tool, which cannot be journalled.
async fn turn_without_a_store(change: impl FnOnce(&mut World)) -> (World, Live, Admission) {
    let mut world = World::new().with_tools();
    change(&mut world);
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    plan_a_call(&world);
    let open = live.say("a", "look it up").await;
    world.model.until(1, Kind::Reply).await;
    *world.store.away.lock() = Some(gone());
    gate.add_permits(10);
    settle().await;
    (world, live, open)
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_store_that_is_away_and_goes_on_where_it_was() {
    let (world, _live, open) = turn_without_a_store(|_| {}).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.store.count(is_turn_ended), 0);
    let tries = world.store.refused.load(Ordering::SeqCst);
    assert!((2..=5).contains(&tries), "one each second: {tries}");
    *world.store.away.lock() = None;
    assert_eq!(reply(open).await, "re: look it up");
    assert_eq!(world.model.requests(Kind::Reply).len(), 2, "what the model said is not asked for again");
    assert_eq!(world.store.count(is_interrupted), 0);
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_once_why_the_store_does_not_take_the_answer() {
    let (world, _live, open) = turn_without_a_store(|_| {}).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    *world.store.away.lock() = None;
    let told = open.progress.filter_map(|progress| async {
        match progress {
            Progress::Waiting(why) => Some(why),
            _ => None,
        }
    });
    let told: Vec<_> = told.collect().await;
    assert_eq!(told, [format!("{}; waiting until it takes the answer", gone())]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_store_no_longer_than_a_turn_may_take() {
    let minute = Duration::from_secs(60);
    let (world, _live, open) = turn_without_a_store(|world| world.limits.turn_timeout = minute).await;
    tokio::time::sleep(2 * minute).await;
    *world.store.away.lock() = None;
    let Answer::Failed(failure) = answer(open).await else { panic!("answered") };
    assert!(failure.message.contains("the database: cannot connect"), "{failure:?}");
    assert_eq!(world.store.count(is_turn_ended), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_the_store_can_be_stopped() {
    let (world, live, open) = turn_without_a_store(|_| {}).await;
    assert!(live.runtime.stop_turn(&local()).await.is_err(), "the stop is not journalled yet");
    *world.store.away.lock() = None;
    assert_eq!(failure_code(open).await, "stopped");
    assert_eq!(live.ask("b", "and now?").await, "re: and now?");
}

#[tokio::test(start_paused = true)]
async fn stops_in_order_that_cannot_be_journalled_do_not_count_against_a_turn() {
    let mut world = World::new();
    for _ in 0..4 {
        world.model.plan(Kind::Reply, Plan::Hangs);
        let live = world.start().await;
        let open = live.say("slow", "take your time").await;
        world.model.until(1, Kind::Reply).await;
        *world.store.away.lock() = Some(StoreError::Fenced);
        let in_order = live.runtime.shutdown(Duration::ZERO).await;
        assert_eq!(failure_code(open).await, "stopping");
        world = world.over(world.store.after_kill());
        world.clean_stop = in_order;
    }
    let stopped = |event: &Event| matches!(event, Event::Maintenance(MaintenanceEvent::DaemonStopped));
    assert_eq!(world.store.count(stopped), 0);
    let live = world.start().await;
    assert_eq!(live.ask("slow", "take your time").await, "re: take your time");
    assert_eq!(world.store.count(is_interrupted), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_an_actor_that_hangs_is_not_in_order() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Hangs);
    let _open = live.say("a", "hello").await;
    world.model.until(1, Kind::Reply).await;
    let _gate = world.store.shut();
    assert!(!live.runtime.shutdown(Duration::ZERO).await);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_when_a_turn_is_taken_up_again_does_not_count_against_it() {
    let world = World::new().with_tools();
    let live = world.start().await;
    plan_a_call(&world);
    let _open = live.say("a", "look it up").await;
    world.store.until(1, has_calls).await;
    let at = world.store.events().iter().position(has_calls).unwrap() + 1;
    let mut again = world.over(world.store.after_kill_at(at));
    again.clean_stop = true;
    // The channel is read after a pause, when the store is away already.
    *again.store.bad_restores.lock() = 1;
    let _live = again.start().await;
    for _ in 0..2 {
        again.store.fail_next(gone());
    }
    again.store.until(1, is_turn_ended).await;
    assert!(words(&again.model.requests(Kind::Reply)[0]).contains("interrupted by a restart"));
    assert_eq!(again.store.count(is_interrupted), 0);
}
