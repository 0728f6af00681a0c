//! Words that expire: gone from the journal, the history and the search, and nothing else is.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Chat, at, channel, found, history, memory, segments};
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions, erase_dir, rebuild_dir, restore_dir};
use cairn_types::event::{CompactionEvent, Event, MaintenanceEvent, MessageEvent, NewRecord, TurnEvent};
use cairn_types::ids::Seq;
use cairn_types::ports::{Expired, StoreError};
use cairn_types::summary::{Marker, MarkerKind};

/// Turns before the summary, and after it.
const OLD: u64 = 60;
const NEW: u64 = 20;

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 4_000, ..StoreOptions::new(dir) }
}

/// A chat whose oldest turns stand behind a summary. Every third message was edited before it was taken up.
async fn talked(store: &Store) -> Chat {
    let mut chat = Chat::new(store, "main");
    for n in 1..=OLD {
        let id = format!("m{n}");
        let mut pending = chat.pending(&id, "ana", &format!("my parrot Zorblax eats {n} figs"));
        pending.fingerprint = format!("print {n}");
        let turn = pending.turn.clone();
        chat.append(vec![Event::Message(MessageEvent::Accepted(pending))]).await;
        if n % 3 == 0 {
            let parts = chat.pending(&id, "ana", "my parrot Quixtle eats none").parts;
            let fingerprint = "print of an edit".to_owned();
            let (message, addressed) = (id.as_str().into(), true);
            chat.append(vec![Event::Message(MessageEvent::Edited {
                message,
                parts,
                addressed,
                fingerprint,
                tokens: 8,
            })])
            .await;
        }
        chat.start(&turn, &[&id]).await;
        let entry = chat.reply(&turn, "Zorblax, noted");
        let seq = entry.seq;
        chat.append(vec![Event::Turn(TurnEvent::EntryAdded { entry }), Chat::end(&turn, seq)]).await;
    }
    let remembered = vec![memory("Ana keeps a parrot", "r1:0")];
    chat.compact(2 * OLD - 10, "Of an old summary: Vexlor.", remembered).await;
    for n in 1..=NEW {
        chat.turn(&format!("n{n}"), "when does the ferry leave", "the ferry leaves at nine").await;
    }
    chat.compact(2 * OLD, "They talked about a parrot and a ferry.", Vec::new()).await;
    let marker = Marker::new(MarkerKind::Retired, Seq(1), Seq(2 * OLD - 10), Vec::new());
    chat.append(vec![Event::Compaction(CompactionEvent::StackRetired { marker })]).await;
    for n in 1..=NEW {
        chat.turn(&format!("o{n}"), "and the train", "the train leaves at ten").await;
    }
    chat
}

fn journal(dir: &Path) -> String {
    let mut text = String::new();
    for path in segments(dir) {
        let mut file = File::open(&path).unwrap();
        match path.extension().unwrap().to_str() {
            Some("gz") => flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap(),
            _ => file.read_to_string(&mut text).unwrap(),
        };
    }
    text
}

/// Takes the words out of every closed segment.
async fn expire(store: &Store, dry_run: bool) -> Expired {
    let segments = store.segments().await.unwrap();
    let needs = Arc::new(store.needs().await.unwrap());
    let mut sum = Expired::default();
    for segment in segments.iter().filter(|segment| !segment.is_open) {
        let one = store.expire_segment(segment.first, needs.clone(), at(0), dry_run).await.unwrap();
        sum.entries += one.entries;
        sum.summaries += one.summaries;
        sum.shrunk.segments += one.shrunk.segments;
        sum.shrunk.bytes_before += one.shrunk.bytes_before;
        sum.shrunk.bytes_after += one.shrunk.bytes_after;
    }
    sum
}

async fn finds(store: &Store, text: &str) -> usize {
    found(store, text).await.iter().filter(|hit| hit.contains(text)).count()
}

