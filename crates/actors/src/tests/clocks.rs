//! A clock that jumps by an hour or a year, either way: nothing wedges, nothing is lost, and no wait grows with it.
//! What is waited for is measured by tokio's clock, which does not jump.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_core::limits::TalkLimits;
use cairn_types::event::{CompactionEvent, Event, RunOutcome};
use cairn_types::ports::Refusal;
use tokio::time::Instant;

use super::common::model::{Kind, Plan, words};
use super::common::net::{Act, Trouble};
use super::common::*;
use cairn_core::chain::ModelState;

const HOUR: i64 = 3_600;
const YEAR: i64 = 365 * 24 * HOUR;

/// How far the clock jumps, in seconds.
const JUMPS: [i64; 4] = [HOUR, -HOUR, YEAR, -YEAR];

fn jump(world: &World, secs: i64) {
    world.off.store(secs, Ordering::SeqCst);
}

/// Every jump, with a daemon that goes on and with one that is killed after it.
fn jumps_lived_through_and_not() -> impl Iterator<Item = (i64, bool)> {
    JUMPS.into_iter().flat_map(|secs| [(secs, false), (secs, true)])
}

/// The daemon is killed and begins again.
async fn begun_again(world: World, live: Live) -> (World, Live) {
    drop(live);
    let world = world.killed();
    let live = world.start().await;
    (world, live)
}

#[tokio::test(start_paused = true)]
async fn a_turn_over_a_jump_is_answered_once_and_shown_as_typing() {
    for secs in JUMPS {
        let (world, live) = started().await;
        live.ask_in_group("a", "before").await;
        let gate = world.model.hold(Kind::Reply);
        let open = live.say_in_group("b", "over it").await;
        settle().await;
        let start = Instant::now();
        jump(&world, secs);
        tokio::time::sleep(Duration::from_secs(9)).await;
        let typing = world.net.times(start, |act| matches!(act, Act::Typing { .. }));
        // What was shown before counts as 0.
        assert_eq!(typing.iter().filter(|ms| **ms > 0).count(), 2, "it goes on: {typing:?}");
        gate.add_permits(100);
        assert_eq!(reply(open).await, "re: over it");
        assert_eq!(live.ask_in_group("c", "after").await, "re: after");
        assert_eq!(live.ask_in_group("a", "before").await, "re: before", "an id from before is known");
        world.store.until(3, is_settled).await;
        assert_eq!(world.net.words(&group()), ["re: before", "re: over it", "re: after"]);
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        check_coverage(&world.store.conversation(&group()).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_of_a_run_waits_no_longer_for_a_jump_and_its_dates_are_in_order() {
    for (secs, killed) in jumps_lived_through_and_not() {
        let mut world = World::new();
        let mut live = world.start().await;
        world.model.plan(Kind::Run, Plan::Broken("", overloaded()));
        let gate = world.model.hold(Kind::Run);
        live.fill_until_run(&world).await;
        let failed =
            |event: &Event| matches!(event, Event::Compaction(CompactionEvent::RunAttemptFailed { .. }));
        gate.add_permits(1);
        world.store.until(1, failed).await;
        jump(&world, secs);
        let start = Instant::now();
        if killed {
            (world, live) = begun_again(world, live).await;
        } else {
            gate.add_permits(100);
        }
        assert_eq!(live.ask("meanwhile", "are you there?").await, "re: are you there?");
        world.store.until(1, is_run_ended).await;
        assert!(start.elapsed() < Duration::from_secs(3_600), "{:?}", start.elapsed());
        let end = world.store.events().into_iter().find_map(|event| match event {
            Event::Compaction(CompactionEvent::RunEnded(end)) => Some(end),
            _ => None,
        });
        let end = end.unwrap();
        assert_eq!(end.outcome, RunOutcome::Committed);
        let summary = end.summary.unwrap();
        assert!(summary.from_at <= summary.to_at);
        check_coverage(&world.conversation());
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_of_words_from_before_and_after_a_jump_has_its_dates_in_order() {
    for secs in JUMPS {
        let (world, live) = started().await;
        live.ask("first", "before the jump").await;
        jump(&world, secs);
        live.fill_until_run(&world).await;
        world.store.until(1, is_run_ended).await;
        let summary = world.conversation().stack.summaries().next().cloned().unwrap();
        assert_eq!(summary.from_seq.0, 1);
        assert!(summary.from_at <= summary.to_at, "{} to {}", summary.from_at, summary.to_at);
        assert_eq!(live.ask("last", "and now?").await, "re: and now?");
        assert!(words(world.model.requests(Kind::Reply).last().unwrap()).contains("and now?"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_skipped_comes_back_within_its_own_time() {
    for secs in JUMPS {
        let world = World::new().followed_by("second", |_| {});
        let live = world.start().await;
        world.model.plan(Kind::Reply, Plan::Broken("", overloaded()));
        assert_eq!(live.ask("a", "hello").await, "re: hello");
        let state = || {
            let agent = live.runtime.agent(&"main".into()).unwrap();
            live.runtime.models(&agent)[0].state
        };
        assert_eq!(state(), ModelState::Cooling);
        jump(&world, secs);
        let start = Instant::now();
        let mut n = 0;
        while world.model.requests(Kind::Reply).len() < 2 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            n += 1;
            live.ask(&format!("m{n}"), "and now?").await;
            assert!(start.elapsed() < Duration::from_secs(2 * 3_600), "it is skipped for too long");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_by_the_hour_holds_nobody_for_longer_than_two() {
    for secs in JUMPS {
        let mut world = World::new();
        world.talk = TalkLimits { user_messages_per_hour: 1, ..TalkLimits::default() };
        let live = world.start().await;
        live.ask_in_group("a", "one").await;
        jump(&world, secs);
        match live.submit(message(&group(), "b", "two")).await.map(drop) {
            Ok(()) => {}
            Err(Refusal::Limited { retry_after_secs, .. }) => {
                assert!(retry_after_secs <= 2 * 3_600 + 120, "{retry_after_secs} s");
                tokio::time::sleep(Duration::from_secs(retry_after_secs)).await;
                assert!(live.submit(message(&group(), "c", "three")).await.is_ok());
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_network_put_off_is_sent_at_its_own_time() {
    for (secs, killed) in jumps_lived_through_and_not() {
        let mut world = World::new();
        world.net.guard(300);
        let mut live = world.start().await;
        let later = Trouble::Later(Some(Duration::from_secs(20)));
        world.net.plan(&group(), &[later.clone(), later]);
        live.ask_in_group("a", "hello").await;
        settle().await;
        jump(&world, secs);
        let start = Instant::now();
        if killed {
            (world, live) = begun_again(world, live).await;
        }
        world.store.until(1, is_settled).await;
        assert!(start.elapsed() < Duration::from_secs(600), "{:?}", start.elapsed());
        assert_eq!(world.net.words(&group()), ["re: hello"]);
        assert_eq!(live.ask_in_group("b", "and I").await, "re: and I");
    }
}
