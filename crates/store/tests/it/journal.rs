//! The journal on disk: torn ends, damage, quarantine, the lock, group commit.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Chat, channel, open, opened, remove_derived, segments, texts};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, verify_dir};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::Seq;
use cairn_types::ports::StoreError;

async fn two_turns(dir: &Path) -> Chat {
    let store = open(dir);
    let mut chat = Chat::new(&store, "main");
    chat.turn("a", "hello", "hi").await;
    chat.turn("b", "the bike is blue", "noted").await;
    store.close().await;
    chat
}

/// Changes words of a line, so that its checksum is wrong.
fn spoil(dir: &Path, words: &str, others: &str) -> PathBuf {
    let file = segments(dir).remove(0);
    let text = fs::read_to_string(&file).unwrap().replacen(words, others, 1);
    fs::write(&file, text).unwrap();
    file
}

fn small(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 600, ..StoreOptions::new(dir) }
}

/// Six turns over several segments.
async fn six_turns(dir: &Path) -> Chat {
    let store = Store::open(small(dir)).unwrap();
    let mut chat = Chat::new(&store, "main");
    for i in 0..6 {
        chat.turn(&format!("m{i}"), "hello there", "hi").await;
    }
    let stats = store.stats().await.unwrap();
    assert!(stats.segments > 4 && stats.last_n == chat.state.last_n, "{stats:?}");
    store.close().await;
    remove_derived(dir);
    chat
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_the_numbers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let chat = two_turns(dir.path()).await;
    let file = &segments(dir.path())[0];
    let whole = fs::read(file).unwrap();
    fs::write(file, [&whole[..], br#"{"crc":"0123abcd","v":1,"n":99,"at":"20"#].concat()).unwrap();
    assert!(verify_dir(StoreOptions::new(dir.path()), false).await.unwrap().ok);
    let store = open(dir.path());
    assert_eq!(fs::read(file).unwrap(), whole);
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    let mut chat = Chat { store: store.clone(), ..chat };
    let records = chat
        .append(vec![Event::Turn(TurnEvent::SessionStarted { generation: cairn_types::ids::Generation(2) })])
        .await;
    assert_eq!(records[0].n, chat.state.last_n);
    let kept = fs::read_dir(dir.path().join("quarantine")).unwrap().count();
    assert_eq!(kept, 1, "what was cut off is kept");
    store.close().await;
}

/// A bit that flipped in what was acknowledged last, and a block that a file system had not written yet.
#[tokio::test]
async fn a_damaged_last_line_is_told_from_one_that_was_cut_short() {
    for (with, kept) in [("bike is gree~", "damaged"), ("bike is \0\0\0\0\0", "torn")] {
        let dir = tempfile::tempdir().unwrap();
        let mut chat = two_turns(dir.path()).await;
        chat.store = open(dir.path());
        chat.accept("m9", "ana", "the bike is green").await;
        chat.store.clone().close().await;
        spoil(dir.path(), "bike is green", with);
        remove_derived(dir.path());
        open(dir.path()).close().await;
        let names = fs::read_dir(dir.path().join("quarantine")).unwrap();
        let names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(matches!(&names[..], [name] if name.contains(kept)), "{names:?}");
    }
}

#[tokio::test]
async fn an_append_that_a_crash_cut_in_two_is_gone_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let chat = two_turns(dir.path()).await;
    let file = &segments(dir.path())[0];
    let text = fs::read_to_string(file).unwrap();
    // The last append has two records; its second line never reached the disk.
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    assert!(text[..cut].lines().last().unwrap().contains("\"left\":1"));
    fs::write(file, &text[..cut]).unwrap();
    // It was never synced, so nothing had been told of it.
    remove_derived(dir.path());
    let store = open(dir.path());
    let restored = store.restore(&chat.state.channel).await.unwrap().unwrap();
    assert_eq!(texts(&restored.live.into_iter().collect::<Vec<_>>()), ["hello", "hi", "the bike is blue"]);
    assert_eq!(restored.open_turn.unwrap().id.as_str(), "t2");
    store.close().await;
}

#[tokio::test]
async fn a_bad_line_in_the_middle_stops_the_start_with_file_and_line_whether_or_not_the_views_show_it() {
    for is_shown in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        two_turns(dir.path()).await;
        let file = spoil(dir.path(), "the bike is blue", "the bike is grey");
        if !is_shown {
            remove_derived(dir.path());
        }
        let error = Store::open(StoreOptions::new(dir.path())).err().unwrap();
        let StoreError::Damaged { file: named, line, message } = error else { panic!("{error}") };
        assert_eq!((named, line), (file.display().to_string(), 5));
        assert!(message.contains("checksum"), "{message}");

        let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
        assert!(!report.ok);
        assert!(report.problems[0].contains("line 5"), "{:?}", report.problems);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_looked_into_is_not_called_fine() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = verify_dir(StoreOptions::new(file.path()), false).await.err().unwrap();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
}

#[tokio::test]
async fn quarantine_sets_a_bad_line_aside_and_shows_the_loss() {
    let dir = tempfile::tempdir().unwrap();
    let chat = two_turns(dir.path()).await;
    spoil(dir.path(), "the bike is blue", "the bike is grey");
    remove_derived(dir.path());
    let report = verify_dir(StoreOptions::new(dir.path()), true).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.journal.last, chat.state.last_n);
    assert!(report.problems[0].contains("records 5 to 5 are lost"), "{:?}", report.problems);
    let aside = fs::read_dir(dir.path().join("quarantine")).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_to_string(aside).unwrap().contains("the bike is grey"));

    let store = open(dir.path());
    let entries = store.entries(&channel("main"), Seq(1), Seq(9), 9).await.unwrap();
    assert_eq!(entries.len(), 4, "the number of the lost entry is not given again");
    let restored = store.restore(&channel("main")).await.unwrap().unwrap();
    assert_eq!(restored.live.iter().cloned().collect::<Vec<_>>(), entries);
    assert_eq!(texts(&entries)[3], "noted");
    store.close().await;
}

