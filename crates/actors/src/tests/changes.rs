//! What people change after they said it: edits, deletions, `/undo`; parts that belong together; commands taken once; limits.

use std::time::Duration;

use cairn_core::limits::TalkLimits;
use cairn_types::command::Command;
use cairn_types::event::{Event, MessageEvent, NewRecord};
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::message::{Amendment, Author, Change, Gather, Inbound, Part};
use cairn_types::ports::{Intake as _, Refusal};
use jiff::Timestamp;
use serde_json::json;

use super::common::model::{Kind, Plan, words};
use super::common::*;
use crate::RuntimeError;

fn ann() -> Author {
    Author { id: "local/ann".to_owned(), name: "Ann".to_owned() }
}

fn change(channel: &ChannelId, id: &str, change: Change) -> Amendment {
    let at = Timestamp::from_second(1_767_225_700).unwrap();
    Amendment { channel: channel.clone(), message: MessageId::from(id), at, change }
}

fn edit(id: &str, text: &str, addressed: bool) -> Amendment {
    change(&group(), id, Change::Edited { author: ann(), parts: vec![Part::text(text)], addressed })
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_pending_message_changes_what_is_answered() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let _open = live.say_in_group("a", "first").await;
    let pending = live.say_in_group("b", "meet at noon").await;
    live.runtime.amend(edit("b", "meet at nine", true)).await.unwrap();
    gate.add_permits(10);
    assert_eq!(reply(pending).await, "re: meet at nine");
    assert!(!last_request(&world).contains("noon"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_an_answered_message_is_a_correction_that_causes_no_turn() {
    let (world, live) = started().await;
    live.ask_in_group("a", "meet at noon").await;
    live.runtime.amend(edit("a", "meet at nine", true)).await.unwrap();
    live.runtime.amend(edit("a", "meet at nine", true)).await.unwrap();
    settle().await;
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
    live.ask_in_group("b", "when?").await;
    let request = last_request(&world);
    assert!(request.contains("meet at noon") && request.matches("meet at nine").count() == 1, "{request}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_with_other_words_is_an_edit_and_never_a_conflict() {
    let (world, live) = started().await;
    live.ask_in_group("a", "meet at noon").await;
    let again = live.say_in_group("a", "meet at nine").await;
    assert_eq!(failure_code(again).await, "repeated");
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
    let conversation = world.store.conversation(&group()).unwrap();
    assert_eq!(conversation.pending.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_addresses_the_bot_is_answered() {
    let (world, live) = started().await;
    let mut aside = message(&group(), "a", "what time is it");
    aside.addressed = false;
    let _pending = live.submit(aside).await.unwrap();
    settle().await;
    assert!(world.model.requests(Kind::Reply).is_empty());
    live.runtime.amend(edit("a", "bot, what time is it", true)).await.unwrap();
    world.store.until(1, is_turn_ended).await;
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_message_is_not_answered_and_a_change_of_nothing_makes_nothing() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let _open = live.say_in_group("a", "first").await;
    let _pending = live.say_in_group("b", "forget this").await;
    live.runtime.amend(change(&group(), "b", Change::Deleted)).await.unwrap();
    gate.add_permits(10);
    settle().await;
    live.ask_in_group("c", "next").await;
    assert!(!last_request(&world).contains("forget this"));
    let unknown: ChannelId = "main/net/never".parse().unwrap();
    live.runtime.amend(change(&unknown, "x", Change::Deleted)).await.unwrap();
    assert!(live.runtime.conversation(&unknown).await.unwrap().is_none());
    let n_records = world.store.records().len();
    live.runtime.amend(change(&group(), "never", Change::Deleted)).await.unwrap();
    assert_eq!(world.store.records().len(), n_records);
}

#[tokio::test(start_paused = true)]
async fn a_question_deleted_while_the_model_thinks_is_not_answered() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let mut aside = message(&group(), "a", "an aside");
    aside.addressed = false;
    let _aside = live.submit(aside).await.unwrap();
    let [one, two] = [live.say_in_group("b", "a slip").await, live.say_in_group("c", "and more").await];
    world.model.until(1, Kind::Reply).await;
    live.runtime.amend(change(&group(), "b", Change::Deleted)).await.unwrap();
    settle().await;
    gate.add_permits(10);
    assert_eq!(failure_code(one).await, "stopped");
    assert_eq!(reply(two).await, "re: and more", "its turn is the next one");
    assert_eq!(world.model.requests(Kind::Reply).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_deleted_while_the_model_thinks_is_not_sent_with_the_next_persons() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let gone = live.say_in_group("a", "my number is 555").await;
    world.model.until(1, Kind::Reply).await;
    live.runtime.amend(change(&group(), "a", Change::Deleted)).await.unwrap();
    assert_eq!(failure_code(gone).await, "stopped");
    gate.add_permits(10);
    assert_eq!(live.ask_in_group("b", "who is there?").await, "re: who is there?");
    let request = last_request(&world);
    assert!(!request.contains("555") && request.contains("[message deleted]"), "{request}");
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_a_turn_goes_on_is_not_in_its_next_request() {
    let world = World::new().with_tools();
    world.model.plan(Kind::Reply, Plan::Calls(vec![("no_such_tool", json!({}))]));
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let mut aside = message(&group(), "a", "my number is 555");
    aside.addressed = false;
    let _aside = live.submit(aside).await.unwrap();
    let asked = live.say_in_group("b", "who is there?").await;
    world.model.until(1, Kind::Reply).await;
    assert!(last_request(&world).contains("555"));
    live.runtime.amend(change(&group(), "a", Change::Deleted)).await.unwrap();
    gate.add_permits(10);
    reply(asked).await;
    assert_eq!(world.model.requests(Kind::Reply).len(), 2);
    assert!(!last_request(&world).contains("555"));
}

/// A message of somebody that may go on for 1,500 ms.
fn part(id: &str, who: &str) -> Inbound {
    let author = Author { id: format!("net/{who}"), name: who.to_owned() };
    let gather = Gather { wait: Duration::from_millis(1_500), ..Gather::default() };
    Inbound { author, gather, ..message(&group(), id, &format!("part {id}")) }
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_paste_are_journalled_at_once_and_answered_together() {
    let (world, live) = started().await;
    let since = tokio::time::Instant::now();
    let one = live.submit(part("a", "ann")).await.unwrap();
    assert_eq!(world.store.conversation(&group()).unwrap().pending.len(), 1, "it is journalled");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let two = live.submit(part("b", "ann")).await.unwrap();
    let (one, two) = (reply(one).await, reply(two).await);
    assert_eq!((one, since.elapsed().as_millis() / 100), (two, 25), "1.5 s after the last part");
    let requests = world.model.requests(Kind::Reply);
    assert_eq!(requests.len(), 1);
    assert!(words(&requests[0]).contains("part a") && words(&requests[0]).contains("part b"));
    // A reply to a question, like a command, comes whole.
    let answer = Inbound { gather: Gather::default(), ..part("c", "ann") };
    let since = tokio::time::Instant::now();
    reply(live.submit(answer).await.unwrap()).await;
    assert!(since.elapsed() < Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn an_album_is_answered_once_also_where_messages_wait_for_no_other() {
    let (world, live) = started().await;
    let photo = |id: &str, more| {
        let gather = Gather { album: Some("album".to_owned()), more, ..Gather::default() };
        Inbound { gather, ..part(id, "ann") }
    };
    let one = live.submit(photo("a", true)).await.unwrap();
    // The next one takes long to load.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let two = live.submit(photo("b", false)).await.unwrap();
    assert_eq!(reply(one).await, reply(two).await);
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_messages_is_answered_after_ten_seconds() {
    let (world, live) = started().await;
    let mut admitted = Vec::new();
    for n in 0..11 {
        admitted.push(live.submit(part(&format!("m{n:02}"), "ann")).await.unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.model.requests(Kind::Reply).len(), 1, "it began at ten seconds");
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_more_at_a_stop_is_answered_at_once_by_the_next_start() {
    let (world, live) = started().await;
    let _admitted = live.submit(part("a", "ann")).await.unwrap();
    live.runtime.shutdown(Duration::from_secs(1)).await;
    drop(live);
    assert!(world.model.requests(Kind::Reply).is_empty());
    let since = tokio::time::Instant::now();
    let _live = world.start().await;
    world.model.until(1, Kind::Reply).await;
    assert!(since.elapsed() < Duration::from_millis(500), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_question_was_deleted_right_before_a_crash_is_not_taken_up() {
    let (world, live) = started().await;
    let _gate = world.model.hold(Kind::Reply);
    let _asked = live.say_in_group("b", "a slip").await;
    world.model.until(1, Kind::Reply).await;
    let world = world.killed();
    let turn = world.store.conversation(&group()).unwrap().open_turn.unwrap();
    let deleted = MessageEvent::Deleted { message: MessageId::from("b"), seqs: vec![turn.first_seq] };
    let at = Timestamp::from_second(1_767_225_700).unwrap();
    world.store.push(vec![NewRecord { channel: Some(group()), at, event: Event::Message(deleted) }]);
    let _live = world.start().await;
    world.store.until(1, is_turn_ended).await;
    assert!(world.store.conversation(&group()).unwrap().open_turn.is_none());
    assert!(world.net.words(&group()).is_empty(), "nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn the_last_turn_is_taken_back() {
    let (world, live) = started().await;
    live.ask_in_group("a", "keep me").await;
    live.ask_in_group("b", "take me back").await;
    live.runtime.undo(&group()).await.unwrap();
    live.ask_in_group("c", "next").await;
    let request = last_request(&world);
    assert!(request.contains("keep me") && !request.contains("take me back"), "{request}");
    for _ in 0..2 {
        live.runtime.undo(&group()).await.unwrap();
    }
    let nothing = live.runtime.undo(&group()).await;
    assert!(matches!(nothing, Err(RuntimeError::NothingToUndo(_))), "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn an_open_turn_is_stopped_and_taken_back_before_the_next_begins() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let open = live.say_in_group("a", "endless").await;
    world.model.until(1, Kind::Reply).await;
    let pending = live.say_in_group("b", "next").await;
    live.runtime.undo(&group()).await.unwrap();
    assert_eq!(failure_code(open).await, "stopped");
    gate.add_permits(10);
    assert_eq!(reply(pending).await, "re: next");
    assert!(!last_request(&world).contains("endless"));
}

#[tokio::test(start_paused = true)]
async fn a_command_is_claimed_once_also_over_a_restart() {
    let (world, live) = started().await;
    let claim = |live: &Live| {
        let runtime = live.runtime.clone();
        async move { runtime.claim(group(), MessageId::from("c1"), Command::Help, ann()).await }
    };
    assert_eq!(claim(&live).await, Ok(true));
    assert_eq!(claim(&live).await, Ok(false));
    let again = world.killed();
    let live = again.start().await;
    assert_eq!(claim(&live).await, Ok(false));
    assert_eq!(
        again.store.count(|event| matches!(event, Event::Message(MessageEvent::CommandTaken { .. }))),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_told_once_and_binds_neither_repeats_nor_asides_nor_the_local_platform() {
    let mut world = World::new();
    world.talk = TalkLimits { user_messages_per_hour: 2, ..TalkLimits::default() };
    let live = world.start().await;
    live.ask_in_group("a", "one").await;
    live.ask_in_group("b", "two").await;
    for (id, tells) in [("c", true), ("d", false)] {
        match live.submit(message(&group(), id, "three")).await.err() {
            Some(Refusal::Limited { tell, .. }) => assert_eq!(tell, tells),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(live.ask_in_group("a", "one").await, "re: one", "a repeat is no new message");
    let mut aside = message(&group(), "e", "aside");
    aside.addressed = false;
    assert!(live.submit(aside).await.is_ok());
    assert_eq!(live.ask("l", "local").await, "re: local");
    tokio::time::sleep(std::time::Duration::from_secs(3_700)).await;
    assert_eq!(live.ask_in_group("f", "four").await, "re: aside\nfour");
}

#[tokio::test(start_paused = true)]
async fn what_a_limit_refused_stays_refused_when_it_comes_again_after_a_restart() {
    let mut world = World::new();
    world.talk = TalkLimits { user_messages_per_hour: 1, ..TalkLimits::default() };
    let live = world.start().await;
    live.ask_in_group("a", "one").await;
    let refused = live.submit(message(&group(), "b", "two")).await;
    assert!(matches!(refused.err(), Some(Refusal::Limited { .. })));
    let again = world.killed();
    let live = again.start().await;
    assert!(live.submit(message(&group(), "b", "two")).await.is_ok(), "it is taken, and passed over");
    assert_eq!(live.ask_in_group("c", "three").await, "re: three");
    assert!(!last_request(&again).contains("two"));
    assert_eq!(again.store.count(|event| matches!(event, Event::Message(MessageEvent::Refused { .. }))), 1);
}
