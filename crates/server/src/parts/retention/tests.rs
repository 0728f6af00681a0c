//! Passes over a real store, by a clock that is set.

use std::sync::Arc;

use cairn_core::retention::RetentionSettings;
use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions};
use cairn_testkit::clock::TestClock;
use cairn_types::event::{CompactionEvent, Event, NewRecord, TurnEvent};
use cairn_types::ids::{ChannelId, Generation, Seq};
use cairn_types::message::{Entry, Part};
use cairn_types::ports::Clock;
use cairn_types::summary::{Marker, MarkerKind};
use jiff::SignedDuration;

use super::*;

/// Entries that a marker stands for, and those that the window shows.
const OLD: u64 = 60;
const NEW: u64 = 20;

struct Rig {
    _dir: tempfile::TempDir,
    store: Store,
    clock: Arc<TestClock>,
}

fn channel() -> ChannelId {
    "main/local/main".parse().unwrap()
}

impl Rig {
    /// A store of many small segments, one entry a day.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { segment_bytes: 4_000, ..StoreOptions::new(dir.path()) };
        let store = tokio::task::spawn_blocking(|| Store::open(options)).await.unwrap().unwrap();
        let rig = Self { _dir: dir, store, clock: Arc::new(TestClock::default()) };
        for seq in 1..=OLD + NEW {
            if seq == OLD + 1 {
                let marker = Marker::new(MarkerKind::Retired, Seq(1), Seq(OLD), Vec::new());
                let (tokens_before, tokens_after) = (900, 90);
                rig.add(Event::Compaction(CompactionEvent::WindowSlid {
                    marker,
                    messages: OLD,
                    tokens_before,
                    tokens_after,
                }))
                .await;
            }
            let mut entry = Entry::lost(Seq(seq), &"t1".into(), Generation(1), rig.clock.now());
            entry.parts = vec![Part::text(format!("message {seq} {}", "of tea and bread ".repeat(30)))];
            rig.add(Event::Turn(TurnEvent::EntryAdded { entry })).await;
            rig.clock.advance(SignedDuration::from_hours(24));
        }
        rig
    }

    async fn add(&self, event: Event) {
        let record = NewRecord { channel: Some(channel()), at: self.clock.now(), event };
        self.store.append(vec![record]).await.unwrap();
    }

    async fn pass(&self, settings: RetentionSettings, dry_run: bool) -> RetainRecord {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let retention_job =
            RetentionJob { store: self.store.clone(), settings, agents: vec!["main".into()], clock };
        let record = retention_job.pass(dry_run).await.unwrap();
        RetainRecord { seconds: 0.0, ..record }
    }

    /// Entries that show no words any more.
    async fn n_expired(&self) -> usize {
        let entries = self.store.entries(&channel(), Seq(1), Seq(u64::MAX), 1_000).await.unwrap();
        assert_eq!(entries.len() as u64, OLD + NEW);
        let n = entries.iter().filter(|entry| entry.is_expired()).count();
        assert!(entries[..n].iter().all(|entry| entry.is_expired()), "the oldest go first");
        n
    }
}

#[tokio::test]
async fn words_go_by_their_age_as_far_as_nothing_needs_them() {
    let rig = Rig::new().await;
    let settings = |journal_days| RetentionSettings { journal_days, ..RetentionSettings::default() };
    assert_eq!(rig.pass(settings(0), false).await, RetainRecord::default(), "off");
    let dry = rig.pass(settings(50), true).await;
    assert_eq!(rig.n_expired().await, 0);
    let done = rig.pass(settings(50), false).await;
    assert_eq!(done, RetainRecord { dry_run: false, ..dry });
    let n_first = rig.n_expired().await;
    assert_eq!(n_first as u64, done.expired.entries);
    assert!((10..=30).contains(&n_first), "{n_first} of thirty days");
    rig.clock.advance(SignedDuration::from_hours(24 * 365));
    let rest = rig.pass(settings(50), false).await;
    assert_eq!(rest.expired.entries, OLD - n_first as u64, "what the window shows stays, however old");
    assert_eq!(rig.n_expired().await as u64, OLD);
    assert_eq!(rig.pass(settings(50), false).await, RetainRecord::default(), "once is enough");
    assert!(rig.store.verify().await.unwrap().ok);
}

#[tokio::test]
async fn segments_are_compressed_with_all_their_words() {
    let rig = Rig::new().await;
    let whole = rig.store.stats().await.unwrap().journal_bytes;
    let settings = RetentionSettings { journal_mib: 1, ..RetentionSettings::default() };
    assert_eq!(rig.pass(settings.clone(), false).await, RetainRecord::default(), "{whole} bytes are within");
    let compress = RetentionSettings { compress_days: 1, ..RetentionSettings::default() };
    let packed = rig.pass(compress.clone(), false).await.compressed;
    assert!(packed.segments > 5 && packed.bytes_after < packed.bytes_before, "{packed:?}");
    assert_eq!(rig.n_expired().await, 0, "compressed, and nothing else");
    assert_eq!(rig.pass(compress, false).await.compressed.segments, 0);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_keeps_nothing_else() {
    let rig = Rig::new().await;
    let segments = rig.store.segments().await.unwrap();
    let second = rig._dir.path().join(format!("journal/{:020}.jsonl", segments[1].first));
    let mut bytes = std::fs::read(&second).unwrap();
    bytes.extend_from_slice(b"torn");
    std::fs::write(&second, bytes).unwrap();
    rig.clock.advance(SignedDuration::from_hours(24 * 365));
    let settings = RetentionSettings { journal_days: 1, ..RetentionSettings::default() };
    let done = rig.pass(settings, false).await;
    assert_eq!(done.expired.shrunk.failed, 1);
    assert_eq!(outcome_of(&done), "failed");
    assert!(done.expired.entries > OLD / 2, "{done:?}");
}

#[tokio::test]
async fn nothing_goes_by_a_clock_that_has_jumped_until_it_was_so_the_last_time() {
    let rig = Rig::new().await;
    let clock: Arc<dyn Clock> = rig.clock.clone();
    let settings = RetentionSettings { journal_days: 1, ..RetentionSettings::default() };
    let job = RetentionJob { store: rig.store.clone(), settings, agents: vec!["main".into()], clock };
    let mut seen = (rig.clock.now(), Instant::now());
    rig.clock.advance(SignedDuration::from_hours(24 * 365));
    due(&job, &mut seen).await;
    assert_eq!(rig.n_expired().await, 0);
    due(&job, &mut seen).await;
    assert_eq!(rig.n_expired().await as u64, OLD);
}
