//! When no model answers: people are told once, and answered later.

use std::time::Duration;

use cairn_types::event::{DeliveryEvent, Event, TurnEvent, TurnOutcome};
use cairn_types::model::ModelError;
use cairn_types::ports::{Answer, Progress};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::common::model::{Kind, Plan};
use super::common::net::Act;
use super::common::*;

const KEPT: &str = "Your message is kept";

fn down() -> Plan {
    Plan::Broken("", ModelError::Transport("refused".to_owned()))
}

fn is_note(event: &Event) -> bool {
    matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(note), .. }) if note.contains(KEPT))
}

#[tokio::test(start_paused = true)]
async fn when_no_model_answers_people_are_told_once_and_answered_later() {
    let (world, live) = started().await;
    for _ in 0..40 {
        world.model.plan(Kind::Reply, down());
    }
    let start = Instant::now();
    let open = live.say_in_group("a", "hello").await;
    world.net.until(1, is_sent).await;
    assert!(start.elapsed() < Duration::from_secs(6), "within seconds: {:?}", start.elapsed());
    assert!(world.net.words(&group())[0].contains(KEPT));
    let before = world.net.acts().len();
    assert_eq!(reply(open).await, "re: hello");
    assert!(start.elapsed() > world.limits.turn_timeout, "no time limit while it waits");
    let meanwhile = world.net.acts()[before..].iter().filter(|act| matches!(act, Act::Typing { .. })).count();
    assert!(meanwhile <= 1, "typing is not shown while nothing happens");
    world.store.until(2, is_settled).await;
    assert_eq!(world.store.count(is_note), 1);
    assert_eq!(world.net.words(&group())[1], "re: hello");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_after_a_failure_does_not_keep_people_waiting() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, down());
    world.model.plan(Kind::Reply, Plan::Hangs);
    let start = Instant::now();
    let _open = live.say_in_group("a", "hello").await;
    world.store.until(1, is_note).await;
    assert_eq!(start.elapsed(), world.limits.tell_after);
}

#[tokio::test(start_paused = true)]
async fn a_short_failure_is_not_worth_a_note() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, down());
    world.model.plan(Kind::Reply, down());
    assert_eq!(live.ask_in_group("a", "hello").await, "re: hello");
    assert_eq!(world.store.count(is_note), 0);
}

