//! What derives from the journal: made again when it is gone or damaged, and the same then.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Chat, at, channel, copy_dir, memory, open, remove_derived, scope};
use cairn_core::event::{
    CompactionEvent, DeliveryEvent, Event, MemoryEvent, MessageEvent, NewRecord, RegistryEvent, TurnEvent,
};
use cairn_core::ids::{AgentId, Generation, Seq};
use cairn_core::memory::{MemoryKind, Reach};
use cairn_core::message::Author;
use cairn_core::model::Usage;
use cairn_core::pairing_store::PairingStatus;
use cairn_core::ports::{MemoryFilter, Store as _};
use cairn_store::{Store, StoreOptions, rebuild_dir, verify_dir};

/// All that the views show, for comparison.
async fn shown(store: &Store) -> String {
    let agent = AgentId::from("main");
    let filter = || MemoryFilter { limit: 100, ..MemoryFilter::default() };
    let main = channel("main");
    format!(
        "{:#?}",
        (
            store.channels().await.unwrap(),
            store.restore(&main).await.unwrap(),
            store.entries(&main, Seq(1), Seq(99), 99).await.unwrap(),
            store.memories(&agent, &[Reach::All], filter()).await.unwrap(),
            store.seen(&main, &"a".into()).await.unwrap(),
            store.seen(&main, &"command".into()).await.unwrap(),
            store.deliveries().await.unwrap(),
            (store.registry().await.unwrap(), store.usage_day().await.unwrap()),
            (store.totals().await.unwrap(), store.delivery_page(None, 9).await.unwrap()),
        )
    )
}

fn usage(input_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens: 2, cached_tokens: 0, cache_write_tokens: 0 }
}

/// What belongs to no channel.
async fn append_outside(store: &Store, at_secs: i64) {
    let user = Author { id: "telegram/5".to_owned(), name: "ana".to_owned() };
    let (from, to) = ("1".to_owned(), "2".to_owned());
    let events = [
        Event::Registry(RegistryEvent::PairingRequested {
            user,
            chat: "5".to_owned(),
            code: "KIWI-43".to_owned(),
        }),
        Event::Registry(RegistryEvent::PairingApproved { user: "telegram/5".to_owned() }),
        Event::Registry(RegistryEvent::ChatMigrated { platform: "telegram".to_owned(), from, to }),
        Event::Compaction(CompactionEvent::UsageSpent { model: "small".to_owned(), usage: usage(7) }),
    ];
    let record = |event| NewRecord { channel: None, at: at(at_secs), event };
    store.append(events.into_iter().map(record).collect()).await.unwrap();
}

async fn lived_in(dir: &Path) -> String {
    let store = open(dir);
    let mut chat = Chat::new(&store, "main");
    chat.turn("a", "I like green tea", "noted").await;
    let turn = chat.turn("b", "my bike is blue", "nice").await;
    chat.append(vec![Event::Delivery(DeliveryEvent::Intended {
        id: "o1".into(),
        turn,
        seq: Seq(4),
        note: None,
        approval: None,
        reply_to: None,
        edits: None,
        draft: false,
    })])
    .await;
    chat.compact(2, "Tea.", vec![memory("Ana likes green tea", "s1/0"), memory("Ana has a bike", "s1/1")])
        .await;
    let saved =
        chat.append(vec![Event::Memory(MemoryEvent::Saved(memory("The bike is blue", "t2/0")))]).await;
    assert_eq!(saved.len(), 1);
    let list = |store: Store| async move {
        let filter = MemoryFilter { limit: 100, ..MemoryFilter::default() };
        store.memories(&AgentId::from("main"), &[Reach::Scope(scope())], filter).await.unwrap()
    };
    let memories = list(store.clone()).await;
    assert_eq!(memories.len(), 3);
    chat.append(vec![
        Event::Memory(MemoryEvent::Edited {
            id: memories[1].id.clone(),
            text: Some("Ana has two bikes".to_owned()),
            kind: Some(MemoryKind::Observation),
            importance: None,
        }),
        Event::Memory(MemoryEvent::Forgotten { id: memories[2].id.clone() }),
        Event::Memory(MemoryEvent::Recalled { ids: vec![memories[0].id.clone()], tokens: 9 }),
        Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) }),
    ])
    .await;
    let caller = Author { id: "discord/1".to_owned(), name: "ana".to_owned() };
    chat.append(vec![
        Event::Message(MessageEvent::CommandTaken {
            message: "command".into(),
            command: "new".to_owned(),
            caller: caller.clone(),
        }),
        Event::Message(MessageEvent::Refused { message: "refused".into() }),
        Event::Compaction(CompactionEvent::UsageSpent { model: "small".to_owned(), usage: usage(30) }),
        Event::Registry(RegistryEvent::PairingRequested {
            user: caller,
            chat: "7".to_owned(),
            code: "KIWI-42".to_owned(),
        }),
    ])
    .await;
    append_outside(&store, chat.secs).await;
    chat.accept("c", "ana", "and now?").await;
    store.keep_snapshot(Arc::new(chat.state.clone())).await.unwrap();
    let before = shown(&store).await;
    store.close().await;
    before
}

