//! Kills and stops at any moment: nothing accepted is lost, nothing is answered twice.

use std::time::Duration;

use cairn_types::event::{Event, MaintenanceEvent, MessageEvent, TurnEvent, TurnOutcome};

use super::common::model::{Kind, Plan, words};
use super::common::*;

#[tokio::test(start_paused = true)]
async fn after_a_kill_at_any_record_everything_accepted_is_answered_once_and_runs_go_on() {
    let mut world = World::new();
    world.settings.window.window_tokens = 1_300;
    let live = world.start().await;
    for n in 0..12 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
        settle().await;
    }
    assert!(world.store.count(is_run_ended) > 0);
    let n_records = world.store.records().len();
    for n in 1..=n_records {
        let again = world.over(world.store.after_kill_at(n));
        let live = again.start().await;
        settle().await;
        live.ask("last", "are you there?").await;
        settle().await;
        let Some(conversation) = again.store.conversation(&local()) else { panic!("nothing at {n}") };
        check_coverage(&conversation);
        assert!(conversation.pending.is_empty() && conversation.open_turn.is_none(), "open at {n}");
        assert!(conversation.run.is_none(), "a run hangs at {n}");
        let mut taken: Vec<_> =
            again.store.history(&local()).iter().filter_map(|e| e.message.clone()).collect();
        let accepted = again.store.count(|event| matches!(event, Event::Message(MessageEvent::Accepted(_))));
        assert_eq!(taken.len(), accepted, "an accepted message is missing at {n}");
        taken.dedup();
        assert_eq!(taken.len(), accepted, "a message is there twice at {n}");
        assert_eq!(again.store.count(is_turn_ended), accepted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_open_at_three_unclean_stops_goes_to_the_dead_letters() {
    let mut world = World::new();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Hangs);
    let _open = live.say("bad", "crash me").await;
    for _ in 0..2 {
        world = world.killed();
        world.model.plan(Kind::Reply, Plan::Hangs);
        let _live = world.start().await;
        world.model.until(1, Kind::Reply).await;
    }
    world = world.killed();
    let live = world.start().await;
    world.store.until(1, is_turn_ended).await;
    assert!(world.model.requests(Kind::Reply).is_empty(), "it is not tried a fourth time");
    let dead = |event: &Event| matches!(event, Event::Turn(TurnEvent::Ended(end)) if matches!(end.outcome, TurnOutcome::DeadLettered));
    assert_eq!(world.store.count(dead), 1);
    assert_eq!(failure_code(live.say("bad", "crash me").await).await, "dead_letter");
    assert_eq!(live.ask("good", "hello").await, "re: hello");
    assert_eq!(world.store.history(&local())[0].text(), "crash me");
}

#[tokio::test(start_paused = true)]
async fn clean_stops_do_not_count_against_a_turn() {
    let mut world = World::new();
    for _ in 0..4 {
        world.model.plan(Kind::Reply, Plan::Hangs);
        let live = world.start().await;
        let open = live.say("slow", "take your time").await;
        world.model.until(1, Kind::Reply).await;
        live.runtime.shutdown(Duration::from_secs(1)).await;
        assert_eq!(failure_code(open).await, "stopping");
        world = world.over(world.store.after_kill());
        world.clean_stop = true;
    }
    let live = world.start().await;
    assert_eq!(live.ask("slow", "take your time").await, "re: take your time");
    assert_eq!(world.store.count(|event| matches!(event, Event::Turn(TurnEvent::Interrupted { .. }))), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_open_turns_end_and_keeps_what_is_pending() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.say("a", "one").await;
    let pending = live.say("b", "two").await;
    let runtime = live.runtime.clone();
    let stop = tokio::spawn(async move { runtime.shutdown(Duration::from_secs(60)).await });
    settle().await;
    assert!(live.submit(message(&local(), "c", "three")).await.is_err());
    gate.add_permits(1);
    assert_eq!(reply(open).await, "re: one");
    stop.await.unwrap();
    assert_eq!(failure_code(pending).await, "stopping");
    let conversation = world.conversation();
    assert!(conversation.open_turn.is_none(), "no turn begins during a stop");
    assert_eq!(conversation.pending.len(), 1);
    assert!(matches!(world.store.events().last(), Some(Event::Maintenance(MaintenanceEvent::DaemonStopped))));
    assert_eq!(world.store.outlines.lock().len(), 1);
    let again = world.over(world.store.after_kill());
    let live = again.start().await;
    assert_eq!(live.ask("b", "two").await, "re: two");
}

#[tokio::test(start_paused = true)]
async fn a_tool_call_cut_short_by_a_kill_gets_a_result_and_the_turn_goes_on() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let arguments = serde_json::json!({ "query": "x" });
    world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", arguments)]));
    let _open = live.say("a", "look it up").await;
    let called = |event: &Event| matches!(event, Event::Turn(TurnEvent::EntryAdded { entry }) if !entry.tool_calls.is_empty());
    world.store.until(1, called).await;
    let at = world.store.events().iter().position(called).unwrap() + 1;
    let again = world.over(world.store.after_kill_at(at));
    let live = again.start().await;
    assert_eq!(live.ask("a", "look it up").await, "re: look it up");
    assert!(words(&again.model.requests(Kind::Reply)[0]).contains("interrupted by a restart"));
}

#[tokio::test(start_paused = true)]
async fn a_run_survives_a_kill_and_is_done_once() {
    let (world, live) = started().await;
    let _gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    let again = world.killed();
    let _live = again.start().await;
    again.store.until(1, is_run_ended).await;
    settle().await;
    assert_eq!(again.store.count(is_run_started), 1);
    assert_eq!(again.store.saved_memories().len(), 1);
    check_coverage(&again.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_cannot_be_read_is_read_again_until_it_can() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Hangs);
    let _open = live.say("a", "hello").await;
    settle().await;
    let again = world.killed();
    *again.store.bad_restores.lock() = 3;
    let _live = again.start().await;
    again.store.until(1, is_turn_ended).await;
    assert_eq!(again.model.requests(Kind::Reply).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_channel_that_cannot_be_read_is_to_be_sent_again() {
    let (world, live) = started().await;
    *world.store.bad_restores.lock() = 1;
    let refused = live.submit(message(&local(), "a", "hello")).await.err();
    assert!(matches!(refused, Some(cairn_types::ports::Refusal::Unavailable(_))));
    assert_eq!(live.ask("a", "hello").await, "re: hello");
}
