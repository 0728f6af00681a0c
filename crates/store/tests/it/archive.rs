//! Conversations at rest: what comes back is what was, by every path.

use std::sync::Arc;

use super::common::{Chat, at, channel, chatting, open, remove_derived, texts};
use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store as _;
use cairn_store::Store;
use cairn_types::event::{DeliveryEvent, Event, MessageEvent, Receipt, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::{ChannelId, Generation, MessageId, Seq, TurnId};
use cairn_types::message::{Author, Part, Pending};
use cairn_types::model::Usage;
use cairn_types::people::said::{HistoryQuery, SaidFilter};
use cairn_types::ports::{ChannelRow, DeliveryState, OutboxCounts, Seen};

#[tokio::test]
async fn a_restored_channel_is_the_one_that_was_left() {
    let (dir, store, mut chat) = chatting();
    chat.turn("a", "hello", "hi").await;
    chat.turn("b", "the bike is blue", "noted").await;
    chat.compact(2, "They greeted.", Vec::new()).await;
    chat.accept("c", "ana", "still there?").await;
    let restored = store.restore(&chat.state.channel).await.unwrap().unwrap();
    assert_eq!(restored, chat.state);
    assert!(store.restore(&channel("other")).await.unwrap().is_none());

    store.keep_snapshot(Arc::new(restored)).await.unwrap();
    chat.append(vec![Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) })]).await;
    store.close().await;
    let store = open(dir.path());
    let restored = store.restore(&chat.state.channel).await.unwrap().unwrap();
    assert_eq!(restored, chat.state);
    store.close().await;
}

#[tokio::test]
async fn a_restore_from_a_head_equals_one_from_the_first_event() {
    let (_dir, store, mut chat) = chatting();
    for i in 0..5 {
        chat.turn(&format!("m{i}"), &format!("message {i}"), "ok").await;
    }
    chat.accept("p", "ana", "pending at the head").await;
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    let turn = chat.state.pending[0].turn.clone();
    chat.start(&turn, &["p"]).await;
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    store.close().await;
}

