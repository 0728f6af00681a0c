//! What was: the records of a turn, a conversation and memories as they were after a record, texts that traces name.

use std::sync::Arc;

use cairn_core::store_port::Store as _;
use cairn_core::trace::{TurnRecords, WhichTurn, story};
use cairn_store::{Store, matched_words};
use cairn_types::event::{DeliveryEvent, Event, MaintenanceEvent, MemoryEvent, NewRecord, TurnEvent};
use cairn_types::ids::{AgentId, MessageId, OutboxId, Seq};
use cairn_types::memory::{Memory, Reach};
use cairn_types::ports::NEAR_MAX;

use super::common::{Chat, at, channel, chatting, memory, open, opened, remove_derived, scope};

async fn find(store: &Store, which: WhichTurn) -> Option<(String, Option<String>, Option<String>)> {
    let found = store.turn_records(&channel("main"), which).await.unwrap()?;
    let TurnRecords { turn, records, before, after } = found;
    let told = story(&turn, &records).unwrap();
    assert!(!told.asked.is_empty(), "its messages are among its records");
    let name = |turn: Option<cairn_types::ids::TurnId>| turn.map(|turn| turn.to_string());
    Some((turn.to_string(), name(before), name(after)))
}

#[tokio::test]
async fn a_turn_is_found_by_its_id_its_time_its_messages_and_its_answer() {
    let (_dir, store, mut chat) = chatting();
    for n in 1..=3 {
        chat.turn(&format!("m{n}"), &format!("question {n}"), &format!("answer {n}")).await;
    }
    let answer = DeliveryEvent::Intended {
        id: OutboxId::from("d2"),
        turn: "t2".into(),
        seq: Seq(4),
        note: None,
        reply_to: None,
        edits: None,
        approval: None,
        draft: false,
        files: Vec::new(),
    };
    let sent = DeliveryEvent::Sent { id: OutboxId::from("d2"), part: 0, message: MessageId::from("900") };
    chat.append(vec![Event::Delivery(answer), Event::Delivery(sent)]).await;
    let row = |turn: &str, before: Option<&str>, after: Option<&str>| {
        Some((turn.to_owned(), before.map(str::to_owned), after.map(str::to_owned)))
    };
    let second = || row("t2", Some("t1"), Some("t3"));
    assert_eq!(find(&store, WhichTurn::Last).await, row("t3", Some("t2"), None));
    assert_eq!(find(&store, WhichTurn::Id("t1".into())).await, row("t1", None, Some("t2")));
    assert_eq!(find(&store, WhichTurn::Message("m2".into())).await, second());
    assert_eq!(find(&store, WhichTurn::Message("900".into())).await, second(), "by what the chat was sent");
    let records = store.turn_records(&channel("main"), WhichTurn::Id("t2".into())).await.unwrap().unwrap();
    let started = records.records.iter().find(|record| {
        matches!(&record.event, Event::Turn(TurnEvent::Started { turn, .. }) if turn.as_str() == "t2")
    });
    assert_eq!(find(&store, WhichTurn::At(started.unwrap().at)).await, second());
    assert_eq!(find(&store, WhichTurn::At(at(-10))).await, None);
    assert_eq!(find(&store, WhichTurn::Id("t9".into())).await, None);
}

#[tokio::test]
async fn a_message_that_joined_a_turn_is_found_read_and_searched_with_it() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("m1", "question 1", "answer 1").await;
    let turn = chat.accept("m2", "ann", "find the boat").await;
    chat.start(&turn, &["m2"]).await;
    chat.accept("late", "ann", "the vermilion one").await;
    let first_seq = chat.state.next_seq;
    let joined = TurnEvent::Joined { turn: turn.clone(), messages: vec!["late".into()], first_seq };
    chat.append(vec![Event::Turn(joined)]).await;
    assert!(chat.state.pending.is_empty());
    let entry = chat.reply(&turn, "it is at the pier");
    let end = Chat::end(&turn, entry.seq);
    chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry }), end]).await;
    chat.turn("m3", "question 3", "answer 3").await;
    let found = find(&store, WhichTurn::Message("late".into())).await.unwrap();
    assert_eq!((found.0.as_str(), found.2.as_deref()), ("t2", Some("t4")));
    let told = store.turn_records(&channel("main"), WhichTurn::Id("t2".into())).await.unwrap().unwrap();
    let asked: Vec<Seq> =
        story(&told.turn, &told.records).unwrap().asked.iter().map(|asked| asked.0).collect();
    assert_eq!(asked, [Seq(3), Seq(4)]);
    let entries = store.entries(&channel("main"), Seq(3), Seq(5), 9).await.unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.text()).collect::<Vec<_>>(),
        ["find the boat", "the vermilion one", "it is at the pier"]
    );
    let last = chat.state.last_n;
    assert_eq!(store.conversations_at(&channel("main"), vec![last]).await.unwrap(), [chat.state]);
}

