//! Retention of the journal: old segments compressed, and expired words taken out of them, while everything goes on.
//!
//! Places in a segment stay as they are: whoever has one open reads on, whoever opens one reads the other. Words that expire are
//! told in the journal first; then the segment is rewritten.

use cairn_types::ports::{Expired, Shrunk};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cairn_core::retention::{InUse, SegmentFacts, WordsExpiry, expire, ranges};
use cairn_core::store_port::Store as _;
use cairn_types::event::{
    CompactionEvent, Event, MaintenanceEvent, MessageEvent, NewRecord, Record, TurnEvent,
};
use cairn_types::ids::{ChannelId, Seq, SummaryId};
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;

use crate::files::disk::Layout;
use crate::journal::line;
use crate::journal::rewrite::{Closed, Fate, Fates};
use crate::journal::segment::{self, Lines, Piece};
use crate::store::{Inner, Store};
use crate::views::archive::Reads;

/// Names the work in the error when it panics.
const RETENTION: &str = "retention";

/// Entries that one record tells of at the most: what is applied to the views at once.
const ENTRIES_AT_ONCE: usize = 500;

/// What each channel still uses. Valid for segments that were closed when it was computed.
#[derive(Debug, Default)]
pub struct Needs {
    /// First number of the segment that was written then.
    before: u64,
    channels: HashMap<ChannelId, InUse>,
}

/// Entries and summaries of a channel whose words have expired.
#[derive(Debug, Default)]
struct ExpiredWords {
    entries: BTreeSet<Seq>,
    summaries: Vec<SummaryId>,
}

/// What a walk through a segment found.
#[derive(Debug, Default)]
struct Walk {
    found: BTreeMap<ChannelId, ExpiredWords>,
    /// Records with words that have expired.
    expired: u64,
    needed: u64,
}

/// The entries that the messages of a segment became, by channel and record.
type Taken = HashMap<ChannelId, HashMap<u64, Seq>>;

impl Store {
    /// The journal's segments, in their order.
    ///
    /// # Errors
    /// The journal's folder cannot be read.
    pub async fn segments(&self) -> Result<Vec<SegmentFacts>, StoreError> {
        let tail = self.inner.appender.durable().borrow().tail;
        let inner = self.inner.clone();
        self.inner
            .background
            .run(RETENTION, move || {
                let dir = Layout::of(&inner.options.dir).journal;
                let firsts = segment::list(&dir)?;
                let facts = |(idx, first): (usize, &u64)| {
                    let path = segment::path(&dir, *first);
                    let next = firsts.get(idx + 1);
                    Ok(SegmentFacts {
                        first: *first,
                        closed_at: next.and_then(|next| begun_at(&segment::path(&dir, *next))),
                        is_open: *first >= tail.segment,
                        bytes: segment::bytes(&path)?,
                        is_packed: !path.exists(),
                        is_spent: inner.spent.lock().contains(first),
                    })
                };
                firsts.iter().enumerate().map(facts).collect()
            })
            .await
    }

    /// Compresses a closed segment. A backup and an erasure wait meanwhile, and nothing else does. `dry_run`: only says
    /// what it would come to.
    ///
    /// # Errors
    /// It cannot be read or written; it stays as it was.
    pub async fn compress_segment(&self, first: u64, dry_run: bool) -> Result<Shrunk, StoreError> {
        let (maintenance, inner) = (self.free_maintenance().await?, self.inner.clone());
        self.inner
            .background
            .run(RETENTION, move || {
                let _maintenance = maintenance;
                let segment = Closed::of(&Layout::of(&inner.options.dir).journal, first)?;
                if segment.is_packed() {
                    return Ok(Shrunk::default());
                }
                pack(&inner, &segment, dry_run, &mut |_, _| Ok(Fate::Stays))
            })
            .await
    }

    /// Computes what each channel still uses.
    ///
    /// # Errors
    /// A view failed.
    pub async fn needs(&self) -> Result<Needs, StoreError> {
        let before = self.inner.appender.durable().borrow().tail.segment;
        let deliveries = self.deliveries().await?;
        let mut channels = HashMap::new();
        for row in self.channels().await? {
            if let Some(conversation) = self.restore(&row.channel).await? {
                channels.insert(row.channel, InUse::of(&conversation, deliveries.iter()));
            }
        }
        Ok(Needs { before, channels })
    }

    /// Takes the words out of a segment that nothing needs. One that was not closed when `needs` was asked for keeps its
    /// own, and so does a channel that is not known there. `dry_run`: only says what it would come to.
    ///
    /// # Errors
    /// It cannot be read or written; it stays as it was, and what the journal says of it is made true by the next call.
    pub async fn expire_segment(
        &self,
        first: u64,
        needs: Arc<Needs>,
        at: Timestamp,
        dry_run: bool,
    ) -> Result<Expired, StoreError> {
        if self.inner.database.is_some() {
            return Err(StoreError::Elsewhere { message: "words in a database do not expire".to_owned() });
        }
        let mut done = Expired::default();
        if first >= needs.before {
            return Ok(done);
        }
        let maintenance = self.free_maintenance().await?;
        let needed = needs.clone();
        let (walk, taken) =
            self.read(RETENTION, move |inner, reads| walk(inner, reads, first, &needed.channels)).await?;
        if walk.expired == 0 {
            self.note_spent(first, &walk, dry_run);
            return Ok(done);
        }
        done.entries = walk.found.values().map(|found| found.entries.len() as u64).sum();
        done.summaries = walk.found.values().map(|found| found.summaries.len() as u64).sum();
        if !dry_run {
            for record in told(&walk.found, at) {
                self.inner.goes_on()?;
                self.append(vec![record]).await?;
            }
        }
        let inner = self.inner.clone();
        done.shrunk = self
            .inner
            .background
            .run(RETENTION, move || {
                let _maintenance = maintenance;
                let segment = Closed::of(&Layout::of(&inner.options.dir).journal, first)?;
                pack(&inner, &segment, dry_run, &mut |record, bytes| {
                    Ok(without(record, bytes, &needs.channels, &taken).map_or(Fate::Stays, Fate::Becomes))
                })
            })
            .await?;
        self.note_spent(first, &walk, dry_run);
        Ok(done)
    }

