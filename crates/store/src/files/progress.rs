//! How far work over the whole state is, for whoever watches it, and the way to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cairn_types::ports::StoreError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Shared by the work and whoever watches it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    phase: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

/// How far it is at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressReport {
    /// What is gone through: `journal`, `artifacts`, `rows`, `channels`, `views`, `index`, `survey` or `rewrite`; empty before
    /// it begins.
    pub phase: String,
    pub done: u64,
    pub total: u64,
}

impl Progress {
    /// Has the work stop at its next step, unless it is decided already. It then leaves everything as it was.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
    }

    pub fn now(&self) -> ProgressReport {
        let phase = self.0.phase.lock();
        let (done, total) = (self.0.done.load(Ordering::Acquire), self.0.total.load(Ordering::Acquire));
        ProgressReport { phase: (*phase).to_owned(), done: done.min(total), total }
    }

    /// It is to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self, phase: &'static str, total: u64) {
        let mut shown = self.0.phase.lock();
        *shown = phase;
        self.0.done.store(0, Ordering::Release);
        self.0.total.store(total, Ordering::Release);
    }

    /// So much of the phase is done.
    ///
    /// # Errors
    /// [`StoreError::Stopped`].
    pub(crate) fn reach(&self, done: u64) -> Result<(), StoreError> {
        self.0.done.store(done, Ordering::Release);
        if self.is_stopped() { Err(StoreError::Stopped) } else { Ok(()) }
    }
}
