//! Backups: made while everything runs, whole or not there, and put back as they were.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Chat, artifact, at, channel, segments};
use cairn_core::store_port::Store as _;
use cairn_store::{BackupError, Store, StoreOptions, restore_dir};
use cairn_types::event::{ArtifactEvent, Event};
use cairn_types::ports::StoreError;

/// A state of several segments, and room for backups beside it.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, name: &str) -> Store {
        let options = StoreOptions { segment_bytes: 2_000, ..StoreOptions::new(self.path(name)) };
        Store::open(options).unwrap()
    }
}

async fn store_artifact(store: &Store, chat: &mut Chat, id: &str) {
    store
        .put_artifact(&channel("main"), &id.into(), Arc::from(format!("words of {id}").as_bytes()))
        .await
        .unwrap();
    let event = Event::Artifact(ArtifactEvent::Stored { artifact: artifact(id, "words of a1".len() as u64) });
    chat.append(vec![event]).await;
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path()).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)),
            );
        } else {
            // Files of an open store may go since they were listed.
            found.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    found
}

fn journal(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    files
        .iter()
        .filter(|(name, _)| name.starts_with("journal/"))
        .flat_map(|(_, bytes)| bytes.clone())
        .collect()
}

/// A store with a chat and two artifacts, one of them expired.
async fn lived_in(home: &Home) -> (Store, Chat) {
    let store = home.open("state");
    let mut chat = Chat::new(&store, "main");
    for n in 0..8 {
        chat.turn(&format!("m{n}"), "a message of some words", "a reply of some words").await;
    }
    store_artifact(&store, &mut chat, "a1").await;
    store_artifact(&store, &mut chat, "a2").await;
    chat.append(vec![Event::Artifact(ArtifactEvent::Expired { ids: vec!["a2".into()], lost: false })]).await;
    (store, chat)
}