#[tokio::test]
async fn entries_are_read_by_number_across_generations_without_pending_ones() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("a", "one", "two").await;
    let before: Vec<_> = chat.state.live.iter().cloned().collect();
    chat.append(vec![Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) })]).await;
    chat.turn("b", "three", "four").await;
    chat.accept("c", "ana", "pending").await;
    let main = channel("main");
    let all = store.entries(&main, Seq(1), Seq(u64::MAX), 100).await.unwrap();
    assert_eq!(texts(&all), ["one", "two", "three", "four"]);
    assert_eq!(all[..2], before[..]);
    assert_eq!(all[2..], chat.state.live.iter().cloned().collect::<Vec<_>>()[..]);
    assert_eq!(texts(&store.entries(&main, Seq(2), Seq(3), 100).await.unwrap()), ["two", "three"]);
    assert_eq!(texts(&store.entries(&main, Seq(2), Seq(9), 1).await.unwrap()), ["two"]);
    assert!(store.entries(&main, Seq(9), Seq(2), 5).await.unwrap().is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_message_id_is_new_then_open_then_ended() {
    let (_dir, store, mut chat) = chatting();
    let (main, id) = (channel("main"), MessageId::from("a"));
    assert_eq!(store.seen(&main, &id).await.unwrap(), Seen::New);
    let turn = chat.accept("a", "ana", "hello").await;
    let fingerprint = "print of hello".to_owned();
    let is_open = Seen::Open { turn: turn.clone(), fingerprint: fingerprint.clone() };
    assert_eq!(store.seen(&main, &id).await.unwrap(), is_open);
    chat.start(&turn, &["a"]).await;
    assert_eq!(store.seen(&main, &id).await.unwrap(), is_open);
    let end = Chat::end(&turn, Seq(1));
    chat.append(vec![end.clone()]).await;
    let Event::Turn(TurnEvent::Ended(end)) = end else { unreachable!() };
    let ended = Seen::Ended { turn: TurnId::from("t1"), fingerprint, end: Box::new(end) };
    assert_eq!(store.seen(&main, &id).await.unwrap(), ended);
    assert_eq!(store.seen(&channel("other"), &id).await.unwrap(), Seen::New);
    store.close().await;
}

/// The list of channels; of those with a message to the bot the unfinished ones are those that a start wakes.
async fn listed(store: &Store) -> Vec<ChannelRow> {
    let rows = store.channels().await.unwrap();
    let unfinished = rows.iter().filter(|row| row.unfinished).map(|row| row.channel.clone());
    assert_eq!(store.unfinished().await.unwrap(), unfinished.collect::<Vec<_>>());
    rows
}

#[tokio::test]
async fn a_channel_is_unfinished_as_long_as_its_conversation_is() {
    let (_dir, store, mut chat) = chatting();
    let turn = chat.accept("a", "ana", "hello").await;
    let mut steps = vec![(chat.state.is_unfinished(), listed(&store).await)];
    chat.start(&turn, &["a"]).await;
    steps.push((chat.state.is_unfinished(), listed(&store).await));
    let intent = Event::Delivery(DeliveryEvent::Intended {
        id: "o1".into(),
        turn: turn.clone(),
        seq: Seq(1),
        note: None,
        approval: None,
        reply_to: None,
        edits: None,
        draft: false,
        files: Vec::new(),
    });
    chat.append(vec![Chat::end(&turn, Seq(1)), intent]).await;
    steps.push((chat.state.is_unfinished(), listed(&store).await));
    assert_eq!(store.deliveries().await.unwrap()[0].at, at(chat.secs));
    let receipt = cairn_types::event::Receipt::Delivered { messages: Vec::new() };
    chat.append(vec![Event::Delivery(DeliveryEvent::Settled { id: "o1".into(), receipt })]).await;
    steps.push((chat.state.is_unfinished(), listed(&store).await));
    let flags: Vec<(bool, bool)> = steps.iter().map(|(state, rows)| (*state, rows[0].unfinished)).collect();
    assert_eq!(flags, [(true, true), (true, true), (true, true), (false, false)]);
    assert_eq!(steps[3].1[0].last_at, at(chat.secs));
    assert!(store.deliveries().await.unwrap().is_empty());
    store.close().await;
}

#[tokio::test]
async fn private_chats_of_a_platform_are_listed_and_one_channel_is_looked_up() {
    let (dir, store, _) = chatting();
    for (name, direct) in [("main/discord/5", true), ("main/discord/6", false), ("main/discord2/7", true)] {
        let id: ChannelId = name.parse().unwrap();
        let mut chat = Chat { store: store.clone(), state: Conversation::new(id), secs: 0 };
        for message in ["a", "b"] {
            let pending = Pending { direct, ..chat.pending(message, "ana", "hello") };
            chat.append(vec![Event::Message(MessageEvent::Accepted(pending))]).await;
        }
    }
    store.close().await;
    for rebuilt in [false, true] {
        if rebuilt {
            remove_derived(dir.path());
        }
        let store = open(dir.path());
        store.settle().await.unwrap();
        let private: Vec<ChannelId> = store.private_chats("discord").await.unwrap();
        assert_eq!(private, ["main/discord/5".parse().unwrap()], "rebuilt: {rebuilt}");
        let row = store.channel(&private[0]).await.unwrap().unwrap();
        assert_eq!((row.channel, row.last_message), (private[0].clone(), Some("b".into())));
        assert_eq!(store.channel(&"main/discord/8".parse().unwrap()).await.unwrap(), None);
        store.close().await;
    }
}

#[tokio::test]
async fn a_start_wakes_no_channel_in_which_people_only_talked_to_each_other() {
    let (_dir, store, _) = chatting();
    let group: ChannelId = "main/telegram/5".parse().unwrap();
    let mut chat = Chat { store: store.clone(), state: Conversation::new(group.clone()), secs: 0 };
    let overheard =
        |chat: &Chat, id: &str| Pending { addressed: false, ..chat.pending(id, "ana", "a nice train") };
    let first = overheard(&chat, "a");
    let turn = first.turn.clone();
    chat.append(vec![Event::Message(MessageEvent::Accepted(first))]).await;
    assert!(store.channels().await.unwrap()[0].unfinished, "it waits");
    assert!(store.unfinished().await.unwrap().is_empty());
    let edited = Event::Message(MessageEvent::Edited {
        message: "a".into(),
        parts: vec![Part::text("bot, a nice train?")],
        addressed: true,
        fingerprint: "edited".to_owned(),
        tokens: 7,
    });
    chat.append(vec![edited]).await;
    assert_eq!(store.unfinished().await.unwrap(), std::slice::from_ref(&group));
    chat.start(&turn, &["a"]).await;
    let seq = chat.state.next_seq;
    let entry = chat.reply(&turn, "very");
    chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry }), Chat::end(&turn, seq)]).await;
    assert!(store.unfinished().await.unwrap().is_empty());
    let second = overheard(&chat, "b");
    chat.append(vec![Event::Message(MessageEvent::Accepted(second))]).await;
    assert!(store.unfinished().await.unwrap().is_empty());
    store.close().await;
}

