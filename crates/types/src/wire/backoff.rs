//! Growing pauses between attempts at the same thing.

use std::time::Duration;

/// The pauses after failures in a row: the first, then twice as long each time, up to the longest.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Counts one more failure. Returns how long to wait.
    pub fn next_pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        pause_after(self.failures, self.first, self.longest)
    }

    /// To be called after a success: the next pause is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The pause after the `n`th failure in a row, counted from 1.
pub fn pause_after(n: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX)).min(longest)
}

/// Shortens a pause by up to half, so that clients that failed together do not retry together. `chance`: 0 to 1.
pub fn jittered(pause: Duration, chance: f64) -> Duration {
    pause.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 60);
        let pauses: Vec<u64> = (0..40).map(|_| backoff.next_pause().as_secs()).collect();
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pauses[39], 60);
        backoff.reset();
        assert_eq!(backoff.next_pause(), second);
        assert_eq!(
            Backoff::new(second * 2, second).next_pause(),
            second,
            "the longest holds for the first, too"
        );
        assert_eq!(pause_after(u32::MAX, Duration::ZERO, second), Duration::ZERO);
        assert_eq!(pause_after(0, second, second * 60), second);
    }

    #[test]
    fn chance_takes_up_to_half_of_a_pause_away() {
        let pause = Duration::from_secs(8);
        let pauses = [0.0, 0.5, 1.0, 7.0].map(|chance| jittered(pause, chance).as_secs());
        assert_eq!(pauses, [8, 6, 4, 4]);
    }
}
