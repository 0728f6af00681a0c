//! What derives from the journal: made again when it is gone or damaged, and the same then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Chat, at, channel, copy_dir, memory, open, remove_derived, scope};
use cairn_core::registry::day_of;
use cairn_core::spend::{SpendKey, SpendSum};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, rebuild_dir, verify_dir};
use cairn_types::event::{
    CompactionEvent, DeliveryEvent, Event, MemoryEvent, MessageEvent, NewRecord, RegistryEvent, TurnEvent,
};
use cairn_types::ids::{AgentId, Generation, Seq};
use cairn_types::memory::{MemoryKind, Reach};
use cairn_types::message::Author;
use cairn_types::model::Usage;
use cairn_types::people::pairing::PairingStatus;
use cairn_types::ports::MemoryFilter;
use jiff::civil::Date;

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
            (store.spent(Date::MIN, Date::MAX).await.unwrap(), {
                let ends = store.turn_ends(&main, Seq(1), Seq(99)).await.unwrap();
                ends.into_iter().collect::<BTreeMap<_, _>>()
            }),
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
        spent(7),
    ];
    let record = |event| NewRecord { channel: None, at: at(at_secs), event };
    store.append(events.into_iter().map(record).collect()).await.unwrap();
}

/// A call of a model for a run.
fn spent(tokens: u64) -> Event {
    let (model, usage) = ("small".to_owned(), usage(tokens));
    Event::Compaction(CompactionEvent::UsageSpent { model, usage, is_estimate: false, trace: None })
}

/// A call of a model for a person.
fn estimated_call() -> Event {
    Event::Turn(TurnEvent::UsageReported {
        model: "small".to_owned(),
        estimated: 9,
        usage: usage(0),
        disbelieved: None,
        is_estimate: true,
        set_window: None,
        caused_by: BTreeSet::from(["discord/1".to_owned()]),
        trace: None,
    })
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
        files: Vec::new(),
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
        Event::Memory(MemoryEvent::Forgotten { id: memories[2].id.clone(), wished: false }),
        Event::Memory(MemoryEvent::Recalled {
            ids: vec![memories[0].id.clone()],
            tokens: 9,
            scores: Vec::new(),
            near: Vec::new(),
            quotes: Vec::new(),
        }),
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
        estimated_call(),
        spent(30),
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
    let spent = store.spent(Date::MIN, Date::MAX).await.unwrap();
    let people: Vec<_> =
        spent.iter().map(|(key, sum)| (key.person.as_str(), sum.calls, sum.estimated)).collect();
    assert_eq!(people, [("", 1, 0), ("", 1, 0), ("discord/1", 1, 1)], "of no channel, of a run, of a person");
    let ends = store.turn_ends(&channel("main"), Seq(1), Seq(99)).await.unwrap();
    let last: BTreeSet<Seq> = ends.keys().copied().collect();
    assert_eq!(last, BTreeSet::from([Seq(2), Seq(4)]), "each with the last entry of its turn");
    store.close().await;
}

#[tokio::test]
async fn sums_of_what_was_spent_are_kept_for_400_days() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    const DAY: i64 = 24 * 3600;
    for day in [0, 1, 400, 401, 402] {
        append_outside(&store, day * DAY).await;
    }
    let days = |rows: Vec<(SpendKey, SpendSum)>| rows.into_iter().map(|(key, _)| key.day).collect::<Vec<_>>();
    let day = |n: i64| day_of(at(n * DAY));
    let all = days(store.spent(Date::MIN, Date::MAX).await.unwrap());
    assert_eq!(all, [day(400), day(401), day(402)]);
    assert_eq!(days(store.spent(day(400), day(401)).await.unwrap()), [day(400), day(401)], "both days count");
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
