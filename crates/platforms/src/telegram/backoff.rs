//! Growing pauses between attempts.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Pauses that double from one to the next, each cut at random by up to a half, so that many who failed together do
/// not come back together.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    first: Duration,
    most: Duration,
    doublings: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, doublings: 0 }
    }

    /// The next pause.
    pub(super) fn next(&mut self) -> Duration {
        let whole = self.first.saturating_mul(1 << self.doublings.min(16)).min(self.most);
        self.doublings = self.doublings.saturating_add(1);
        // The standard library seeds its hashers at random: enough for a spread.
        let random = RandomState::new().build_hasher().finish();
        let share = 0.5 + (random % 1024) as f64 / 2048.0;
        whole.mul_f64(share)
    }

    /// It worked: the next pause is short again.
    pub(super) fn reset(&mut self) {
        self.doublings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_start_again() {
        let (first, most) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut backoff = Backoff::new(first, most);
        for n in 0..40_u32 {
            let whole = first.saturating_mul(1 << n.min(16)).min(most);
            let pause = backoff.next();
            assert!(pause >= whole / 2 && pause <= whole, "{n}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= first);
    }
}
