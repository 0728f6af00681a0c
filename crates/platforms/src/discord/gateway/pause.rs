//! Pauses before a new connection: growing, with jitter, so that many bots do not come back at the same moment.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Before the first try that follows a failure.
const FIRST: Duration = Duration::from_secs(1);

/// Longest.
const LONGEST: Duration = Duration::from_secs(60);

/// Failures in a row.
#[derive(Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    /// It went well.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    /// It failed once more: how long to wait.
    pub(super) fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(2u32.saturating_pow(self.0)).min(LONGEST);
        self.0 = self.0.saturating_add(1);
        pause.mul_f64(0.5 + share() / 2.0)
    }
}

/// A random share of a duration.
pub(super) fn part_of(duration: Duration) -> Duration {
    duration.mul_f64(share())
}

/// From 0 to 1; the hasher's seed is random.
fn share() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_start_over() {
        let mut pauses = Pauses::default();
        let all: Vec<_> = (0..40).map(|_| pauses.next()).collect();
        for (n, pause) in all.iter().enumerate() {
            let whole = FIRST.saturating_mul(2u32.saturating_pow(n as u32)).min(LONGEST);
            assert!((whole / 2..=whole).contains(pause), "{n}: {pause:?}");
        }
        pauses.reset();
        assert!(pauses.next() <= FIRST);
    }
}