#[tokio::test]
async fn message_ids_are_forgotten_after_thirty_days_but_not_before_they_are_answered() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("answered", "hello", "hi").await;
    chat.accept("waiting", "ana", "and?").await;
    let main = channel("main");
    // With every eighth message a block is looked at, and behind the last one it begins again.
    for (days, is_known) in [(29, true), (20, false)] {
        for _ in 0..days {
            chat.secs += 86_400;
            chat.accept(&format!("late-{}", chat.secs), "ana", "still there?").await;
        }
        let seen = store.seen(&main, &"answered".into()).await.unwrap();
        assert_eq!(matches!(seen, Seen::Ended { .. }), is_known, "{seen:?}");
    }
    assert!(matches!(store.seen(&main, &"waiting".into()).await.unwrap(), Seen::Open { .. }));
    assert_eq!(store.restore(&main).await.unwrap().unwrap(), chat.state, "the words stay");
    store.close().await;
}

#[tokio::test]
async fn a_turn_that_is_opened_again_has_no_end_until_it_ends_again() {
    let (_dir, store, mut chat) = chatting();
    let main = channel("main");
    let turn = chat.accept("m", "ana", "and?").await;
    chat.start(&turn, &["m"]).await;
    let failed = TurnOutcome::Failed { code: "transport".to_owned(), message: "down".to_owned() };
    let end = |outcome| {
        let (model, usage, recalled) = (None, Usage::default(), Vec::new());
        Event::Turn(TurnEvent::Ended(TurnEnd { turn: turn.clone(), outcome, model, usage, recalled }))
    };
    chat.append(vec![end(failed.clone())]).await;
    let ends = async || {
        let ends = store.turn_ends(&main, Seq(1), Seq(9)).await.unwrap();
        ends.into_iter().map(|(seq, end)| (seq.0, end.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(ends().await, [(1, failed)]);
    let again = Event::Turn(TurnEvent::Reopened { turn: turn.clone(), messages: vec!["m".into()] });
    chat.append(vec![again]).await;
    assert_eq!(ends().await, []);
    assert!(matches!(store.seen(&main, &"m".into()).await.unwrap(), Seen::Open { .. }));
    let entry = chat.reply(&turn, "so");
    let answered = TurnOutcome::Answered { reply: entry.seq };
    chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry }), end(answered.clone())]).await;
    assert_eq!(ends().await, [(2, answered)]);
    store.close().await;
}