/// Everything that an expiry leaves as it is to be.
async fn check(store: &Store, chat: &Chat, dir: &Path) {
    let n_old = 2 * OLD as usize;
    let said = history(store).await;
    assert_eq!(said.len(), n_old + 4 * NEW as usize);
    assert!(said[..n_old].iter().all(|text| text == "[expired]"), "{said:?}");
    assert!(!said[n_old..].iter().any(|text| text == "[expired]"), "{said:?}");
    assert_eq!(store.restore(&channel("main")).await.unwrap().unwrap(), chat.state);
    assert_eq!((finds(store, "Zorblax").await, finds(store, "Vexlor").await), (0, 0));
    assert!(finds(store, "ferry").await > 4 && finds(store, "train").await > 4);
    let report = store.verify().await.unwrap();
    assert!(report.ok && report.memories == 1, "{report:?}");
    let text = journal(dir);
    for word in ["Zorblax", "Quixtle", "Vexlor"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(word)).collect();
        assert!(lines.is_empty(), "{word} is still there: {lines:?}");
    }
    assert!(text.contains("They talked about a parrot and a ferry."));
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_nothing_needs_are_taken_out_of_closed_segments() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let chat = talked(&store).await;
    let before = (history(&store).await, segments(home.path()));
    assert!(before.1.len() > 20, "{}", before.1.len());
    assert!(finds(&store, "Zorblax").await > 10 && finds(&store, "Vexlor").await == 1);

    let dry = expire(&store, true).await;
    assert_eq!((history(&store).await, segments(home.path())), before, "nothing was changed");
    let done = expire(&store, false).await;
    assert_eq!((done, done.entries, done.summaries), (dry, 2 * OLD, 1), "it comes to what was said before");
    assert!(done.shrunk.bytes_after * 2 < done.shrunk.bytes_before, "{done:?}");
    check(&store, &chat, home.path()).await;
    assert_eq!(expire(&store, false).await, Expired::default(), "once is enough");

    store.close().await;
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(expire(&store, false).await, Expired::default(), "and after a restart");
    check(&store, &chat, home.path()).await;
    store.close().await;
    assert!(rebuild_dir(options(home.path())).await.unwrap().ok);
    let store = Store::open(options(home.path())).unwrap();
    check(&store, &chat, home.path()).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_and_what_came_in_since_keep_their_words() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let mut chat = Chat::new(&store, "main");
    for n in 1..=30 {
        chat.turn(&format!("m{n}"), "my parrot Zorblax", "noted").await;
    }
    let needs = Arc::new(store.needs().await.unwrap());
    assert_eq!(expire(&store, false).await, Expired::default(), "all of it is in the window");
    for n in 31..=60 {
        chat.turn(&format!("m{n}"), "my parrot Zorblax", "noted").await;
    }
    let all = store.segments().await.unwrap();
    for segment in all.iter().filter(|segment| !segment.is_open) {
        let one = store.expire_segment(segment.first, needs.clone(), at(0), false).await.unwrap();
        assert_eq!(one, Expired::default(), "what came in since is not known to be needed or not");
    }
    assert!(history(&store).await.iter().all(|text| text != "[expired]"));
    chat.compact(100, "They talked about a parrot.", Vec::new()).await;
    assert!(expire(&store, false).await.entries > 80, "now it is not");
    assert!(history(&store).await[100..].iter().all(|text| text != "[expired]"));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_that_was_cut_short_is_made_whole_by_the_next() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let chat = talked(&store).await;
    let first = segments(home.path())[0].clone();
    let plain = fs::read(&first).unwrap();
    // Told, and the process died before the segment was rewritten.
    let entries = vec![(Seq(1), Seq(2))];
    let told = Event::Maintenance(MaintenanceEvent::WordsExpired {
        channel: channel("main"),
        entries,
        summaries: Vec::new(),
    });
    store.append(vec![NewRecord { channel: None, at: at(0), event: told }]).await.unwrap();
    assert_eq!(history(&store).await[..3], ["[expired]", "[expired]", "my parrot Zorblax eats 2 figs"]);
    assert_eq!(expire(&store, false).await.entries, 2 * OLD - 2, "the rest");
    check(&store, &chat, home.path()).await;
    store.close().await;
    // The new file was there, and the process died before the old one was gone; another died while it wrote.
    fs::write(&first, plain).unwrap();
    fs::write(first.with_extension("jsonl.gz.new"), "half").unwrap();
    let store = Store::open(options(home.path())).unwrap();
    assert_eq!(history(&store).await[0], "[expired]");
    let again = expire(&store, false).await;
    assert_eq!((again.entries, again.shrunk.segments), (0, 1), "the views knew");
    check(&store, &chat, home.path()).await;
    assert!(!first.exists());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_erased_from_what_has_expired_too() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let chat = talked(&store).await;
    expire(&store, false).await;
    let backup = tempfile::tempdir().unwrap();
    let place = backup.path().join("backup");
    store.backup(place.clone(), at(0)).await.unwrap();
    store.close().await;
    let erased = erase_dir(options(home.path()), "local/ana", at(0), false).await.unwrap().unwrap();
    assert_eq!(erased.figures.entries, OLD + 2 * NEW);
    let store = Store::open(options(home.path())).unwrap();
    let said = history(&store).await;
    assert!(said[..2 * OLD as usize].iter().all(|text| text == "[expired]"));
    assert_eq!(said[2 * OLD as usize], "[erased]");
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
    assert!(!journal(home.path()).contains("\"ana\""));
    // A backup of what has expired is whole, and is put back as it was.
    restore_dir(place, home.path().to_owned(), true, at(1)).await.unwrap();
    let store = Store::open(options(home.path())).unwrap();
    check(&store, &chat, home.path()).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_not_written_again_and_keeps_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let mut chat = talked(&store).await;
    let head = Arc::new(chat.state.clone());
    // A store that is far behind takes none: it is only a cache.
    while let Err(error) = store.keep_snapshot(Arc::clone(&head)).await {
        assert!(error.to_string().contains("too busy"), "{error}");
        store.settle().await.unwrap();
    }
    for segment in store.segments().await.unwrap().iter().filter(|segment| !segment.is_open) {
        store.compress_segment(segment.first, false).await.unwrap();
    }
    let all = store.segments().await.unwrap();
    let file = |idx: usize| home.path().join(format!("journal/{:020}.jsonl.gz", all[idx].first));
    // A byte of the words in one, one of the header in another.
    for (path, at) in [(file(2), 300), (file(4), 2)] {
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 0x55;
        fs::write(&path, bytes).unwrap();
    }
    let damaged = [2, 4].map(|idx| (file(idx), fs::read(file(idx)).unwrap()));
    let needs = Arc::new(store.needs().await.unwrap());
    for (idx, segment) in all.iter().enumerate().filter(|(_, segment)| !segment.is_open) {
        let one = store.expire_segment(segment.first, needs.clone(), at(0), false).await;
        let is_damaged = matches!(one, Err(StoreError::Damaged { .. }));
        assert_eq!(is_damaged, [2, 4].contains(&idx), "{idx}: {one:?}");
    }
    for (path, bytes) in damaged {
        assert!(fs::read(&path).unwrap() == bytes, "{} was written", path.display());
    }
    chat.turn("p1", "is the pier open", "the pier is open").await;
    assert!(finds(&store, "pier").await > 0, "what is new is found");
    assert!(store.backup(home.path().join("../never"), at(0)).await.is_err());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_stays_clean_when_words_expire_by_hand() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(options(home.path())).unwrap();
    let _chat = talked(&store).await;
    let stopped =
        NewRecord { channel: None, at: at(0), event: Event::Maintenance(MaintenanceEvent::DaemonStopped) };
    store.append(vec![stopped]).await.unwrap();
    assert!(expire(&store, false).await.entries > 0);
    store.close().await;
    let store = Store::open(options(home.path())).unwrap();
    assert!(store.stopped_cleanly());
    store.close().await;
}
