//! Failing disks and failing rows, played from within.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cairn_core::store_port::Store as _;
use cairn_types::event::{Event, MaintenanceEvent, NewRecord, Record};
use cairn_types::ids::ChannelId;
use cairn_types::ports::{ChannelRow, StoreError};
use jiff::Timestamp;

use crate::files::disk::{AppendFile, Disk, RealDisk};
use crate::store::ROOM_EVERY;
use crate::views::codec::{Key, view_error};
use crate::views::db::Db;
use crate::views::{Command, STILL_READ};
use crate::{Store, StoreOptions, verify_dir};

const FINE: u8 = 0;
/// Writes half of what it is given, then says that it is full; cutting fails, too.
const FULL: u8 = 1;
const UNSYNCED: u8 = 2;
const DEADLY: u8 = 3;

#[derive(Clone, Default)]
struct FaultyDisk(Arc<AtomicU8>);

struct FaultyFile(Box<dyn AppendFile>, FaultyDisk);

impl FaultyDisk {
    fn set(&self, mode: u8) {
        self.0.store(mode, Ordering::SeqCst);
    }

    fn mode(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(FaultyFile(RealDisk.open(path)?, self.clone())))
    }
}

impl AppendFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.1.mode() {
            FULL => {
                self.0.append(&bytes[..bytes.len() / 2])?;
                Err(io::ErrorKind::StorageFull.into())
            }
            DEADLY => panic!("the disk bites"),
            _ => self.0.append(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.1.mode() == UNSYNCED { Err(io::Error::other("no sync")) } else { self.0.sync() }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.1.mode() == FULL { Err(io::Error::other("no cut")) } else { self.0.cut(len) }
    }
}

fn channel() -> ChannelId {
    "main/local/main".parse().unwrap()
}

async fn append(store: &Store, version: &str) -> Result<Vec<Record>, StoreError> {
    let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: version.to_owned() });
    store.append(vec![NewRecord { channel: Some(channel()), at: Timestamp::UNIX_EPOCH, event }]).await
}

fn closed_views(dir: &Path) -> Db {
    Db::open(&dir.join("views"), 1 << 20, &Arc::default()).unwrap()
}

/// Spoils a row, as a flipped bit would. Returns what it was.
fn garble(db: &Db, key: &Key) -> sled::IVec {
    db.sled().insert(&key.0, b"garbled").unwrap().unwrap()
}

/// Spoils the row of a channel of an open store. The rows are held until they are closed for it.
fn garble_live(store: &Store, channel: &ChannelId) -> Weak<Db> {
    let rows = store.inner.views.db().unwrap();
    garble(&rows, &Key::channel(channel));
    Arc::downgrade(&rows)
}

fn journal(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("journal/00000000000000000001.jsonl")).unwrap()
}

async fn faulty() -> (tempfile::TempDir, FaultyDisk, Store) {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let store = Store::open_on(StoreOptions::new(dir.path()), Arc::new(disk.clone())).unwrap();
    append(&store, "one").await.unwrap();
    (dir, disk, store)
}

/// A store with one record, in a folder of its own; and its channels.
async fn begun() -> (tempfile::TempDir, Store, Vec<ChannelRow>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    append(&store, "one").await.unwrap();
    let channels = store.channels().await.unwrap();
    (dir, store, channels)
}

fn cut_behind_the_first_line(dir: &Path) {
    let text = journal(dir);
    let first = text.find('\n').unwrap() + 1;
    std::fs::write(dir.join("journal/00000000000000000001.jsonl"), &text[..first]).unwrap();
}