    /// A segment that has no words left is not looked at again.
    fn note_spent(&self, first: u64, walk: &Walk, dry_run: bool) {
        if walk.needed == 0 && !dry_run {
            self.inner.spent.lock().insert(first);
        }
    }

    /// The guard, unless an erasure was asked for, which writes all segments again itself.
    async fn free_maintenance(&self) -> Result<OwnedMutexGuard<()>, StoreError> {
        let maintenance = self.maintenance().await?;
        if self.inner.erasing.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(maintenance) }
    }
}

/// Writes a segment again, unless the store is closed, and has it read from the new file from then on.
fn pack(inner: &Inner, segment: &Closed, dry_run: bool, fates: Fates<'_>) -> Result<Shrunk, StoreError> {
    let _lock = inner.state_lock().ok_or(StoreError::Closed)?;
    let packed = segment.pack(dry_run, &mut |record, bytes| {
        inner.goes_on()?;
        fates(record, bytes)
    });
    inner.journal.forget(segment.first);
    let (bytes_before, bytes_after) = packed?;
    Ok(Shrunk { segments: 1, bytes_before, bytes_after, failed: 0 })
}

/// When the first record of a segment was journalled.
fn begun_at(path: &Path) -> Option<Timestamp> {
    let mut lines = Lines::open(path, 0, None).ok()?;
    match lines.next().ok()? {
        Piece::Line { bytes, .. } => Some(line::parse(bytes).ok()?.at),
        Piece::Torn { .. } | Piece::End => None,
    }
}

/// The records that tell what has expired, a few entries each.
fn told(found: &BTreeMap<ChannelId, ExpiredWords>, at: Timestamp) -> Vec<NewRecord> {
    let mut records = Vec::new();
    for (channel, ExpiredWords { entries, summaries }) in found {
        let entries: Vec<Seq> = entries.iter().copied().collect();
        let mut add = |entries: &[Seq], summaries: Vec<SummaryId>| {
            let entries = ranges(entries.iter().copied());
            let event = Event::Maintenance(MaintenanceEvent::WordsExpired {
                channel: channel.clone(),
                entries,
                summaries,
            });
            records.push(NewRecord { channel: None, at, event });
        };
        entries.chunks(ENTRIES_AT_ONCE).for_each(|some| add(some, Vec::new()));
        if !summaries.is_empty() {
            add(&[], summaries.clone());
        }
    }
    records
}

fn walk(
    inner: &Inner,
    reads: &Reads<'_>,
    first: u64,
    in_use: &HashMap<ChannelId, InUse>,
) -> Result<(Walk, Taken), StoreError> {
    let segment = Closed::of(&Layout::of(&inner.options.dir).journal, first)?;
    let quarantined = inner.views.applied().borrow().quarantined;
    let mut taken = Taken::new();
    let mut walk = Walk::default();
    segment.records(|mut record, _| {
        inner.goes_on()?;
        let Some(channel) = record.channel.clone() else { return Ok(()) };
        let Some(needs) = in_use.get(&channel) else { return Ok(()) };
        if !taken.contains_key(&channel) {
            let here = reads.words_in(&channel, (first, segment.last), quarantined)?;
            taken.insert(channel.clone(), here);
        }
        let seq = taken[&channel].get(&record.n).copied();
        match expire(&mut record.event, seq, needs) {
            WordsExpiry::None => {}
            WordsExpiry::Needed => walk.needed += 1,
            WordsExpiry::Expired => {
                walk.expired += 1;
                note(reads, &mut walk.found, channel, &record.event, seq)?;
            }
        }
        Ok(())
    })?;
    Ok((walk, taken))
}

/// Notes what the views and the search index are to be told, unless they have been.
fn note(
    reads: &Reads<'_>,
    found: &mut BTreeMap<ChannelId, ExpiredWords>,
    channel: ChannelId,
    event: &Event,
    seq: Option<Seq>,
) -> Result<(), StoreError> {
    let seq = match event {
        Event::Turn(TurnEvent::EntryAdded { entry }) => Some(entry.seq),
        Event::Message(MessageEvent::Accepted(_) | MessageEvent::Edited { .. }) => seq,
        _ => None,
    };
    if let Some(seq) = seq
        && !reads.is_expired(&channel, seq)?
    {
        found.entry(channel).or_default().entries.insert(seq);
        return Ok(());
    }
    if let Event::Compaction(CompactionEvent::RunEnded(end)) = event
        && let Some(summary) = &end.summary
    {
        found.entry(channel).or_default().summaries.push(summary.id.clone());
    }
    Ok(())
}

/// The line without its words; `None`: it stays as it is.
fn without(
    mut record: Record,
    bytes: &[u8],
    in_use: &HashMap<ChannelId, InUse>,
    taken: &Taken,
) -> Option<Vec<u8>> {
    let channel = record.channel.as_ref()?;
    let seq = taken.get(channel).and_then(|taken| taken.get(&record.n)).copied();
    match expire(&mut record.event, seq, in_use.get(channel)?) {
        // Never longer: see `expire`.
        WordsExpiry::Expired => line::in_place_of(bytes, record).ok().flatten(),
        WordsExpiry::None | WordsExpiry::Needed => None,
    }
}
