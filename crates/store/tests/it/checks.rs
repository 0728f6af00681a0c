//! What a start leaves unread, because it was there at the last stop: it is checked while the daemon runs, and what is wrong
//! with it is told.

use std::fs;
use std::path::Path;

use crate::common::{Chat, at, channel, found, open, segments};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, verify_dir, verify_dir_quick};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::{Generation, Seq};
use cairn_types::ports::StoreError;

/// Of whose state a start reads no more than was written since the last stop.
fn large(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 2000, checked_at_start_bytes: 0, ..StoreOptions::new(dir) }
}

/// Sixteen turns over several segments; what was closed was looked at by a start since.
async fn lived_in(dir: &Path) -> Chat {
    let store = Store::open(large(dir)).unwrap();
    let mut chat = Chat::new(&store, "main");
    for n in 0..16 {
        chat.turn(&format!("m{n}"), &format!("tale {n} of the lighthouse"), "go on").await;
    }
    store.close().await;
    // A start behind a stop for which the disk was too slow knows nothing yet.
    for _ in 0..10 {
        Store::open(large(dir)).unwrap().close().await;
        if dir.join("checked").exists() {
            break;
        }
    }
    assert!(dir.join("checked").exists() && segments(dir).len() > 4);
    chat
}

fn spoil(file: &Path, words: &str, others: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(words) && words.len() == others.len());
    fs::write(file, text.replacen(words, others, 1)).unwrap();
}

#[tokio::test]
async fn an_old_line_that_is_damaged_does_not_stop_the_start_and_is_told_by_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let mut chat = lived_in(dir.path()).await;
    let store = Store::open(large(dir.path())).unwrap();
    assert!(store.check(at(0)).await.unwrap().is_empty());
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
    let second = segments(dir.path()).remove(1);
    spoil(&second, "of the lighthouse", "of the lightships");
    let store = Store::open(large(dir.path())).unwrap();
    assert!(store.stats().await.unwrap().damage.is_empty());
    let problems = store.check(at(0)).await.unwrap();
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    for word in [second.to_str().unwrap(), "line ", "checksum", "cairn store verify --quarantine"] {
        assert!(problem.contains(word), "{problem}");
    }
    assert_eq!(store.stats().await.unwrap().damage, problems);
    // With the channel that it keeps from being restored, and not once more for that.
    let problems = store.verify().await.unwrap().problems;
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    for word in [second.to_str().unwrap(), "checksum", "cannot be restored because of it: main/local/main"] {
        assert!(problem.contains(word), "{problem}");
    }
    // Nobody is given other words, and the conversation goes on.
    let error = store.entries(&channel("main"), Seq(1), Seq(99), 99).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    chat.store = store.clone();
    chat.turn("next", "and now?", "here").await;
    store.close().await;

    // The next start tells it at once, and no quick check says otherwise.
    for full in [false, true] {
        if full {
            assert!(!verify_dir(large(dir.path()), false).await.unwrap().ok);
        }
        assert!(!verify_dir_quick(large(dir.path())).await.unwrap().ok);
        let store = Store::open(large(dir.path())).unwrap();
        assert!(!store.stats().await.unwrap().damage.is_empty());
        store.close().await;
    }

    let report = verify_dir(large(dir.path()), true).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    let store = Store::open(large(dir.path())).unwrap();
    assert!(store.check(at(0)).await.unwrap().is_empty());
    assert!(store.stats().await.unwrap().damage.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_segment_that_is_missing_or_shorter_than_it_was_stops_the_start() {
    let missing = |file: &Path| fs::remove_file(file).unwrap();
    let shorter = |file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        fs::write(file, &text[..end]).unwrap();
    };
    let harms: [&dyn Fn(&Path); 2] = [&missing, &shorter];
    for harm in harms {
        for forgets in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            lived_in(dir.path()).await;
            harm(&segments(dir.path())[2]);
            if forgets {
                fs::remove_file(dir.path().join("checked")).unwrap();
            }
            let error = Store::open(large(dir.path())).err().unwrap();
            assert!(
                matches!(&error, StoreError::Damaged { message, .. } if message.contains("missing before it")),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_seen_of_closed_segments_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    lived_in(dir.path()).await;
    let files = segments(dir.path());
    // Without its last line nobody can tell by the segment alone what should follow it.
    let text = fs::read_to_string(&files[1]).unwrap();
    let last = text.lines().last().unwrap();
    spoil(&files[1], last, &"x".repeat(last.len()));
    fs::remove_file(&files[2]).unwrap();
    let error = Store::open(large(dir.path())).err().unwrap();
    assert!(matches!(&error, StoreError::Damaged { message, .. } if message.contains("missing")), "{error}");
}

#[tokio::test]
async fn a_check_finds_nothing_wrong_while_more_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut chat = lived_in(dir.path()).await;
    let store = Store::open(large(dir.path())).unwrap();
    chat.store = store.clone();
    let write = async {
        for n in 0..20 {
            chat.turn(&format!("more{n}"), "and then?", "the end").await;
        }
        chat.append(vec![Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) })]).await;
    };
    let (problems, ()) = tokio::join!(store.check(at(7)), write);
    assert_eq!(problems.unwrap(), Vec::<String>::new());
    store.close().await;
    let checked = fs::read_to_string(dir.path().join("checked")).unwrap();
    assert!(checked.contains(&at(7).to_string()), "{checked}");
    Store::open(large(dir.path())).unwrap().close().await;
    let checked = fs::read_to_string(dir.path().join("checked")).unwrap();
    assert!(checked.contains(&at(7).to_string()), "the next start keeps it: {checked}");
}