#[tokio::test]
async fn a_lost_end_of_a_turn_does_not_lock_its_channel() {
    let dir = tempfile::tempdir().unwrap();
    two_turns(dir.path()).await;
    spoil(dir.path(), "\"type\":\"turn_ended\"", "\"type\":\"turn_endet\"");
    remove_derived(dir.path());
    assert!(verify_dir(StoreOptions::new(dir.path()), true).await.unwrap().ok);
    let store = open(dir.path());
    let restored = store.restore(&channel("main")).await.unwrap().unwrap();
    assert_eq!(restored.live.len(), 4);
    assert!(restored.open_turn.is_none());
    store.close().await;
}

#[tokio::test]
async fn a_missing_segment_is_noticed_and_can_be_quarantined() {
    let dir = tempfile::tempdir().unwrap();
    let chat = six_turns(dir.path()).await;
    fs::remove_file(&segments(dir.path())[2]).unwrap();
    let error = Store::open(small(dir.path())).err().unwrap();
    assert!(matches!(&error, StoreError::Damaged { message, .. } if message.contains("missing")), "{error}");
    let report = verify_dir(small(dir.path()), true).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.journal.last, chat.state.last_n);
    Store::open(small(dir.path())).unwrap().close().await;
}

#[tokio::test]
async fn segments_follow_each_other_and_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let chat = six_turns(dir.path()).await;
    let store = Store::open(small(dir.path())).unwrap();
    assert_eq!(store.restore(&chat.state.channel).await.unwrap().unwrap(), chat.state);
    store.close().await;
}

#[tokio::test]
async fn a_second_open_names_the_process_that_has_it() {
    let (dir, store) = opened();
    let error = Store::open(StoreOptions::new(dir.path())).err().unwrap();
    let pid = std::process::id().to_string();
    assert_eq!(error, StoreError::InUse { path: dir.path().display().to_string(), pid });
    store.close().await;
    open(dir.path()).close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    two_turns(&state).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("journal")), 0o700);
    assert_eq!(mode(&segments(&state)[0]), 0o600);
    assert_eq!(mode(&state.join("lock")), 0o600);
}