#[tokio::test]
async fn a_disk_that_fails_refuses_what_waits_and_the_journal_goes_on_without_a_gap() {
    for mode in [FULL, UNSYNCED] {
        let (dir, disk, store) = faulty().await;
        assert_eq!(store.stats().await.unwrap().trouble, None);
        let whole = journal(dir.path());
        disk.set(mode);
        let error = append(&store, "lost").await.unwrap_err();
        assert_eq!(matches!(error, StoreError::DiskFull { .. }), mode == FULL, "{error}");
        // The true disk has room: that is found out without a write.
        let trouble = store.stats().await.unwrap().trouble;
        assert_eq!(matches!(trouble, Some(StoreError::Io { .. })), mode == UNSYNCED, "{trouble:?}");
        append(&store, "lost too").await.unwrap_err();
        assert_eq!(journal(dir.path()).len() > whole.len(), mode == FULL, "half a line is there for now");
        disk.set(FINE);
        assert_eq!(append(&store, "two").await.unwrap()[0].n, 2);
        assert_eq!(store.stats().await.unwrap().trouble, None);
        let text = journal(dir.path());
        assert!(text.starts_with(&whole) && !text.contains("lost"));
        store.settle().await.unwrap();
        store.close().await;
        Store::open(StoreOptions::new(dir.path())).unwrap().close().await;
    }
}

#[tokio::test]
async fn a_full_disk_is_tried_at_its_own_pace_whoever_asks() {
    let (dir, disk, store) = faulty().await;
    let full = async || matches!(store.stats().await.unwrap().trouble, Some(StoreError::DiskFull { .. }));
    // While a folder has the name of the file by which room is found out, there is none.
    let probe = dir.path().join("room.new");
    std::fs::create_dir(&probe).unwrap();
    disk.set(FULL);
    append(&store, "lost").await.unwrap_err();
    tokio::time::pause();
    assert!(full().await);
    std::fs::remove_dir(&probe).unwrap();
    for _ in 0..3 {
        assert!(full().await, "it was tried just now");
    }
    tokio::time::advance(ROOM_EVERY).await;
    assert!(!full().await);
    tokio::time::resume();
    store.close().await;
}

#[tokio::test]
async fn a_dead_writer_fails_later_appends_by_name() {
    let (dir, disk, store) = faulty().await;
    disk.set(DEADLY);
    for _ in 0..2 {
        let error = append(&store, "lost").await.unwrap_err();
        assert!(error.to_string().contains("writer has died"), "{error}");
    }
    assert_eq!(store.channels().await.unwrap().len(), 1, "reading goes on");
    store.close().await;
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    assert_eq!(append(&store, "two").await.unwrap()[0].n, 2);
    store.close().await;
}

#[tokio::test]
async fn a_bad_row_met_while_reading_has_the_views_made_again() {
    let (dir, store, before) = begun().await;
    let garbled = garble_live(&store, &channel());
    // Until they are mended: sled is closed, moved aside, and everything applied again.
    let applied = store.inner.views.applied();
    while garbled.strong_count() > 0 || applied.borrow().error.is_some() {
        assert_eq!(store.channels().await.unwrap(), before, "the journal knows");
    }
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(dir.path().join("views.damaged").exists());
}

#[tokio::test]
async fn whoever_reads_while_the_views_are_made_again_gets_all_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    for n in 0..3000 {
        let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() });
        let channel = format!("main/local/c{}", n % 500).parse().ok();
        store.append(vec![NewRecord { channel, at: Timestamp::UNIX_EPOCH, event }]).await.unwrap();
    }
    let before = store.channels().await.unwrap();
    assert_eq!(before.len(), 500);
    let garbled = garble_live(&store, &"main/local/c7".parse().unwrap());
    let applied = store.inner.views.applied();
    while garbled.strong_count() > 0 || applied.borrow().error.is_some() {
        assert_eq!(store.channels().await.unwrap(), before);
    }
    // Opened again they show nothing at first, and are not read until they show all.
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
}