#[tokio::test]
async fn a_damaged_file_of_the_index_is_found_by_the_check_and_the_index_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut chat = Chat::new(&store, "main");
    for n in 0..8 {
        chat.turn(&format!("m{n}"), &format!("tale {n} of the lighthouse"), "go on").await;
    }
    let before = found(&store, "lighthouse tale 5").await;
    store.close().await;
    let files = fs::read_dir(dir.path().join("index")).unwrap().map(|file| file.unwrap().path());
    let store_files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "store")).collect();
    assert!(!store_files.is_empty());
    for file in &store_files {
        let mut bytes = fs::read(file).unwrap();
        bytes[3] ^= 0xff;
        fs::write(file, bytes).unwrap();
    }
    let store = Store::open(large(dir.path())).unwrap();
    let problems = store.check(at(0)).await.unwrap();
    assert!(problems.len() == 1 && problems[0].contains("search index"), "{problems:?}");
    assert!(store.stats().await.unwrap().damage.is_empty(), "it is mended");
    assert_eq!(found(&store, "lighthouse tale 5").await, before);
    assert!(store.check(at(0)).await.unwrap().is_empty());
    store.close().await;
}

#[tokio::test]
async fn what_was_restored_from_many_records_is_restored_from_a_few_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(large(dir.path())).unwrap();
    let mut chat = Chat::new(&store, "main");
    for n in 0..40 {
        chat.turn(&format!("m{n}"), &format!("tale {n} of the lighthouse"), "go on").await;
    }
    chat.compact(70, "Tales.", Vec::new()).await;
    assert_eq!(store.restore(&channel("main")).await.unwrap().unwrap(), chat.state);
    store.close().await;
    // Whoever reads from the first record on meets this.
    spoil(&segments(dir.path())[0], "tale 0 of", "tale O of");
    let store = Store::open(large(dir.path())).unwrap();
    assert_eq!(store.restore(&channel("main")).await.unwrap().unwrap(), chat.state);
    store.close().await;
}

#[tokio::test]
async fn a_segment_that_cannot_be_read_is_told_and_the_check_goes_on_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    lived_in(dir.path()).await;
    let store = Store::open(large(dir.path())).unwrap();
    let (second, fourth) = (segments(dir.path()).remove(1), segments(dir.path()).remove(3));
    fs::remove_file(&second).unwrap();
    fs::create_dir(&second).unwrap();
    spoil(&fourth, "of the lighthouse", "of the lightships");
    let problems = store.check(at(0)).await.unwrap();
    let [unreadable, damaged] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(unreadable.contains(second.to_str().unwrap()), "{unreadable}");
    assert!(damaged.contains(fourth.to_str().unwrap()), "{damaged}");
    assert_eq!(store.stats().await.unwrap().damage, problems);
    store.close().await;
}
