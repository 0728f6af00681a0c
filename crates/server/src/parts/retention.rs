//! Applies retention: one pass a day while the daemon runs, and on request.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_core::retention::{Relief, RetentionSettings, SegmentFacts, clock_went_on};
use cairn_core::store_port::Store as _;
use cairn_store::{Needs, Store};
use cairn_types::event::{Event, MemoryEvent, NewRecord};
use cairn_types::ids::{AgentId, MemoryId};
use cairn_types::memory::Reach;
use cairn_types::ports::{Clock, Expired, MemoryFilter, Shrunk, StoreError};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};

use cairn_api::records::RetainRecord;
use cairn_config::{Config, Live};

/// Time from the start to the first pass. Pending deliveries have been sent by then.
const FIRST_AFTER: Duration = Duration::from_secs(10 * 60);

const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Most memories that a pass forgets.
const FORGOTTEN_MAX: usize = 10_000;

#[derive(Clone)]
pub struct RetentionJob {
    pub store: Store,
    /// `[retention]`.
    pub settings: RetentionSettings,
    pub agents: Vec<AgentId>,
    pub clock: Arc<dyn Clock>,
}

impl RetentionJob {
    /// The job for a configuration.
    pub fn of(store: &Store, config: &Config, clock: &Arc<dyn Clock>) -> Self {
        Self {
            store: store.clone(),
            settings: config.retention.clone(),
            agents: config.agents.iter().map(|agent| agent.id.clone()).collect(),
            clock: Arc::clone(clock),
        }
    }

    /// One pass. Its outcome is logged and counted.
    ///
    /// # Errors
    /// A read or write failed; completed steps are kept.
    pub async fn pass(&self, dry_run: bool) -> Result<RetainRecord, StoreError> {
        let began = Instant::now();
        let outcome = self.carry_out(dry_run).await;
        if dry_run {
            return outcome;
        }
        let name = match &outcome {
            Ok(record) => outcome_of(record),
            Err(StoreError::Closed) => "broken_off",
            Err(_) => "failed",
        };
        metrics::counter!("cairn_retention_passes_total", "outcome" => name).increment(1);
        metrics::histogram!("cairn_retention_seconds").record(began.elapsed().as_secs_f64());
        match &outcome {
            Ok(record) => {
                let RetainRecord { compressed, expired, over_bytes, memories, .. } = *record;
                metrics::counter!("cairn_words_expired_total").increment(expired.entries);
                tracing::info!(
                    outcome = name,
                    compressed = compressed.segments,
                    rewritten = expired.shrunk.segments,
                    failed = compressed.failed + expired.shrunk.failed,
                    entries_expired = expired.entries,
                    bytes_saved = saved(&compressed) + saved(&expired.shrunk),
                    memories,
                    seconds = record.seconds,
                    "retention"
                );
                if over_bytes > 0 {
                    tracing::warn!(
                        over_bytes,
                        "the journal is over `journal_mib`, and nothing more can be removed from its closed segments; raise \
                         `journal_mib`, or lower `[store] segment_mib`"
                    );
                }
            }
            Err(StoreError::Closed) => {
                tracing::info!(outcome = name, "retention stopped with the daemon; the next pass continues");
            }
            Err(error) => {
                tracing::error!(outcome = name, %error, "retention failed; the next attempt is tomorrow")
            }
        }
        outcome
    }

    async fn carry_out(&self, dry_run: bool) -> Result<RetainRecord, StoreError> {
        let began = Instant::now();
        let mut journal = JournalPass::begin(self, dry_run).await?;
        journal.by_age().await?;
        journal.by_size().await?;
        let JournalPass { compressed, expired, over_bytes, .. } = journal;
        let due = self.due_memories().await?;
        let memories = due.len() as u64;
        if self.store.is_ending() {
            return Err(StoreError::Closed);
        }
        if !dry_run && memories > 0 {
            let at = self.clock.now();
            let forgotten = |id| NewRecord {
                channel: None,
                at,
                event: Event::Memory(MemoryEvent::Forgotten { id, wished: false }),
            };
            self.store.append(due.into_iter().map(forgotten).collect()).await?;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(RetainRecord { dry_run, compressed, expired, over_bytes, memories, seconds })
    }

    async fn due_memories(&self) -> Result<Vec<MemoryId>, StoreError> {
        let mut due = Vec::new();
        if self.settings.memory_days == 0 && self.settings.memory_max == 0 {
            return Ok(due);
        }
        let now = self.clock.now();
        for agent in &self.agents {
            let filter = MemoryFilter { limit: usize::MAX, ..MemoryFilter::default() };
            let memories = self.store.memories(agent, &[Reach::All], filter).await?;
            due.extend(self.settings.forgotten(&memories, now));
        }
        due.truncate(FORGOTTEN_MAX);
        Ok(due)
    }
}

/// The outcome of a pass, for logs and metrics.
fn outcome_of(record: &RetainRecord) -> &'static str {
    let failed = record.compressed.failed + record.expired.shrunk.failed;
    let done = record.compressed.segments + record.expired.shrunk.segments + record.memories;
    match (failed, record.over_bytes, done) {
        (1.., _, _) => "failed",
        (0, 1.., _) => "over_limit",
        (0, 0, 1..) => "done",
        (0, 0, 0) => "nothing",
    }
}

fn saved(shrunk: &Shrunk) -> u64 {
    shrunk.bytes_before.saturating_sub(shrunk.bytes_after)
}

