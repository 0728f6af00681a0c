//! Vectors of entries, by a model that knows three things and counts how often it is asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::{BoxFuture, ready};

use super::common::{Chat, channel, found, query};
use cairn_core::store_port::Store as _;
use cairn_store::{Embedded, Store, StoreOptions};
use cairn_types::event::{Event, MaintenanceEvent, MessageEvent, TurnEvent};
use cairn_types::ids::{MessageId, Seq};
use cairn_types::ports::{Embedder, NoRank, Reranker};

#[derive(Debug)]
struct Things {
    name: &'static str,
    made: AtomicUsize,
}

/// What its words are about, each a direction.
const THINGS: [&[&str]; 3] = [&["greyhound", "dog", "puppy"], &["tram", "railway"], &["weather", "rain"]];

impl Embedder for Things {
    fn model(&self) -> &str {
        self.name
    }

    fn at_once(&self) -> usize {
        3
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NoRank> {
        self.made.fetch_add(texts.len(), Ordering::AcqRel);
        let vector = |text: &&str| {
            THINGS
                .iter()
                .map(|words| f32::from(words.iter().any(|word| text.contains(word))) + 0.01)
                .collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

fn model(name: &'static str) -> Arc<Things> {
    Arc::new(Things { name, made: AtomicUsize::new(0) })
}

fn open(dir: &Path, model: &Arc<Things>) -> Store {
    let embedder = Some(Arc::clone(model) as Arc<dyn Embedder>);
    Store::open(StoreOptions { embedder, ..StoreOptions::new(dir) }).unwrap()
}

async fn embedded(store: &Store) -> Embedded {
    store.stats().await.unwrap().embedded.unwrap()
}

/// A chat in a store without a model, in files.
fn chatting() -> (tempfile::TempDir, Store, Chat) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    let chat = Chat::new(&store, "main");
    (dir, store, chat)
}

/// Waits until so many entries have a vector.
async fn until(store: &Store, entries: u64) {
    while embedded(store).await.entries != entries {
        tokio::task::yield_now().await;
    }
}

async fn talk(chat: &mut Chat) {
    chat.turn("a", "I adopted a greyhound named Pixel", "Lovely!").await;
    chat.turn("b", "the tram was late", "It happens.").await;
}

#[tokio::test]
async fn what_means_the_same_is_found_and_lost_with_its_words() {
    let (dir, store, mut chat) = chatting();
    talk(&mut chat).await;
    assert_eq!(found(&store, "puppy").await, Vec::<String>::new());
    assert_eq!(store.stats().await.unwrap().embedded, None);
    store.close().await;

    let things = model("things");
    let store = open(dir.path(), &things);
    until(&store, 4).await;
    let mut chat = Chat { store: store.clone(), ..chat };
    chat.turn("c", "so much rain today", "Take an umbrella.").await;
    until(&store, 6).await;
    for (asked, first) in [
        ("puppy", "I adopted a greyhound named Pixel"),
        ("railway", "the tram was late"),
        // Words count, too.
        ("railway umbrella", "Take an umbrella."),
    ] {
        assert_eq!(found(&store, asked).await.first().map(String::as_str), Some(first), "{asked}");
    }
    let other = cairn_types::ports::Query { channel: Some(channel("other")), ..query("puppy") };
    assert_eq!(store.search(other).await.unwrap(), Vec::new(), "another channel's words stay there");

    let deleted = MessageEvent::Deleted { message: MessageId::from("a"), seqs: vec![Seq(1)] };
    chat.append(vec![Event::Message(deleted)]).await;
    let of = channel("main");
    let expired = MaintenanceEvent::WordsExpired {
        channel: of,
        entries: vec![(Seq(3), Seq(4))],
        summaries: Vec::new(),
    };
    chat.append(vec![Event::Maintenance(expired)]).await;
    store.settle().await.unwrap();
    assert_eq!(embedded(&store).await.entries, 3, "nothing points at what is gone");
    store.close().await;
}

#[tokio::test]
async fn each_entry_is_gone_through_once_and_again_by_another_model_or_in_new_views() {
    let (dir, store, mut chat) = chatting();
    talk(&mut chat).await;
    store.close().await;
    let things = model("things");
    let store = open(dir.path(), &things);
    until(&store, 4).await;
    store.close().await;

    let again = model("things");
    let store = open(dir.path(), &again);
    let mut chat = Chat { store: store.clone(), ..chat };
    chat.turn("c", "so much rain today", "Take an umbrella.").await;
    until(&store, 6).await;
    store.close().await;
    assert_eq!((things.made.load(Ordering::Acquire), again.made.load(Ordering::Acquire)), (4, 2));

    let other = model("other");
    let store = open(dir.path(), &other);
    until(&store, 6).await;
    assert_eq!(embedded(&store).await.model, "other");
    store.close().await;

    std::fs::remove_dir_all(dir.path().join("views")).unwrap();
    let store = open(dir.path(), &model("other"));
    until(&store, 6).await;
    assert_eq!(found(&store, "railway").await.first().map(String::as_str), Some("the tram was late"));
    store.close().await;
}

#[tokio::test]
async fn what_joins_a_turn_has_a_vector_too() {
    let (dir, store, mut chat) = chatting();
    let turn = chat.accept("a", "ana", "find my things").await;
    chat.start(&turn, &["a"]).await;
    chat.accept("b", "ana", "the greyhound comes first").await;
    let joined = TurnEvent::Joined { turn, messages: vec!["b".into()], first_seq: chat.state.next_seq };
    chat.append(vec![Event::Turn(joined)]).await;
    store.close().await;
    let store = open(dir.path(), &model("things"));
    until(&store, 2).await;
    assert_eq!(found(&store, "puppy").await.first().map(String::as_str), Some("the greyhound comes first"));
}

/// Likes long texts, or fails.
#[derive(Debug)]
struct Longest {
    fails: AtomicBool,
}

impl Reranker for Longest {
    fn rerank(&self, _question: String, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<f64>, NoRank>> {
        let scores = texts.iter().map(|text| text.len() as f64).collect();
        Box::pin(ready(if self.fails.load(Ordering::Acquire) {
            Err(NoRank::Status(500))
        } else {
            Ok(scores)
        }))
    }
}

#[tokio::test]
async fn the_best_results_are_reranked_page_by_page_and_stay_in_order_where_that_fails() {
    let (dir, store, mut chat) = chatting();
    // The first fifty by words are those with the word twice: the shorter, the better, but for the model's other taste.
    for idx in 0..60_usize {
        let text = format!("tram {}{}", "tram ".repeat(usize::from(idx < 50)), "x".repeat(60 - idx));
        chat.turn(&format!("m{idx}"), &text, "ok").await;
    }
    store.close().await;
    let longest = Arc::new(Longest { fails: AtomicBool::new(false) });
    let reranker = Some(Arc::clone(&longest) as Arc<dyn Reranker>);
    let store = Store::open(StoreOptions { reranker, ..StoreOptions::new(dir.path()) }).unwrap();
    store.settle().await.unwrap();
    let of_page =
        |hits: &[cairn_types::ports::Hit]| hits.iter().map(|hit| hit.text.len()).collect::<Vec<_>>();
    let (mut lens, mut after) = (Vec::new(), None);
    loop {
        let page = cairn_types::ports::Query { limit: 20, ..query("tram") };
        let found = store.found(page, after).await.unwrap();
        lens.extend(of_page(&found.hits));
        after = match found.next {
            Some(next) => Some(next.to_string().parse().unwrap()),
            None => break,
        };
    }
    assert_eq!(lens.len(), 60, "each is found once: {lens:?}");
    assert!(lens[..50].is_sorted_by(|a, b| a >= b), "{lens:?}");
    let (_, behind) = lens.split_at(50);
    assert!(behind.iter().all(|len| *len < 20), "what has the word once comes behind: {behind:?}");
    let sorted = store.search(query("tram")).await.unwrap();
    longest.fails.store(true, Ordering::Release);
    let as_found = store.search(query("tram")).await.unwrap();
    assert_ne!(of_page(&sorted), of_page(&as_found));
    assert_eq!(sorted.len(), as_found.len());
}
