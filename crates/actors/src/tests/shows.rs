//! What a chat sees before an answer is there: typing, and drafts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_types::event::{DeliveryEvent, Event};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Gather, Inbound};
use cairn_types::model::{ModelError, RefusalCause};
use tokio::time::Instant;

use super::common::model::{Kind, Plan};
use super::common::net::{Act, Trouble};
use super::common::*;

fn is_typing(act: &Act) -> bool {
    matches!(act, Act::Typing { .. })
}

#[tokio::test(start_paused = true)]
async fn typing_is_shown_at_once_and_again_and_never_after_the_last_part() {
    let world = World::new();
    *world.net.limit.lock() = 3;
    let sends = world.net.hold_sends();
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let start = Instant::now();
    let asked = live.say_in_group("a", "hello").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.net.times(start, is_typing), [0, 4_000, 8_000]);
    gate.add_permits(1);
    reply(asked).await;
    sends.add_permits(1);
    settle().await;
    let acts = world.net.acts();
    assert!(is_sent(&acts[3]) && is_typing(&acts[4]), "a part puts typing out, it is shown again: {acts:?}");
    sends.add_permits(2);
    world.store.until(1, is_settled).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let acts = world.net.acts();
    assert_eq!(acts.iter().filter(|act| is_sent(act)).count(), 3);
    assert!(is_sent(acts.last().unwrap()), "typing follows the last part: {acts:?}");
}

#[tokio::test(start_paused = true)]
async fn typing_is_shown_at_once_while_a_message_still_waits_for_its_next_part() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let gather = Gather { wait: Duration::from_millis(1_500), ..Gather::default() };
    let aside = Inbound { gather: gather.clone(), addressed: false, ..message(&group(), "x", "not for you") };
    drop(live.submit(aside).await.unwrap());
    settle().await;
    assert!(world.net.acts().is_empty());
    let start = Instant::now();
    let asked = live.submit(Inbound { gather, ..message(&group(), "a", "hello") }).await.unwrap();
    settle().await;
    assert_eq!(world.net.times(start, is_typing), [0]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
    assert_eq!(world.net.times(start, is_typing), [0, 4_000], "the turn goes on with what is shown");
    gate.add_permits(1);
    reply(asked).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_part_waits_for_a_typing_request_on_its_way_but_not_for_long() {
    let (world, live) = started().await;
    let gate = world.net.hold_typing();
    let start = Instant::now();
    let asked = live.say_in_group("a", "hello").await;
    reply(asked).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "the turn does not wait for it");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.net.acts().is_empty());
    gate.add_permits(1);
    world.store.until(1, is_settled).await;
    assert!(is_typing(&world.net.acts()[0]) && is_sent(&world.net.acts()[1]));
    // A request that never ends is left behind.
    live.ask_in_group("b", "hello").await;
    world.store.until(2, is_settled).await;
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn typing_ends_with_a_turn_that_is_stopped_and_is_not_shown_to_nobody() {
    let (world, live) = started().await;
    let _gate = world.model.hold(Kind::Reply);
    let mut aside = message(&group(), "x", "not for you");
    aside.addressed = false;
    let _pending = live.submit(aside).await.unwrap();
    settle().await;
    assert!(world.net.acts().is_empty());
    let _open = live.say_in_group("a", "hello").await;
    settle().await;
    assert!(live.runtime.stop_turn(&group()).await.unwrap());
    let n_acts = world.net.acts().len();
    assert_eq!(n_acts, 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.net.acts().len(), n_acts);
    assert!(world.net.words(&group()).is_empty(), "the command answers, no note does");
}

/// A world in which drafts are shown every second.
fn drafting() -> World {
    let world = World::new();
    world.net.show_drafts(Duration::from_secs(1));
    world
}

fn slow(words: &[&str]) -> Plan {
    Plan::Slow(Duration::from_secs(1), words.iter().map(|words| (*words).to_owned()).collect())
}

