//! Old segments compressed: everything reads as before, from files that other programs read, too.

use std::io::Read;
use std::path::Path;

use crate::common::{channel, history, remove_derived, segments};
use cairn_core::retention::RetentionSettings;
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, rebuild_dir, verify_dir};
use cairn_types::event::{Event, NewRecord, TurnEvent};
use cairn_types::ids::{Generation, Seq};
use cairn_types::message::{Entry, Part};
use cairn_types::ports::Shrunk;
use jiff::Timestamp;

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 20_000, ..StoreOptions::new(dir) }
}

fn day(day: u64) -> Timestamp {
    Timestamp::from_second(day as i64 * 86_400).unwrap()
}

async fn add(store: &Store, seq: u64) {
    add_to(store, "main", seq).await;
}

async fn add_to(store: &Store, name: &str, seq: u64) {
    let mut entry = Entry::lost(Seq(seq), &"t1".into(), Generation(1), day(seq));
    entry.parts = vec![Part::text(format!("message {seq} {}", "of tea and bread ".repeat(40)))];
    let event = Event::Turn(TurnEvent::EntryAdded { entry });
    store.append(vec![NewRecord { channel: Some(channel(name)), at: day(seq), event }]).await.unwrap();
}

/// Compresses what is due after so many days on day 300, or says what it would come to; how often it failed.
async fn compress(store: &Store, compress_days: u32, dry_run: bool) -> (Shrunk, u64) {
    let settings = RetentionSettings { compress_days, ..RetentionSettings::default() };
    let (mut sum, mut failed) = (Shrunk::default(), 0);
    for segment in store.segments().await.unwrap() {
        if settings.compresses(&segment, day(300)) {
            match store.compress_segment(segment.first, dry_run).await {
                Ok(one) => {
                    assert_eq!(one.bytes_before, segment.bytes);
                    sum.segments += one.segments;
                    sum.bytes_before += one.bytes_before;
                    sum.bytes_after += one.bytes_after;
                }
                Err(_) => failed += 1,
            }
        }
    }
    (sum, failed)
}

fn names(dir: &Path) -> Vec<String> {
    segments(dir).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A store of several segments, with its folder.
async fn filled() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    for seq in 1..=200 {
        add(&store, seq).await;
    }
    (home, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn old_segments_are_compressed_and_read_as_before() {
    let (home, store) = filled().await;
    let before = history(&store).await;
    let plain = names(home.path());
    assert!(plain.len() > 4, "{plain:?}");
    let bytes = async |store: &Store| store.stats().await.unwrap().journal_bytes;
    let whole = bytes(&store).await;

    assert_eq!(compress(&store, 0, false).await.0.segments, 0, "off");
    let (dry, _) = compress(&store, 150, true).await;
    assert!(dry.segments > 1 && names(home.path()) == plain);
    let (done, _) = compress(&store, 150, false).await;
    assert_eq!(done, dry, "it comes to what was said before");
    assert!(done.bytes_after * 5 < done.bytes_before && bytes(&store).await < whole, "{done:?}");
    let now = names(home.path());
    assert_eq!(now.iter().filter(|name| name.ends_with(".jsonl.gz")).count() as u64, done.segments);
    assert!(now.last().unwrap().ends_with(".jsonl"), "the one that is written stays");

    let mut text = String::new();
    let first = std::fs::File::open(home.path().join("journal").join(&now[0])).unwrap();
    flate2::read::MultiGzDecoder::new(first).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("{\"crc\":") && text.ends_with("}\n"));

    assert_eq!(history(&store).await, before, "by a reader that had them open");
    assert_eq!(compress(&store, 150, false).await.0.segments, 0, "once is enough");
    add(&store, 201).await;
    store.close().await;
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(history(&store).await[..200], before);
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
    assert!(rebuild_dir(options(home.path())).await.unwrap().ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_compressed_stays_and_the_others_do_not_wait_for_it() {
    let (home, store) = filled().await;
    let plain = names(home.path());
    let second = home.path().join("journal").join(&plain[1]);
    let whole = std::fs::read(&second).unwrap();
    std::fs::write(&second, [&whole[..], b"torn"].concat()).unwrap();
    let due = store.segments().await.unwrap().iter().filter(|segment| !segment.is_open).count() as u64;
    let (done, failed) = compress(&store, 1, false).await;
    assert_eq!((done.segments, failed), (due - 1, 1));
    let now = names(home.path());
    assert_eq!(now[1], plain[1]);
    assert!(!now.iter().any(|name| name.ends_with(".new")), "{now:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_segment_that_is_the_last_one_now_is_written_on() {
    let (home, store) = filled().await;
    compress(&store, 1, false).await;
    store.close().await;
    let before = names(home.path());
    std::fs::remove_file(home.path().join("journal").join(before.last().unwrap())).unwrap();
    // Nothing is left that would show what was in it.
    remove_derived(home.path());
    assert!(rebuild_dir(options(home.path())).await.unwrap().ok);
    let store = Store::open(options(home.path())).unwrap();
    let left = history(&store).await.len();
    assert!(left > 100 && left < 200, "{left}");
    add(&store, left as u64 + 1).await;
    store.close().await;
    assert!(!names(home.path())[before.len() - 2].ends_with(".gz"), "{:?}", names(home.path()));
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(history(&store).await.len(), left + 1);
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_compressed_segment_is_found_and_quarantined() {
    let (home, store) = filled().await;
    compress(&store, 150, false).await;
    store.close().await;
    let second = home.path().join("journal").join(&names(home.path())[1]);
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&second, bytes).unwrap();
    let report = verify_dir(options(home.path()), false).await.unwrap();
    let place = format!("{}, line 1: ", second.display());
    assert!(!report.ok && report.problems[0].starts_with(&place), "by the file that is there: {report:?}");
    let store = Store::open(options(home.path())).unwrap();
    let told = store.check(day(300)).await.unwrap();
    assert!(told[0].starts_with(&place), "by the check in the background: {told:?}");
    store.close().await;
    let report = verify_dir(options(home.path()), true).await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("are lost")), "{report:?}");
    assert!(verify_dir(options(home.path()), false).await.unwrap().ok);
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(history(&store).await.len(), 200, "the loss is shown, and numbers stay whole");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_keeps_many_channels_from_being_restored_is_told_once() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    for seq in 1..=30 {
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            add_to(&store, name, seq).await;
        }
    }
    compress(&store, 150, false).await;
    store.close().await;
    let second = home.path().join("journal").join(&names(home.path())[1]);
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&second, bytes).unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let problems = store.verify().await.unwrap().problems;
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(problem.starts_with(&format!("{}, line 1: ", second.display())), "{problem}");
    assert_eq!(problem.matches("main/local/").count(), 5, "{problem}");
    assert!(problem.ends_with(", 2 more"), "{problem}");
    store.close().await;
}