#[tokio::test]
async fn a_clock_that_jumps_has_no_message_taken_in_twice() {
    let (_dir, store, mut chat) = chatting();
    let main = channel("main");
    for (n, jump) in [366, -366, -31, 31].into_iter().enumerate() {
        let id = format!("message-{n}");
        chat.turn(&id, "hello", "hi").await;
        chat.secs += jump * 86_400;
        chat.turn(&format!("later-{n}"), "and now?", "the same").await;
        assert!(
            matches!(store.seen(&main, &id.as_str().into()).await.unwrap(), Seen::Ended { .. }),
            "{jump}"
        );
    }
    store.close().await;
}

#[tokio::test]
async fn of_many_message_ids_all_that_are_too_old_are_forgotten_a_few_at_a_time() {
    let (_dir, store, mut chat) = chatting();
    let main = channel("main");
    for n in 0..40 {
        chat.append(vec![command(&format!("old-{n}"))]).await;
    }
    for n in 0..40 {
        chat.secs += 86_400;
        chat.append(vec![command(&format!("new-{n}"))]).await;
    }
    for n in 0..40 {
        assert_eq!(store.seen(&main, &format!("old-{n}").as_str().into()).await.unwrap(), Seen::New, "{n}");
    }
    let newest = store.seen(&main, &"new-39".into()).await.unwrap();
    assert!(matches!(newest, Seen::Ended { .. }), "{newest:?}");
    store.close().await;
}

fn command(id: &str) -> Event {
    let caller = Author { id: "discord/1".to_owned(), name: "ana".to_owned() };
    Event::Message(MessageEvent::CommandTaken { message: id.into(), command: "new".to_owned(), caller })
}

#[tokio::test]
async fn a_command_and_what_was_refused_are_seen_and_ended_and_make_their_channel_known() {
    let (_dir, store, mut chat) = chatting();
    let main = channel("main");
    for (id, event) in
        [("76", Event::Message(MessageEvent::Refused { message: "76".into() })), ("77", command("77"))]
    {
        chat.append(vec![event.clone()]).await;
        for _ in 0..2 {
            let Seen::Ended { end, .. } = store.seen(&main, &id.into()).await.unwrap() else {
                panic!("not ended")
            };
            assert_eq!(end.outcome, TurnOutcome::Unanswered);
            chat.append(vec![event.clone()]).await;
        }
    }
    let rows = store.channels().await.unwrap();
    assert_eq!((rows.len(), rows[0].unfinished), (1, false));
    assert_eq!(store.restore(&main).await.unwrap().unwrap(), chat.state);
    for day in 0..40 {
        chat.secs += 86_400;
        chat.append(vec![command(&format!("78-{day}"))]).await;
    }
    assert_eq!(store.seen(&main, &"77".into()).await.unwrap(), Seen::New);
    store.close().await;
}

#[tokio::test]
async fn a_channel_knows_the_message_that_was_taken_in_last_whatever_command_passed_it() {
    let (_dir, store, mut chat) = chatting();
    chat.append(vec![Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) })]).await;
    let mut last = vec![store.channels().await.unwrap()[0].last_message.clone()];
    chat.turn("10", "hello", "hi").await;
    last.push(store.channels().await.unwrap()[0].last_message.clone());
    chat.append(vec![command("11")]).await;
    last.push(store.channels().await.unwrap()[0].last_message.clone());
    let edit = MessageId::from("10").correction(at(chat.secs));
    chat.accept(edit.as_str(), "ana", "(edited) hullo").await;
    last.push(store.channels().await.unwrap()[0].last_message.clone());
    chat.append(vec![Event::Message(MessageEvent::Refused { message: "12".into() })]).await;
    last.push(store.channels().await.unwrap()[0].last_message.clone());
    let ten = Some(MessageId::from("10"));
    assert_eq!(last, [None, ten.clone(), ten.clone(), ten, Some("12".into())]);
    store.close().await;
}

