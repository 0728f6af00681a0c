//! Pauses between attempts: growing, each cut at random by up to a half, so that many who failed together do not come
//! back together.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// The pauses after failures in a row.
#[derive(Debug)]
pub(crate) struct Pauses {
    builder: ExponentialBuilder,
    pauses: ExponentialBackoff,
    most: Duration,
}

impl Pauses {
    /// Pauses that double from `first` to `most`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        // The jitter of backon adds up to as much again: from half the pause it reaches the whole.
        let (least, half) = (first.min(most) / 2, most / 2);
        let builder = ExponentialBuilder::new().with_min_delay(least).with_max_delay(half);
        let builder = builder.without_max_times().with_jitter();
        Self { builder, pauses: builder.build(), most }
    }

    /// It failed once more: how long to wait.
    pub(crate) fn next(&mut self) -> Duration {
        self.pauses.next().unwrap_or(self.most).min(self.most)
    }

    /// It went well: the next pause is short again.
    pub(crate) fn reset(&mut self) {
        self.pauses = self.builder.build();
    }
}

/// A random share of a duration.
pub(crate) fn part_of(duration: Duration) -> Duration {
    let builder = ExponentialBuilder::new().with_min_delay(duration).with_max_delay(duration).with_jitter();
    builder.build().next().unwrap_or(duration).saturating_sub(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_start_again() {
        let most = Duration::from_secs(60);
        for first in [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1)] {
            let mut pauses = Pauses::new(first, most);
            for n in 0..40_u32 {
                let whole = first.saturating_mul(1 << n.min(16)).min(most);
                let pause = pauses.next();
                // backon counts in floats of 32 bits.
                let off = whole / 100_000;
                assert!(pause >= whole / 2 - off && pause <= whole + off, "{n}: {pause:?}");
                assert!(pause <= most);
            }
            pauses.reset();
            assert!(pauses.next() <= first);
        }
    }

    #[test]
    fn those_who_failed_together_do_not_come_back_together() {
        let second = Duration::from_secs(1);
        let firsts: Vec<_> = (0..16).map(|_| Pauses::new(second, second * 60).next()).collect();
        assert!(firsts.iter().any(|pause| *pause != firsts[0]), "{firsts:?}");
        let parts: Vec<_> = (0..16).map(|_| part_of(second)).collect();
        assert!(parts.iter().all(|part| *part <= second) && parts.iter().any(|part| *part != parts[0]));
    }
}