/// The part of a pass that concerns the journal. It works segment by segment, so that a stop can interrupt it.
struct JournalPass<'a> {
    retention_job: &'a RetentionJob,
    dry_run: bool,
    /// The segments as they are; in a dry run, as they would be.
    segments: Vec<SegmentFacts>,
    /// The data in use; loaded when first needed.
    needs: Option<Arc<Needs>>,
    compressed: Shrunk,
    expired: Expired,
    over_bytes: u64,
}

impl<'a> JournalPass<'a> {
    async fn begin(retention_job: &'a RetentionJob, dry_run: bool) -> Result<Self, StoreError> {
        let segments = retention_job.store.segments().await?;
        let (compressed, expired) = (Shrunk::default(), Expired::default());
        Ok(Self { retention_job, dry_run, segments, needs: None, compressed, expired, over_bytes: 0 })
    }

    async fn by_age(&mut self) -> Result<(), StoreError> {
        let (settings, now) = (&self.retention_job.settings, self.retention_job.clock.now());
        for idx in 0..self.segments.len() {
            if settings.expires(&self.segments[idx], now) {
                self.expire(idx).await?;
            }
            // Segments rewritten by expiry are compressed already.
            if settings.compresses(&self.segments[idx], now) {
                self.compress(idx).await?;
            }
        }
        Ok(())
    }

    async fn by_size(&mut self) -> Result<(), StoreError> {
        while let Some(relief) = self.retention_job.settings.relief(&self.segments) {
            let place = |first| self.segments.iter().position(|segment| segment.first == first);
            match relief {
                Relief::Compress(first) => match place(first) {
                    Some(idx) => self.compress(idx).await?,
                    None => break,
                },
                Relief::Expire(first) => match place(first) {
                    Some(idx) => self.expire(idx).await?,
                    None => break,
                },
                Relief::Nothing { over } => {
                    self.over_bytes = over;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn compress(&mut self, idx: usize) -> Result<(), StoreError> {
        let first = self.segments[idx].first;
        match self.retention_job.store.compress_segment(first, self.dry_run).await {
            Ok(shrunk) => {
                add(&mut self.compressed, &shrunk);
                self.note(idx, &shrunk);
            }
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(error) => {
                self.compressed.failed += 1;
                self.give_up(idx, &error);
            }
        }
        self.segments[idx].is_packed = true;
        Ok(())
    }

    async fn expire(&mut self, idx: usize) -> Result<(), StoreError> {
        let first = self.segments[idx].first;
        let needs = match &self.needs {
            Some(needs) => Arc::clone(needs),
            None => Arc::clone(self.needs.insert(Arc::new(self.retention_job.store.needs().await?))),
        };
        let at = self.retention_job.clock.now();
        match self.retention_job.store.expire_segment(first, needs, at, self.dry_run).await {
            Ok(mut expired) => {
                // In a dry run a segment that would be compressed first already has its smaller size here.
                if self.dry_run && expired.shrunk.segments > 0 {
                    expired.shrunk.bytes_before = self.segments[idx].bytes;
                }
                add(&mut self.expired.shrunk, &expired.shrunk);
                self.expired.entries += expired.entries;
                self.expired.summaries += expired.summaries;
                self.note(idx, &expired.shrunk);
            }
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(error) => {
                self.expired.shrunk.failed += 1;
                self.give_up(idx, &error);
            }
        }
        self.segments[idx].is_spent = true;
        Ok(())
    }

    fn note(&mut self, idx: usize, shrunk: &Shrunk) {
        if shrunk.segments > 0 {
            let segment = &mut self.segments[idx];
            segment.bytes = shrunk.bytes_after;
            segment.is_packed = true;
        }
    }

    /// Skips a segment that cannot be rewritten.
    fn give_up(&mut self, idx: usize, error: &StoreError) {
        let segment = &mut self.segments[idx];
        tracing::error!(%error, segment = segment.first, "a journal segment could not be rewritten; it is unchanged");
        (segment.is_packed, segment.is_spent) = (true, true);
    }
}

fn add(sum: &mut Shrunk, one: &Shrunk) {
    sum.segments += one.segments;
    sum.bytes_before += one.bytes_before;
    sum.bytes_after += one.bytes_after;
}

/// Makes a pass per day with the current configuration. Without retention settings a pass does nothing. Never returns.
pub async fn daily(store: Store, live: Live, clock: Arc<dyn Clock>) {
    let last_at = store.totals().await.ok().and_then(|totals| totals.last_at);
    let mut seen = (last_at.unwrap_or_else(|| clock.now()), Instant::now());
    let mut pause = FIRST_AFTER;
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY;
        due(&RetentionJob::of(&store, &live.now().config, &clock), &mut seen).await;
    }
}

/// Makes a pass, unless the clock has jumped since `seen`: the last check or, at the start, the last activity.
async fn due(job: &RetentionJob, seen: &mut (Timestamp, Instant)) {
    let now = job.clock.now();
    let (before, since) = std::mem::replace(seen, (now, Instant::now()));
    if !job.settings.is_on() {
        return;
    }
    if !clock_went_on(before, now, SignedDuration::try_from(since.elapsed()).unwrap_or_default()) {
        metrics::counter!("cairn_retention_passes_total", "outcome" => "clock_jumped").increment(1);
        tracing::warn!(
            %before, %now,
            "retention waits a day: the clock jumped, or there was no activity for long; `cairn store retain` runs \
             a pass now"
        );
        return;
    }
    // `pass` logs its errors itself.
    if AssertUnwindSafe(job.pass(false)).catch_unwind().await.is_err() {
        metrics::counter!("cairn_retention_passes_total", "outcome" => "failed").increment(1);
        tracing::error!("retention panicked; the next attempt is tomorrow");
    }
}