async fn ask(live: &Live, plan: Plan, world: &World) -> String {
    world.model.plan(Kind::Reply, plan);
    live.ask_in_group("a", "hello").await
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_edited_as_words_come_and_ends_as_the_reply() {
    let world = drafting();
    let live = world.start().await;
    let start = Instant::now();
    ask(&live, slow(&["one", " two", " three", " four"]), &world).await;
    world.store.until(1, is_settled).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.net.words(&group()), ["one two three four"], "one message");
    let times = world.net.times(start, |act| is_sent(act) || is_edited(act));
    assert!(times.len() >= 3, "{times:?}");
    let edits = &times[..times.len() - 1];
    assert!(edits.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{times:?}");
    let acts = world.net.acts();
    let last = acts.iter().rev().find(|act| !is_typing(act)).unwrap();
    assert!(matches!(last, Act::Edited { words, .. } if words == "one two three four"));
    let answers = |act: &Act| matches!(act, Act::Sent { reply_to: Some(to), .. } if to == "a");
    assert_eq!(acts.iter().filter(|act| answers(act)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_edited_half_as_often_after_the_tenth_edit() {
    let world = drafting();
    let live = world.start().await;
    let start = Instant::now();
    let words: Vec<String> = (0..30).map(|n| format!("{n} ")).collect();
    ask(&live, slow(&words.iter().map(String::as_str).collect::<Vec<_>>()), &world).await;
    world.store.until(1, is_settled).await;
    let times = world.net.times(start, is_edited);
    let gaps: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[..9].iter().all(|gap| *gap < 2_000), "{gaps:?}");
    assert!(gaps[9..gaps.len() - 1].iter().all(|gap| *gap >= 2_000), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quick_answer_needs_no_draft() {
    let world = drafting();
    let live = world.start().await;
    live.ask_in_group("a", "hello").await;
    world.store.until(1, is_settled).await;
    assert!(!world.net.acts().iter().any(is_edited));
    let drafts =
        |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Intended { draft: true, .. }));
    assert_eq!(world.store.count(drafts), 0);
}

#[tokio::test(start_paused = true)]
async fn a_draft_stays_at_its_first_part_and_the_rest_follows_it() {
    let world = drafting();
    *world.net.limit.lock() = 5;
    let live = world.start().await;
    ask(&live, slow(&["first", "secon", "third", ""]), &world).await;
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["first", "secon", "third"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_split_again_for_a_draft_that_is_full() {
    let splits = async |n: usize| {
        let world = drafting();
        *world.net.limit.lock() = 5;
        let live = world.start().await;
        let pieces = (0..n).map(|n| format!("{n:0>5}")).collect();
        ask(&live, Plan::Slow(Duration::from_secs(1), pieces), &world).await;
        world.net.splits.load(Ordering::Relaxed)
    };
    assert_eq!(splits(100).await, splits(10).await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_begins_anew_takes_the_place_of_a_draft_that_is_full() {
    let world = drafting();
    *world.net.limit.lock() = 5;
    let live = world.start().await;
    let broken = overloaded();
    world.model.plan(Kind::Reply, Plan::SlowBroken(Duration::from_secs(5), "first and much more", broken));
    ask(&live, slow(&["n", "ew", "", ""]), &world).await;
    world.store.until(1, is_settled).await;
    let edits: Vec<_> = world.net.acts().into_iter().filter(is_edited).collect();
    assert!(matches!(&edits[0], Act::Edited { words, .. } if words == "n" || words == "new"), "{edits:?}");
    assert_eq!(world.net.words(&group()), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_the_draft_that_is_there_becomes_the_reply() {
    let world = drafting();
    let live = world.start().await;
    world.model.plan(Kind::Reply, slow(&["begun", " and", " never", " ended", "!"]));
    let _open = live.say_in_group("a", "hello").await;
    let is_draft_sent = |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Sent { .. }));
    world.store.until(1, is_draft_sent).await;
    let again = world.killed();
    drop(live);
    let live = again.start().await;
    again.model.plan(Kind::Reply, slow(&["again", " and", " whole", ""]));
    again.store.until(1, is_settled).await;
    assert!(matches!(&again.net.words(&group())[..], [words] if !words.starts_with("begun")));
    assert!(live.runtime.deliveries().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_draft_whose_fate_is_unknown_is_found_where_doubles_are_guarded_against() {
    let world = drafting();
    world.net.guard(120);
    world.net.plan(&group(), &[Trouble::Unknown { arrives: true }]);
    let live = world.start().await;
    ask(&live, slow(&["one", " two", " three", " four", " five"]), &world).await;
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["one two three four five"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_sent_beside_a_draft_of_which_nobody_knows() {
    for arrives in [true, false] {
        let world = drafting();
        world.net.plan(&group(), &[Trouble::Unknown { arrives }]);
        let live = world.start().await;
        ask(&live, slow(&["one", " two", " three"]), &world).await;
        world.store.until(1, is_settled).await;
        let words = world.net.words(&group());
        assert_eq!(words.last().map(String::as_str), Some("one two three"), "{words:?}");
        assert_eq!(words.len(), 1 + usize::from(arrives));
        assert!(live.runtime.deliveries().await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_draft_of_a_turn_that_is_stopped_or_fails_says_so() {
    let world = drafting();
    let live = world.start().await;
    world.model.plan(Kind::Reply, slow(&["one", " two", " three", " four", " five"]));
    let _open = live.say_in_group("a", "hello").await;
    world.net.until(1, is_sent).await;
    settle().await;
    assert!(live.runtime.stop_turn(&group()).await.unwrap());
    world.store.until(1, is_settled).await;
    let words = world.net.words(&group());
    assert!(words[0].starts_with("one") && words[0].ends_with("*(stopped)*"), "{words:?}");

    let bad = ModelError::BadRequest { message: "secret detail".to_owned(), cause: RefusalCause::Address };
    world.model.plan(Kind::Reply, Plan::SlowBroken(Duration::from_secs(3), "half", bad));
    let open = live.say_in_group("b", "hello").await;
    assert_eq!(failure_code(open).await, "turn_failed");
    world.store.until(2, is_settled).await;
    let words = world.net.words(&group());
    assert_eq!(words.len(), 2);
    assert!(words[1].starts_with("Sorry") && !words[1].contains("secret"), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_was_deleted_gives_way_to_a_message() {
    let world = drafting();
    let live = world.start().await;
    world.model.plan(Kind::Reply, slow(&["one", " two", " three"]));
    let open = live.say_in_group("a", "hello").await;
    world.net.until(1, is_sent).await;
    world.net.messages.lock().clear();
    reply(open).await;
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["one two three"]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_does_not_overtake_what_is_owed_from_before() {
    let world = drafting();
    let live = world.start().await;
    let wait = Some(Duration::from_secs(30));
    world.net.plan(&group(), &[Trouble::Later(wait)]);
    live.ask_in_group("a", "first").await;
    world.model.plan(Kind::Reply, slow(&["one", " two", " three"]));
    live.ask_in_group("b", "second").await;
    world.store.until(2, is_settled).await;
    let channel: ChannelId = group();
    assert_eq!(world.net.words(&channel), ["re: first", "one two three"]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_of_what_was_reasoning_is_corrected_by_the_answer() {
    let world = drafting();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Amid(Duration::from_secs(3), "Ann greets, so I greet.", "Hello!"));
    live.ask_in_group("a", "hello").await;
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["Hello!"], "{:?}", world.net.acts());
    let history = world.store.history(&group());
    let answer = history.last().unwrap();
    assert_eq!(
        (answer.text().as_str(), answer.reasoning.as_deref()),
        ("Hello!", Some("Ann greets, so I greet."))
    );
}
