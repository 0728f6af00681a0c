//! Artifacts: files beside the journal.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Chat, artifact, at, channel, chatting, open, opened, remove_derived};
use cairn_core::artifact::readable;
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, verify_dir};
use cairn_types::event::{ArtifactEvent, Event};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::message::Artifact;
use cairn_types::ports::{ArtifactLines, LineRange};
use cairn_types::text::checksum::checksum;

const A1: &str = "a1";

async fn put(store: &Store, channel: &ChannelId, id: &str, text: &str) {
    store.put_artifact(channel, &id.into(), Arc::from(text.as_bytes())).await.unwrap();
}

async fn lines(store: &Store, from: u64, offset: u64, count: u64, max_bytes: usize) -> ArtifactLines {
    let range = LineRange { from, offset, count, max_bytes };
    store.artifact_lines(&channel("main"), &artifact(A1, 0), range).await.unwrap().unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The names of the files of artifacts in a state.
fn names(state: &Path) -> Vec<String> {
    let files = files(&state.join("artifacts"));
    files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn remove(state: &Path, id: &str) {
    let files = files(&state.join("artifacts"));
    fs::remove_file(files.iter().find(|file| file.ends_with(id)).unwrap()).unwrap();
}

async fn ids(store: &Store, expired: bool) -> Vec<String> {
    let found = store.artifacts(&channel("main"), expired).await.unwrap();
    let mut ids: Vec<_> = found.iter().map(|artifact| artifact.id.to_string()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn artifacts_are_found_by_id_and_expired_ones_listed_apart() {
    let (dir, store, mut chat) = chatting();
    for id in ["a1", "a2", "a3"] {
        stored(&store, &mut chat, id, "words of a result").await;
    }
    chat.turn("m", "many words", "ok").await;
    let copy = Artifact { message: Some(Seq(1)), ..artifact("a4", 5) };
    put(&store, &channel("main"), "a4", "words").await;
    let expired = ArtifactEvent::Expired { ids: vec!["a1".into(), "a3".into()], lost: false };
    let used = ArtifactEvent::Used { id: "a2".into() };
    for event in [ArtifactEvent::Stored { artifact: copy }, used, expired] {
        chat.append(vec![Event::Artifact(event)]).await;
    }
    store.remove_expired(&channel("main")).await.unwrap();
    assert_eq!(names(dir.path()), ["a2", "a4"]);
    drop(chat);
    store.close().await;
    for rebuilt in [false, true] {
        if rebuilt {
            remove_derived(dir.path());
        }
        let store = open(dir.path());
        assert_eq!(ids(&store, false).await, ["a2", "a4"]);
        assert_eq!(ids(&store, true).await, ["a1", "a2", "a3", "a4"]);
        let of = async |name: &str, id: &str| store.artifact(&channel(name), &id.into()).await.unwrap();
        assert!(of("main", "a1").await.unwrap().expired_at.is_some());
        let used = of("main", "a2").await.unwrap();
        assert!(used.used_at > used.stored_at && used.expired_at.is_none());
        assert_eq!((of("main", "a5").await, of("other", "a2").await), (None, None));
        let entries = store.entries(&channel("main"), Seq(1), Seq(2), 9).await.unwrap();
        assert_eq!(entries[0].artifact, Some("a4".into()), "the message names its copy");
        assert_eq!(entries[1].artifact, None);
        let conversation = store.restore(&channel("main")).await.unwrap().unwrap();
        assert_eq!(conversation.newest_artifact, 4);
        store.close().await;
    }
}

#[tokio::test]
async fn lines_are_read_as_asked() {
    let (_dir, store) = opened();
    put(&store, &channel("main"), A1, "one\ntwo\n\nfünf 語\n").await;
    // From, offset, count, bytes: text, lines, bytes passed over, bytes left out.
    let cases = [
        ("two", (1, 0, 2, 100), ("one\ntwo", 2, 0, 0)),
        ("from the middle", (2, 0, 100, 100), ("two\n\nfünf 語", 3, 0, 0)),
        ("an empty one", (3, 0, 1, 100), ("", 1, 0, 0)),
        ("empty at the end", (2, 0, 2, 100), ("two\n", 2, 0, 0)),
        ("past the end", (5, 0, 10, 100), ("", 0, 0, 0)),
        ("as many as fit", (1, 0, 100, 8), ("one\ntwo\n", 3, 0, 0)),
        ("just one fits", (1, 0, 100, 6), ("one", 1, 0, 0)),
        ("a cut line", (1, 0, 100, 2), ("on", 1, 0, 1)),
        ("never within a character", (4, 0, 1, 2), ("f", 1, 0, 8)),
        ("from an offset", (4, 3, 1, 100), ("nf 語", 1, 3, 0)),
        ("an offset within a character", (4, 2, 1, 100), ("nf 語", 1, 3, 0)),
        ("an offset at the end of a line", (1, 3, 2, 100), ("\ntwo", 2, 3, 0)),
        ("an offset past the line", (1, 99, 2, 100), ("\ntwo", 2, 3, 0)),
    ];
    for (what, (from, offset, count, max_bytes), (text, n_lines, passed, cut_bytes)) in cases {
        let expected = ArtifactLines { text: text.to_owned(), lines: n_lines, offset: passed, cut_bytes };
        assert_eq!(lines(&store, from, offset, count, max_bytes).await, expected, "{what}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_giant_line_is_read_whole_in_pieces() {
    let (_dir, store) = opened();
    let giant: String = "語🪨é-".repeat(60_000);
    put(&store, &channel("main"), A1, &format!("first\n{giant}\nlast")).await;
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let piece = lines(&store, 2, offset, u64::MAX, 49_999).await;
        read.push_str(&piece.text);
        offset = piece.offset + piece.text.len() as u64;
        assert_eq!(piece.cut_bytes, (giant.len() as u64).saturating_sub(offset));
        if piece.cut_bytes == 0 {
            break;
        }
    }
    assert!(read == format!("{giant}\nlast"), "{} bytes of {}", read.len(), giant.len());
    store.close().await;
}

#[tokio::test]
async fn files_are_private_whole_and_told_apart() {
    let (dir, store) = opened();
    let long = "é".repeat(63);
    let names = [
        "main/local/main".to_owned(),
        "main/local/main/a1".to_owned(),
        "main/telegram/-100123".to_owned(),
        "main/net/..".to_owned(),
        "main/net/.".to_owned(),
        "main/net/%2E".to_owned(),
        "main/net/a%2Fb".to_owned(),
        format!("main/net/{long}/{long}1"),
        format!("main/net/{long}/{long}2"),
    ];
    for name in &names {
        put(&store, &name.parse().unwrap(), A1, name).await;
        put(&store, &name.parse().unwrap(), A1, name).await;
    }
    for name in &names {
        let range = LineRange { from: 1, offset: 0, count: 9, max_bytes: 9_999 };
        let found = store.artifact_lines(&name.parse().unwrap(), &artifact(A1, 0), range).await.unwrap();
        assert_eq!(&found.unwrap().text, name);
    }
    let root = dir.path().join("artifacts");
    let found = files(&root);
    assert_eq!(found.len(), names.len(), "{found:?}");
    for file in &found {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(file), mode(file.parent().unwrap()), mode(&root)), (0o600, 0o700, 0o700));
        assert_eq!(file.parent().unwrap().parent().unwrap(), root, "nothing is outside its folder");
    }
    let [first, ..] = &names;
    let first: ChannelId = first.parse().unwrap();
    let of_first = |file: &&PathBuf| fs::read_to_string(file).unwrap() == first.as_str();
    fs::remove_file(found.iter().find(of_first).unwrap()).unwrap();
    let range = LineRange { from: 1, offset: 0, count: 1, max_bytes: 10 };
    assert_eq!(store.artifact_lines(&first, &artifact(A1, 0), range).await.unwrap(), None);
    store.close().await;
}

#[tokio::test]
async fn what_a_crash_cut_off_is_never_taken_for_the_artifact() {
    let (dir, store) = opened();
    put(&store, &channel("main"), "a2", "whole").await;
    let folder = files(&dir.path().join("artifacts"))[0].parent().unwrap().to_owned();
    fs::write(folder.join("a1.new"), "ha").unwrap();
    let range = LineRange { from: 1, offset: 0, count: 1, max_bytes: 10 };
    assert_eq!(store.artifact_lines(&channel("main"), &artifact(A1, 0), range).await.unwrap(), None);
    put(&store, &channel("main"), A1, "half no more").await;
    assert_eq!(lines(&store, 1, 0, 1, 100).await.text, "half no more");
    assert_eq!(files(&folder).len(), 2, "nothing is left of it");
    store.close().await;
}

#[tokio::test]
async fn verify_lists_files_that_are_missing_or_cut() {
    let (dir, store, mut chat) = chatting();
    for (id, bytes) in [("a1", 5), ("a2", 5), ("a3", 5), ("a4", 5)] {
        put(&store, &channel("main"), id, "words").await;
        chat.append(vec![Event::Artifact(ArtifactEvent::Stored { artifact: artifact(id, bytes) })]).await;
    }
    chat.append(vec![Event::Artifact(ArtifactEvent::Expired { ids: vec!["a4".into()], lost: false })]).await;
    store.remove_expired(&channel("main")).await.unwrap();
    store.remove_expired(&channel("main")).await.unwrap();
    assert_eq!(names(dir.path()), ["a1", "a2", "a3"]);
    let report = store.verify().await.unwrap();
    assert!(report.ok, "an expired one is not missing: {:?}", report.problems);
    remove(dir.path(), "a2");
    put(&store, &channel("main"), "a3", "cut").await;
    drop(chat);
    store.close().await;
    let report = verify_dir(StoreOptions::new(dir.path()), false).await.unwrap();
    assert!(!report.ok);
    let [missing, cut] = &report.problems[..] else { panic!("{:?}", report.problems) };
    assert!(missing.contains("artifact a2") && missing.contains("is missing"), "{missing}");
    assert!(cut.contains("artifact a3") && cut.contains("has 3 bytes instead of 5"), "{cut}");
}

/// An artifact as a program that writes checksums journals it.
async fn stored(store: &Store, chat: &mut Chat, id: &str, text: &str) {
    put(store, &channel("main"), id, text).await;
    let sha256 = Some(checksum(text.as_bytes()));
    let artifact = Artifact { sha256, ..artifact(id, text.len() as u64) };
    chat.append(vec![Event::Artifact(ArtifactEvent::Stored { artifact })]).await;
}

#[tokio::test]
async fn a_flipped_bit_is_found_when_it_is_read_checked_or_backed_up_and_can_be_accepted() {
    let (dir, store, mut chat) = chatting();
    let text = "the words of a long result, as they were fetched";
    stored(&store, &mut chat, A1, text).await;
    stored(&store, &mut chat, "a2", "these are fine").await;
    let message = Artifact { message: Some(Seq(1)), ..artifact("a3", 14) };
    chat.append(vec![Event::Artifact(ArtifactEvent::Stored { artifact: message })]).await;
    let file = files(&dir.path().join("artifacts")).into_iter().find(|file| file.ends_with(A1)).unwrap();
    let range = LineRange { from: 1, offset: 0, count: 9, max_bytes: 999 };
    let of = |id: &str| chat.state.artifacts[&id.into()].clone();
    let whole = store.artifact_lines(&channel("main"), &of(A1), range).await.unwrap().unwrap();
    assert_eq!(whole.text, text);
    for bit in 0..text.len() * 8 {
        let mut bytes = text.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, bytes).unwrap();
        let read = store.artifact_lines(&channel("main"), &of(A1), range).await.unwrap();
        assert_eq!(read, None, "bit {bit} went unnoticed");
    }
    let checked = store.check(at(0)).await.unwrap();
    let report = store.verify().await.unwrap();
    assert_eq!(checked, report.problems);
    let [damaged, missing] = &report.problems[..] else { panic!("{:?}", report.problems) };
    assert!(damaged.contains("artifact a1") && damaged.contains("checksum"), "{damaged}");
    assert!(
        damaged.contains("; its tool must be called again, and `cairn store verify --quarantine`"),
        "{damaged}"
    );
    assert!(
        missing.contains("artifact a3")
            && missing.contains("is missing; the history has the whole message, and"),
        "{missing}"
    );
    let to = tempfile::tempdir().unwrap();
    let backup = store.backup(to.path().join("b"), at(0)).await.unwrap();
    assert!(backup.missing[0].contains("a1") && backup.missing[0].contains("checksum"), "{backup:?}");
    assert_eq!(backup.missing.len(), 2);
    drop(chat);
    store.close().await;

    let report = verify_dir(StoreOptions::new(dir.path()), true).await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert!(report.problems.iter().all(|told| told.contains("from here on")), "{:?}", report.problems);
    assert!(!file.exists() && dir.path().join("quarantine").read_dir().unwrap().count() == 1);
    assert!(verify_dir(StoreOptions::new(dir.path()), false).await.unwrap().problems.is_empty());
    let store = Store::open(StoreOptions::new(dir.path())).unwrap();
    let lost = store.artifact(&channel("main"), &A1.into()).await.unwrap();
    let told = readable(lost, 3, A1, 1).unwrap_err().to_string();
    assert_eq!(told, "the words of artifact a1 are lost; call the tool again");
    let sound = store.artifact(&channel("main"), &"a2".into()).await.unwrap();
    assert!(readable(sound, 3, "a2", 1).is_ok());
    assert!(store.check(at(0)).await.unwrap().is_empty());
    store.close().await;
}
