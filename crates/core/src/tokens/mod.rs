//! Token estimates by classes of script, and their running correction per model.

mod correction;
mod pairs;
mod scan;
mod script;
mod units;
mod weights;

pub use correction::Correction;
pub use scan::count;
pub use units::{Counts, UNITS, Unit};
pub use weights::weights;

/// Estimated tokens of a text in o200k, by classes of script: one pass, nothing allocated.
///
/// A text that is not empty has at least one token.
pub fn estimate(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let milli = count(text).weigh(&weights::MILLI_TOKENS);
    u32::try_from(milli.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests;
