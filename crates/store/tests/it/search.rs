//! The search index: neighbours, scopes, languages, words that are data.

use std::collections::BTreeSet;
use std::fs;

use super::common::{Chat, at, channel, chatting, found, memory, open, query};
use cairn_core::store_port::Store as _;
use cairn_store::{Found, SearchPlace};
use cairn_types::event::{Event, MemoryEvent, NewRecord, TurnEvent};
use cairn_types::ids::Seq;
use cairn_types::message::{Entry, Part};
use cairn_types::people::said::SaidFilter;
use cairn_types::ports::{Hit, HitKind, Query};

#[tokio::test]
async fn entries_summaries_and_memories_are_found_by_kind() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("a", "I adopted a greyhound named Pixel", "Lovely!").await;
    chat.turn("b", "the weather is fine", "It is.").await;
    chat.compact(2, "Ana adopted a greyhound.", vec![memory("Ana has a greyhound", "s1/0")]).await;
    let hits = store.search(query("greyhounds")).await.unwrap();
    let kinds: Vec<HitKind> = hits.iter().map(|hit| hit.kind).collect();
    for kind in [HitKind::Entry, HitKind::Summary, HitKind::Memory] {
        assert!(kinds.contains(&kind), "{kinds:?}");
        let only = store.search(Query { kind: Some(kind), ..query("greyhounds") }).await.unwrap();
        assert!(!only.is_empty() && only.iter().all(|hit| hit.kind == kind));
    }
    let entry = hits.iter().find(|hit| hit.kind == HitKind::Entry).unwrap();
    assert_eq!((entry.id.as_str(), entry.seq.unwrap().0), ("a", 1));
    let no_scope = store.search(Query { scopes: Vec::new(), ..query("greyhounds") }).await.unwrap();
    assert!(no_scope.iter().all(|hit| hit.kind != HitKind::Memory));
    let elsewhere =
        store.search(Query { channel: Some(channel("other")), ..query("greyhounds") }).await.unwrap();
    assert!(elsewhere.iter().all(|hit| hit.kind == HitKind::Memory), "another channel's words stay there");
    store.close().await;
}

#[tokio::test]
async fn an_answer_is_found_by_the_words_of_the_question_before_it_and_after_a_restart() {
    let (dir, store, mut chat) = chatting();
    chat.turn("a", "Where did you spend the holidays?", "I have no holidays myself.").await;
    chat.turn_of("b", "ben", "Lisbon", "Nice.").await;
    let hits = found(&store, "holidays").await;
    assert!(hits.contains(&"Lisbon".to_owned()), "whatever the model said between them: {hits:?}");
    assert!(!hits.contains(&"Nice.".to_owned()), "a model's words borrow none: {hits:?}");
    store.close().await;
    let store = open(dir.path());
    let mut chat = Chat { store: store.clone(), ..chat };
    chat.turn("c", "the trams were great", "indeed").await;
    let hits = found(&store, "trams").await;
    assert!(
        hits.contains(&"Lisbon".to_owned()),
        "a later neighbour is added to what was indexed before: {hits:?}"
    );
    let lisbon = hits.iter().filter(|text| *text == "Lisbon").count();
    assert_eq!(lisbon, 1, "and replaces it");
    store.close().await;
}

#[tokio::test]
async fn what_one_person_tells_a_model_stands_for_itself() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("a", "the secateurs hang in the shed", "noted").await;
    chat.turn("b", "what a fine day", "yes").await;
    assert_eq!(found(&store, "secateurs").await, ["the secateurs hang in the shed"]);
    store.close().await;
}

#[tokio::test]
async fn quotations_are_not_found() {
    let (_dir, store, mut chat) = chatting();
    let turn = chat.turn("a", "the password of the shed is rhubarb", "noted").await;
    let echo = Entry { quotes: true, ..chat.reply(&turn, "You said: the password of the shed is rhubarb") };
    chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry: echo })]).await;
    assert!(found(&store, "rhubarb").await.iter().all(|text| !text.starts_with("You said")));
    store.close().await;
}

