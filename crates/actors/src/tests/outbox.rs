//! Deliveries to platforms: part by part, in order, each at most once or exactly once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::RuntimeError;
use cairn_core::store_port::Store as _;
use cairn_types::event::{DeliveryEvent, Event, NewRecord, Receipt};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::ports::DeliveryState;

use super::common::model::{Kind, Plan};
use super::common::net::{Act, FakeNet, Trouble};
use super::common::*;

fn other() -> ChannelId {
    "main/net/other".parse().unwrap()
}

/// What a chat is told after a message of whose fate nobody knows.
const UNSURE: &str = "One of my last messages may be missing here, or may be incomplete: the connection broke while I sent it. \
                      Ask me to repeat it if you need it.";

fn long(world: &World) -> &'static str {
    *world.net.limit.lock() = 4;
    "onlythrees"
}

fn receipts(world: &World) -> Vec<Receipt> {
    let receipt = |event| match event {
        Event::Delivery(DeliveryEvent::Settled { receipt, .. }) => Some(receipt),
        _ => None,
    };
    world.store.events().into_iter().filter_map(receipt).collect()
}

#[tokio::test(start_paused = true)]
async fn replies_are_delivered_in_order_and_their_receipts_journalled() {
    let (world, live) = started().await;
    for n in 0..3 {
        live.ask_in_group(&format!("m{n}"), &format!("q{n}")).await;
    }
    world.store.until(3, is_settled).await;
    assert_eq!(world.net.words(&group()), ["re: q0", "re: q1", "re: q2"]);
    assert!(world.store.conversation(&group()).unwrap().owed.is_empty());
    let answered = |act: &Act| matches!(act, Act::Sent { reply_to: Some(to), .. } if to == "m1");
    assert_eq!(world.net.acts().iter().filter(|act| answered(act)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_reply_goes_in_parts_of_which_the_first_answers_the_message() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Text(long(&world).to_owned()));
    live.ask_in_group("a", "hm").await;
    world.store.until(1, is_settled).await;
    let sent: Vec<_> = world.net.acts().into_iter().filter(is_sent).collect();
    let part = |part, words: &str, reply_to: Option<&str>| Act::Sent {
        channel: group().to_string(),
        part,
        words: words.to_owned(),
        reply_to: reply_to.map(str::to_owned),
    };
    assert_eq!(sent, [part(0, "only", Some("a")), part(1, "thre", None), part(2, "es", None)]);
    assert!(matches!(&receipts(&world)[..], [Receipt::Delivered { messages }] if messages.len() == 3));
    // The receipt of a part shares its append with the next attempt, or with the end.
    let appends = world.store.appends.lock().clone();
    assert!(appends.ends_with(&[1, 2, 2, 2]), "{appends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_any_record_sends_no_part_twice_and_lists_what_nobody_knows() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, Plan::Text(long(&world).to_owned()));
    live.ask_in_group("a", "hm").await;
    world.store.until(1, is_settled).await;
    let events = world.store.events();
    let whole = world.net.messages.lock().clone();
    let intended = events
        .iter()
        .position(|event| matches!(event, Event::Delivery(DeliveryEvent::Intended { .. })))
        .unwrap();
    // An append is all there or not at all.
    let mut ends: Vec<usize> = Vec::new();
    for n in world.store.appends.lock().iter() {
        ends.push(ends.last().unwrap_or(&0) + n);
    }
    ends.retain(|end| *end > intended);
    assert_eq!(ends.len(), 5, "the end of the turn, three attempts, the end");
    let (no, yes) = (false, true);
    let cases = [(no, no, no), (no, yes, no), (yes, no, no), (yes, yes, no), (no, no, yes), (no, yes, yes)];
    for (n, (guards, arrives, shows)) in ends.iter().flat_map(|n| cases.map(|case| (*n, case))) {
        let count = |what: fn(&Event) -> bool| events[..n].iter().filter(|event| what(event)).count();
        let n_sent = count(|event| matches!(event, Event::Delivery(DeliveryEvent::Sent { .. })));
        let n_attempted = count(|event| matches!(event, Event::Delivery(DeliveryEvent::Attempted { .. })));
        let mut again = world.over(world.store.after_kill_at(n));
        again.net = net::FakeNet::new();
        *again.net.limit.lock() = 4;
        if guards {
            again.net.guard(60);
        }
        again.net.shows_sent.store(shows, Ordering::Relaxed);
        let there = if arrives { n_attempted } else { n_sent };
        again.net.messages.lock().extend(whole[..there].iter().cloned());
        let is_unknown = n_attempted > n_sent && !guards && !shows;
        let live = again.start().await;
        again.store.until(if is_unknown { 2 } else { 1 }, is_settled).await;
        let case = format!("killed at {n}, guards {guards}, arrives {arrives}, shows {shows}");
        let owed = live.runtime.deliveries().await.unwrap();
        if is_unknown {
            assert!(
                matches!(&owed[..], [item] if matches!(item.state, DeliveryState::Unknown { .. })),
                "{case}"
            );
            let words = again.net.words(&group()).concat().replace(UNSURE, "");
            assert_eq!(words, ["only", "thre", "es"][..there].concat(), "{case}: the chat is told, in parts");
        } else {
            assert!(owed.is_empty(), "{case}");
            assert_eq!(again.net.words(&group()), ["only", "thre", "es"], "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_can_be_delivered_is_dead_and_the_next_goes_on() {
    let world = World::new();
    world.net.plan(&group(), &[Trouble::Refused]);
    let live = world.start().await;
    live.ask_in_group("a", "hello").await;
    live.ask_in_group("b", "again").await;
    world.store.until(2, is_settled).await;
    let dead = Receipt::Dead { reason: "kicked out".to_owned() };
    assert_eq!(receipts(&world)[0], dead);
    assert_eq!(world.net.words(&group()), ["re: again"]);
    let listed = live.runtime.deliveries().await.unwrap();
    assert!(
        matches!(&listed[..], [item] if item.state == DeliveryState::Dead { reason: "kicked out".to_owned() })
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_delivery_can_be_retried_and_dropped() {
    let world = World::new();
    world.net.plan(&group(), &[Trouble::Refused, Trouble::Refused]);
    let live = world.start().await;
    live.ask_in_group("a", "hello").await;
    live.ask_in_group("b", "again").await;
    world.store.until(2, is_settled).await;
    let ids: Vec<_> = live.runtime.deliveries().await.unwrap().into_iter().map(|item| item.id).collect();
    live.runtime.retry_delivery(&group(), &ids[0]).await.unwrap();
    world.store.until(3, is_settled).await;
    assert_eq!(world.net.words(&group()), ["re: hello"]);
    live.runtime.drop_delivery(&group(), &ids[1]).await.unwrap();
    assert!(live.runtime.deliveries().await.unwrap().is_empty());
    for id in &ids {
        let missing = RuntimeError::NoSuchDelivery(id.clone());
        assert_eq!(live.runtime.retry_delivery(&group(), id).await, Err(missing.clone()));
        assert_eq!(live.runtime.drop_delivery(&group(), id).await, Err(missing));
    }
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_asks_for_time_gets_it_and_holds_no_other_channel_up() {
    let world = World::new();
    let wait = Duration::from_secs(30);
    world.net.plan(&group(), &[Trouble::Later(Some(wait)), Trouble::Later(None)]);
    let live = world.start().await;
    let start = tokio::time::Instant::now();
    live.ask_in_group("a", "first").await;
    reply(live.submit(message(&other(), "x", "elsewhere")).await.unwrap()).await;
    live.ask_in_group("b", "second").await;
    world.store.until(3, is_settled).await;
    assert_eq!(world.net.words(&group()), ["re: first", "re: second"]);
    let times = world.net.times(start, is_sent);
    assert!(times[0] < 1_000, "the other channel waits for nobody: {times:?}");
    assert!(times[1] >= 31_000 && times[2] < 35_000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_fate_is_repeated_only_where_the_platform_guards_against_doubles() {
    for (guard, words, unknown) in [(Some(60), 1, 0), (None, 1, 1)] {
        let world = World::new();
        if let Some(seconds) = guard {
            world.net.guard(seconds);
        }
        world.net.plan(&group(), &[Trouble::Unknown { arrives: true }]);
        let live = world.start().await;
        live.ask_in_group("a", "hello").await;
        world.store.until(1 + unknown, is_settled).await;
        assert_eq!(world.net.words(&group()).len(), words + unknown, "and the chat is told");
        let is_unknown = |receipt: &Receipt| matches!(receipt, Receipt::Unknown { part: 0, .. });
        assert_eq!(receipts(&world).iter().filter(|receipt| is_unknown(receipt)).count(), unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_guard_no_longer_covers_is_not_repeated() {
    let world = World::new();
    world.net.guard(20);
    let after = Some(Duration::from_secs(30));
    world.net.plan(&group(), &[Trouble::Unknown { arrives: true }, Trouble::Later(after)]);
    let live = world.start().await;
    live.ask_in_group("a", "hello").await;
    world.store.until(2, is_settled).await;
    assert!(matches!(&receipts(&world)[..], [Receipt::Unknown { .. }, Receipt::Delivered { .. }]));
    assert_eq!(world.net.words(&group()), ["re: hello", UNSURE]);
    let put_off = |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::PutOff { .. }));
    assert_eq!(world.store.count(put_off), 0, "a later refusal does not tell of the first attempt");
}

#[tokio::test(start_paused = true)]
async fn a_receipt_waits_for_a_store_that_refuses_it() {
    let (world, live) = started().await;
    let gate = world.store.shut();
    // Accepted, the answer, the attempt; then the receipt.
    gate.add_permits(3);
    live.ask_in_group("a", "hello").await;
    world.net.until(1, is_sent).await;
    world.store.fail_next(cairn_types::ports::StoreError::DiskFull { path: "/x".to_owned() });
    gate.add_permits(10);
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()).len(), 1, "delivered once, settled at the second try");
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_what_it_can_and_keeps_the_rest() {
    let (world, live) = started().await;
    world.net.plan(&group(), &[Trouble::Later(None)]);
    world.net.plan(&other(), &[Trouble::Later(Some(Duration::from_secs(3)))]);
    live.ask_in_group("a", "stays").await;
    reply(live.submit(message(&other(), "x", "goes")).await.unwrap()).await;
    settle().await;
    let start = tokio::time::Instant::now();
    live.runtime.shutdown(Duration::from_secs(10)).await;
    assert!(start.elapsed() < Duration::from_secs(5), "nobody waits for a platform that is down");
    assert_eq!(world.net.words(&other()), ["re: goes"]);
    assert!(world.net.words(&group()).is_empty());
    let again = world.over(world.store.after_kill());
    let _live = again.start().await;
    again.store.until(2, is_settled).await;
    assert_eq!(again.net.words(&group()), ["re: stays"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_reply_is_split_beside_the_runtime_and_a_kill_meanwhile_loses_and_doubles_nothing() {
    let (world, live) = started().await;
    *world.net.limit.lock() = 10_000;
    world.model.plan(Kind::Reply, Plan::Text("```\n".repeat(4_000)));
    let (gate, held) = std::sync::mpsc::channel();
    *world.net.split_gate.lock() = Some(held);
    live.ask_in_group("a", "hm").await;
    reply(live.submit(message(&other(), "x", "quick")).await.unwrap()).await;
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&other()), ["re: quick"], "others are served meanwhile");
    let here = std::thread::current().id();
    assert!(world.net.split_on.lock().iter().all(|thread| *thread != here));
    let of_group = world.store.deliveries().await.unwrap();
    let of_group: Vec<_> = of_group.iter().filter(|item| item.channel == group()).collect();
    assert!(matches!(&of_group[..], [item] if item.attempted_at.is_none()), "{of_group:?}");
    // Killed while it is split, it is owed, and nothing about it is unknown.
    let again = World { net: FakeNet::new(), ..world.over(world.store.after_kill()) };
    *again.net.limit.lock() = 10_000;
    let _live = again.start().await;
    again.store.until(2, is_settled).await;
    assert_eq!(again.net.words(&group()).len(), 2);
    assert!(receipts(&again).iter().all(|receipt| matches!(receipt, Receipt::Delivered { .. })));
    drop(gate);
}

#[tokio::test(start_paused = true)]
async fn a_killed_outbox_comes_back_and_repeats_nothing() {
    let (world, live) = started().await;
    *world.net.limit.lock() = 4;
    let gate = world.net.hold_sends();
    live.ask_in_group("a", "hello").await;
    gate.add_permits(1);
    world.net.until(1, is_sent).await;
    settle().await;
    // The second part is on its way.
    live.runtime.shared().directory.kill_outbox();
    settle().await;
    gate.add_permits(100);
    world.store.until(2, is_settled).await;
    assert!(matches!(&receipts(&world)[..], [Receipt::Unknown { part: 1, .. }, Receipt::Delivered { .. }]));
    assert_eq!(world.net.words(&group()).concat(), format!("re: {UNSURE}"));
}

#[tokio::test(start_paused = true)]
async fn a_network_that_shows_what_was_sent_is_asked_and_an_outage_of_any_length_loses_nothing() {
    for arrives in [false, true] {
        for guard in [None, Some(120)] {
            let world = World::new();
            world.net.shows_sent.store(true, Ordering::Relaxed);
            if let Some(seconds) = guard {
                world.net.guard(seconds);
            }
            // Ten failures take more than five minutes.
            let outage =
                [Trouble::Unknown { arrives: false }, Trouble::Later(None)].map(|one| vec![one; 5]).concat();
            world.net.plan(&group(), &outage);
            world.net.plan(&group(), &[Trouble::Unknown { arrives }]);
            let live = world.start().await;
            live.ask_in_group("a", "one").await;
            live.ask_in_group("b", "two").await;
            world.store.until(2, is_settled).await;
            assert_eq!(world.net.words(&group()), ["re: one", "re: two"], "{arrives} {guard:?}");
            let is_delivered = |receipt: &Receipt| matches!(receipt, Receipt::Delivered { .. });
            assert!(receipts(&world).iter().all(is_delivered), "{:?}", receipts(&world));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_told_once_that_messages_may_be_missing_and_is_told_for_as_long_as_it_takes() {
    let world = World::new();
    let lost = Trouble::Unknown { arrives: false };
    // Two answers, then the note about them, twice.
    world.net.plan(&group(), &[lost.clone(), lost.clone(), lost.clone(), lost]);
    let gate = world.net.hold_sends();
    let live = world.start().await;
    live.ask_in_group("a", "one").await;
    live.ask_in_group("b", "two").await;
    gate.add_permits(100);
    world.store.until(3, is_settled).await;
    assert_eq!(world.net.words(&group()), [UNSURE]);
    world.net.plan(&group(), &[Trouble::Unknown { arrives: true }]);
    live.ask_in_group("c", "three").await;
    world.store.until(5, is_settled).await;
    assert_eq!(world.net.words(&group()), [UNSURE, "re: three", UNSURE]);
    let receipts = receipts(&world);
    assert_eq!(receipts.iter().filter(|receipt| matches!(receipt, Receipt::Unknown { .. })).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_asks_for_an_approval_says_so_with_its_last_part_and_takes_no_drafts_place() {
    let (world, live) = started().await;
    live.ask_in_group("a", "hm").await;
    world.store.until(1, is_settled).await;
    let draft = world.net.messages.lock()[0].0.clone();
    for (n, words) in ["onlythrees", "one"].into_iter().enumerate() {
        let again = world.over(world.store.after_kill());
        let event = Event::Delivery(DeliveryEvent::Intended {
            id: format!("ask{n}").into(),
            turn: "t1".into(),
            seq: Seq(1),
            note: Some(words.to_owned()),
            reply_to: None,
            edits: Some(draft.clone()).filter(|_| n == 1),
            approval: Some("abc234".into()),
            draft: false,
            files: Vec::new(),
        });
        let record = NewRecord { channel: Some(group()), at: jiff::Timestamp::UNIX_EPOCH, event };
        again.store.append(vec![record]).await.unwrap();
        *again.net.limit.lock() = 4;
        let before = again.net.messages.lock().len();
        let _live = again.start().await;
        again.store.until(2, is_settled).await;
        let sent = again.net.messages.lock()[before..].to_vec();
        let asks: Vec<(&str, bool)> =
            sent.iter().map(|(_, shown)| (shown.words.as_str(), shown.approval.is_some())).collect();
        let wanted: &[(&str, bool)] =
            [&[("only", false), ("thre", false), ("es", true)][..], &[("one", true)][..]][n];
        assert_eq!(asks, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn dead_deliveries_are_read_neither_by_a_look_nor_for_one_that_was_interrupted() {
    let world = World::new();
    world.net.plan(&group(), &[Trouble::Refused, Trouble::Refused, Trouble::Refused]);
    let live = world.start().await;
    for n in 0..3 {
        live.ask_in_group(&format!("m{n}"), "hello").await;
    }
    world.store.until(3, is_settled).await;
    let ids: Vec<_> = live.runtime.deliveries().await.unwrap().into_iter().map(|item| item.id).collect();
    live.ask_in_group("n", "and now?").await;
    world.store.until(4, is_settled).await;
    let is_attempted = |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Attempted { .. }));
    let attempted = world.store.events().iter().rposition(is_attempted).unwrap() + 1;
    let mut again = world.over(world.store.after_kill_at(attempted));
    again.net = FakeNet::new();
    again.net.guard(60);
    let live = again.start().await;
    again.store.until(4, is_settled).await;
    live.runtime.retry_delivery(&group(), &ids[0]).await.unwrap();
    again.store.until(5, is_settled).await;
    assert_eq!(again.net.words(&group()), ["re: and now?", "re: hello"]);
    assert_eq!(again.store.listed.load(std::sync::atomic::Ordering::SeqCst), 0);
}
