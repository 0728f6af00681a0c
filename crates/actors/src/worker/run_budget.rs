//! What is known of a run over all its attempts, in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cairn_core::ids::RunId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The time that a run may take, and what its attempts found out about models.
pub(crate) struct RunBudget {
    pub(crate) run: RunId,
    limit: Duration,
    known: Mutex<Known>,
}

struct Known {
    /// The first attempt began, or the last chunk was finished.
    since: Instant,
    /// Models that fail in a way that no further try changes, with the reason.
    barred: BTreeMap<String, String>,
    /// Models that take no tools, by their own servers' words.
    without_tools: BTreeSet<String>,
}

impl RunBudget {
    /// The run begins, or is taken up after a restart.
    pub(crate) fn new(run: RunId, limit: Duration) -> Self {
        let known = Known { since: Instant::now(), barred: BTreeMap::new(), without_tools: BTreeSet::new() };
        Self { run, limit, known: Mutex::new(known) }
    }

    /// The time that is left. It restarts with every finished chunk: a long run may take its time as long as it gets
    /// on.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.known.lock().since.elapsed())
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn got_on(&self) {
        self.known.lock().since = Instant::now();
    }

    pub(crate) fn barred(&self, model: &str) -> Option<String> {
        self.known.lock().barred.get(model).cloned()
    }

    /// A model is not asked again in this run.
    pub(crate) fn bar(&self, model: &str, reason: &str) {
        self.known.lock().barred.insert(model.to_owned(), reason.to_owned());
    }

    /// Whether a model was found to take no tools.
    pub(crate) fn lacks_tools(&self, model: &str) -> bool {
        self.known.lock().without_tools.contains(model)
    }

    pub(crate) fn without_tools(&self, model: &str) {
        self.known.lock().without_tools.insert(model.to_owned());
    }
}
