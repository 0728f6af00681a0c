//! An end of the journal that is gone, and that views or index still show: it is told, and nothing is repaired over it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Chat, at, channel, segments, texts};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, erase_dir, rebuild_dir, verify_dir};
use cairn_types::ids::Seq;
use cairn_types::message::LOST_TEXT;
use cairn_types::ports::StoreError;

fn options(dir: &Path) -> StoreOptions {
    // Also of a large state, of which a start reads the end alone.
    StoreOptions { segment_bytes: 2000, checked_at_start_bytes: 0, ..StoreOptions::new(dir) }
}

fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    segments(dir).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn n_of(line: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["n"].as_u64().unwrap()
}

/// Two channels; the last records are of both, the very last append of two. Returns the last number.
async fn lived_in(dir: &Path) -> u64 {
    let store = Store::open(options(dir)).unwrap();
    let mut main = Chat::new(&store, "main");
    let mut other = Chat::new(&store, "other");
    for n in 0..4 {
        other.turn(&format!("o{n}"), "in the other room", "yes").await;
        main.turn(&format!("m{n}"), "the bike is blue", "noted").await;
    }
    let last = main.state.last_n.max(other.state.last_n);
    store.close().await;
    assert!(segments(dir).len() > 2);
    last
}

/// What becomes of the end; the last number that is left.
type Loss = fn(&Path) -> u64;

fn last_of(text: &str) -> u64 {
    text.lines().last().map(n_of).unwrap()
}

/// The last number before the last segment.
fn before_last(dir: &Path) -> u64 {
    let name = segments(dir).pop().unwrap();
    let first: u64 = name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    first - 1
}

