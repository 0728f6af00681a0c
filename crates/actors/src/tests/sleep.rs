//! Idle channels sleep, and wake as they were.

use cairn_core::store_port::Store as _;
use cairn_types::event::{Event, MaintenanceEvent, NewRecord};
use cairn_types::ids::ChannelId;
use cairn_types::message::Part;

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
    assert_eq!(*world.store.outlines.lock(), [local()]);
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
async fn a_stop_keeps_what_has_happened_since_the_last_one_alone() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert_eq!(*world.store.outlines.lock(), [local()]);
    live.ask("a", "hello").await;
    assert_eq!(live.runtime.awake(), [local()], "woken by what was answered before");
    let other = live.say_in_group("b", "hello").await;
    reply(other).await;
    live.runtime.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(*world.store.outlines.lock(), [local(), group()]);
    assert!(world.store.snapshots.lock().is_empty());
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

fn channel(n: usize) -> ChannelId {
    format!("main/local/c{n}").parse().unwrap()
}

async fn ask_in(live: &Live, channel: &ChannelId, id: &str, text: &str) -> String {
    let answer = reply(live.submit(message(channel, id, text)).await.unwrap()).await;
    settle().await;
    answer
}

#[tokio::test(start_paused = true)]
async fn channels_used_least_recently_sleep_once_those_awake_take_too_much_memory() {
    let mut world = World::new();
    world.limits.awake_bytes = 80_000;
    let live = world.start().await;
    for n in 0..3 {
        ask_in(&live, &channel(n), "a", "my cat is called Momo").await;
    }
    assert_eq!(live.runtime.awake().len(), 3, "there is room for them");
    for n in 3..40 {
        ask_in(&live, &channel(n), "a", "my cat is called Momo").await;
        // One that was just used is left alone for a moment.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let awake = live.runtime.awake();
        assert!((2..=4).contains(&awake.len()) && awake.contains(&channel(n)), "{n}: {awake:?}");
    }
    assert!(!live.runtime.awake().contains(&channel(0)));
    ask_in(&live, &channel(0), "b", "what is my cat called?").await;
    assert!(words(world.model.requests(Kind::Reply).last().unwrap()).contains("Momo"));
    assert!(live.runtime.awake().contains(&channel(0)));
}

#[tokio::test(start_paused = true)]
async fn pictures_that_people_show_each_other_count_at_once() {
    let mut world = World::new();
    world.limits.awake_bytes = 80_000;
    let live = world.start().await;
    for n in 0..8 {
        let group: ChannelId = format!("main/net/g{n}").parse().unwrap();
        let mut shown = message(&group, "a", "look");
        shown.addressed = false;
        let data = "A".repeat(20_000);
        shown.parts.push(Part::Image { name: None, media_type: "image/png".to_owned(), data });
        drop(live.submit(shown).await.unwrap());
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let awake = live.runtime.awake();
        assert!(awake.len() <= 2 && awake.contains(&group), "{n}: {awake:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_answers_stays_awake_however_much_memory_is_taken() {
    let mut world = World::new();
    world.limits.awake_bytes = 1;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.submit(message(&channel(0), "a", "hello")).await.unwrap();
    let also = live.submit(message(&channel(1), "a", "hello")).await.unwrap();
    settle().await;
    assert_eq!(live.runtime.awake(), [channel(0), channel(1)]);
    gate.add_permits(2);
    assert_eq!((reply(open).await, reply(also).await), ("re: hello".to_owned(), "re: hello".to_owned()));
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(live.runtime.awake().is_empty(), "nothing is under way any more");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_sleeps_leaves_no_task_behind() {
    let (world, live) = started().await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    settle().await;
    let before = alive();
    for n in 0..10 {
        ask_in(&live, &channel(n), "a", "hello").await;
    }
    assert!(alive() > before);
    tokio::time::sleep(world.limits.idle_after + std::time::Duration::from_secs(1)).await;
    assert!(live.runtime.awake().is_empty());
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_sleeps_keeps_a_snapshot_when_there_is_much_to_read_since_its_last_one() {
    let (world, live) = started().await;
    let kept = || (world.store.snapshots.lock().len(), world.store.outlines.lock().len());
    let mut n_turns = 0;
    let mut sleep_after = async |turns: usize| {
        for _ in 0..turns {
            n_turns += 1;
            live.ask(&format!("m{n_turns}"), "hello").await;
        }
        tokio::time::sleep(world.limits.idle_after * 2).await;
        assert!(live.runtime.awake().is_empty());
    };
    sleep_after(1).await;
    assert_eq!(kept(), (0, 1));
    sleep_after(12).await;
    assert_eq!(kept(), (1, 1));
    sleep_after(1).await;
    assert_eq!(kept(), (1, 2));
}
