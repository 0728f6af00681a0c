//! Idle channels sleep, and wake as they were.

use cairn_core::event::{Event, MaintenanceEvent, NewRecord};
use cairn_core::ports::Store as _;

use super::common::model::{Kind, words};
use super::common::*;

#[tokio::test(start_paused = true)]
async fn an_idle_channel_sleeps_and_wakes_with_its_words() {
    let (world, live) = started().await;
    live.ask("a", "my cat is called Momo").await;
    assert_eq!(live.runtime.awake(), [local()]);
    let awake = live.snapshot().await;
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert!(live.runtime.awake().is_empty());
    assert_eq!(*world.store.snapshots.lock(), [local()]);
    let (asleep, is_awake) = live.runtime.conversation(&local()).await.unwrap().unwrap();
    assert!(!is_awake);
    assert_eq!(asleep, awake);
    assert!(live.runtime.awake().is_empty(), "looking does not wake");
    live.ask("b", "what is my cat called?").await;
    assert!(words(world.model.requests(Kind::Reply).last().unwrap()).contains("Momo"));
    assert_eq!(live.ask("a", "my cat is called Momo").await, "re: my cat is called Momo");
}

#[tokio::test(start_paused = true)]
async fn a_channel_with_a_run_or_a_turn_does_not_sleep() {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    world.settings.compaction.call_timeout_secs = 1_000_000;
    world.limits.turn_timeout = world.limits.idle_after * 10;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    tokio::time::sleep(world.limits.idle_after * 3).await;
    assert_eq!(live.runtime.awake(), [local()]);
    gate.add_permits(100);
    world.store.until(1, is_run_ended).await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.say("open", "hm").await;
    tokio::time::sleep(world.limits.idle_after * 3).await;
    assert_eq!(live.runtime.awake(), [local()]);
    gate.add_permits(1);
    assert_eq!(reply(open).await, "re: hm");
    tokio::time::sleep(world.limits.idle_after * 3).await;
    assert!(live.runtime.awake().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_group_sleeps_over_messages_that_wait_for_nobody() {
    let (world, live) = started().await;
    let mut overheard = message(&group(), "a", "I like trains");
    overheard.addressed = false;
    drop(live.submit(overheard).await.unwrap());
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert!(live.runtime.awake().is_empty());
    let asked = live.say_in_group("b", "what do I like?").await;
    assert_eq!(reply(asked).await, "re: I like trains\nwhat do I like?");
}

#[tokio::test(start_paused = true)]
async fn messages_at_the_moment_of_falling_asleep_are_answered() {
    let (world, live) = started().await;
    live.ask("first", "hello").await;
    for n in 0..20 {
        // From just before to just after the tick at which the channel falls asleep.
        let moment = world.limits.idle_after - std::time::Duration::from_millis(10)
            + std::time::Duration::from_millis(n);
        tokio::time::sleep(moment).await;
        assert_eq!(live.ask(&format!("m{n}"), "still there?").await, "re: still there?");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_a_snapshot_of_what_has_happened_since_the_last_one_alone() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert_eq!(*world.store.snapshots.lock(), [local()]);
    live.ask("a", "hello").await;
    assert_eq!(live.runtime.awake(), [local()], "woken by what was answered before");
    let other = live.say_in_group("b", "hello").await;
    reply(other).await;
    live.runtime.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(*world.store.snapshots.lock(), [local(), group()]);
}

#[tokio::test(start_paused = true)]
async fn a_head_is_kept_for_a_channels_own_records_not_for_those_of_others() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    settle().await;
    let noise = |n: usize| NewRecord {
        channel: None,
        at: jiff::Timestamp::UNIX_EPOCH,
        event: Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() }),
    };
    world.store.append((0..1_000).map(noise).collect()).await.unwrap();
    live.ask("b", "hello again").await;
    settle().await;
    assert!(world.store.snapshots.lock().is_empty(), "a head after a few records");
}
