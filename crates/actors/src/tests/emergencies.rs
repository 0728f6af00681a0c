//! A window that overflows: a request is made to fit, and no channel wedges.

use cairn_types::event::{Event, RunOutcome, TurnEvent};
use cairn_types::model::ModelError;
use cairn_types::tokens::estimate;

use super::common::model::{Kind, Plan, words};
use super::common::*;

fn overflow() -> Plan {
    Plan::Broken("", ModelError::ContextOverflow { message: "too long".to_owned(), limit: None })
}

/// The largest request for a reply, in estimated tokens of its words.
fn largest(world: &World) -> u64 {
    let requests = world.model.requests(Kind::Reply);
    requests.iter().map(|request| u64::from(estimate(&words(request)))).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_emergency_does_not_wait_for_the_run_under_way_and_the_late_result_commits() {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Run);
    let mut n = 0;
    while world.store.count(is_emergency) == 0 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
        n += 1;
        assert!(n < 200, "no emergency");
    }
    assert_eq!(world.store.count(is_run_started), 1);
    assert_eq!(world.store.count(is_run_ended), 0);
    check_coverage(&world.conversation());
    assert!(largest(&world) <= WINDOW - 500);
    gate.add_permits(1_000);
    world.store.until(1, is_run_ended).await;
    settle().await;
    let conversation = world.conversation();
    check_coverage(&conversation);
    let outcomes: Vec<_> = conversation.outcomes.iter().map(|end| end.outcome).collect();
    assert!(outcomes.iter().all(|outcome| *outcome == RunOutcome::Committed), "{outcomes:?}");
    assert_eq!(conversation.stack.markers().count(), 0, "the rest of the marker is summarised, too");
    assert_eq!(world.store.history(&local()).len(), 2 * n);
}

#[tokio::test(start_paused = true)]
async fn one_giant_turn_is_answered_and_wedges_nothing() {
    let (world, live) = started().await;
    let giant = chatter(7).repeat(400);
    assert!(live.ask("giant", &giant).await.starts_with("re: number 7"));
    assert!(largest(&world) <= WINDOW - 500);
    for n in 0..5 {
        live.ask(&format!("m{n}"), &format!("q{n}")).await;
    }
    assert!(largest(&world) <= WINDOW - 500);
    settle().await;
    check_coverage(&world.conversation());
    assert_eq!(world.store.history(&local())[0].text(), giant, "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn an_overflow_that_the_model_reports_is_relieved_and_answered() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    world.model.plan(Kind::Reply, overflow());
    world.model.plan(Kind::Reply, overflow());
    assert_eq!(live.ask("last", "still there?").await, "re: still there?");
    assert!(world.store.count(is_emergency) >= 1);
    let sizes: Vec<_> = world.model.requests(Kind::Reply).iter().map(|r| words(r).len()).collect();
    let [.., refused, again, answered] = sizes[..] else { panic!("{sizes:?}") };
    assert!(refused > again && again > answered, "{sizes:?}");
    settle().await;
    check_coverage(&world.conversation());
    let asked = world.store.most_asked.load(std::sync::atomic::Ordering::SeqCst);
    assert!((1..=500).contains(&asked), "a run reads the archive in pages, and asked for {asked}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_finds_everything_too_large_fails_the_turn_with_the_count() {
    let (world, live) = started().await;
    for _ in 0..4 {
        world.model.plan(Kind::Reply, overflow());
    }
    let admission = live.say("a", &chatter(1).repeat(10)).await;
    assert_eq!(failure_code(admission).await, "compaction_failure");
    let told = world.store.events().into_iter().find_map(|event| match event {
        Event::Turn(TurnEvent::Ended(end)) => Some(format!("{:?}", end.outcome)),
        _ => None,
    });
    assert!(told.unwrap().contains("4 times"));
    assert_eq!(live.ask("b", "smaller").await, "re: smaller");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_leaves_no_room_fails_clearly() {
    let mut world = World::new();
    world.settings.system_prompt = chatter(1).repeat(400);
    let live = world.start().await;
    assert_eq!(failure_code(live.say("a", "hello").await).await, "turn_failed");
}