#[tokio::test]
async fn a_delivery_goes_through_all_its_states_and_the_conversation_owes_those_that_are_owed() {
    let (_dir, store, mut chat) = chatting();
    let turn = chat.turn("a", "hello", "hi").await;
    let intent = |id: &str, draft| DeliveryEvent::Intended {
        id: id.into(),
        turn: turn.clone(),
        seq: Seq(2),
        note: None,
        approval: None,
        reply_to: Some("a".into()),
        edits: None,
        draft,
        files: Vec::new(),
    };
    let id = || "main/local/main:2".into();
    let unknown = Receipt::Unknown { part: 1, reason: "the connection broke".to_owned() };
    let dead = Receipt::Dead { reason: "the chat is gone".to_owned() };
    let owed = |sent, attempted| Some((sent, attempted, DeliveryState::Owed));
    let steps = [
        (intent("d1", true), None),
        (intent("main/local/main:2", false), owed(0, false)),
        (DeliveryEvent::Attempted { id: id(), part: 0 }, owed(0, true)),
        (DeliveryEvent::PutOff { id: id(), part: 0, reason: "slow".to_owned() }, owed(0, false)),
        (DeliveryEvent::Attempted { id: id(), part: 0 }, owed(0, true)),
        (DeliveryEvent::Sent { id: id(), part: 0, message: "900".into() }, owed(1, false)),
        (DeliveryEvent::Attempted { id: id(), part: 1 }, owed(1, true)),
        (
            DeliveryEvent::Settled { id: id(), receipt: unknown },
            Some((1, true, DeliveryState::Unknown { reason: "the connection broke".to_owned() })),
        ),
        (DeliveryEvent::Retried { id: id() }, owed(1, false)),
        (DeliveryEvent::Retried { id: id() }, owed(1, false)),
        (
            DeliveryEvent::Settled { id: id(), receipt: dead },
            Some((1, false, DeliveryState::Dead { reason: "the chat is gone".to_owned() })),
        ),
        (DeliveryEvent::Dropped { id: id() }, None),
        (DeliveryEvent::Retried { id: id() }, None),
        (intent("main/local/main:2", false), owed(0, false)),
        (DeliveryEvent::Settled { id: id(), receipt: Receipt::Delivered { messages: Vec::new() } }, None),
        (DeliveryEvent::Retried { id: id() }, None),
    ];
    for (event, expected) in steps {
        let told = format!("{event:?}");
        chat.append(vec![Event::Delivery(event)]).await;
        let items = store.deliveries().await.unwrap();
        let shown =
            items.first().map(|item| (item.sent.len(), item.attempted_at.is_some(), item.state.clone()));
        assert_eq!(shown, expected, "{told}");
        let mut counts = OutboxCounts::default();
        items.iter().for_each(|item| *counts.of(&item.state) += 1);
        assert_eq!(store.totals().await.unwrap().outbox, counts, "{told}");
        let owed_since = items.iter().find(|item| item.is_owed()).map(|item| item.at);
        assert_eq!(store.oldest_owed().await.unwrap(), owed_since, "{told}");
        assert_eq!(store.delivery(&id()).await.unwrap(), items.first().cloned(), "{told}");
        let main = channel("main");
        assert_eq!(store.delivery_of(&main, &id()).await.unwrap(), items.first().cloned(), "{told}");
        let due: Vec<_> = items.iter().filter(|item| item.is_owed()).cloned().collect();
        assert_eq!(store.owed(None).await.unwrap(), due, "{told}");
        assert_eq!(store.owed(Some(&main)).await.unwrap(), due, "{told}");
        assert_eq!(store.owed(Some(&channel("mai"))).await.unwrap(), [], "{told}");
        let page = store.delivery_page(None, 9).await.unwrap().into_iter().map(|(_, item)| item);
        assert_eq!(page.collect::<Vec<_>>(), items, "{told}");
        let owed: Vec<_> = items.iter().filter(|item| item.is_owed()).map(|item| item.id.clone()).collect();
        assert_eq!(chat.state.owed, owed, "{told}");
        assert_eq!(store.channels().await.unwrap()[0].unfinished, !owed.is_empty(), "{told}");
    }
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    store.close().await;
}

