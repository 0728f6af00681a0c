//! Bounds of a model's window, if its server says that a request is too large but not how large the window is. Accepted and
//! refused requests bound it. They also decide whether a refusal without a reason is blamed on the request's size.

use serde::{Deserialize, Serialize};

use crate::model::is_zero;

/// Calls that a model must refuse as too large before its window counts as bounded: one may be a mistake.
const OVERFLOWS_MIN: u32 = 2;

/// Share of the smallest refused request that counts as safe if no larger one was accepted.
const SAFE_SHARE: f64 = 0.7;

/// If a refused request is smaller than this share of an accepted one, that is no error of our estimate: the server accepts
/// less than it did.
const SAME_SHARE: f64 = 0.9;

/// How many times larger a request must be than one that was refused for another reason, to be suspected of its size.
const GROWN: f64 = 1.25;

/// Smaller requests are not suspected of their size: hardly any window is smaller. The second holds while a model has
/// accepted nothing yet.
const SUSPECT_MIN: u64 = 2_000;
const SUSPECT_MIN_UNKNOWN: u64 = 8_192;

/// Most requests of one call that are suspected; each is a third smaller than the one before.
const SUSPECTS_MAX: u32 = 3;

/// Sizes of requests that a model's server has accepted and refused, in tokens of whole requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowBounds {
    /// The largest accepted request, by the server's count.
    pub taken: u64,
    /// The smallest request that it refused without naming its window, by our corrected estimate; 0: none.
    pub refused: u64,
    /// Calls that it refused that way; further tries of one call count once.
    pub overflows: u32,
    /// The largest request that it refused for a reason that it did not tell and that was not the size; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blameless: u64,
}

impl WindowBounds {
    /// Records that the server accepted a request.
    pub fn take(&mut self, tokens: u64) {
        self.taken = self.taken.max(tokens);
        if self.taken >= self.blameless {
            self.blameless = 0;
        }
        if self.refused > 0 {
            self.refused = self.refused.max(self.taken + 1);
        }
    }

    /// The bounds once the server has refused a request of `tokens`. `first`: it is the first try of a call.
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

    /// Whether a request is about as large as the largest accepted one, or larger.
    fn is_near(&self, tokens: u64) -> bool {
        tokens as f64 >= self.taken as f64 * SAME_SHARE
    }

    /// The largest request that can be relied on, once enough is known: the largest accepted one, and not less than a share
    /// of the smallest refused one.
    pub fn usable_tokens(&self) -> Option<u64> {
        let safe = (self.refused as f64 * SAFE_SHARE) as u64;
        (self.overflows >= OVERFLOWS_MIN && self.refused > 0).then(|| self.taken.max(safe).max(1))
    }
}

/// Refusals of one call without a reason. If no request as large was accepted before, its size is suspected first: the
/// request is made smaller, and the outcome shows whether the size was the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Suspicion {
    first: u64,
    last: u64,
    n: u32,
}

impl Suspicion {
    /// Whether a refused request is suspected of its size. `listed`: the window that the server lists, 0: none; a request far
    /// below it is not suspected.
    pub fn falls_on(&self, bounds: &WindowBounds, listed: u64, tokens: u64) -> bool {
        if (tokens as f64) < listed as f64 * SAFE_SHARE {
            return false;
        }
        if self.n > 0 {
            return self.n < SUSPECTS_MAX && tokens < self.last && bounds.is_near(tokens);
        }
        let least = if bounds.taken == 0 { SUSPECT_MIN_UNKNOWN } else { SUSPECT_MIN };
        tokens >= least && bounds.is_near(tokens) && tokens as f64 > bounds.blameless as f64 * GROWN
    }

    /// Records that a request is suspected and is made smaller.
    pub fn note(&mut self, tokens: u64) {
        self.first = self.first.max(tokens);
        self.last = tokens;
        self.n += 1;
    }

    /// Size of the first suspected request; `None`: there was none. To be called once a smaller request was accepted.
    pub fn proved(&self) -> Option<u64> {
        (self.n > 0).then_some(self.first)
    }

    /// The bounds when this request was refused as well and the size was not the reason: one as large was accepted before, or
    /// it could not be made smaller. `None`: nothing was suspected, or it may be the size all the same.
    pub fn disproved(&self, bounds: &WindowBounds, tokens: u64) -> Option<WindowBounds> {
        let is_other = self.n > 0 && (tokens >= self.last || !bounds.is_near(tokens));
        is_other.then(|| WindowBounds { blameless: self.first.max(bounds.blameless), ..*bounds })
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

    /// Whether each refusal of a call is taken for one of size, and what is known afterwards.
    #[rstest]
    #[case::near_what_was_taken(9_000, 0, &[(8_500, true), (5_900, false)], Some(8_500))]
    #[case::larger(9_000, 0, &[(12_000, true), (8_400, true), (5_900, false)], Some(12_000))]
    #[case::much_larger(2_000, 0, &[(30_000, true), (21_000, true), (14_700, true), (10_300, false)], None)]
    #[case::smaller(9_000, 0, &[(8_000, false)], None)]
    #[case::smaller_than_any_window(500, 0, &[(1_900, false)], None)]
    #[case::nothing_smaller_can_be_made(9_000, 0, &[(9_100, true), (9_100, false)], Some(9_100))]
    #[case::nothing_was_taken(0, 0, &[(20_000, true), (14_000, true), (9_800, true), (6_900, false)], None)]
    #[case::nothing_was_taken_and_it_is_small(0, 0, &[(5_000, false)], None)]
    #[case::it_was_not_the_size_before(9_000, 9_500, &[(11_000, false)], None)]
    #[case::it_has_grown_since(9_000, 9_500, &[(12_000, true)], None)]
    fn a_refusal_without_a_reason_is_taken_for_one_of_size_first(
        #[case] taken: u64,
        #[case] blameless: u64,
        #[case] refused: &[(u64, bool)],
        #[case] expected: Option<u64>,
    ) {
        let bounds = WindowBounds { taken, blameless, ..WindowBounds::default() };
        let mut suspicion = Suspicion::default();
        let mut known = None;
        for (n, (tokens, suspected)) in refused.iter().enumerate() {
            assert_eq!(suspicion.falls_on(&bounds, 0, *tokens), *suspected, "try {n}");
            assert!(!suspicion.falls_on(&bounds, tokens * 2, *tokens), "far below the listed window");
            if *suspected {
                suspicion.note(*tokens);
                assert_eq!(suspicion.proved(), Some(refused[0].0));
            } else {
                known = suspicion.disproved(&bounds, *tokens);
            }
        }
        assert_eq!(known.map(|bounds| bounds.blameless), expected);
    }
}
