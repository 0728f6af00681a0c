//! States of all formats that this program ever wrote, kept as they were (`fixtures/`): they open, fold and verify.
//!
//! A new kind of event gets a line in `fixtures/events.jsonl` (a journal line without `crc`, `v` and `left`). Nothing else
//! in `fixtures` is ever changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{artifact, channel, chatting, copy_dir, open, scope};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, verify_dir};
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, CompactionEvent, DeliveryEvent, MaintenanceEvent, MemoryEvent,
    MessageEvent, Record, RegistryEvent, TurnEvent,
};
use cairn_types::ids::AgentId;
use cairn_types::memory::Reach;
use cairn_types::ports::{LineRange, MemoryFilter};
use serde::de::DeserializeOwned;
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The journal lines of a fixture, each with its place.
fn lines(format: u32) -> Vec<(String, Value)> {
    let dir = fixtures().join(format!("format-{format}/journal"));
    let mut segments: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let mut found = Vec::new();
    for path in segments {
        for (idx, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let mut value: Value = serde_json::from_str(line).unwrap();
            let fields = value.as_object_mut().unwrap();
            assert_eq!(fields.remove("v"), Some(format.into()));
            fields.remove("crc");
            fields.remove("left");
            found.push((format!("{}, line {}", path.display(), idx + 1), value));
        }
    }
    found
}

/// All lines there are, of every format.
fn all_lines() -> Vec<(String, Value)> {
    let added = fs::read_to_string(fixtures().join("events.jsonl")).unwrap();
    let added = added.lines().filter(|line| !line.trim().is_empty());
    let added = added.map(|line| (format!("events.jsonl: {line}"), serde_json::from_str(line).unwrap()));
    lines(1).into_iter().chain(lines(2)).chain(added).collect()
}

/// The types of a family of events, by what its refusal of another one lists.
fn types_of<F: DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let error =
        serde_json::from_value::<F>(serde_json::json!({ "type": "no such event" })).unwrap_err().to_string();
    let known = error.split("expected ").nth(1).unwrap_or_default();
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_kind_of_event_is_among_them() {
    let families = [
        types_of::<MessageEvent>(),
        types_of::<TurnEvent>(),
        types_of::<CompactionEvent>(),
        types_of::<ArtifactEvent>(),
        types_of::<MemoryEvent>(),
        types_of::<DeliveryEvent>(),
        types_of::<ApprovalEvent>(),
        types_of::<RegistryEvent>(),
        types_of::<MaintenanceEvent>(),
    ];
    assert!(families.iter().all(|types| types.len() > 1), "{families:?}");
    let known: BTreeSet<String> = families.concat().into_iter().collect();
    let there: BTreeSet<String> =
        all_lines().iter().map(|(_, line)| line["event"]["type"].as_str().unwrap().to_owned()).collect();
    let missing: Vec<_> = known.difference(&there).collect();
    assert!(missing.is_empty(), "no line in tests/fixtures/events.jsonl for {missing:?}");
}

#[test]
fn every_line_is_written_as_it_was_read() {
    for (place, line) in all_lines() {
        let record: Record =
            serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(serde_json::to_value(&record).unwrap(), line, "{place}");
    }
}

#[tokio::test]
async fn every_format_opens_folds_and_verifies_to_the_same() {
    let mut shown = Vec::new();
    for format in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        copy_dir(&fixtures().join(format!("format-{format}")), &state);
        let report = verify_dir(StoreOptions::new(&state), false).await.unwrap();
        assert!(report.ok, "format {format}: {:?}", report.problems);
        assert_eq!((report.journal.events, report.channels, report.memories), (90, 3, 2));

        let marker: Value = serde_json::from_slice(&fs::read(state.join("format")).unwrap()).unwrap();
        assert_eq!(marker["format"], 2, "it was carried forward");
        let kept = state.join("before-format-2");
        assert_eq!(kept.exists(), format == 1);
        if format == 1 {
            for entry in fs::read_dir(fixtures().join("format-1/journal")).unwrap() {
                let path = entry.unwrap().path();
                let copy = kept.join("journal").join(path.file_name().unwrap());
                assert_eq!(fs::read(&path).unwrap(), fs::read(copy).unwrap());
            }
        }

        let store = open(&state);
        let mut states = Vec::new();
        for row in store.channels().await.unwrap() {
            states.push(store.restore(&row.channel).await.unwrap().unwrap());
        }
        let filter = MemoryFilter { limit: 9, ..MemoryFilter::default() };
        let memories =
            store.memories(&AgentId::from("main"), &[Reach::Scope(scope())], filter).await.unwrap();
        let range = LineRange { from: 1, offset: 0, count: 1, max_bytes: 100 };
        let artifact =
            store.artifact_lines(&channel("main"), &artifact("a1", 0), range).await.unwrap().unwrap();
        assert_eq!(artifact.text, "a line of a large result");
        let texts: Vec<&str> = memories.iter().map(|memory| memory.text.as_str()).collect();
        assert_eq!(texts, ["Anna looks for a flat in Lisbon.", "Anna likes black tea."]);
        shown.push(format!("{states:#?} {memories:#?}"));
        store.close().await;
    }
    assert_eq!(shown[0], shown[1]);
}

#[tokio::test]
async fn a_damaged_marker_is_removed_as_its_error_says_with_compressed_segments_too() {
    let (dir, store, mut chat) = chatting();
    chat.turn("m1", "hello", "hi").await;
    store.close().await;
    // A segment that is full, so that another one follows.
    let options = StoreOptions { segment_bytes: 1, ..StoreOptions::new(dir.path()) };
    let store = Store::open(options).unwrap();
    chat.store = store.clone();
    chat.turn("m2", "and now?", "still here").await;
    assert!(store.compress_segment(1, false).await.unwrap().segments == 1);
    drop(chat);
    store.close().await;
    // Bits that flipped make one digit of another.
    for garbled in ["{\"form", "{\"format\":0,", "{\"format\":1,", "{\"format\":3,", "{\"format\":6,"] {
        let whole = fs::read_to_string(dir.path().join("format")).unwrap();
        fs::write(dir.path().join("format"), whole.replace("{\"format\":2,", garbled)).unwrap();
        let Err(error) = Store::open(StoreOptions::new(dir.path())) else { panic!("it is damaged") };
        assert!(error.to_string().contains("remove the file"), "{garbled}: {error}");
        fs::remove_file(dir.path().join("format")).unwrap();
        let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
        assert!(report.ok, "{garbled}: {:?}", report.problems);
        assert!(dir.path().join("format").exists());
        let kept = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let kept = kept.filter(|name| name.to_string_lossy().starts_with("before-format-")).count();
        assert_eq!(kept, 0, "nothing had to be carried forward");
    }
}