#[tokio::test]
async fn a_conversation_is_read_as_it_was_after_each_record() {
    let (_dir, store, mut chat) = chatting();
    let mut states = Vec::new();
    for n in 1..=3 {
        chat.turn(&format!("m{n}"), &format!("question {n}"), &format!("answer {n}")).await;
        states.push(chat.state.clone());
    }
    let at: Vec<u64> = states.iter().map(|state| state.last_n).collect();
    assert_eq!(store.conversations_at(&channel("main"), at).await.unwrap(), states);
    let last = states.last().unwrap();
    let twice = store.conversations_at(&channel("main"), vec![last.last_n, last.last_n + 50]).await.unwrap();
    assert_eq!(twice, [last.clone(), last.clone()]);
    // The same from a snapshot on, and before it.
    store.keep_snapshot(Arc::new(last.clone())).await.unwrap();
    chat.turn("m4", "question 4", "answer 4").await;
    let at = vec![last.last_n, chat.state.last_n];
    assert_eq!(
        store.conversations_at(&channel("main"), at).await.unwrap(),
        [last.clone(), chat.state.clone()]
    );
    let at = vec![states[0].last_n, chat.state.last_n];
    assert_eq!(store.conversations_at(&channel("main"), at).await.unwrap(), [states[0].clone(), chat.state]);
}

async fn save(store: &Store, event: MemoryEvent) -> u64 {
    let record = NewRecord { channel: None, at: at(100), event: Event::Memory(event) };
    store.append(vec![record]).await.unwrap()[0].n
}

async fn now(store: &Store) -> Vec<Memory> {
    let reach = [Reach::Scope(scope())];
    let filter =
        cairn_types::ports::MemoryFilter { limit: 100, ..cairn_types::ports::MemoryFilter::default() };
    store.memories(&AgentId::from("main"), &reach, filter).await.unwrap()
}

#[tokio::test]
async fn a_memory_is_read_as_it_was_unless_it_was_forgotten() {
    let (_dir, store) = opened();
    let n = save(&store, MemoryEvent::Saved(memory("Ana likes tea", "a"))).await;
    let id = now(&store).await[0].id.clone();
    let text = Some("Ana likes coffee".to_owned());
    let edited = MemoryEvent::Edited { id: id.clone(), text, kind: None, importance: None };
    let record = NewRecord { channel: None, at: at(200), event: Event::Memory(edited) };
    store.append(vec![record]).await.unwrap();
    let then = store.memories_at(vec![id.clone()], n, at(150)).await.unwrap();
    assert_eq!(then.iter().map(|memory| memory.text.as_str()).collect::<Vec<_>>(), ["Ana likes tea"]);
    let later = store.memories_at(vec![id.clone()], n + 1, at(250)).await.unwrap();
    assert_eq!(later[0].text, "Ana likes coffee");
    assert_eq!(matched_words("Does Ana drink her tea?", &then[0]), ["Ana", "tea"]);
    save(&store, MemoryEvent::Forgotten { id: id.clone(), wished: false }).await;
    assert_eq!(store.memories_at(vec![id], n, at(150)).await.unwrap(), []);
}

#[tokio::test]
async fn a_recall_tells_how_well_each_fits_and_which_almost_came_in() {
    let (_dir, store) = opened();
    for n in 0..10 {
        let text = format!("Ana likes tea from garden number {n}{}", " and much else".repeat(n));
        save(&store, MemoryEvent::Saved(memory(&text, &format!("s{n}")))).await;
    }
    save(&store, MemoryEvent::Saved(memory("the ferry leaves at seven", "x"))).await;
    let reach = [Reach::Scope(scope())];
    let recall = store.recall(&AgentId::from("main"), &reach, "which tea does Ana like?", 3).await.unwrap();
    assert_eq!((recall.memories.len(), recall.scores.len(), recall.near.len()), (3, 3, NEAR_MAX));
    let scores: Vec<f64> =
        recall.scores.iter().copied().chain(recall.near.iter().map(|(_, score)| *score)).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b) && scores.iter().all(|score| *score > 0.0), "{scores:?}");
    assert!(recall.memories.iter().all(|memory| !recall.near.iter().any(|(id, _)| *id == memory.id)));
}

#[tokio::test]
async fn a_text_that_traces_name_is_there_after_a_rebuild() {
    let (dir, store) = opened();
    let (id, text) = ("5f70bf18a086007016e948b04aed3b82".into(), "You are careful.".to_owned());
    assert_eq!(store.kept_text(&id).await.unwrap(), None);
    let event = Event::Maintenance(MaintenanceEvent::TextKept { id: id.clone(), text: text.clone() });
    store.append(vec![NewRecord { channel: None, at: at(1), event }]).await.unwrap();
    assert_eq!(store.kept_text(&id).await.unwrap().as_ref(), Some(&text));
    assert!(store.close().await);
    remove_derived(dir.path());
    let store = open(dir.path());
    assert_eq!(store.kept_text(&id).await.unwrap(), Some(text));
}