#[tokio::test]
async fn a_query_is_data_not_syntax() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("a", "meet me at the harbour", "ok").await;
    for text in ["harbour AND (", "\"harbour", "harbour~2 ^5 *:*", "place:x OR harbour", "+harbour -meet"] {
        assert!(found(&store, text).await.contains(&"meet me at the harbour".to_owned()), "{text}");
    }
    assert!(found(&store, "").await.is_empty());
    assert!(found(&store, "the of and").await.is_empty());
    assert!(!found(&store, &"harbour ".repeat(100_000)).await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn words_in_scripts_without_gaps_and_dates_are_found() {
    let (_dir, store, mut chat) = chatting();
    chat.turn("a", "我们明天去图书馆学习", "好").await;
    chat.turn("b", "저는 학교에서 공부해요", "네").await;
    assert!(found(&store, "图书馆").await.contains(&"我们明天去图书馆学习".to_owned()));
    assert!(found(&store, "학교").await.contains(&"저는 학교에서 공부해요".to_owned()));
    assert!(!found(&store, "1 January 2026").await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_person_named_in_the_question_comes_first() {
    let (_dir, store, mut chat) = chatting();
    for (id, user) in [("a", "ben"), ("b", "caroline")] {
        let turn = chat.accept(id, user, "I went to the art exhibition").await;
        chat.secs += 20_000;
        chat.start(&turn, &[id]).await;
        chat.append(vec![Chat::end(&turn, cairn_types::ids::Seq(1))]).await;
    }
    let hits: Vec<Hit> = store.search(query("Did Caroline go to the exhibition?")).await.unwrap();
    assert_eq!(hits[0].author.as_ref().unwrap().name, "caroline");
    let hits: Vec<Hit> = store.search(query("Did Ben go to the exhibition?")).await.unwrap();
    assert_eq!(hits[0].author.as_ref().unwrap().name, "ben");
    store.close().await;
}

#[tokio::test]
async fn a_changed_memory_is_found_as_it_is_and_a_forgotten_one_not_at_all() {
    let (_dir, store, mut chat) = chatting();
    chat.append(vec![Event::Memory(MemoryEvent::Saved(memory("Ana plays the cello", "a")))]).await;
    let id = store.search(query("cello")).await.unwrap()[0].id.clone();
    let text = Some("Ana plays the viola".to_owned());
    chat.append(vec![Event::Memory(MemoryEvent::Edited {
        id: id.as_str().into(),
        text,
        kind: None,
        importance: None,
    })])
    .await;
    assert!(found(&store, "cello").await.is_empty());
    assert_eq!(found(&store, "viola").await, ["Ana plays the viola"]);
    chat.append(vec![Event::Memory(MemoryEvent::Forgotten { id: id.as_str().into(), wished: false })]).await;
    assert!(found(&store, "viola").await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_damaged_or_deleted_index_is_made_again_with_the_same_hits() {
    let (dir, store, mut chat) = chatting();
    for i in 0..30 {
        chat.turn(&format!("m{i}"), &format!("tale {i} of the lighthouse"), "go on").await;
        if i % 7 == 0 {
            found(&store, "lighthouse").await;
        }
    }
    let before = store.search(query("lighthouse tale 17")).await.unwrap();
    assert!(before[0].text.contains("17"), "{before:?}");
    store.close().await;
    for damage in ["delete", "garble"] {
        let index = dir.path().join("index");
        if damage == "delete" {
            fs::remove_dir_all(&index).unwrap();
        } else {
            for file in fs::read_dir(&index).unwrap().map(|file| file.unwrap().path()) {
                if file.extension().is_some_and(|kind| kind == "idx" || kind == "term") {
                    let mut bytes = fs::read(&file).unwrap();
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0xff;
                    fs::write(&file, bytes).unwrap();
                }
            }
        }
        let store = open(dir.path());
        assert_eq!(store.search(query("lighthouse tale 17")).await.unwrap(), before, "{damage}");
        store.close().await;
    }
}

/// Enough that an index of it takes several times as long as a stop gives it.
const MANY: u64 = 80_000;

#[tokio::test]
async fn an_index_that_is_being_made_answers_with_what_it_has_says_what_it_lacks_and_holds_up_no_stop() {
    let (dir, store, mut chat) = chatting();
    let turn = chat.accept("a", "ana", "tell me about the lighthouse").await;
    chat.start(&turn, &["a"]).await;
    let first = chat.reply(&turn, "");
    let entry = |n: u64| {
        let text =
            format!("tale {n} of the lighthouse, long and winding like the stairs that lead up to its lamp");
        let entry = Entry { seq: Seq(first.seq.0 + n), parts: vec![Part::text(text)], ..first.clone() };
        NewRecord {
            channel: Some(channel("main")),
            at: at(60),
            event: Event::Turn(TurnEvent::EntryAdded { entry }),
        }
    };
    store.append((0..MANY).map(entry).collect()).await.unwrap();
    // There is nothing left to do at the close.
    while store.found(query("lighthouse"), None).await.unwrap().unindexed > 0 {}
    assert!(store.close().await);
    fs::remove_dir_all(dir.path().join("index")).unwrap();

    let store = open(dir.path());
    let lacks = store.found(Query { settled: false, ..query("lighthouse") }, None).await.unwrap().unindexed;
    assert!(lacks > 0 && store.unindexed() > 0, "it has just begun");
    assert!(store.close().await, "its thread has ended");

    // It goes on from its last commit.
    let store = open(dir.path());
    let stats = store.stats().await.unwrap();
    assert!(stats.indexed_n < stats.last_n, "the stop did not wait for all of it");
    loop {
        let Found { hits, unindexed: lacks, .. } = store.found(query("tale 79999"), None).await.unwrap();
        if lacks == 0 {
            assert!(hits[0].text.contains("tale 79999 "), "{hits:?}");
            break;
        }
    }
    assert_eq!(store.unindexed(), 0);
    store.close().await;
}

#[tokio::test]
async fn all_channels_are_searched_and_pages_are_parts_of_one_order() {
    let (_dir, store, mut chat) = chatting();
    for n in 0..6 {
        chat.turn(&format!("m{n}"), &format!("the heron stood still, for the {n}th time"), "indeed").await;
    }
    Chat::new(&store, "other").turn("a", "a heron in a hurry", "really?").await;
    chat.compact(2, "A heron stood still.", vec![memory("Ana counts herons", "s1/0")]).await;
    let everywhere = Query { channel: None, scopes: Vec::new(), ..query("heron") };
    let all = store.found(everywhere.clone(), None).await.unwrap();
    assert_eq!(all.next, None);
    let kinds = |kind| all.hits.iter().filter(|hit| hit.kind == kind).count();
    assert_eq!((kinds(HitKind::Summary), kinds(HitKind::Memory)), (1, 1));
    let channels: BTreeSet<_> = all.hits.iter().filter_map(|hit| hit.channel.clone()).collect();
    assert_eq!(channels, [channel("main"), channel("other")].into());
    for hit in &all.hits {
        let marked: Vec<_> = hit.marks.iter().map(|(from, to)| &hit.text[*from..*to]).collect();
        assert_eq!(marked.is_empty(), hit.near, "{hit:?}");
        assert!(marked.iter().all(|word| ["heron", "herons"].contains(word)), "{hit:?}");
        assert_eq!(hit.near, !hit.text.contains("heron"), "{hit:?}");
    }
    for limit in [1, 2, 5] {
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let query = Query { limit, ..everywhere.clone() };
            let page = store.found(query, after).await.unwrap();
            assert!(page.hits.len() <= limit);
            paged.extend(page.hits);
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(paged, all.hits, "{limit} a page");
    }
    // Where few are weighed together, the order is another; none is lost, and none is there twice.
    let (mut ids, mut after) = (Vec::new(), Some("3.0".parse::<SearchPlace>().unwrap()));
    while after.is_some() {
        let page = store.found(Query { limit: 2, ..everywhere.clone() }, after).await.unwrap();
        ids.extend(page.hits.into_iter().map(|hit| (hit.channel, hit.id)));
        after = page.next;
    }
    let mut expected: Vec<_> = all.hits.iter().map(|hit| (hit.channel.clone(), hit.id.clone())).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
    let other = Query { channel: Some(channel("other")), ..everywhere.clone() };
    let hits = store.found(other, None).await.unwrap().hits;
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit.channel == Some(channel("other"))), "{hits:?}");
    let said = SaidFilter { user: Some("local/ana".to_owned()), ..SaidFilter::default() };
    let hits = store.found(Query { said, ..everywhere.clone() }, None).await.unwrap().hits;
    assert!(hits.len() == 7 && hits.iter().all(|hit| hit.author.as_ref().unwrap().name == "ana"), "{hits:?}");
    let said = SaidFilter { until: Some(at(-1)), ..SaidFilter::default() };
    assert_eq!(store.found(Query { said, ..everywhere }, None).await.unwrap().hits, []);
    for text in ["", "7", "0.1", "30001.0", "a.b", "1.-1"] {
        assert!(text.parse::<SearchPlace>().is_err(), "{text}");
    }
    store.close().await;
}