#[tokio::test]
async fn what_is_asked_of_views_that_do_not_come_back_is_read_from_the_journal_and_a_close_leaves_them_behind()
 {
    let (_dir, store, on_disk) = begun().await;
    let (hang, hanging) = std::sync::mpsc::sync_channel::<()>(0);
    let views = Arc::clone(&store.inner.views);
    let stuck = std::thread::spawn(move || views.hang(&hanging));
    let other: ChannelId = "main/local/other".parse().unwrap();
    let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "two".to_owned() });
    let record = NewRecord { channel: Some(other.clone()), at: Timestamp::UNIX_EPOCH, event };
    while store.inner.views.stuck().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store.append(vec![record]).await.unwrap();
    // Also what came since; again and again, with what comes meanwhile.
    for n in 0..2 * 4 {
        let channels = store.channels().await.unwrap();
        assert_eq!((channels.len(), &channels[0]), (2, &on_disk[0]));
        assert_eq!(store.restore(&other).await.unwrap().unwrap().last_n, 2 + n);
        let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() });
        let record = NewRecord { channel: Some(other.clone()), at: Timestamp::UNIX_EPOCH, event };
        store.append(vec![record]).await.unwrap();
    }
    assert!(store.inner.reads_from_journal());
    let are_kept = || store.inner.journal_rows.try_lock().unwrap().is_some();
    let failing = store.look(|_, _| Err::<(), _>(view_error("what was asked for is damaged")));
    assert!(failing.await.is_err() && are_kept(), "a question that fails has nothing folded again");
    drop(hang);
    stuck.join().unwrap();
    // Those who ask until the views answer in time are answered all the same.
    while store.inner.reads_from_journal() {
        assert_eq!(store.channels().await.unwrap().len(), 2);
    }
    assert!(are_kept(), "nor have views that come and go");
    assert!(store.close().await);
}

#[tokio::test]
async fn views_that_are_still_read_when_they_are_opened_again_are_not_taken_for_damaged() {
    let (dir, store, before) = begun().await;
    let reader = store.inner.views.db().unwrap();
    let key = Key::channel(&channel());
    let value = garble(&reader, &key);
    assert_eq!(store.channels().await.unwrap(), before, "the journal knows");
    let mut applied = store.inner.views.applied();
    let waits = |error: &StoreError| error.to_string().contains(STILL_READ);
    let waited = applied.wait_for(|applied| applied.error.as_ref().is_some_and(waits));
    drop(
        tokio::time::timeout(Duration::from_secs(60), waited)
            .await
            .expect("opened under the reader")
            .unwrap(),
    );
    reader.sled().insert(&key.0, value).unwrap();
    drop(reader);
    applied.wait_for(|applied| applied.error.is_none()).await.unwrap();
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(!dir.path().join("views.damaged").exists());
}

#[tokio::test]
async fn views_of_another_version_are_made_again_and_not_taken_for_damaged() {
    let (dir, store, before) = begun().await;
    store.close().await;
    let db = closed_views(dir.path());
    db.age();
    assert!(db.meta().is_err(), "rows of another version are not read");
    db.flush().unwrap();
    drop(db);
    let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
    assert!(report.ok && report.views.applied == 1, "{:?}", report.problems);
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(!dir.path().join("views.damaged").exists());
}

#[tokio::test]
async fn files_of_artifacts_that_expire_while_a_backup_is_made_go_when_it_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    let artifacts = store.inner.artifacts.clone();
    let put =
        async |id: &str| artifacts.put(&channel(), &id.into(), Arc::from(b"words".as_slice())).await.unwrap();
    let there = |id: &str| store.inner.artifacts.file(&channel(), &id.into()).exists();
    put("a1").await;
    put("a2").await;
    let held = store.inner.artifacts.hold();
    for id in ["a1", "a2"] {
        artifacts.remove(&channel(), &id.into()).await.unwrap();
        assert!(there(id));
    }
    put("a2").await;
    drop(held);
    assert!(!there("a1") && there("a2"), "what was stored again stays");
    artifacts.remove(&channel(), &"a2".into()).await.unwrap();
    assert!(!there("a2"));
    store.close().await;
}

#[tokio::test]
async fn a_row_that_sled_has_lost_is_noticed_when_the_views_are_opened() {
    let (dir, store, before) = begun().await;
    store.close().await;
    let db = closed_views(dir.path());
    db.sled().remove(&Key::channel(&channel()).0).unwrap().unwrap();
    db.flush().unwrap();
    drop(db);
    let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
    assert!(!report.ok && report.problems[0].contains("rows are missing"), "{:?}", report.problems);
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(dir.path().join("views.damaged").exists());
}

