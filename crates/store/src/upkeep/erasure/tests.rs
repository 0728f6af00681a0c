//! An erasure cut short at every step, and ended by the next start.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cairn_core::store_port::Store as _;
use cairn_testkit::clock::TestClock;
use cairn_types::event::{
    ArtifactEvent, Event, MaintenanceEvent, MessageEvent, NewRecord, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, Generation, MessageId, Seq, TurnId};
use cairn_types::message::{Author, Entry, Part, Pending, Provenance, Role, fingerprint};
use cairn_types::model::Usage;
use cairn_types::ports::Query;
use cairn_types::text::checksum::checksum;

use super::*;
use crate::files::artifacts::file_name;
use crate::{keep_checked, verify_dir};

const ANNA: &str = "telegram/5550123";

fn group() -> ChannelId {
    "main/telegram/-100".parse().unwrap()
}

fn private() -> ChannelId {
    "main/telegram/5550123".parse().unwrap()
}

fn asked() -> ErasureRequest {
    ErasureRequest::Asked { person: ANNA.to_owned(), at: Timestamp::UNIX_EPOCH }
}

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 3000, ..StoreOptions::new(dir) }
}

fn turn(channel: &ChannelId, n: u64, (id, name): (&str, &str), text: &str, answer: &str) -> Vec<NewRecord> {
    let author = Author { id: id.to_owned(), name: name.to_owned() };
    let parts = vec![Part::text(text)];
    let turn = TurnId::from(format!("t{n}"));
    let message = MessageId::from(format!("m{n}"));
    let first_seq = Seq(2 * n - 1);
    let pending = Pending {
        message: message.clone(),
        turn: turn.clone(),
        at: Timestamp::UNIX_EPOCH,
        spoken: false,
        reminder: None,
        fingerprint: fingerprint(&author, &parts),
        author,
        parts,
        addressed: true,
        direct: *channel == private(),
        chat_name: None,
        language: None,
        provenance: Provenance::default(),
        tokens: 9,
    };
    let mut entry = Entry::lost(first_seq.next(), &turn, Generation(1), Timestamp::UNIX_EPOCH);
    entry.role = Role::Assistant;
    entry.parts = vec![Part::text(answer)];
    let end = TurnEnd {
        turn: turn.clone(),
        outcome: TurnOutcome::Answered { reply: entry.seq },
        model: None,
        usage: Usage::default(),
        recalled: Vec::new(),
    };
    let events = [
        Event::Message(MessageEvent::Accepted(pending)),
        Event::Turn(TurnEvent::Started { turn, messages: vec![message], first_seq }),
        Event::Turn(TurnEvent::EntryAdded { entry }),
        Event::Turn(TurnEvent::Ended(end)),
    ];
    let record = |event| NewRecord { channel: Some(channel.clone()), at: Timestamp::UNIX_EPOCH, event };
    events.into_iter().map(record).collect()
}

/// A state in which Anna and Ben have talked, over several segments, with files of all kinds beside it.
async fn talked(dir: &Path) {
    let store = Store::open(options(dir)).unwrap();
    talk(&store, 1..=6).await;
    store.put_artifact(&private(), &"a1".into(), b"of Zorblax".as_slice().into()).await.unwrap();
    store.append(vec![stopped()]).await.unwrap();
    store.close().await;
    for (folder, name) in
        [("views.damaged", "db"), ("quarantine", "1-line-2.jsonl"), ("before-format-1", "x")]
    {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join(name), "Anna Kowalska said Zorblax").unwrap();
    }
}

fn stopped() -> NewRecord {
    let event = Event::Maintenance(MaintenanceEvent::DaemonStopped);
    NewRecord { channel: None, at: Timestamp::UNIX_EPOCH, event }
}