#[tokio::test]
async fn views_made_again_show_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let before = lived_in(dir.path()).await;
    assert!(before.contains("Ana has two bikes") && !before.contains("The bike is blue"));
    remove_derived(dir.path());
    let store = open(dir.path());
    assert_eq!(shown(&store).await, before);
    store.close().await;
    let report = rebuild_dir(StoreOptions::new(dir.path())).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.channels, report.memories), (1, 2));
    let store = open(dir.path());
    assert_eq!(shown(&store).await, before);
    assert_eq!(store.verify().await.unwrap(), report);
    let pairings = store.registry().await.unwrap();
    assert_eq!(pairings.standing("telegram/5", at(9_999)), PairingStatus::Paired);
    assert_eq!(pairings.home_of("telegram", "2"), "1");
    assert_eq!(store.usage_day().await.unwrap().models["small"].input_tokens, 37, "of a channel and of none");
    store.close().await;
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_sled_is_noticed_or_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let before = lived_in(dir.path()).await;
    let file = dir.path().join("views").join("db");
    let len = file.metadata().unwrap().len();
    let kept = fs::read(&file).unwrap();
    let last_used = kept.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    for step in 0..12 {
        let offset = last_used * step / 12 + step;
        let views = dir.path().join("views");
        fs::write(&file, &kept).unwrap();
        let handle = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let mut byte = [0];
        handle.read_exact_at(&mut byte, offset.min(len - 1)).unwrap();
        handle.write_all_at(&[byte[0] ^ 0x10], offset.min(len - 1)).unwrap();
        drop(handle);
        let store = open(dir.path());
        assert_eq!(shown(&store).await, before, "bit flipped at {offset}");
        store.close().await;
        assert!(views.exists());
    }
}

#[tokio::test]
async fn a_sled_that_does_not_open_is_moved_aside_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let before = lived_in(dir.path()).await;
    fs::write(dir.path().join("views").join("conf"), "not a configuration").unwrap();
    let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
    assert!(!report.ok);
    let store = open(dir.path());
    assert_eq!(shown(&store).await, before);
    store.close().await;
    assert!(dir.path().join("views.damaged").exists());
}

#[tokio::test]
async fn a_half_made_snapshot_does_not_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let before = lived_in(dir.path()).await;
    let torn = dir.path().join("views").join("snap.00000000000000FF.generating");
    fs::write(&torn, "torn").unwrap();
    let store = open(dir.path());
    assert!(!torn.exists());
    assert!(!dir.path().join("views.damaged").exists());
    assert_eq!(shown(&store).await, before);
    store.close().await;
}

#[tokio::test]
async fn a_copy_taken_from_a_running_store_opens_with_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut chat = Chat::new(&store, "main");
    for i in 0..20 {
        chat.turn(&format!("m{i}"), "a message", "a reply").await;
    }
    // As after a kill: sled has flushed at most a part of it.
    copy_dir(dir.path(), copy.path());
    let reopened = open(copy.path());
    assert_eq!(reopened.restore(&channel("main")).await.unwrap().unwrap(), chat.state);
    let report = reopened.verify().await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    reopened.close().await;
    store.close().await;
}
