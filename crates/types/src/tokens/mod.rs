//! Token estimates by classes of script, and their running correction per model.

mod scan;
mod script;
mod units;

use serde::{Deserialize, Serialize};

pub use scan::count;
pub use units::{Counts, UNITS, Unit, WEIGHTS};

/// Estimated tokens of a text in o200k, by classes of script: one pass, nothing allocated.
///
/// A text that is not empty has at least one token.
pub fn estimate(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let milli = count(text).weigh();
    u32::try_from(milli.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// Share of the earlier reports that remains at each new one: the last ten or so count.
const KEPT: f64 = 0.9;

/// Corrected estimates err upward by this share: too small a window is a nuisance, too large a request an error.
const MARGIN: f64 = 1.01;

/// Smallest and largest ratio: what lies beyond is a provider's mistake, not our error, and no report counts for more.
const RANGE: (f64, f64) = (0.5, 4.0);

/// Running ratio of reported to estimated tokens of a model's requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Sum of what we estimated, decayed.
    pub estimated: f64,
    /// Sum of what the provider reported, decayed.
    pub reported: f64,
    /// What estimates are multiplied with; errs upward.
    pub ratio: f64,
}

impl Default for Correction {
    fn default() -> Self {
        Self { estimated: 0.0, reported: 0.0, ratio: 1.0 }
    }
}

impl Correction {
    /// Adds one report. A report of nothing (a provider that does not count) is ignored.
    ///
    /// The ratio becomes the larger of the decayed mean and this very report, plus a small margin: it follows growth
    /// immediately, and a fall over the next reports.
    pub fn observe(&mut self, estimated: u64, reported: u64) {
        if estimated == 0 || reported == 0 {
            return;
        }
        let estimated = estimated as f64;
        let reported = (reported as f64).min(estimated * RANGE.1);
        self.estimated = self.estimated * KEPT + estimated;
        // A stored sum may include a report that counted for more.
        self.reported = (self.reported * KEPT + reported).min(self.estimated * RANGE.1);
        let mean = self.reported / self.estimated;
        self.ratio = (mean.max(reported / estimated) * MARGIN).clamp(RANGE.0, RANGE.1);
    }

    /// Corrects an estimate, rounding up.
    pub fn apply(&self, estimated: u64) -> u64 {
        (estimated as f64 * self.ratio).ceil() as u64
    }

    /// The largest estimate that does not exceed `corrected` tokens after correction.
    pub fn undo(&self, corrected: u64) -> u64 {
        (corrected as f64 / self.ratio) as u64
    }
}

#[cfg(test)]
mod tests;