/// Three turns each time.
async fn talk(store: &Store, turns: std::ops::RangeInclusive<u64>) {
    for n in turns {
        let said = format!("my parrot Zorblax eats {n} figs");
        store
            .append(turn(&group(), 2 * n - 1, (ANNA, "Anna Kowalska"), &said, "Zorblax, noted"))
            .await
            .unwrap();
        store
            .append(turn(&group(), 2 * n, ("telegram/7", "Ben"), "the ferry leaves", "Kowalska's ferry"))
            .await
            .unwrap();
        store.append(turn(&private(), n, (ANNA, "Anna Kowalska"), "a secret", "kept")).await.unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Names and bytes of all files below a folder.
fn all_bytes(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        all.extend_from_slice(entry.file_name().to_string_lossy().as_bytes());
        all.push(b'\n');
        all.extend(if entry.path().is_dir() {
            all_bytes(&entry.path())
        } else {
            fs::read(entry.path()).unwrap()
        });
    }
    all
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

async fn check_erased(dir: &Path) {
    check_erased_of(dir, 6).await;
}

/// After so many turns of each in the group.
async fn check_erased_of(dir: &Path, n_turns: u64) {
    let store = Store::open(options(dir)).unwrap();
    assert!(!store.is_erasure_pending());
    assert!(store.stopped_cleanly());
    let report = store.verify().await.unwrap();
    assert!(report.ok, "{report:?}");
    let channels: Vec<ChannelId> =
        store.channels().await.unwrap().into_iter().map(|row| row.channel).collect();
    assert_eq!(channels, [group()]);
    let entries = store.entries(&group(), Seq(1), Seq(u64::MAX), 100).await.unwrap();
    assert_eq!(entries.len() as u64, 4 * n_turns);
    assert_eq!((entries[0].text().as_str(), entries[2].text().as_str()), ("[erased]", "the ferry leaves"));
    assert_eq!(entries[3].text(), "erased-1's ferry");
    let (text, limit) = ("ferry".to_owned(), 9);
    let query = Query { channel: Some(group()), text, limit, settled: true, ..Query::default() };
    assert!(!store.search(query).await.unwrap().is_empty(), "the index is there again");
    let erasures = store.registry().await.unwrap().erasures;
    assert_eq!(erasures.len(), 1);
    assert_eq!((erasures[0].figures.entries, erasures[0].figures.conversations), (2 * n_turns, 1));
    store.close().await;
    assert!(!dir.join("erasing").exists() && !dir.join("quarantine").exists());
    let bytes = all_bytes(dir);
    for word in ["Zorblax", "Kowalska", "5550123", "secret", "Anna"] {
        assert!(!holds(&bytes, word), "{word} is still there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_is_cut_short_anywhere_is_ended_by_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let first = home.path().join("first");
    talked(&first).await;
    let mut n_steps = 0;
    loop {
        let dir = home.path().join(format!("cut-{n_steps}"));
        copy(&first, &dir);
        asked().write(&dir).unwrap();
        let mut left = n_steps;
        let cut = resume::run(&dir, &Progress::default(), &mut |_| {
            left -= 1;
            if left < 0 { Err(StoreError::Closed) } else { Ok(()) }
        });
        check_erased(&dir).await;
        fs::remove_dir_all(&dir).unwrap();
        if cut.is_ok() {
            break;
        }
        n_steps += 1;
    }
    assert!(n_steps > 12, "{n_steps} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_who_is_erased_stands_in_no_request_once_it_is_decided() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    asked().write(home.path()).unwrap();
    let decided = resume::run(home.path(), &Progress::default(), &mut |step| match step {
        "decided" => Err(StoreError::Closed),
        _ => Ok(()),
    });
    decided.unwrap_err();
    assert_eq!(ErasureRequest::read(home.path()).unwrap(), Some(ErasureRequest::Staged { prepared: false }));
}

/// A store that is ready to erase Anna, who and Ben then go on talking.
async fn ready(dir: &Path) -> (Store, ready::Prepared) {
    let store = Store::open(StoreOptions { segment_bytes: 8000, ..options(dir) }).unwrap();
    let lease = store.try_maintenance().unwrap();
    assert!(store.ask_erasure(lease, ANNA, Timestamp::UNIX_EPOCH).await.unwrap());
    store.erasure_asked().await;
    store.prepare_erasure().await.unwrap();
    talk(&store, 7..=8).await;
    let prepared = store.inner.erasure.ready.lock().take().unwrap();
    (store, prepared)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_is_ready_ends_with_the_close_wherever_it_is_cut_short() {
    let home = tempfile::tempdir().unwrap();
    let first = home.path().join("first");
    talked(&first).await;
    let mut n_steps = 0;
    loop {
        let dir = home.path().join(format!("cut-{n_steps}"));
        copy(&first, &dir);
        let (store, prepared) = ready(&dir).await;
        store.append(vec![stopped()]).await.unwrap();
        let inner = store.inner.clone();
        store.close().await;
        let (mut left, mut views_made) = (n_steps, false);
        let cut = prepared.finish(&inner.durable().tail, &mut |step| {
            left -= 1;
            views_made |= step == "put in place";
            if left < 0 { Err(StoreError::Closed) } else { Ok(()) }
        });
        check_erased_of(&dir, 8).await;
        fs::remove_dir_all(&dir).unwrap();
        if cut.is_ok() {
            assert!(views_made);
            break;
        }
        n_steps += 1;
    }
    assert!(n_steps > 12, "{n_steps} steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_ends_what_is_ready_and_the_next_start_makes_nothing_again() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let (store, prepared) = ready(home.path()).await;
    *store.inner.erasure.ready.lock() = Some(prepared);
    store.append(vec![stopped()]).await.unwrap();
    let n = store.inner.durable().tail.n;
    store.close().await;
    assert_eq!(ErasureRequest::read(home.path()).unwrap(), None);
    let layout = Layout::of(home.path());
    let reached = [view_state(&layout).unwrap().last[0].n, crate::index::reach(&layout.index).n];
    assert!(reached.iter().all(|reached| (70..n).contains(reached)), "{reached:?} of {n}");
    check_erased_of(home.path(), 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_channel_wakes_as_fast_behind_an_erasure_as_before() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    talk(&store, 1..=40).await;
    let short = "main/local/short".parse().unwrap();
    store.append(turn(&short, 1, ("local/ben", "Ben"), "hello", "hi")).await.unwrap();
    let lease = store.try_maintenance().unwrap();
    assert!(store.ask_erasure(lease, ANNA, Timestamp::UNIX_EPOCH).await.unwrap());
    store.prepare_erasure().await.unwrap();
    store.close().await;
    assert_eq!(ErasureRequest::read(home.path()).unwrap(), None);
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(woken(&store).await, (161, 0));
    let listed = store.channel_lines(None, 9).await.unwrap();
    assert_eq!(listed.iter().filter(|line| line.outline.is_some()).count(), 2, "{listed:?}");
    store.close().await;
    assert!(!holds(&all_bytes(home.path()), "Zorblax"));
}

/// The next number of the group, and how many records were read for it.
async fn woken(store: &Store) -> (u64, usize) {
    let read = store.read("restoring it", |_, reads| reads.restore(&group(), false));
    let (conversation, n_replayed) = read.await.unwrap().unwrap();
    (conversation.next_seq.0, n_replayed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_channel_wakes_as_fast_soon_after_a_start_that_made_the_views_again() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    talk(&store, 1..=40).await;
    store.close().await;
    fs::remove_dir_all(home.path().join("views")).unwrap();
    let store = Store::open(options(home.path())).unwrap();
    assert!(woken(&store).await.1 > 160, "nothing but the journal tells of it");
    let checks = tokio::spawn(keep_checked(store.clone(), Arc::<TestClock>::default()));
    while woken(&store).await != (161, 0) {}
    checks.abort();
    store.close().await;
    let store = Store::open(options(home.path())).unwrap();
    assert!(!store.inner.views_are_new);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_earlier_records_at_the_last_moment_leaves_all_of_it_to_the_start() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let (store, prepared) = ready(home.path()).await;
    // She is called otherwise: that name may stand in what others said.
    store.append(turn(&group(), 17, (ANNA, "Leaves"), "hello", "hi")).await.unwrap();
    store.append(vec![stopped()]).await.unwrap();
    *store.inner.erasure.ready.lock() = Some(prepared);
    store.close().await;
    assert_eq!(ErasureRequest::read(home.path()).unwrap(), Some(asked()));
    assert!(!home.path().join("erasing").exists());
    let store = Store::open(options(home.path())).unwrap();
    let entries = store.entries(&group(), Seq(3), Seq(4), 9).await.unwrap();
    assert_eq!(entries[0].text(), "the ferry erased-1");
    store.close().await;
    assert!(!holds(&all_bytes(home.path()), "Zorblax"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_closed_while_an_erasure_is_made_ready_leaves_it_to_the_start() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let store = Store::open(options(home.path())).unwrap();
    let lease = store.try_maintenance().unwrap();
    assert!(store.ask_erasure(lease, ANNA, Timestamp::UNIX_EPOCH).await.unwrap());
    let making = tokio::spawn({
        let store = store.clone();
        async move { store.prepare_erasure().await }
    });
    while store.erasure_progress().now().phase.is_empty() {
        tokio::task::yield_now().await;
    }
    store.close().await;
    // It was closed before it was ready, or after.
    let _made = making.await.unwrap();
    check_erased(home.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_changes_nothing_and_nobody_is_told_from_somebody() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let before = fs::read(home.path().join("journal/00000000000000000001.jsonl")).unwrap();
    let dir = || options(home.path());
    assert_eq!(erase_dir(dir(), "telegram/999", Timestamp::UNIX_EPOCH, false).await.unwrap(), None);
    let surveyed = erase_dir(dir(), ANNA, Timestamp::UNIX_EPOCH, true).await.unwrap().unwrap();
    assert_eq!(fs::read(home.path().join("journal/00000000000000000001.jsonl")).unwrap(), before);
    let done = erase_dir(dir(), ANNA, Timestamp::UNIX_EPOCH, false).await.unwrap().unwrap();
    let still = |figures: ErasureFigures| ErasureFigures { seconds: 0.0, ..figures };
    assert_eq!(still(surveyed.figures), still(done.figures));
    assert_eq!(done.pseudonym, "telegram/erased-1");
    assert_eq!(erase_dir(dir(), ANNA, Timestamp::UNIX_EPOCH, false).await.unwrap(), None, "once is enough");
    assert!(verify_dir(dir(), false).await.unwrap().ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_is_not_written_again_and_the_request_stays() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let first = home.path().join("journal/00000000000000000001.jsonl");
    let mut bytes = fs::read(&first).unwrap();
    bytes[300] ^= 1;
    fs::write(&first, bytes).unwrap();
    asked().write(home.path()).unwrap();
    let store = Store::open(options(home.path())).unwrap();
    assert!(store.is_erasure_pending(), "what cannot be done keeps nobody from starting");
    store.close().await;
    let left = fs::read_dir(home.path().join("journal")).unwrap();
    assert!(left.flatten().all(|file| file.path().extension().is_some_and(|end| end == "jsonl")));
    assert!(ErasureRequest::read(home.path()).unwrap().is_some());
    assert!(verify_dir(options(home.path()), true).await.unwrap().problems.len() == 1);
    assert!(ErasureRequest::read(home.path()).unwrap().is_none(), "quarantined, and then erased");
    assert!(!holds(&all_bytes(home.path()), "Zorblax"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_is_not_asked_for_twice_nor_without_room_and_no_backup_begins_behind_it() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    assert!(matches!(room_for_another(home.path(), 10), Err(StoreError::DiskFull { .. })));
    room_for_another(home.path(), u64::MAX).unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let lease = store.try_maintenance().unwrap();
    assert!(store.try_maintenance().is_none());
    let (lease, figures) = store.survey_erasure(lease, ANNA, &Progress::default()).await.unwrap();
    assert!(figures.is_some() && store.try_maintenance().is_none(), "it is given back, not let go");
    assert!(store.ask_erasure(lease, ANNA, Timestamp::UNIX_EPOCH).await.unwrap());
    let lease = store.try_maintenance().unwrap();
    assert!(!store.ask_erasure(lease, "telegram/7", Timestamp::UNIX_EPOCH).await.unwrap());
    assert_eq!(ErasureRequest::read(home.path()).unwrap(), Some(asked()));
    let to = tempfile::tempdir().unwrap();
    store.backup(to.path().join("b"), Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(!to.path().join("b").exists());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_of_others_stays_without_their_name_damaged_or_not() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let store = Store::open(options(home.path())).unwrap();
    let artifact = |id: &str, sha256: Option<String>| cairn_types::message::Artifact {
        id: id.into(),
        tool: "lookup".to_owned(),
        message: None,
        sent_in: None,
        bytes: 17,
        lines: 1,
        stored_at: Timestamp::UNIX_EPOCH,
        used_at: Timestamp::UNIX_EPOCH,
        expired_at: None,
        sha256,
        lost: false,
        file: None,
    };
    let at = Timestamp::UNIX_EPOCH;
    store.put_artifact(&group(), &"a3".into(), b"a street Kowalska".as_slice().into()).await.unwrap();
    store.put_artifact(&group(), &"a4".into(), b"a lane Kowalska".as_slice().into()).await.unwrap();
    store.put_artifact(&group(), &"a5".into(), b"a path of old".as_slice().into()).await.unwrap();
    let stored = |id: &str, sha256| {
        let event = Event::Artifact(ArtifactEvent::Stored { artifact: artifact(id, sha256) });
        NewRecord { channel: Some(group()), at, event }
    };
    store
        .append(vec![
            // What it is without their name is what `check_erased` verifies.
            stored("a3", Some(checksum(b"a street Kowalska"))),
            stored("a4", None),
            stored("a5", None),
            NewRecord {
                channel: Some(group()),
                at,
                event: Event::Artifact(ArtifactEvent::Expired { ids: vec!["a5".into()], lost: false }),
            },
            NewRecord { channel: None, at, event: Event::Maintenance(MaintenanceEvent::DaemonStopped) },
        ])
        .await
        .unwrap();
    store.close().await;
    let folder = home.path().join("artifacts").join(file_name(group().as_str()));
    fs::write(folder.join(file_name("a4")), b"a lane Kowalska \xff").unwrap();
    asked().write(home.path()).unwrap();
    check_erased(home.path()).await;
    let left = all_bytes(&home.path().join("artifacts"));
    assert!(holds(&left, "a street ********") && holds(&left, "a lane ********"));
    assert!(!holds(&left, "a path of old"), "one that has expired is named by nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_is_stopped_while_it_rewrites_leaves_nothing_beside_the_journal() {
    let home = tempfile::tempdir().unwrap();
    talked(home.path()).await;
    let journal = || all_bytes(&home.path().join("journal")).len();
    let before = journal();
    asked().write(home.path()).unwrap();
    let progress = Progress::default();
    let told = resume::run(home.path(), &progress, &mut |step| {
        if step == "segment staged" {
            progress.stop();
        }
        Ok(())
    });
    assert_eq!(told, Err(StoreError::Stopped));
    assert_eq!(progress.now().phase, "rewrite");
    assert_ne!(journal(), before, "something was written beside it");
    // What is asked for is still asked for; as a command asks, it is taken back.
    let progress = Progress::default();
    progress.stop();
    assert_eq!(resume_or_clear(home.path(), &progress), Err(StoreError::Stopped));
    ErasureRequest::remove(home.path()).unwrap();
    assert_eq!(journal(), before);
    let store = Store::open(options(home.path())).unwrap();
    assert!(store.verify().await.unwrap().ok && !store.is_erasure_pending());
    store.close().await;
}
