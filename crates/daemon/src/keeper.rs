//! Retention carried out: one pass a day while the daemon runs, and by hand.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_core::event::{Event, NewRecord};
use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::ports::{Clock, Journal, MemoryFilter, MemoryStore, StoreError};
use cairn_core::retention::RetentionSettings;
use cairn_store::{Compressed, Store};
use futures::FutureExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;

/// The first pass comes so long after the start, when what is owed has been sent.
const FIRST_AFTER: Duration = Duration::from_secs(10 * 60);

/// Time between two passes.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Memories that one pass forgets at the most.
const FORGOTTEN_MAX: usize = 10_000;

/// What a pass did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RetainRecord {
    /// Nothing was changed.
    pub dry_run: bool,
    /// Journal segments that were compressed.
    pub compressed: Compressed,
    /// Memories that were forgotten.
    pub memories: u64,
    /// How long it took.
    pub seconds: f64,
}

/// What a pass needs.
#[derive(Clone)]
pub struct Keeper {
    /// The store.
    pub store: Store,
    /// `[retention]`.
    pub settings: RetentionSettings,
    /// Whose memories there are.
    pub agents: Vec<AgentId>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Keeper {
    /// As the configuration says.
    pub fn of(store: &Store, config: &Config, clock: &Arc<dyn Clock>) -> Self {
        Self {
            store: store.clone(),
            settings: config.retention.clone(),
            agents: config.agents.iter().map(|agent| agent.id.clone()).collect(),
            clock: Arc::clone(clock),
        }
    }

    /// One pass, told in the log and in metrics, whatever becomes of it.
    ///
    /// # Errors
    /// What could not be read or written; what was done before that stands.
    pub async fn pass(&self, dry_run: bool) -> Result<RetainRecord, StoreError> {
        let began = Instant::now();
        let outcome = self.carry_out(dry_run).await;
        let name = match &outcome {
            Ok(_) if dry_run => return outcome,
            Ok(RetainRecord { compressed, .. }) if compressed.failed > 0 => "failed",
            Ok(RetainRecord { compressed, memories, .. }) if compressed.segments + memories > 0 => "done",
            Ok(_) => "nothing",
            Err(_) => "failed",
        };
        metrics::counter!("cairn_retention_passes_total", "outcome" => name).increment(1);
        metrics::histogram!("cairn_retention_seconds").record(began.elapsed().as_secs_f64());
        match &outcome {
            Ok(record) => tracing::info!(
                outcome = name,
                segments = record.compressed.segments,
                failed = record.compressed.failed,
                bytes_before = record.compressed.bytes_before,
                bytes_after = record.compressed.bytes_after,
                memories = record.memories,
                seconds = record.seconds,
                "retention"
            ),
            Err(error) => tracing::error!(outcome = name, %error, "retention; it is tried again tomorrow"),
        }
        outcome
    }

    async fn carry_out(&self, dry_run: bool) -> Result<RetainRecord, StoreError> {
        let began = Instant::now();
        let now = self.clock.now();
        let compressed = self.compress(now, dry_run).await?;
        let due = self.due_memories().await?;
        let memories = due.len() as u64;
        if !dry_run && memories > 0 {
            let forgotten = |id| NewRecord { channel: None, at: now, event: Event::MemoryForgotten { id } };
            self.store.append(due.into_iter().map(forgotten).collect()).await?;
        }
        Ok(RetainRecord { dry_run, compressed, memories, seconds: began.elapsed().as_secs_f64() })
    }

    /// Segment by segment, so that a stop need not wait for all of them.
    async fn compress(&self, now: Timestamp, dry_run: bool) -> Result<Compressed, StoreError> {
        let mut sum = Compressed::default();
        loop {
            let limit = if dry_run { u64::MAX } else { 1 };
            let done =
                self.store.compress_after(sum.upto, self.settings.clone(), now, dry_run, limit).await?;
            sum.failed += done.failed;
            sum.upto = done.upto;
            sum.segments += done.segments;
            sum.bytes_before += done.bytes_before;
            sum.bytes_after += done.bytes_after;
            if dry_run || done.segments == 0 {
                return Ok(sum);
            }
        }
    }

    async fn due_memories(&self) -> Result<Vec<MemoryId>, StoreError> {
        let mut due = Vec::new();
        if self.settings.memory_days == 0 {
            return Ok(due);
        }
        let now = self.clock.now();
        for agent in &self.agents {
            let scopes = self.store.scopes(agent).await?;
            let filter = MemoryFilter { limit: usize::MAX, ..MemoryFilter::default() };
            let memories = self.store.list(agent, &scopes, filter).await?;
            let gone = memories.into_iter().filter(|memory| self.settings.forgets(memory, now));
            due.extend(gone.map(|memory| memory.id));
        }
        due.truncate(FORGOTTEN_MAX);
        Ok(due)
    }
}

/// The task that makes a pass a day.
pub struct Daily {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Daily {
    /// Starts it, when there is something to keep.
    pub fn start(keeper: Keeper) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        if keeper.settings.is_on() {
            tasks.spawn(daily(keeper, stop.clone()));
        }
        tasks.close();
        Self { tasks, stop }
    }

    /// Ends it. A pass under way ends with what it has in hand: the store waits for that when it is closed.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

async fn daily(keeper: Keeper, stop: CancellationToken) {
    let mut pause = FIRST_AFTER;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = EVERY;
        let pass = AssertUnwindSafe(keeper.pass(false)).catch_unwind();
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = pass => ended,
        };
        // An error has been told by the pass itself.
        if ended.is_err() {
            metrics::counter!("cairn_retention_passes_total", "outcome" => "failed").increment(1);
            tracing::error!("retention panicked; it is tried again tomorrow");
        }
    }
}