#[tokio::test(flavor = "multi_thread")]
async fn work_over_segments_breaks_off_when_the_store_is_closed() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    let needs = Arc::new(store.needs().await.unwrap());
    let first = store.segments().await.unwrap()[0].first;
    let other = store.clone();
    store.close().await;
    let backup = other.backup(home.path("backup"), at(5)).await;
    assert_eq!(backup, Err(BackupError::Store(StoreError::Closed)));
    assert_eq!(other.compress_segment(first, false).await, Err(StoreError::Closed));
    assert_eq!(other.expire_segment(first, needs, at(5), false).await, Err(StoreError::Closed));
    let left: Vec<_> =
        fs::read_dir(home.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["state"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_a_prefix_that_restores_to_what_was_then() {
    let home = Home::new();
    let (store, mut chat) = lived_in(&home).await;
    let before = chat.state.last_n;
    let talk = tokio::spawn(async move {
        for n in 0..200 {
            chat.turn(&format!("during-{n}"), "a message meanwhile", "a reply meanwhile").await;
        }
        chat
    });
    let report = store.backup(home.path("backup"), at(5)).await.unwrap();
    let chat = talk.await.unwrap();
    assert!(report.last_record >= before && report.last_record <= chat.state.last_n);
    assert!(report.segments > 2 && report.artifacts == 1 && report.missing.is_empty(), "{report:?}");
    assert_eq!(report.records, report.last_record);
    store.close().await;

    let copied = files(&home.path("backup"));
    let whole = journal(&files(&home.path("state")));
    let part = journal(&copied);
    assert!(whole.starts_with(&part) && part.ends_with(b"\n"));
    let names: Vec<&str> =
        copied.keys().filter(|name| !name.starts_with("journal/")).map(String::as_str).collect();
    assert_eq!(
        names,
        ["artifacts/main%2Flocal%2Fmain/a1", "format", "manifest.json"],
        "nothing of later, no views"
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.path("backup")), 0o700);
    assert_eq!(mode(&home.path("backup/journal")), 0o700);
    assert_eq!(mode(&home.path("backup/manifest.json")), 0o600);
    assert!(!home.path("backup.partial").exists());

    let back = restore_dir(home.path("backup"), home.path("new"), false, at(9)).await.unwrap();
    assert_eq!((back.last_record, back.records, back.moved_to), (report.last_record, report.records, None));
    assert_eq!(back.bytes, report.bytes);
    let restored = home.open("new");
    let verified = restored.verify().await.unwrap();
    assert!(verified.ok && verified.journal.last == report.last_record, "{verified:?}");
    let found = restored.restore(&channel("main")).await.unwrap().unwrap();
    assert_eq!(found.last_n, report.last_record);
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_backup_removes_one_beside_it_that_a_kill_broke_off() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    for name in ["monday.partial", "other.partial", "mine.partial"] {
        fs::create_dir_all(home.path(name).join("journal")).unwrap();
        fs::write(home.path(name).join("journal/1.jsonl"), "half").unwrap();
    }
    fs::write(home.path("mine.partial/letter"), "not of a backup").unwrap();
    // Another daemon makes that one just now.
    let other = fs::File::open(home.path("other.partial")).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    store.backup(home.path("tuesday"), at(5)).await.unwrap();
    let left = ["monday.partial", "other.partial", "mine.partial"].map(|name| home.path(name).exists());
    assert_eq!(left, [false, true, true]);
    assert!(home.path("tuesday/manifest.json").exists());
    store.close().await;
}

#[tokio::test]
async fn a_backup_goes_only_where_nothing_is_and_leaves_nothing_when_it_may_not() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    fs::create_dir_all(home.path("full")).unwrap();
    fs::write(home.path("full/mine.txt"), "mine").unwrap();
    fs::write(home.path("file"), "mine").unwrap();
    fs::create_dir_all(home.path("taken.partial/mine")).unwrap();
    std::os::unix::fs::symlink(home.path("state"), home.path("link")).unwrap();
    // The open store goes on writing into its own folder.
    let others = || {
        let mut found = files(home.dir.path());
        found.retain(|name, _| !name.starts_with("state/") && !name.starts_with("link/"));
        found
    };
    let before = others();
    for (name, code) in [
        ("full", "not_empty"),
        ("file", "not_empty"),
        ("state", "inside_state"),
        ("state/backup", "inside_state"),
        ("link/backup", "inside_state"),
        ("nowhere/backup", "bad_dir"),
        ("taken", "not_empty"),
        ("file/backup", "not_writable"),
    ] {
        match store.backup(home.path(name), at(1)).await {
            Err(BackupError::Refused { code: found, hint, .. }) => {
                assert_eq!(found, code, "{name}");
                assert!(!hint.is_empty());
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let relative = store.backup("somewhere".into(), at(1)).await;
    assert!(matches!(relative, Err(BackupError::Refused { code: "bad_dir", .. })), "{relative:?}");
    assert_eq!(others(), before);
    assert!(!home.path("state/backup").exists() && !home.path("state/backup.partial").exists());

    // An empty folder, and one beside which an earlier backup was broken off.
    fs::create_dir_all(home.path("empty")).unwrap();
    fs::create_dir_all(home.path("empty.partial/journal")).unwrap();
    fs::write(home.path("empty.partial/journal/1.jsonl"), "half").unwrap();
    fs::write(home.path("empty.partial/manifest.json.new"), "half").unwrap();
    store.backup(home.path("empty"), at(1)).await.unwrap();
    assert!(home.path("empty/manifest.json").exists() && !home.path("empty.partial").exists());
    store.close().await;
}

#[tokio::test]
async fn a_backup_waits_for_the_lease_and_missing_artifacts_are_told() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    fs::remove_file(home.path("state/artifacts/main%2Flocal%2Fmain/a1")).unwrap();
    let lease = store.maintenance().await.unwrap();
    let other = store.clone();
    let dir = home.path("backup");
    let made = tokio::spawn(async move { other.backup(dir, at(1)).await });
    tokio::task::yield_now().await;
    assert!(!home.path("backup.partial").exists() && !home.path("backup").exists());
    drop(lease);
    let report = made.await.unwrap().unwrap();
    assert!(report.missing[0].contains("a1") && report.artifacts == 0, "{report:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_is_not_backed_up_as_if_it_were_whole() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 2] = [
        ("checksum", |path| {
            let text = fs::read_to_string(path).unwrap().replacen("some words", "same words", 1);
            fs::write(path, text).unwrap();
        }),
        ("are missing", |path| fs::remove_file(path).unwrap()),
    ];
    for (told, damage) in damages {
        let home = Home::new();
        let (store, _chat) = lived_in(&home).await;
        damage(&segments(&home.path("state"))[1]);
        let error = store.backup(home.path("backup"), at(1)).await.unwrap_err();
        assert!(matches!(&error, BackupError::Store(StoreError::Damaged { line: 1.., .. })), "{error}");
        assert!(error.to_string().contains(told), "{error}");
        assert!(!home.path("backup").exists() && !home.path("backup.partial").exists());
        store.close().await;
    }
}

#[tokio::test]
async fn a_damaged_backup_changes_nothing() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    store.backup(home.path("backup"), at(1)).await.unwrap();
    store.close().await;
    let good = files(&home.path("backup"));
    let state = files(&home.path("state"));
    let restore = async || restore_dir(home.path("backup"), home.path("new"), false, at(2)).await;
    for (name, bytes) in &good {
        let path = home.path("backup").join(name);
        let mut cases = vec![None, Some(bytes[..bytes.len() - 1].to_vec())];
        for at in [0, bytes.len() / 3, bytes.len() - 2] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            cases.push(Some(bad));
        }
        for bad in cases {
            let whole = bad.is_some();
            match bad {
                Some(bad) => fs::write(&path, bad).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let error = restore().await.unwrap_err();
            let told =
                matches!(error, BackupError::Damaged { .. } | BackupError::Store(StoreError::Newer { .. }));
            assert!(told || (name == "manifest.json" && !whole), "{name}: {error:?}");
            assert!(!home.path("new").exists(), "{name}");
            fs::write(&path, bytes).unwrap();
        }
    }
    fs::write(home.path("backup/journal/00000000000000009999.jsonl"), "").unwrap();
    assert!(
        matches!(restore().await, Err(BackupError::Damaged { .. })),
        "a segment that the manifest does not name"
    );
    fs::remove_file(home.path("backup/journal/00000000000000009999.jsonl")).unwrap();
    let forced = restore_dir(home.path("backup.partial"), home.path("state"), true, at(2)).await;
    assert!(matches!(forced, Err(BackupError::Refused { code: "no_backup", .. })), "{forced:?}");
    assert_eq!(files(&home.path("state")), state);
    restore().await.unwrap();
}

#[tokio::test]
async fn a_state_that_is_there_is_moved_aside_and_one_in_use_is_left_alone() {
    let home = Home::new();
    let (store, mut chat) = lived_in(&home).await;
    store.backup(home.path("backup"), at(1)).await.unwrap();
    chat.turn("later", "after the backup", "indeed").await;
    let restore = async |force| restore_dir(home.path("backup"), home.path("state"), force, at(3_600)).await;
    let in_use = restore(true).await;
    assert!(matches!(in_use, Err(BackupError::Store(StoreError::InUse { .. }))), "{in_use:?}");
    store.close().await;
    let before = files(&home.path("state"));
    assert!(matches!(restore(false).await, Err(BackupError::Refused { code: "state_exists", .. })));
    assert_eq!(files(&home.path("state")), before);

    let report = restore(true).await.unwrap();
    let aside = home.path("state/before-restore-20260101T010000Z");
    assert_eq!(report.moved_to.as_ref(), Some(&aside));
    let kept = files(&aside);
    assert!(before.iter().all(|(name, bytes)| name == "lock" || kept.get(name) == Some(bytes)));
    let store = home.open("state");
    let found = store.restore(&channel("main")).await.unwrap().unwrap();
    assert_eq!(found.last_n, report.last_record);
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
    let again = restore(true).await.unwrap();
    assert_ne!(again.moved_to, report.moved_to, "what was moved aside before stays");
    assert_eq!(files(&aside), kept);
}

#[tokio::test]
async fn a_newer_state_is_refused_everywhere_with_nothing_touched_and_gives_way_to_a_backup() {
    let home = Home::new();
    let (store, _chat) = lived_in(&home).await;
    store.backup(home.path("backup"), at(1)).await.unwrap();
    store.close().await;
    fs::write(home.path("state/format"), r#"{"format":9,"written_by":"4.0.0"}"#).unwrap();
    let before = files(&home.path("state"));
    let options = || StoreOptions::new(home.path("state"));
    let newer = |error: StoreError| assert!(matches!(error, StoreError::Newer { format: 9, .. }), "{error}");
    newer(Store::open(options()).map(drop).unwrap_err());
    newer(cairn_store::verify_dir(options(), true).await.unwrap_err());
    newer(cairn_store::rebuild_dir(options()).await.unwrap_err());
    assert_eq!(files(&home.path("state")), before);
    restore_dir(home.path("backup"), home.path("state"), true, at(2)).await.unwrap();
    home.open("state").close().await;
}
