//! Appends: their order, what a store says of its end, and what it refuses.

use super::common::{at, channel, chatting, open, opened, remove_derived, texts};
use cairn_core::store_port::Store as _;
use cairn_types::event::{Event, MaintenanceEvent, NewRecord, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::Seq;
use cairn_types::model::Usage;
use cairn_types::ports::StoreError;

#[tokio::test]
async fn only_a_stop_at_the_very_end_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let started = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0".to_owned() });
    let end = Event::Turn(TurnEvent::Ended(TurnEnd {
        turn: "t1".into(),
        outcome: TurnOutcome::Stopped,
        model: None,
        usage: Usage::default(),
        recalled: Vec::new(),
    }));
    let store = open(dir.path());
    assert!(store.stopped_cleanly(), "nothing was begun yet");
    store.close().await;
    let cases = [
        (started.clone(), false),
        (Event::Maintenance(MaintenanceEvent::DaemonStopped), true),
        (end, true),
        (started, false),
    ];
    for (event, clean) in cases {
        let store = open(dir.path());
        store.append(vec![NewRecord { channel: None, at: at(0), event }]).await.unwrap();
        store.close().await;
        for _ in 0..2 {
            let store = open(dir.path());
            assert_eq!(store.stopped_cleanly(), clean);
            store.close().await;
            // It is the same when the views are made again.
            remove_derived(dir.path());
        }
    }
}

#[tokio::test]
async fn concurrent_appends_share_syncs_and_keep_their_groups_together() {
    let (_dir, store) = opened();
    let appends = (0..200).map(|i| {
        let record = |k: u32| NewRecord {
            channel: Some(channel("main")),
            at: at(i),
            event: Event::Maintenance(MaintenanceEvent::DaemonStarted { version: format!("{i}.{k}") }),
        };
        store.append(vec![record(0), record(1), record(2)])
    });
    let done = futures::future::join_all(appends).await;
    let mut numbers = Vec::new();
    for records in done {
        let ns: Vec<u64> = records.unwrap().iter().map(|record| record.n).collect();
        assert_eq!(ns, [ns[0], ns[0] + 1, ns[0] + 2]);
        numbers.extend(ns);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=600).collect::<Vec<u64>>());
    let syncs = store.stats().await.unwrap().syncs;
    assert!(syncs < 200, "{syncs} syncs for 200 appends that waited together");
    store.close().await;
}

#[tokio::test]
async fn a_closed_store_refuses_by_name() {
    let (_dir, store) = opened();
    let other = store.clone();
    store.close().await;
    let record =
        NewRecord { channel: None, at: at(0), event: Event::Maintenance(MaintenanceEvent::DaemonStopped) };
    assert_eq!(other.append(vec![record]).await, Err(StoreError::Closed));
    assert_eq!(other.channels().await, Err(StoreError::Closed));
}

#[tokio::test]
async fn a_message_of_a_megabyte_comes_back_whole() {
    let (_dir, store, mut chat) = chatting();
    let long = "wörter und mehr ".repeat(64 * 1024);
    chat.turn("a", &long, "ok").await;
    let entries = store.entries(&channel("main"), Seq(1), Seq(1), 1).await.unwrap();
    assert_eq!(texts(&entries), [long]);
    store.close().await;
}
