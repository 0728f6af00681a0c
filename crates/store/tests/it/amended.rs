//! Edits, deletions and undo in what derives from the journal.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Chat, at, channel, chatting, found, history, open, texts};
use cairn_core::conversation::{amend, undo};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, rebuild_dir, verify_dir};
use cairn_types::event::{CompactionEvent, Event};
use cairn_types::ids::{MessageId, Seq};
use cairn_types::message::{Amendment, Author, Change, DELETED_TEXT, Part};
use cairn_types::ports::Seen;

/// Takes a change in, as the runtime does it. False: it changes nothing.
async fn change(chat: &mut Chat, id: &str, change: Change) -> bool {
    chat.secs += 1;
    let (channel, message) = (chat.state.channel.clone(), MessageId::from(id));
    let said = chat.store.entries_of(&channel, &message).await.unwrap();
    let amendment = Amendment { channel, message, at: at(chat.secs), change };
    let Some(event) = amend(&chat.state, &amendment, &said) else { return false };
    chat.append(vec![event]).await;
    true
}

fn edited(text: &str) -> Change {
    let author = Author { id: "local/ana".to_owned(), name: "ana".to_owned() };
    Change::Edited { author, parts: vec![Part::text(text)], addressed: true }
}

/// Whether a restore gives what the actor has: from what is kept, and after everything was made again.
async fn check_restored(dir: &Path, store: Store, chat: &Chat) -> Store {
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().as_ref(), Some(&chat.state));
    let (entries, hits) = (history(&store).await, found(&store, "lighthouse number").await);
    store.close().await;
    let report = rebuild_dir(StoreOptions::new(dir)).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    let store = open(dir);
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().as_ref(), Some(&chat.state));
    assert_eq!(history(&store).await, entries);
    assert_eq!(found(&store, "lighthouse number").await, hits);
    store
}

#[tokio::test]
async fn a_message_that_was_edited_before_its_turn_shows_its_newest_words() {
    let (dir, store, mut chat) = chatting();
    let turn = chat.accept("a", "ana", "the lighthouse is red").await;
    assert!(change(&mut chat, "a", edited("the lighthouse is green")).await);
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    assert!(change(&mut chat, "a", edited("the lighthouse is blue")).await);
    assert!(!change(&mut chat, "a", edited("the lighthouse is blue")).await);
    let Seen::Open { fingerprint, .. } = store.seen(&channel("main"), &"a".into()).await.unwrap() else {
        panic!("not open")
    };
    assert_eq!(fingerprint, chat.state.pending[0].fingerprint);
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    chat.start(&turn, &["a"]).await;
    assert_eq!(history(&store).await, ["the lighthouse is blue"]);
    assert_eq!(found(&store, "lighthouse").await, ["the lighthouse is blue"]);
    assert!(found(&store, "red").await.is_empty());
    let journal = std::fs::read_to_string(dir.path().join("journal/00000000000000000001.jsonl")).unwrap();
    assert!(["red", "green", "blue"].iter().all(|word| journal.contains(word)), "the raw words stay");
    check_restored(dir.path(), store, &chat).await.close().await;
}

#[tokio::test]
async fn a_deleted_message_and_its_corrections_are_shown_to_nobody() {
    let (dir, store, mut chat) = chatting();
    for n in 1..=4 {
        let (user, text) = (["ana", "ben"][n % 2], format!("lighthouse number {n} is at Cape {n}{n}{n}"));
        chat.turn_of(&format!("m{n}"), user, &text, "noted, thanks").await;
    }
    assert!(change(&mut chat, "m2", edited("lighthouse number 2 is at Cape 999")).await);
    let correction = chat.state.pending[0].message.clone();
    let turn = chat.state.pending[0].turn.clone();
    chat.start(&turn, &[correction.as_str()]).await;
    chat.append(vec![Chat::end(&turn, Seq(9))]).await;
    assert_eq!(store.entries_of(&channel("main"), &"m2".into()).await.unwrap().len(), 2);
    let hits = found(&store, "222").await;
    assert_eq!(hits.iter().filter(|text| text.contains("222")).count(), 2, "message and correction");
    assert!(hits.len() > 2, "neighbours are found by the words around them");
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();

    assert!(change(&mut chat, "m2", Change::Deleted).await);
    assert!(!change(&mut chat, "m2", Change::Deleted).await, "it is deleted already");
    assert!(!change(&mut chat, "m2", edited("lighthouse 2 again")).await);
    let shown = history(&store).await;
    assert_eq!((shown[2].as_str(), shown[8].as_str()), (DELETED_TEXT, DELETED_TEXT));
    assert!(found(&store, "222").await.is_empty() && found(&store, "999").await.is_empty());
    assert!(!found(&store, "lighthouse number").await.iter().any(|text| text.contains("222")));
    let live = texts(&chat.state.live.iter().cloned().collect::<Vec<_>>());
    assert!(!live.iter().any(|text| text.contains("222") || text.contains("999")), "at once: {live:?}");
    let store = check_restored(dir.path(), store, &chat).await;

    let mut chat = Chat { store: store.clone(), ..chat };
    chat.compact(2, "A lighthouse was told of.", Vec::new()).await;
    let live = texts(&chat.state.live.iter().cloned().collect::<Vec<_>>());
    assert!(!live.iter().any(|text| text.contains("222") || text.contains("999")), "{live:?}");
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    assert!(change(&mut chat, "m1", Change::Deleted).await, "also under a summary");
    assert_eq!(history(&store).await[0], DELETED_TEXT);
    check_restored(dir.path(), store, &chat).await.close().await;
    let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
}

#[tokio::test]
async fn a_message_that_was_deleted_before_its_turn_says_nothing_in_it() {
    let (dir, store, mut chat) = chatting();
    let turn = chat.accept("a", "ana", "the lighthouse is red").await;
    assert!(change(&mut chat, "a", Change::Deleted).await);
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    chat.start(&turn, &["a"]).await;
    chat.append(vec![Chat::end(&turn, Seq(1))]).await;
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    assert_eq!(history(&store).await, [DELETED_TEXT]);
    assert!(found(&store, "lighthouse").await.is_empty());
    assert!(!change(&mut chat, "a", Change::Deleted).await);
    assert!(!change(&mut chat, "never", Change::Deleted).await);
    check_restored(dir.path(), store, &chat).await.close().await;
}

#[tokio::test]
async fn an_undone_turn_stays_in_the_history_and_out_of_a_restored_window() {
    let (dir, store, mut chat) = chatting();
    for n in 1..=3 {
        chat.turn(&format!("m{n}"), &format!("lighthouse number {n}"), "noted, thanks").await;
    }
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    for _ in 0..2 {
        chat.append(vec![undo(&chat.state).unwrap()]).await;
    }
    assert_eq!(chat.state.live.len(), 2);
    assert_eq!(history(&store).await.len(), 6);
    let store = check_restored(dir.path(), store, &chat).await;
    let mut chat = Chat { store: store.clone(), ..chat };
    chat.turn("m4", "lighthouse number 4", "noted").await;
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    chat.append(vec![Event::Compaction(CompactionEvent::UsageSpent {
        model: "small".to_owned(),
        usage: Default::default(),
        is_estimate: false,
        trace: None,
    })])
    .await;
    check_restored(dir.path(), store, &chat).await.close().await;
}
