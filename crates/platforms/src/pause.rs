//! Pauses between attempts: growing, each cut at random by up to a half, so that many who failed together do not come
//! back together.

use std::time::Duration;

use cairn_types::wire::backoff::{Backoff, jittered};

/// The pauses after failures in a row.
#[derive(Debug)]
pub(crate) struct Pauses(Backoff);

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self(Backoff::new(first, longest))
    }

    /// It failed once more: how long to wait.
    pub(crate) fn next(&mut self) -> Duration {
        jittered(self.0.next_pause(), fastrand::f64())
    }

    /// It went well: the next pause is short again.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

/// A random share of a duration.
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
