//! Progress of work over the whole state, and the way to stop it.

use cairn_types::ports::ProgressReport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cairn_types::ports::StoreError;
use parking_lot::Mutex;

/// Progress of one piece of work. Clones share it: one for the work, others for those who watch.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    phase: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Stops the work at its next step, with everything as it was before. Work that is past its point of no return runs to its
    /// end.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
    }

    pub fn now(&self) -> ProgressReport {
        let phase = self.0.phase.lock();
        let (done, total) = (self.0.done.load(Ordering::Acquire), self.0.total.load(Ordering::Acquire));
        ProgressReport { phase: (*phase).to_owned(), done: done.min(total), total }
    }

    /// Whether [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self, phase: &'static str, total: u64) {
        let mut shown = self.0.phase.lock();
        *shown = phase;
        self.0.done.store(0, Ordering::Release);
        self.0.total.store(total, Ordering::Release);
    }

    /// Sets how much of the phase is done.
    ///
    /// # Errors
    /// [`StoreError::Stopped`]: the work must stop here.
    pub(crate) fn reach(&self, done: u64) -> Result<(), StoreError> {
        self.0.done.store(done, Ordering::Release);
        if self.is_stopped() { Err(StoreError::Stopped) } else { Ok(()) }
    }
}
