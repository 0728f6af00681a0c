//! The phase that the runtime is in, its background tasks, and its stop.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::tasks::Tasks;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Starting = 0,
    Ready = 1,
    Stopping = 2,
}

impl Phase {
    /// Its name in records and errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

pub(crate) struct Lifecycle {
    phase: AtomicU8,
    restarts: AtomicU64,
    /// The deadline of the stop; `None` until it begins.
    pub(crate) stop_by: watch::Sender<Option<Instant>>,
    pub(crate) tasks: Tasks,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            restarts: AtomicU64::new(0),
            stop_by: watch::Sender::new(None),
            tasks: Tasks::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.phase() == Phase::Stopping
    }

    /// Moves on to a phase. A runtime that is stopping never becomes ready again.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Counts the restart of an actor that failed.
    pub(crate) fn count_restart(&self, actor: &'static str) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("cairn_actor_restarts_total", "actor" => actor).increment(1);
    }

    /// Actors that were restarted since the start.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}
