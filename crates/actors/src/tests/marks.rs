//! Marks: reactions at people's messages, which nothing waits for.

use std::time::Duration;

use cairn_types::model::{ModelError, RefusalCause};
use cairn_types::ports::Mark;
use tokio::time::Instant;

use super::common::model::{Kind, Plan};
use super::common::net::{Act, Trouble};
use super::common::*;

/// The marks so far: the message, and what goes and comes.
fn marks(world: &World) -> Vec<(String, Option<Mark>, Option<Mark>)> {
    let marks = world.net.acts().into_iter().filter_map(|act| match act {
        Act::Marked { message, from, to } => Some((message, from, to)),
        _ => None,
    });
    marks.collect()
}

fn marking() -> World {
    let world = World::new();
    world.net.show_marks();
    world
}

#[tokio::test(start_paused = true)]
async fn a_message_is_marked_while_its_turn_runs_and_no_longer() {
    let world = marking();
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let first = live.say_in_group("a", "hello").await;
    settle().await;
    let mut aside = message(&group(), "x", "not for you");
    aside.addressed = false;
    drop(live.submit(aside).await.unwrap());
    let second = live.say_in_group("b", "and you?").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (seen, working) = (Some(Mark::Seen), Some(Mark::Working));
    let begun = [("a".to_owned(), None, working), ("b".to_owned(), None, seen)];
    assert_eq!(marks(&world), begun, "seen and begun at once is one mark");
    gate.add_permits(1);
    reply(first).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let next = [("a".to_owned(), working, None), ("b".to_owned(), seen, working)];
    assert_eq!(marks(&world)[2..], next);
    gate.add_permits(1);
    reply(second).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(marks(&world)[4..], [("b".to_owned(), working, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_leaves_its_mark() {
    let world = marking();
    let live = world.start().await;
    let bad = ModelError::BadRequest { message: "wrong".to_owned(), cause: RefusalCause::Address };
    world.model.plan(Kind::Reply, Plan::SlowBroken(Duration::from_secs(3), "half", bad));
    let asked = live.say_in_group("a", "hello").await;
    failure_code(asked).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(marks(&world).last().unwrap(), &("a".to_owned(), Some(Mark::Working), Some(Mark::Failed)));
}

/// Asks something that takes two seconds.
async fn ask(world: &World, live: &Live, id: &str) {
    world.model.plan(Kind::Reply, Plan::Slow(Duration::from_secs(1), vec!["one".into(), " two".into()]));
    assert_eq!(live.ask_in_group(id, "hello").await, "one two");
}

#[tokio::test(start_paused = true)]
async fn a_network_that_refuses_marks_or_has_too_many_delays_no_answer_and_is_left_alone() {
    let world = marking();
    let live = world.start().await;
    world.net.plan_marks(&[Trouble::Later(Some(Duration::from_secs(30))), Trouble::Refused]);
    let start = Instant::now();
    ask(&world, &live, "a").await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(marks(&world).len(), 1, "a limit is waited for");
    tokio::time::sleep(Duration::from_secs(40)).await;
    let working = Some(Mark::Working);
    assert_eq!(marks(&world), [("a".to_owned(), None, working), ("a".to_owned(), working, None)]);
    ask(&world, &live, "b").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(marks(&world).len(), 2, "a chat that refused one gets none for a while");
    tokio::time::sleep(Duration::from_secs(600)).await;
    ask(&world, &live, "c").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(marks(&world).len(), 4);
}