/// The last segment, as text and by its path.
fn last_segment(dir: &Path) -> (PathBuf, String) {
    let path = segments(dir).pop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

fn cut_at_a_line(dir: &Path) -> u64 {
    let (path, text) = last_segment(dir);
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines.iter().rposition(|line| line.contains("turn_started")).unwrap();
    fs::write(path, lines[..kept].iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    n_of(lines[kept]) - 1
}

fn cut_within_an_append(dir: &Path) -> u64 {
    let (path, text) = last_segment(dir);
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    assert!(text[..end].lines().last().unwrap().contains("\"left\":1"));
    fs::write(path, &text[..end]).unwrap();
    last_of(&text[..end])
}

fn cut_within_a_line(dir: &Path) -> u64 {
    let (path, text) = last_segment(dir);
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(path, &text[..end + 40]).unwrap();
    last_of(&text[..end])
}

fn zeroed(dir: &Path) -> u64 {
    let (path, text) = last_segment(dir);
    let kept: Vec<&str> = text.split_inclusive('\n').collect();
    let start: usize = kept[..kept.len() - 3].iter().map(|line| line.len()).sum();
    let mut bytes = text.clone().into_bytes();
    bytes[start..].fill(0);
    fs::write(path, bytes).unwrap();
    last_of(&text[..start])
}

fn emptied(dir: &Path) -> u64 {
    let (path, _) = last_segment(dir);
    fs::write(path, "").unwrap();
    before_last(dir)
}

fn removed(dir: &Path) -> u64 {
    let left = before_last(dir);
    fs::remove_file(segments(dir).pop().unwrap()).unwrap();
    left
}

fn all_removed(dir: &Path) -> u64 {
    segments(dir).into_iter().for_each(|path| fs::remove_file(path).unwrap());
    0
}

const LOSSES: [(&str, Loss); 7] = [
    ("cut at a line", cut_at_a_line),
    ("cut within an append", cut_within_an_append),
    ("cut within a line", cut_within_a_line),
    ("zeroed", zeroed),
    ("emptied", emptied),
    ("removed", removed),
    ("all removed", all_removed),
];

fn range(left: u64, last: u64) -> String {
    if left + 1 == last {
        format!("record {last} is missing")
    } else {
        format!("records {} to {last} are missing", left + 1)
    }
}

fn is_told(name: &str, outcome: Option<StoreError>, range: &str) {
    let Some(error @ StoreError::Damaged { .. }) = outcome else { panic!("{name}: {outcome:?}") };
    let told = error.to_string();
    for word in [
        range,
        "acknowledged",
        " until 2026-01-01T00:",
        "in main/local/main",
        "backup",
        "cairn store verify --quarantine",
    ] {
        assert!(told.contains(word), "{name}: {told}");
    }
}

#[tokio::test]
async fn an_end_that_is_lost_is_named_and_nothing_is_repaired_over_it() {
    for (name, lose) in LOSSES {
        let dir = tempfile::tempdir().unwrap();
        let last = lived_in(dir.path()).await;
        let left = lose(dir.path());
        let range = range(left, last);
        let journal = bytes(dir.path());
        for _ in 0..2 {
            is_told(name, Store::open(options(dir.path())).err(), &range);
            is_told(name, rebuild_dir(options(dir.path())).await.err(), &range);
            let erased = erase_dir(options(dir.path()), "local/ana", at(0), false).await;
            is_told(name, erased.err(), &range);
            let report = verify_dir(options(dir.path()), false).await.unwrap();
            let told = report.problems.join("\n");
            assert!(
                !report.ok && told.contains(&range) && told.contains("main/local/main"),
                "{name}: {told}"
            );
        }
        assert_eq!(bytes(dir.path()), journal, "{name}");
        assert!(!dir.path().join("views.damaged").exists(), "{name}");
    }
}

#[tokio::test]
async fn an_acknowledged_loss_is_shown_in_history_and_its_numbers_are_not_given_again() {
    for (name, lose) in LOSSES {
        let dir = tempfile::tempdir().unwrap();
        let last = lived_in(dir.path()).await;
        let left = lose(dir.path());
        let report = verify_dir(options(dir.path()), true).await.unwrap();
        assert!(report.ok, "{name}: {:?}", report.problems);
        assert_eq!(report.journal.last, last, "{name}");
        assert!(report.problems[0].contains(&range(left, last)), "{name}: {:?}", report.problems);
        assert!(dir.path().join("views.damaged").exists(), "{name}: what the views showed is kept");

        for _ in 0..2 {
            let store = Store::open(options(dir.path())).unwrap();
            let entries = store.entries(&channel("main"), Seq(1), Seq(99), 99).await.unwrap();
            let restored = store.restore(&channel("main")).await.unwrap().unwrap();
            assert_eq!(restored.live.iter().cloned().collect::<Vec<_>>(), entries, "{name}");
            assert_eq!((entries.len(), restored.next_seq), (8, Seq(9)), "{name}");
            assert!(restored.open_turn.is_none(), "{name}");
            // Where only the end of a turn is lost every message is there.
            let n_lost = texts(&entries).iter().filter(|text| *text == LOST_TEXT).count();
            assert_eq!(n_lost > 0, left + 1 < last, "{name}: {:?}", texts(&entries));
            store.close().await;
        }
        let store = Store::open(options(dir.path())).unwrap();
        let state = store.restore(&channel("main")).await.unwrap().unwrap();
        let mut chat = Chat { store: store.clone(), state, secs: 9000 };
        if chat.state.pending.is_empty() {
            chat.turn("new", "and now?", "here").await;
        } else {
            chat.accept("new", "ana", "and now?").await;
        }
        assert!(chat.state.last_n > last, "{name}");
        assert!(store.verify().await.unwrap().ok, "{name}");
        store.close().await;
    }
}

#[tokio::test]
async fn the_search_index_alone_proves_a_loss_too() {
    let dir = tempfile::tempdir().unwrap();
    let last = lived_in(dir.path()).await;
    let left = emptied(dir.path());
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    for _ in 0..2 {
        let error = Store::open(options(dir.path())).err().unwrap().to_string();
        assert!(error.contains(&range(left, last)) && error.contains("acknowledged"), "{error}");
    }
    assert!(!verify_dir(options(dir.path()), false).await.unwrap().ok);
    let report = verify_dir(options(dir.path()), true).await.unwrap();
    assert_eq!((report.ok, report.journal.last), (true, last), "{:?}", report.problems);
}

#[tokio::test]
async fn a_number_of_the_index_that_its_place_does_not_bear_out_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let last = lived_in(dir.path()).await;
    let path = dir.path().join("index/meta.json");
    let text = fs::read_to_string(&path).unwrap();
    let wrong = text.replace(&format!("\\\"n\\\":{last}"), &format!("\\\"n\\\":9{last}"));
    assert_ne!(wrong, text);
    fs::write(&path, wrong).unwrap();
    let report = verify_dir(options(dir.path()), true).await.unwrap();
    assert_eq!((report.ok, report.journal.last, report.problems), (true, last, Vec::new()));
}