/// Has the rows copied while more comes, until the files of old are gone.
async fn copied(store: &Store, dir: &Path, to: &str) {
    store.inner.commands.send(Command::Shrink).unwrap();
    let views = dir.join("views");
    let is_used = || std::fs::read_to_string(views.join("current")).is_ok_and(|name| name == to);
    for n in 0.. {
        let there = std::fs::read_dir(&views).unwrap().count();
        if is_used() && there == 2 {
            return;
        }
        let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() });
        let channel = format!("main/local/c{}", n % 700).parse().ok();
        store.append(vec![NewRecord { channel, at: Timestamp::UNIX_EPOCH, event }]).await.unwrap();
        assert!(store.channels().await.is_ok_and(|channels| channels.len() >= 500));
    }
}

#[tokio::test]
async fn rows_are_copied_into_new_files_while_more_is_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    for n in 0..500 {
        let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: n.to_string() });
        let channel = format!("main/local/c{n}").parse().ok();
        store.append(vec![NewRecord { channel, at: Timestamp::UNIX_EPOCH, event }]).await.unwrap();
    }
    copied(&store, dir.path(), "rows-1").await;
    assert!(!dir.path().join("views/db").exists());
    copied(&store, dir.path(), "rows-2").await;
    append(&store, "last").await.unwrap();
    let before = store.channels().await.unwrap();
    let report = store.verify().await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    store.close().await;
    // Each row is read and counted here.
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(!dir.path().join("views.damaged").exists());
    assert!(dir.path().join("views/rows-2/db").exists());
}

/// A state of which a start reads no row that was there at the last stop.
fn large(dir: &Path) -> Store {
    Store::open(StoreOptions { checked_at_start_bytes: 0, ..StoreOptions::new(dir) }).unwrap()
}

#[tokio::test]
async fn a_row_that_sled_has_lost_is_found_by_the_check_in_the_background_and_made_again() {
    let (dir, store, before) = begun().await;
    store.close().await;
    let db = closed_views(dir.path());
    db.sled().remove(&Key::channel(&channel()).0).unwrap().unwrap();
    db.flush().unwrap();
    drop(db);
    let store = large(dir.path());
    assert!(store.channels().await.unwrap().is_empty(), "nobody has looked yet");
    let problems = store.check(Timestamp::UNIX_EPOCH).await.unwrap();
    assert!(problems.len() == 1 && problems[0].contains("rows are missing"), "{problems:?}");
    // Until they are made again they cannot be checked.
    while !store.check(Timestamp::UNIX_EPOCH).await.is_ok_and(|problems| problems.is_empty()) {}
    assert_eq!(store.channels().await.unwrap(), before);
    store.close().await;
    assert!(dir.path().join("views.damaged").exists());
}

#[tokio::test]
async fn a_channel_whose_row_is_lost_does_not_begin_a_second_time() {
    let (dir, store, _) = begun().await;
    let whole = store.restore(&channel()).await.unwrap();
    store.close().await;
    let db = closed_views(dir.path());
    db.sled().remove(&Key::channel(&channel()).0).unwrap().unwrap();
    db.flush().unwrap();
    drop(db);
    let store = large(dir.path());
    assert_eq!(store.restore(&channel()).await.unwrap(), whole, "the journal knows");
    store.close().await;
}

#[tokio::test]
async fn a_journal_that_loses_its_end_while_it_is_open_is_told() {
    let (dir, store, _) = begun().await;
    for version in ["two", "three"] {
        append(&store, version).await.unwrap();
    }
    assert!(store.verify().await.unwrap().ok);
    cut_behind_the_first_line(dir.path());
    let report = store.verify().await.unwrap();
    assert!(!report.ok && report.problems[0].contains("records 2 to 3 are missing"), "{:?}", report.problems);
    store.close().await;
}

#[tokio::test]
async fn views_of_another_version_prove_a_loss_too() {
    let (dir, store, _) = begun().await;
    append(&store, "two").await.unwrap();
    store.close().await;
    let db = closed_views(dir.path());
    db.age();
    db.flush().unwrap();
    drop(db);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    cut_behind_the_first_line(dir.path());
    let error = Store::open(StoreOptions::new(dir.path())).err().unwrap();
    assert!(error.to_string().contains("record 2 is missing"), "{error}");
}
