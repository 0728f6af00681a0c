//! Messages: in order, each once, each with an end.

use std::time::Duration;

use cairn_types::event::{Event, MessageEvent, TurnEvent, TurnOutcome};
use cairn_types::ids::AgentId;
use cairn_types::message::Role;
use cairn_types::model::ModelError;
use cairn_types::ports::{Progress, Refusal, StoreError};
use futures::StreamExt as _;

use super::common::model::{Kind, Plan, words};
use super::common::*;

#[tokio::test(start_paused = true)]
async fn an_idle_turn_takes_two_appends() {
    let (world, live) = started().await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    // DaemonStarted; Accepted + TurnStarted; EntryAdded + UsageReported + TurnEnded.
    assert_eq!(*world.store.appends.lock(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn messages_are_answered_in_order_each_once() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let mut admissions = Vec::new();
    for n in 0..5 {
        admissions.push(live.say(&format!("m{n}"), &format!("q{n}")).await);
    }
    gate.add_permits(5);
    for (n, admission) in admissions.into_iter().enumerate() {
        assert_eq!(reply(admission).await, format!("re: q{n}"));
    }
    let texts: Vec<_> = world.store.history(&local()).iter().map(|entry| entry.text()).collect();
    let expected: Vec<_> = (0..5).flat_map(|n| [format!("q{n}"), format!("re: q{n}")]).collect();
    assert_eq!(texts, expected);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_id_joins_its_turn_or_gets_the_stored_answer() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let first = live.say("a", "hello").await;
    let joined = live.say("a", "hello").await;
    assert_eq!(first.turn, joined.turn);
    gate.add_permits(100);
    assert_eq!(reply(first).await, "re: hello");
    assert_eq!(reply(joined).await, "re: hello");
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    live.runtime.shutdown(Duration::ZERO).await;
    let again = world.over(world.store.after_kill());
    let live = again.start().await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(again.store.count(|event| matches!(event, Event::Message(MessageEvent::Accepted(_)))), 1);
    assert!(again.model.requests(Kind::Reply).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_repeated_id_with_another_text_is_a_conflict() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let first = live.say("a", "hello").await;
    let conflict = |result: Result<_, Refusal>| matches!(result.err(), Some(Refusal::Conflict(_)));
    assert!(conflict(live.submit(message(&local(), "a", "other")).await));
    gate.add_permits(1);
    reply(first).await;
    assert!(conflict(live.submit(message(&local(), "a", "other")).await));
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_runs_again_under_its_id() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", ModelError::Auth("no key".to_owned())));
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    let outcomes = world.store.events().into_iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::Ended(end)) => Some(matches!(end.outcome, TurnOutcome::Answered { .. })),
        _ => None,
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), [false, true]);
}

