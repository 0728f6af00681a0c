//! Lists: paged by an index, counted as they change, and what they show of a channel is of its last record or nothing.

use std::sync::Arc;

use super::common::{Chat, at, channel, chatting, memory, opened, remove_derived, scope};
use cairn_core::conversation::{Conversation, Outline};
use cairn_core::store_port::Store as _;
use cairn_store::{MadeAt, Store, keep_checked};
use cairn_testkit::clock::TestClock;
use cairn_types::event::{Event, MemoryEvent, MessageEvent, NewRecord, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId, MemoryId, TurnId};
use cairn_types::memory::{MemorySave, Reach, Scope, TYPED_BY_MEMBER};
use cairn_types::message::Author;
use cairn_types::ports::MemoryFilter;
use cairn_types::tool::{Effect, ToolLogQuery, ToolOutcome, ToolUse};
use futures::future::try_join_all;
use serde_json::json;

async fn names(store: &Store, after: Option<&ChannelId>, limit: usize) -> Vec<ChannelId> {
    let lines = store.channel_lines(after.cloned(), limit).await.unwrap();
    lines.into_iter().map(|line| line.channel).collect()
}

#[tokio::test]
async fn channels_are_listed_by_name_page_by_page() {
    let (_dir, store) = opened();
    for name in ["ops", "op", "o.p", "a", "ops-2"] {
        Chat::new(&store, name).turn("m", "hello", "hi").await;
    }
    let all: Vec<ChannelId> = store.channels().await.unwrap().into_iter().map(|row| row.channel).collect();
    assert_eq!(names(&store, None, 10).await, all);
    let mut paged = Vec::new();
    loop {
        let page = names(&store, paged.last(), 2).await;
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(names(&store, Some(&channel("b")), 1).await, [channel("o.p")], "it need not be there itself");
    assert_eq!(store.totals().await.unwrap().channels, 5);
    assert_eq!(store.channel_lines(None, 1).await.unwrap()[0].entries, 2);
    store.close().await;
}

#[tokio::test]
async fn a_channel_is_shown_as_it_was_kept_until_something_happens_in_it() {
    let (dir, store, mut chat) = chatting();
    Chat::new(&store, "other").turn("m", "hello", "hi").await;
    chat.turn("a", "hello", "hi").await;
    let outlines = async |store: &Store| -> Vec<Option<Outline>> {
        let lines = store.channel_lines(None, 9).await.unwrap();
        lines.into_iter().map(|line| line.outline).collect()
    };
    assert_eq!(outlines(&store).await, [None, None]);
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    let kept = outlines(&store).await;
    assert_eq!(kept, [Some(Outline::of(&chat.state)), None]);
    assert_eq!(kept[0].as_ref().unwrap().sizes.live, 12);
    chat.turn("b", "and now?", "now, too").await;
    assert_eq!(outlines(&store).await, [None, None], "it is no longer what it was");
    store.keep_outline(Arc::new(chat.state.clone())).await.unwrap();
    assert_eq!(outlines(&store).await[0], Some(Outline::of(&chat.state)));
    assert_eq!(
        store.restore(&chat.state.channel).await.unwrap(),
        Some(chat.state.clone()),
        "from the snapshot on"
    );
    store.close().await;
    remove_derived(dir.path());
    let store = super::common::open(dir.path());
    assert_eq!(outlines(&store).await, [None, None], "it goes with the snapshot");
    let checks = tokio::spawn(keep_checked(store.clone(), Arc::<TestClock>::default()));
    while outlines(&store).await.contains(&None) {}
    assert_eq!(outlines(&store).await[0], Some(Outline::of(&chat.state)), "each is kept beforehand");
    checks.abort();
    store.close().await;
}

#[tokio::test]
async fn outlines_that_are_kept_at_once_are_each_shown() {
    let (_dir, store) = opened();
    let mut chats = Vec::new();
    for n in 0..80 {
        let mut chat = Chat::new(&store, &format!("c{n:02}"));
        chat.turn("m", &"hello ".repeat(n), "hi").await;
        chats.push(chat.state);
    }
    let keep = |state: &Conversation| store.keep_outline(Arc::new(state.clone()));
    try_join_all(chats.iter().map(keep)).await.unwrap();
    let lines = store.channel_lines(None, 99).await.unwrap();
    let shown: Vec<_> = lines.into_iter().map(|line| line.outline.unwrap()).collect();
    assert_eq!(shown, chats.iter().map(Outline::of).collect::<Vec<_>>());
    store.close().await;
}

/// Saves memories, one in each second from that one on.
async fn save(store: &Store, from_secs: i64, saves: Vec<MemorySave>) {
    let record = |(secs, save)| {
        let event = Event::Memory(MemoryEvent::Saved(save));
        NewRecord { channel: None, at: at(secs), event }
    };
    store.append((from_secs..).zip(saves).map(record).collect()).await.unwrap();
}

async fn forget(store: &Store, id: &MemoryId) {
    let event = Event::Memory(MemoryEvent::Forgotten { id: id.clone(), wished: false });
    store.append(vec![NewRecord { channel: None, at: at(6), event }]).await.unwrap();
}

/// A page of the memories of two agents.
async fn page(
    store: &Store,
    scope: Option<Scope>,
    after: Option<MadeAt>,
    limit: usize,
) -> (Vec<String>, Vec<MadeAt>, Vec<MemoryId>) {
    let agents = ["main", "helper"].map(AgentId::from).to_vec();
    let filter = MemoryFilter { limit, ..MemoryFilter::default() };
    let found = store.memory_page(agents, scope, filter, after).await.unwrap();
    let (places, memories): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let ids = memories.iter().map(|memory| memory.id.clone()).collect();
    (memories.into_iter().map(|memory| memory.text).collect(), places, ids)
}

#[tokio::test]
async fn memories_are_paged_in_the_order_in_which_they_were_made_also_while_some_are_forgotten() {
    let (dir, store) = opened();
    let of = |agent: &str, scope: Scope, text: &str| MemorySave {
        agent: AgentId::from(agent),
        scope,
        ..memory(text, text)
    };
    save(&store, 1, vec![of("main", scope(), "one"), of("helper", Scope::Agent, "two")]).await;
    save(&store, 3, vec![of("stranger", Scope::Agent, "not asked for")]).await;
    save(&store, 4, vec![of("main", scope(), "one"), of("main", Scope::Agent, "three")]).await;
    save(&store, 6, vec![of("helper", scope(), "four")]).await;
    let (all, _, ids) = page(&store, None, None, 9).await;
    assert_eq!(all, ["one", "two", "three", "four"]);
    let (first, places, _) = page(&store, None, None, 2).await;
    assert_eq!(first, ["one", "two"]);
    assert_eq!(page(&store, Some(scope()), None, 9).await.0, ["one", "four"]);
    assert_eq!(page(&store, Some(scope()), places.last().cloned(), 9).await.0, ["four"]);

    // The memory that the page ended with goes: what comes after it is found all the same.
    forget(&store, &ids[1]).await;
    assert_eq!(page(&store, None, places.last().cloned(), 2).await.0, ["three", "four"]);
    let counts = async |store: &Store| {
        let mut counts = Vec::new();
        for agent in ["main", "helper", "stranger", "nobody"] {
            counts.push(store.memory_count(&agent.into()).await.unwrap());
        }
        counts
    };
    assert_eq!(counts(&store).await, [2, 1, 1, 0]);
    store.close().await;
    remove_derived(dir.path());
    let store = super::common::open(dir.path());
    assert_eq!(counts(&store).await, [2, 1, 1, 0]);
    assert_eq!(page(&store, None, None, 9).await.0, ["one", "three", "four"]);
    store.close().await;
}

#[tokio::test]
async fn the_newest_memories_within_reach_are_found_by_their_order() {
    let (dir, store) = opened();
    let user = |user: &str| Scope::User { platform: "telegram".to_owned(), user: user.to_owned() };
    let of = |scope: Scope, text: &str| MemorySave { scope, ..memory(text, text) };
    let mut by_ana = of(Scope::Chat { platform: "telegram".to_owned(), chat: "-1".to_owned() }, "I like tea");
    by_ana.source.by = Some(Author { id: "telegram/7".to_owned(), name: "Ana".to_owned() });
    by_ana.source.model = TYPED_BY_MEMBER.to_owned();
    by_ana.subject = Some("telegram/7".to_owned());
    let saves = vec![
        of(user("7"), "one"),
        of(Scope::Agent, "two"),
        by_ana,
        of(user("8"), "another's"),
        of(user("7"), "three"),
        of(user("7"), "one"),
    ];
    save(&store, 1, saves).await;
    let reach = [Reach::Scope(Scope::Agent), Reach::Own("telegram/7".to_owned()), Reach::Scope(user("7"))];
    let newest = async |store: &Store, reach: &[Reach], limit| -> Vec<String> {
        let found = store.newest_memories(&"main".into(), reach, limit).await.unwrap();
        found.into_iter().map(|memory| memory.text).collect()
    };
    assert_eq!(newest(&store, &reach, 9).await, ["three", "I like tea", "two", "one"]);
    assert_eq!(newest(&store, &reach, 2).await, ["three", "I like tea"]);
    assert_eq!(newest(&store, &[Reach::All], 2).await, ["three", "another's"]);
    let filter = MemoryFilter { limit: 9, ..MemoryFilter::default() };
    for memory in store.memories(&"main".into(), &reach, filter).await.unwrap() {
        if ["three", "I like tea"].contains(&memory.text.as_str()) {
            forget(&store, &memory.id).await;
        }
    }
    assert_eq!(newest(&store, &reach, 9).await, ["two", "one"]);
    store.close().await;
    remove_derived(dir.path());
    let store = super::common::open(dir.path());
    assert_eq!(newest(&store, &reach, 9).await, ["two", "one"]);
    store.close().await;
}

#[tokio::test]
async fn who_has_spoken_in_a_channel_is_known_without_reading_its_messages() {
    let (_dir, store, mut chat) = chatting();
    Chat::new(&store, "other").turn("m", "hello", "hi").await;
    chat.turn("a", "hello", "hi").await;
    chat.accept("b", "ben", "and I").await;
    let last = chat.secs;
    let mut renamed = chat.pending("c", "ana", "me, too");
    renamed.author.name = "Ana B.".to_owned();
    chat.append(vec![Event::Message(MessageEvent::Accepted(renamed))]).await;
    let speakers = store.speakers(&chat.state.channel).await.unwrap();
    let rows: Vec<_> = speakers
        .iter()
        .map(|(person, speaker)| (person.as_str(), speaker.messages, speaker.names.join(", ")))
        .collect();
    assert_eq!(rows, [("local/ana", 2, "ana, Ana B.".to_owned()), ("local/ben", 1, "ben".to_owned())]);
    assert_eq!((speakers[0].1.first, speakers[0].1.last), (at(0), at(last)));
    assert!(store.speakers(&channel("nowhere")).await.unwrap().is_empty());
    store.close().await;
}

fn used(tool: &str, outcome: ToolOutcome) -> Event {
    Event::Turn(TurnEvent::ToolUsed(ToolUse {
        turn: TurnId::from("t1"),
        call: "c1".to_owned(),
        tool: tool.to_owned(),
        effect: Effect::Reads,
        caused_by: ["local/ana".to_owned()].into(),
        arguments: json!({}),
        outcome,
        error: None,
        duration_ms: 1,
        bytes: 2,
        approval: None,
        allowed_by: None,
    }))
}

#[tokio::test]
async fn calls_of_tools_are_paged_from_the_newest_back_and_from_a_record_on() {
    let (_dir, store, mut chat) = chatting();
    let mut other = Chat::new(&store, "other");
    let mut ns = Vec::new();
    for n in 0..6 {
        let chat = if n == 2 { &mut other } else { &mut chat };
        let outcome = if n % 2 == 0 { ToolOutcome::Done } else { ToolOutcome::Denied };
        let tool = if n < 4 { "fetch" } else { "time" };
        ns.push(chat.append(vec![used(tool, outcome)]).await[0].n);
    }
    let found = async |query: ToolLogQuery| -> Vec<u64> {
        let calls = store.tool_calls(query).await.unwrap();
        calls.into_iter().map(|call| ns.iter().position(|n| *n == call.n).unwrap() as u64).collect()
    };
    let most = |limit| ToolLogQuery { limit, ..ToolLogQuery::default() };
    assert_eq!(found(most(9)).await, [0, 1, 2, 3, 4, 5]);
    assert_eq!(found(most(2)).await, [4, 5]);
    assert_eq!(found(ToolLogQuery { before: Some(ns[4]), ..most(2) }).await, [2, 3]);
    assert_eq!(found(ToolLogQuery { after: Some(ns[1]), ..most(2) }).await, [2, 3]);
    assert!(found(ToolLogQuery { after: Some(ns[5]), ..most(2) }).await.is_empty());
    assert!(found(ToolLogQuery { after: Some(ns[4]), before: Some(ns[4]), ..most(2) }).await.is_empty());
    assert_eq!(found(ToolLogQuery { channel: Some(channel("other")), ..most(9) }).await, [2]);
    assert_eq!(found(ToolLogQuery { tool: Some("time".to_owned()), ..most(9) }).await, [4, 5]);
    assert_eq!(found(ToolLogQuery { outcome: Some(ToolOutcome::Denied), ..most(2) }).await, [3, 5]);
    store.close().await;
}