#[tokio::test(start_paused = true)]
async fn kills_while_no_model_answers_neither_repeat_the_note_nor_give_the_turn_up() {
    let mut world = World::new();
    let live = world.start().await;
    for _ in 0..20 {
        world.model.plan(Kind::Reply, down());
    }
    let _open = live.say_in_group("a", "hello").await;
    world.store.until(1, is_settled).await;
    for _ in 0..5 {
        world = world.killed();
        for _ in 0..20 {
            world.model.plan(Kind::Reply, down());
        }
        let _live = world.start().await;
        world.model.until(6, Kind::Reply).await;
    }
    world = world.killed();
    let _live = world.start().await;
    world.store.until(2, is_settled).await;
    assert_eq!(world.store.count(is_note), 1);
    let words = world.net.words(&group());
    assert!(words.len() == 2 && words[1] == "re: hello", "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_model_that_is_down() {
    let (world, live) = started().await;
    for _ in 0..20 {
        world.model.plan(Kind::Reply, down());
    }
    let _open = live.say_in_group("a", "hello").await;
    world.store.until(1, is_settled).await;
    let start = Instant::now();
    live.runtime.shutdown(Duration::from_secs(20)).await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(world.store.conversation(&group()).unwrap().open_turn.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_model_refuses_fails_with_a_note_and_never_runs_again() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", no_such_model()));
    let open = live.say_in_group("a", "hello").await;
    assert_eq!(failure_code(open).await, "turn_failed");
    world.store.until(1, is_settled).await;
    assert!(world.net.words(&group())[0].starts_with("Sorry"));
    let again = live.say_in_group("a", "hello").await;
    assert_eq!(failure_code(again).await, "turn_failed");
    let other = world.killed();
    let live = other.start().await;
    let again = live.say_in_group("a", "hello").await;
    assert_eq!(failure_code(again).await, "turn_failed");
    assert!(other.model.requests(Kind::Reply).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_given_up_after_unclean_stops_is_told() {
    let mut world = World::new();
    for _ in 0..3 {
        world.model.plan(Kind::Reply, Plan::Hangs);
        let live = world.start().await;
        let _open = live.say_in_group("a", "crash me").await;
        world.model.until(1, Kind::Reply).await;
        world = world.killed();
    }
    let _live = world.start().await;
    world.store.until(1, is_settled).await;
    assert!(world.model.requests(Kind::Reply).is_empty());
    let words = world.net.words(&group());
    assert!(words.len() == 1 && words[0].contains("give up on that message"), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn all_that_waited_for_the_model_is_answered_by_one_turn_after_the_first() {
    let (world, live) = started().await;
    for _ in 0..6 {
        world.model.plan(Kind::Reply, down());
    }
    let _open = live.say_in_group("a", "one").await;
    world.store.until(1, is_settled).await;
    let _second = live.say_in_group("b", "two").await;
    let third = live.say_in_group("c", "three").await;
    assert_eq!(reply(third).await, "re: two\nthree");
    world.store.until(3, is_settled).await;
    assert_eq!(world.net.words(&group())[1..], ["re: one", "re: two\nthree"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_answers_with_nothing_usable_is_not_waited_for() {
    let unusable = [
        ModelError::Protocol("the answer is empty".to_owned()),
        ModelError::Failed("the model is not loaded".to_owned()),
    ];
    for error in unusable {
        let (world, live) = started().await;
        for _ in 0..40 {
            world.model.plan(Kind::Reply, Plan::Broken("", error.clone()));
        }
        let _open = live.say_in_group("a", "hello").await;
        let failed = |event: &Event| matches!(event, Event::Turn(TurnEvent::Ended(end)) if matches!(end.outcome, TurnOutcome::Failed { .. }));
        world.store.until(1, failed).await;
        assert_eq!(world.model.requests(Kind::Reply).len(), world.limits.model_attempts as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn a_local_turn_waits_for_a_server_that_starts_again_and_says_so() {
    let (world, live) = started().await;
    for _ in 0..3 {
        world.model.plan(Kind::Reply, down());
    }
    let loading = ModelError::Overloaded { message: "HTTP 503: Loading model".to_owned(), retry_after: None };
    for _ in 0..4 {
        world.model.plan(Kind::Reply, Plan::Broken("", loading.clone()));
    }
    let start = Instant::now();
    let open = live.submit(message(&local(), "a", "hello")).await.unwrap();
    let progress: Vec<Progress> = open.progress.collect().await;
    assert!(start.elapsed() > Duration::from_secs(5) && start.elapsed() < world.limits.turn_timeout);
    let told: Vec<&String> = progress
        .iter()
        .filter_map(|one| match one {
            Progress::Waiting(why) => Some(why),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "{progress:?}");
    assert!(told[0].contains("Loading model") && told[0].contains("waiting"), "{told:?}");
    let last = progress.last();
    assert!(
        matches!(last, Some(Progress::Ended(Answer::Reply(reply))) if reply.reply == "re: hello"),
        "{last:?}"
    );
    assert_eq!(
        world.store.count(|event| matches!(event, Event::Delivery(DeliveryEvent::Intended { .. }))),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_local_turn_waits_no_longer_than_a_turn_may_take_and_says_what_the_server_said() {
    let (world, live) = started().await;
    for _ in 0..200 {
        world.model.plan(Kind::Reply, down());
    }
    let start = Instant::now();
    let open = live.submit(message(&local(), "a", "hello")).await.unwrap();
    let Answer::Failed(failure) = answer(open).await else { panic!("answered") };
    assert_eq!(start.elapsed(), world.limits.turn_timeout);
    assert!(failure.message.contains("cannot reach the model's server: refused"), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn a_local_turn_does_not_wait_for_a_key() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", ModelError::Auth("no".to_owned())));
    let start = Instant::now();
    let open = live.submit(message(&local(), "a", "hello")).await.unwrap();
    let Answer::Failed(failure) = answer(open).await else { panic!("answered") };
    assert!(start.elapsed() < Duration::from_secs(1) && failure.hint.contains("api_key"), "{failure:?}");
}