/// How often the people's messages of a conversation say that.
fn said(world: &World, text: &str) -> usize {
    let history = world.store.history(&local());
    history.iter().filter(|entry| entry.role == Role::User && entry.text() == text).count()
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_that_is_sent_again_stands_once_in_the_history() {
    let (world, live) = started().await;
    for _ in 0..3 {
        world.model.plan(Kind::Reply, Plan::Broken("", no_such_model()));
        assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    }
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(live.ask("a", "hello").await, "re: hello", "the stored answer");
    assert_eq!(live.ask("b", "and now?").await, "re: and now?");
    assert_eq!((said(&world, "hello"), world.store.history(&local()).len()), (1, 4));
    let requests = world.model.requests(Kind::Reply);
    assert!(requests.iter().all(|request| words(request).matches("hello").count() <= 2), "{requests:?}");
    check_coverage(&world.conversation());
    // The same after a restart, from the journal.
    let world = world.killed();
    let live = world.start().await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(said(&world, "hello"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_that_is_sent_again_after_another_takes_the_place_of_the_first_in_the_window() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("", no_such_model()));
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    live.ask("b", "are you there?").await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    let conversation = world.conversation();
    let in_sight: Vec<_> = conversation.live.iter().map(|entry| entry.text()).collect();
    assert_eq!(in_sight, ["are you there?", "re: are you there?", "hello", "re: hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_in_passing_is_asked_again() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Broken("half of an", overloaded()));
    world.model.plan(Kind::Reply, Plan::Broken("", overloaded()));
    let seen: Vec<Progress> = live.say("a", "hello").await.progress.collect().await;
    assert_eq!(seen[0], Progress::Delta("half of an".to_owned()));
    assert_eq!(seen[1], Progress::Restarted);
    assert_eq!(seen[2], Progress::Delta("re: hello".to_owned()));
    assert!(matches!(&seen[3..], [Progress::Ended(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_stays_down_fails_the_turn_visibly_and_the_next_one_runs() {
    let mut world = World::new();
    // It is over in the pause after the last of these calls.
    world.limits.turn_timeout = Duration::from_secs(4);
    let live = world.start().await;
    for _ in 0..world.limits.model_attempts {
        world.model.plan(Kind::Reply, Plan::Broken("", overloaded()));
    }
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    assert_eq!(live.ask("b", "and now").await, "re: and now");
}

#[tokio::test(start_paused = true)]
async fn the_server_s_wish_to_wait_is_honoured() {
    let (world, live) = started().await;
    let wait = Duration::from_secs(20);
    let limited = ModelError::RateLimited { message: "slow".to_owned(), retry_after: Some(wait) };
    world.model.plan(Kind::Reply, Plan::Broken("", limited));
    let begun = tokio::time::Instant::now();
    live.ask("a", "hello").await;
    assert!(begun.elapsed() >= wait);
    let too_long = ModelError::RateLimited {
        message: "slow".to_owned(),
        retry_after: Some(world.limits.model_retry_max * 2),
    };
    world.model.plan(Kind::Reply, Plan::Broken("", too_long));
    assert_eq!(failure_code(live.say("b", "hello").await).await, "turn_failed");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_turn_fails_and_the_conversation_goes_on() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Panics);
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    assert_eq!(live.ask("b", "still there").await, "re: still there");
    assert_eq!(live.runtime.health().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_fails() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Hangs);
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
    assert_eq!(live.ask("b", "next").await, "re: next");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_cancels_nothing() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    drop(live.say("a", "hello").await);
    gate.add_permits(1);
    world.store.until(1, is_turn_ended).await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_takes_in_again_when_it_has_room() {
    let mut world = World::new();
    world.limits.channel_queue = 2;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.say("a", "one").await;
    let _pending = (live.say("b", "two").await, live.say("c", "three").await);
    let refused = live.submit(message(&local(), "d", "four")).await.err();
    assert!(matches!(refused, Some(Refusal::Busy { .. })));
    gate.add_permits(100);
    reply(open).await;
    world.store.until(3, is_turn_ended).await;
    assert_eq!(live.ask("d", "four").await, "re: four");
}

#[tokio::test(start_paused = true)]
async fn admission_is_bounded_over_all_channels() {
    let mut world = World::new();
    world.limits.admitted_messages = 2;
    let live = world.start().await;
    let gate = world.store.shut();
    let submit = |n: u32| {
        let channel = format!("main/local/c{n}").parse().unwrap();
        live.submit(message(&channel, "a", "hello"))
    };
    let (first, second) = (submit(1), submit(2));
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
    let third = futures::poll!(Box::pin(submit(3)));
    assert!(matches!(third, std::task::Poll::Ready(Err(Refusal::Busy { .. }))));
    gate.add_permits(100);
    assert_eq!(reply(first.await.unwrap()).await, "re: hello");
    assert_eq!(reply(second.await.unwrap()).await, "re: hello");
    assert!(submit(3).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_a_message_has_not_taken_it() {
    let (world, live) = started().await;
    let full = StoreError::DiskFull { path: "/x".to_owned() };
    world.store.fail_next(full.clone());
    let refused = live.submit(message(&local(), "a", "hello")).await.err();
    assert_eq!(refused, Some(Refusal::Store(full)));
    assert_eq!(live.ask("a", "hello").await, "re: hello");
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_store_that_refuses_it() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let admission = live.say("a", "hello").await;
    let waits = live.say("b", "and I").await;
    for _ in 0..3 {
        world.store.fail_next(StoreError::DiskFull { path: "/x".to_owned() });
    }
    gate.add_permits(2);
    assert_eq!(reply(admission).await, "re: hello");
    assert_eq!(reply(waits).await, "re: and I");
    assert_eq!(world.store.count(is_turn_ended), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_refused() {
    let (_world, live) = started().await;
    let channel = "nobody/local/main".parse().unwrap();
    let refused = live.submit(message(&channel, "a", "hello")).await.err();
    assert_eq!(refused, Some(Refusal::UnknownAgent(AgentId::from("nobody"))));
}

#[tokio::test(start_paused = true)]
async fn in_a_group_all_that_waits_joins_the_next_turn() {
    let (world, live) = started().await;
    let mut overheard = message(&group(), "a", "I like trains");
    overheard.addressed = false;
    let overheard = live.submit(overheard).await.unwrap();
    settle().await;
    assert!(world.model.requests(Kind::Reply).is_empty());
    let asked = live.say_in_group("b", "what do I like?").await;
    let answered = reply(asked).await;
    assert_eq!(answered, "re: I like trains\nwhat do I like?");
    assert_eq!(reply(overheard).await, answered);
    assert!(words(&world.model.requests(Kind::Reply)[0]).contains("I like trains"));
}

#[tokio::test(start_paused = true)]
async fn too_many_unaddressed_messages_become_a_turn_without_an_answer() {
    let mut world = World::new();
    world.limits.unaddressed_queue = 3;
    let live = world.start().await;
    for n in 0..4 {
        let mut overheard = message(&group(), &format!("m{n}"), "psst");
        overheard.addressed = false;
        drop(live.submit(overheard).await.unwrap());
    }
    world.store.until(1, is_turn_ended).await;
    assert!(world.model.requests(Kind::Reply).is_empty());
    let conversation = world.store.conversation(&group()).unwrap();
    assert_eq!(conversation.live.len(), 4);
    assert!(conversation.pending.is_empty() && conversation.open_turn.is_none());
}

#[tokio::test(start_paused = true)]
async fn channels_do_not_wait_for_each_other() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Hangs);
    let _stuck = live.say("a", "hello").await;
    settle().await;
    let other = "main/local/other".parse().unwrap();
    assert_eq!(reply(live.submit(message(&other, "a", "hi")).await.unwrap()).await, "re: hi");
}

#[tokio::test(start_paused = true)]
async fn views_that_are_far_behind_hold_no_turn_up_and_new_messages_are_to_be_sent_again() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.say("a", "hello").await;
    world.model.until(1, Kind::Reply).await;
    world.store.behind.store(true, std::sync::atomic::Ordering::SeqCst);
    let refused = live.submit(message(&local(), "b", "and you?")).await.err();
    assert!(matches!(refused, Some(Refusal::Unavailable(_))), "{refused:?}");
    gate.add_permits(100);
    assert_eq!(reply(open).await, "re: hello");
    world.store.behind.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(live.ask("b", "and you?").await, "re: and you?");
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_memories_that_do_not_come() {
    let (world, live) = started().await;
    let pending = live.say("a", "hello").await;
    world.store.behind.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(reply(pending).await, "re: hello");
}
