//! Turns that end before their answer does: what was shown stays, and what it took is counted.

use std::time::Duration;

use cairn_types::event::{Event, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::message::{Entry, Role};
use cairn_types::model::{ModelError, Usage};

use super::common::model::{Kind, Plan, words};
use super::common::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Words at once, and then nothing for an hour.
fn half() -> Plan {
    Plan::SlowBroken(HOUR, "half of it", overloaded())
}

fn bad() -> ModelError {
    no_such_model()
}

fn answers(world: &World) -> Vec<Entry> {
    let entries = world.store.history(&local()).into_iter();
    entries.filter(|entry| entry.role == Role::Assistant).map(|entry| Entry::clone(&entry)).collect()
}

/// What calls of models took, and whether that is an estimate.
fn took(world: &World) -> Vec<(Usage, bool)> {
    let reported = |event: Event| match event {
        Event::Turn(TurnEvent::UsageReported { usage, is_estimate, .. }) => Some((usage, is_estimate)),
        _ => None,
    };
    world.store.events().into_iter().filter_map(reported).collect()
}

fn turn_ends(world: &World) -> Vec<TurnEnd> {
    let end = |event: Event| match event {
        Event::Turn(TurnEvent::Ended(end)) => Some(end),
        _ => None,
    };
    world.store.events().into_iter().filter_map(end).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_turn_said_is_kept_counted_and_shown_to_the_model() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, half());
    let open = live.say("a", "tell me").await;
    settle().await;
    assert!(live.runtime.stop_turn(&local()).await.unwrap());
    assert_eq!(failure_code(open).await, "stopped");
    assert_eq!(answers(&world)[0].text(), "half of it\n[cut short here: the turn was stopped]");
    let (usage, is_estimate) = took(&world)[0];
    assert!(is_estimate && usage.input_tokens > 10 && usage.output_tokens >= 3, "{usage:?}");
    let end = &turn_ends(&world)[0];
    assert_eq!((&end.outcome, end.usage), (&TurnOutcome::Stopped, usage));
    assert_eq!(end.model.as_deref(), Some("fake"));

    assert_eq!(live.ask("b", "go on").await, "re: go on");
    let request = words(&world.model.requests(Kind::Reply)[1]);
    assert!(request.contains("half of it\n[cut short here:"), "{request}");
    let world = world.killed();
    check_coverage(&world.conversation());
    assert_eq!(
        world.conversation().usage_total.output_tokens,
        took(&world)[1].0.output_tokens + usage.output_tokens
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_time_is_over_keeps_what_it_said() {
    let mut world = World::new();
    world.limits.turn_timeout = Duration::from_secs(60);
    let live = world.start().await;
    world.model.plan(Kind::Reply, half());
    assert_eq!(failure_code(live.say("a", "tell me").await).await, "turn_failed");
    assert_eq!(answers(&world)[0].text(), "half of it\n[cut short here: the turn failed]");
    assert_eq!((took(&world).len(), took(&world)[0].0), (1, turn_ends(&world)[0].usage));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_counted_once_and_a_refusal_costs_nothing() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", overloaded()));
    world.model.plan(Kind::Reply, Plan::Broken("lost words", overloaded()));
    assert_eq!(live.ask("a", "tell me").await, "re: tell me");
    let took = took(&world);
    assert_eq!(took.len(), 2, "the broken one and the answer: {took:?}");
    assert_eq!(turn_ends(&world)[0].usage, took[0].0 + took[1].0);
    let texts: Vec<_> = answers(&world).iter().map(Entry::text).collect();
    assert_eq!(texts, ["re: tell me"], "what was given again is not kept twice");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_have_been_read_is_counted_by_our_estimate_and_one_that_was_not_sent_is_free() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", ModelError::Transport("refused".to_owned())));
    world.model.plan(Kind::Reply, Plan::Broken("", ModelError::Broken("closed".to_owned())));
    assert_eq!(live.ask("a", "tell me").await, "re: tell me");
    let took = took(&world);
    assert_eq!(took.len(), 2, "the broken one and the answer: {took:?}");
    let (usage, is_estimate) = took[0];
    assert!(is_estimate && usage.input_tokens > 10 && usage.output_tokens == 0, "{usage:?}");
    assert_eq!(turn_ends(&world)[0].usage, usage + took[1].0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_that_comes_again_is_answered_without_what_was_said_before() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("half of it", bad()));
    assert_eq!(failure_code(live.say("a", "tell me").await).await, "turn_failed");
    assert_eq!(answers(&world)[0].text(), "half of it\n[cut short here: the turn failed]");
    assert_eq!(live.ask("a", "tell me").await, "re: tell me");
    let request = words(&world.model.requests(Kind::Reply)[1]);
    assert!(!request.contains("half of it"), "{request}");
    live.ask("b", "and now?").await;
    let next = words(&world.model.requests(Kind::Reply)[2]);
    assert!(next.contains("re: tell me") && !next.contains("half of it"), "the prefix stays: {next}");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_that_comes_again_after_others_stands_in_the_window_once() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("half of it", bad()));
    assert_eq!(failure_code(live.say("a", "tell me").await).await, "turn_failed");
    live.ask("b", "something else").await;
    assert_eq!(live.ask("a", "tell me").await, "re: tell me");
    let request = words(world.model.requests(Kind::Reply).last().unwrap());
    assert_eq!(request.matches("tell me").count(), 1, "{request}");
    assert!(!request.contains("half of it"), "{request}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_daemon_counts_the_call_that_it_cuts_short() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, half());
    let open = live.say("a", "tell me").await;
    settle().await;
    live.runtime.shutdown(Duration::from_secs(5)).await;
    drop(open);
    assert_eq!((took(&world).len(), answers(&world).len()), (1, 0));
    assert!(world.conversation().open_turn.is_some(), "it is taken up again at the next start");
    let before = took(&world)[0].0;
    let world = world.killed();
    let live = world.start().await;
    assert_eq!(live.ask("a", "tell me").await, "re: tell me");
    assert_eq!(turn_ends(&world)[0].usage, before + took(&world)[1].0);
}
