//! The tries of one model call: what failed, and what the next try leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cairn_core::agent::RuntimeLimits;
use cairn_types::ids::SeqRange;
use cairn_types::model::{Attempt, ModelError};
use cairn_types::window_bounds::Suspicion;
use cairn_types::wire::backoff::Backoff;

/// The failures of one model call so far.
pub(super) struct Tries {
    /// Pauses between calls if no other model is well.
    pauses: Backoff,
    /// How many calls after a pause are left.
    left: u32,
    /// Overflows of the current model.
    pub(super) overflows: u32,
    pub(super) all_overflows: u32,
    /// Refusals without a reason that may be about size.
    pub(super) suspicion: Suspicion,
    /// Models that refused this very request, and are not asked again.
    pub(super) refused: BTreeSet<String>,
    pub(super) errors: BTreeMap<String, ModelError>,
    pub(super) simpler: Simpler,
}

impl Tries {
    pub(super) fn new(limits: &RuntimeLimits) -> Self {
        let pauses = Backoff::new(limits.model_retry_base, limits.model_retry_max);
        let left = limits.model_attempts.saturating_sub(1);
        let (refused, errors) = (BTreeSet::new(), BTreeMap::new());
        let (suspicion, simpler) = (Suspicion::default(), Simpler::default());
        Self { pauses, left, overflows: 0, all_overflows: 0, suspicion, refused, errors, simpler }
    }

    /// How far the next request may be simplified.
    pub(super) fn attempt(&self) -> Attempt {
        self.simpler.attempt
    }

    /// The pause before the same model is called again. `None`: it was called often enough.
    pub(super) fn next_pause(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        Some(self.pauses.next_pause())
    }
}

/// What is left out of requests to the current model, since its server refused them.
#[derive(Default)]
pub(super) struct Simpler {
    pub(super) attempt: Attempt,
    /// Ranges of the history that were left out, each larger than the one before; all but the last were refused.
    pub(super) withheld: Vec<Option<SeqRange>>,
}
