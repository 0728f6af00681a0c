//! What a chat is told beside answers: reports of what it asked for, and losses, seldom.

use std::time::Duration;

use cairn_types::event::{DeliveryEvent, Event};
use cairn_types::model::ModelError;

use super::common::model::{Kind, Plan};
use super::common::*;
use crate::Compaction;

const LOST: &str = "Older messages have left my view for the moment";

fn is_note(words: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(note), .. }) if note.contains(words))
}

/// Talks in the group until so many emergencies have happened.
async fn until_emergency(world: &World, live: &Live, n_emergencies: usize) {
    let before = world.store.count(is_emergency);
    for n in 0..200 {
        if world.store.count(is_emergency) >= n_emergencies {
            return;
        }
        live.ask_in_group(&format!("e{before}-{n}"), &chatter(n)).await;
    }
    panic!("no emergency");
}

fn patient() -> World {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    world.settings.compaction.call_timeout_secs = 1_000_000;
    world
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_no_summary_follows_is_told_once() {
    let world = patient();
    let live = world.start().await;
    let gate = world.model.hold(Kind::Run);
    until_emergency(&world, &live, 1).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.store.count(is_note(LOST)), 0, "a summary may still follow");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(world.store.count(is_note(LOST)), 1);
    world.net.until(1, |act| format!("{act:?}").contains(LOST)).await;
    tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(world.store.count(is_note(LOST)), 1, "told again");
    // The next emergency is told, too.
    until_emergency(&world, &live, 2).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(world.store.count(is_note(LOST)), 2);
    // But not within the hour.
    until_emergency(&world, &live, 3).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.store.count(is_note(LOST)), 2, "two notices within an hour");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(world.store.count(is_note(LOST)), 3, "it is lost still");
    gate.add_permits(1_000);
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_a_summary_follows_soon_is_told_to_nobody() {
    let world = patient();
    let live = world.start().await;
    let gate = world.model.hold(Kind::Run);
    until_emergency(&world, &live, 1).await;
    gate.add_permits(1_000);
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    assert_eq!(world.store.count(is_note(LOST)), 0);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_after_a_restart_and_not_twice() {
    let world = patient();
    let live = world.start().await;
    let _gate = world.model.hold(Kind::Run);
    until_emergency(&world, &live, 1).await;
    let later = world.killed();
    let _held = later.model.hold(Kind::Run);
    let _live = later.start().await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(later.store.count(is_note(LOST)), 1);
    let last = later.killed();
    let _held = last.model.hold(Kind::Run);
    let _live = last.start().await;
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    assert_eq!(last.store.count(is_note(LOST)), 1);
}

#[tokio::test(start_paused = true)]
async fn who_wants_no_notices_gets_none_and_a_local_channel_never_does() {
    for channel_is_local in [true, false] {
        let mut world = patient();
        world.settings.compaction.notices = channel_is_local;
        let live = world.start().await;
        let _gate = world.model.hold(Kind::Run);
        if channel_is_local {
            for n in 0..200 {
                if world.store.count(is_emergency) > 0 {
                    break;
                }
                live.ask(&format!("m{n}"), &chatter(n)).await;
            }
        } else {
            until_emergency(&world, &live, 1).await;
        }
        assert_eq!(world.store.count(is_emergency), 1);
        tokio::time::sleep(Duration::from_secs(7_200)).await;
        assert_eq!(
            world.store.count(|event| matches!(
                event,
                Event::Delivery(DeliveryEvent::Intended { note: Some(_), .. })
            )),
            0
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_digest_that_stands_in_is_told() {
    let (world, live) = started().await;
    for _ in 0..20 {
        world.model.plan(Kind::Run, Plan::Broken("", ModelError::Auth("no".to_owned())));
    }
    for n in 0..200 {
        if world.store.count(is_run_ended) > 0 {
            break;
        }
        live.ask_in_group(&format!("m{n}"), &chatter(n)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(world.store.count(is_note("I go on with an extract of it")), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_in_the_chat_is_reported_there() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask_in_group(&format!("m{n}"), &chatter(n)).await;
    }
    let gate = world.model.hold(Kind::Run);
    let Ok(Compaction::Run(first)) = live.runtime.compact(&group(), None, true).await else {
        panic!("no run");
    };
    // The same again is about the same run.
    let Ok(Compaction::Run(same)) = live.runtime.compact(&group(), None, true).await else {
        panic!("no run");
    };
    assert_eq!((&same.run, same.joined, same.queued), (&first.run, true, false));
    for n in 0..6 {
        live.ask_in_group(&format!("n{n}"), &chatter(n)).await;
    }
    let names = Some("names".to_owned());
    let Ok(Compaction::Run(second)) = live.runtime.compact(&group(), names.clone(), true).await else {
        panic!("no run");
    };
    let Ok(Compaction::Run(again)) = live.runtime.compact(&group(), names, true).await else {
        panic!("no run");
    };
    assert!(second.queued && again.queued && again.joined);
    assert_eq!(second.run, again.run);
    gate.add_permits(1_000);
    world.net.until(1, |act| format!("{act:?}").contains("Compaction `r1` is done")).await;
    world.net.until(1, |act| format!("{act:?}").contains("Compaction `r2` is done")).await;
    let reports: Vec<_> =
        world.net.words(&group()).into_iter().filter(|words| words.contains("is done")).collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports[0].contains("messages are summarised") && reports[0].contains("\n> "), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_elsewhere_is_not_answered_in_the_chat() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask_in_group(&format!("m{n}"), &chatter(n)).await;
    }
    let Ok(Compaction::Run(ticket)) = live.runtime.compact(&group(), None, false).await else {
        panic!("no run");
    };
    assert!(ticket.ended.await.unwrap().summary.is_some());
    settle().await;
    assert_eq!(
        world
            .store
            .count(|event| matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(_), .. }))),
        0
    );
}
