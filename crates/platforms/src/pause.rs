//! Growing pauses between attempts. Each is shortened at random by up to a half, so that clients that failed together
//! do not return together.

use std::time::Duration;

use cairn_types::wire::backoff::{Backoff, jittered};

/// The pauses after failures in a row.
#[derive(Debug)]
pub(crate) struct Pauses(Backoff);

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self(Backoff::new(first, longest))
    }

    /// The pause after a further failure.
    pub(crate) fn next(&mut self) -> Duration {
        jittered(self.0.next_pause(), fastrand::f64())
    }

    /// Starts again with the shortest pause, after a success.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

/// A random part of a duration.
pub(crate) fn part_of(duration: Duration) -> Duration {
    duration.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_failed_together_do_not_come_back_together() {
        let second = Duration::from_secs(1);
        let firsts: Vec<_> = (0..16).map(|_| Pauses::new(second, second * 60).next()).collect();
        assert!(firsts.iter().any(|pause| *pause != firsts[0]), "{firsts:?}");
        let parts: Vec<_> = (0..16).map(|_| part_of(second)).collect();
        assert!(parts.iter().all(|part| *part <= second) && parts.iter().any(|part| *part != parts[0]));
    }
}
