//! Work over the whole state: watched, stopped, and done for what is new alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cairn_core::store_port::Store as _;
use cairn_store::{BackupError, Progress, Store, StoreOptions, erase_dir, rebuild_dir, verify_dir};
use cairn_types::ports::StoreError;

use crate::common::{Chat, at, channel, chatting, open, segments};

fn stopped() -> Progress {
    let progress = Progress::default();
    progress.stop();
    progress
}

fn options(dir: &Path, progress: &Progress) -> StoreOptions {
    StoreOptions { progress: progress.clone(), ..StoreOptions::new(dir) }
}

/// Names of what is in a folder, and its bytes where they are files of the journal.
fn kept(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let journal =
        segments(dir).into_iter().map(|path| (path.display().to_string(), fs::read(&path).unwrap()));
    names.map(|name| (name, Vec::new())).chain(journal).collect()
}

#[tokio::test]
async fn work_that_is_stopped_leaves_everything_as_it_was() {
    let (dir, store, mut chat) = chatting();
    for n in 0..5 {
        chat.turn(&format!("m{n}"), &format!("hello {n}"), "hi").await;
    }
    let to = tempfile::tempdir().unwrap();
    let told = store.backup_watched(to.path().join("b"), at(0), &stopped()).await.unwrap_err();
    assert_eq!(told, BackupError::Store(StoreError::Stopped));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    assert_eq!(store.verify_watched(false, &stopped()).await.unwrap_err(), StoreError::Stopped);
    drop(chat);
    store.close().await;
    let before = kept(dir.path());
    let person = "local/ana";
    for work in ["verify", "rebuild", "erase"] {
        let options = options(dir.path(), &stopped());
        let told = match work {
            "verify" => verify_dir(options, false).await.map(drop),
            "rebuild" => rebuild_dir(options).await.map(drop),
            _ => erase_dir(options, person, at(0), false).await.map(drop),
        };
        assert_eq!(told, Err(StoreError::Stopped), "{work}");
        assert_eq!(kept(dir.path()), before, "{work}");
    }
    let store = open(dir.path());
    assert_eq!(store.channels().await.unwrap().len(), 1);
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
}

#[tokio::test]
async fn whoever_watches_sees_each_phase_to_its_end() {
    let (dir, store, mut chat) = chatting();
    chat.turn("m1", "hello", "hi").await;
    let progress = Progress::default();
    assert_eq!(progress.now().phase, "");
    store.verify_watched(false, &progress).await.unwrap();
    let now = progress.now();
    assert_eq!((now.phase.as_str(), now.done, now.total), ("channels", 1, 1));
    drop(chat);
    store.close().await;
    let progress = Progress::default();
    let report = rebuild_dir(options(dir.path(), &progress)).await.unwrap();
    assert!(report.ok && progress.now().phase == "channels", "{report:?} {:?}", progress.now());
    assert!(!dir.path().join("before-rebuild").exists());
}

#[tokio::test]
async fn a_quick_check_reads_what_came_since_the_last_of_all() {
    let (dir, store, mut chat) = chatting();
    chat.turn("m1", "hello", "hi").await;
    let quick = async |store: &Store| store.verify_watched(true, &Progress::default()).await.unwrap();
    assert_eq!(quick(&store).await.since, None, "there was none: it is one of all");
    let last = store.verify().await.unwrap().journal.last;
    assert_eq!(quick(&store).await.since, Some(last));
    let mut other = Chat::new(&store, "other");
    other.turn("m2", "and now?", "still here").await;
    let report = quick(&store).await;
    assert_eq!((report.ok, report.since, report.channels), (true, Some(last), 1));
    assert_eq!((report.journal.events, report.journal.last), (4, last + 4));
    // What is damaged behind that place is found, and what is damaged before it is left to a check of all.
    let path = segments(dir.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    };
    flipped(whole.len() - 30);
    let report = quick(&store).await;
    let line = format!("line {}", whole.iter().filter(|byte| **byte == b'\n').count());
    assert!(!report.ok && report.problems[0].contains(&line), "{:?}", report.problems);
    fs::write(&path, &whole).unwrap();
    assert!(store.verify().await.unwrap().ok);
    flipped(60);
    assert!(quick(&store).await.ok);
    assert!(!store.verify().await.unwrap().ok);
    assert!(!quick(&store).await.ok, "what a check of all has found is not forgotten");
    fs::write(&path, whole).unwrap();
    let last = store.verify().await.unwrap().journal.last;
    // A journal that has something else at that place is checked from its beginning.
    let mark = fs::read_to_string(dir.path().join("verified.json")).unwrap();
    fs::write(dir.path().join("verified.json"), mark.replace(&format!("\"n\":{last}"), "\"n\":2")).unwrap();
    assert_eq!(quick(&store).await.since, None);
    assert!(store.restore(&channel("other")).await.unwrap().is_some());
    store.close().await;
}