#[tokio::test]
async fn parts_of_a_history_are_found_from_either_end() {
    let (_dir, store, mut chat) = chatting();
    for n in 0..40 {
        if n % 4 != 3 {
            chat.turn(&format!("m{n}"), &format!("message {n}"), "ok").await;
            continue;
        }
        // It was said long before it came in: read after a pause, or kept waiting by a slow turn.
        let mut late = chat.pending(&format!("m{n}"), "ana", &format!("message {n}"));
        late.at = late.at.checked_sub(jiff::SignedDuration::from_mins(10)).unwrap();
        let turn = late.turn.clone();
        chat.append(vec![Event::Message(MessageEvent::Accepted(late))]).await;
        chat.start(&turn, &[&format!("m{n}")]).await;
        let reply = chat.reply(&turn, "ok");
        let seq = reply.seq;
        chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry: reply })]).await;
        chat.append(vec![Chat::end(&turn, seq)]).await;
    }
    let all = store.entries(&chat.state.channel, Seq(1), Seq(u64::MAX), 1_000).await.unwrap();
    assert_eq!(all.len(), 80);
    assert!(all.windows(2).any(|pair| pair[1].at < pair[0].at), "times that go back");
    let ask = |newest, limit, said: SaidFilter| HistoryQuery {
        from: Seq(1),
        to: Seq(u64::MAX),
        said,
        limit,
        newest,
    };
    let seqs = async |query: HistoryQuery| -> (Vec<u64>, Option<u64>) {
        let page = store.history(&chat.state.channel, query).await.unwrap();
        (page.entries.iter().map(|entry| entry.seq.0).collect(), page.next.map(|seq| seq.0))
    };
    assert_eq!(seqs(ask(false, 2, SaidFilter::default())).await, (vec![1, 2], Some(3)));
    assert_eq!(seqs(ask(true, 2, SaidFilter::default())).await, (vec![79, 80], Some(78)));
    assert_eq!(seqs(ask(true, 80, SaidFilter::default())).await, ((1..=80).collect(), None));
    let nothing = HistoryQuery { from: Seq(70), to: Seq(3), ..ask(true, 9, SaidFilter::default()) };
    assert_eq!(seqs(nothing).await, (Vec::new(), None), "the turn that is asked for is elsewhere");
    let ana = SaidFilter { user: Some("ana".to_owned()), ..SaidFilter::default() };
    assert_eq!(seqs(ask(true, 2, ana.clone())).await, (vec![77, 79], Some(76)));
    assert_eq!(
        seqs(ask(false, 2, SaidFilter { user: Some("bo".to_owned()), ..ana })).await,
        (Vec::new(), None)
    );
    // By every time that an entry has, halving finds what looking at all of them finds.
    for entry in &all {
        let fit = |said: &SaidFilter| -> Vec<u64> {
            let fit = all.iter().filter(|other| said.fits(other.at, other.author.as_ref()));
            fit.map(|entry| entry.seq.0).collect()
        };
        let since = SaidFilter { since: Some(entry.at), ..SaidFilter::default() };
        let until = SaidFilter { until: Some(entry.at), ..SaidFilter::default() };
        for said in [since, until] {
            assert_eq!(seqs(ask(false, 99, said.clone())).await.0, fit(&said));
        }
    }
    for n in [0, 17, 39] {
        let turn = &all[2 * n].turn;
        let (first, last) = store.turn_range(&chat.state.channel, turn).await.unwrap().unwrap();
        let found = store.entries(&chat.state.channel, first, last, 9).await.unwrap();
        assert_eq!(found, all[2 * n..2 * n + 2], "turn {turn}");
    }
    assert_eq!(store.turn_range(&chat.state.channel, &TurnId::from("t99")).await.unwrap(), None);
    assert!(store.has_channel(&chat.state.channel).await.unwrap());
    assert!(!store.has_channel(&channel("other")).await.unwrap());
    store.close().await;
}
