//! The window of a model whose server says that a request is too large, and not how large its window is: what it took and
//! what it refused bound it.

use serde::{Deserialize, Serialize};

/// Calls that a model refused as too large from which on its window is taken for bounded: one may be a mistake.
const OVERFLOWS_MIN: u32 = 2;

/// Share of the smallest refused request that is taken for safe where no larger one was taken.
const SAFE_SHARE: f64 = 0.7;

/// A refused request that is smaller than this share of what was taken before is no error of our estimate: the server
/// takes less than it did.
const SAME_SHARE: f64 = 0.9;

/// What a model's server has taken and refused, in tokens of whole requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowBounds {
    /// The largest request that it took, as it counts.
    pub taken: u64,
    /// The smallest that it refused without naming its window, by our corrected estimate; 0: none.
    pub refused: u64,
    /// Calls that it refused so; further tries of one call count once.
    pub overflows: u32,
}

impl WindowBounds {
    /// The server took a request of so many tokens.
    pub fn take(&mut self, tokens: u64) {
        self.taken = self.taken.max(tokens);
        if self.refused > 0 {
            self.refused = self.refused.max(self.taken + 1);
        }
    }

    /// The same after the server has refused a request of so many tokens. `first`: it is the first try of a call.
    #[must_use]
    pub fn refusing(mut self, tokens: u64, first: bool) -> Self {
        self.overflows += u32::from(first);
        if (tokens as f64) < self.taken as f64 * SAME_SHARE {
            self.taken = 0;
        }
        let refused = if self.refused == 0 { tokens } else { tokens.min(self.refused) };
        self.refused = refused.max(self.taken + 1);
        self
    }

    /// The largest request that can be counted on, once enough is known: the largest that was taken, and not less than a
    /// share of the smallest that was refused.
    pub fn usable_tokens(&self) -> Option<u64> {
        let safe = (self.refused as f64 * SAFE_SHARE) as u64;
        (self.overflows >= OVERFLOWS_MIN && self.refused > 0).then(|| self.taken.max(safe).max(1))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Seen {
        Took(u64),
        Refused(u64),
        Again(u64),
    }
    use Seen::{Again, Refused, Took};

    #[rstest]
    #[case::nothing(&[], None)]
    #[case::taken_alone(&[Took(9_000), Took(12_000)], None)]
    #[case::one_refusal(&[Took(9_000), Refused(10_000)], None)]
    #[case::tries_of_one_call(&[Took(9_000), Refused(10_000), Again(7_000), Again(4_900)], None)]
    #[case::two(&[Took(7_900), Refused(8_100), Took(7_950), Refused(8_050)], Some(7_950))]
    #[case::far_apart(&[Took(900), Refused(10_000), Took(2_000), Refused(9_000)], Some(6_300))]
    #[case::nothing_was_taken(&[Refused(10_000), Refused(10_000)], Some(7_000))]
    #[case::the_smallest_try_counts(&[Refused(10_000), Again(6_000), Took(3_000), Refused(9_000)], Some(4_200))]
    #[case::raised(&[Took(2_000), Refused(9_000), Refused(9_000), Took(8_000)], Some(8_000))]
    #[case::raised_past_a_wrong_estimate(&[Took(2_000), Refused(9_000), Refused(9_000), Took(9_500)], Some(9_500))]
    #[case::an_estimate_a_little_low(&[Took(8_000), Refused(7_900), Refused(7_800)], Some(8_000))]
    #[case::it_takes_less_than_before(&[Took(30_000), Refused(8_100), Took(5_000), Refused(8_000)], Some(5_600))]
    fn what_was_taken_and_what_was_refused_bound_the_window(
        #[case] seen: &[Seen],
        #[case] expected: Option<u64>,
    ) {
        let mut bounds = WindowBounds::default();
        for one in seen {
            match *one {
                Took(tokens) => bounds.take(tokens),
                Refused(tokens) => bounds = bounds.refusing(tokens, true),
                Again(tokens) => bounds = bounds.refusing(tokens, false),
            }
            assert!(bounds.refused == 0 || bounds.taken < bounds.refused, "{bounds:?}");
        }
        assert_eq!(bounds.usable_tokens(), expected);
    }
}
