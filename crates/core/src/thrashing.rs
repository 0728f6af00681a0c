//! Thrashing: usage that swings around a threshold, runs in quick succession, runs that free next to nothing. All of them
//! cost more than they bring, and other settings can help.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use cairn_types::event::{RunEnd, RunOutcome, Trigger};
use cairn_types::tier::Tier;

const TURNS: u64 = 10;

/// Tier changes within the observed turns that count as a swing: twice up and down.
const CHANGES: usize = 4;

/// Runs within the observed turns that are too many.
const RUNS: usize = 3;

/// Least share of the usable window that a run should free.
const FREED_SHARE: f64 = 0.05;

/// Least time between two warnings about a channel.
const QUIET: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thrashing {
    /// The tier changed back and forth.
    Swings,
    Runs,
    LittleFreed,
}

impl Thrashing {
    pub fn name(self) -> &'static str {
        match self {
            Self::Swings => "swings",
            Self::Runs => "runs",
            Self::LittleFreed => "little_freed",
        }
    }

    /// A description, with the configuration keys that help.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Swings => {
                "usage swings around a threshold: the tier changed 4 times within 10 turns; raise background_fraction \
                 so that a run frees more at once, set the thresholds further apart, or raise context_window"
            }
            Self::Runs => {
                "runs follow each other closely: 3 within 10 turns; raise background_fraction and aggressive_fraction \
                 so that each frees more, lower stack_share, or raise context_window or max_messages"
            }
            Self::LittleFreed => {
                "a run freed less than 5 % of the window; lower reserve_ratio or stack_share, shorten the system \
                 prompt, raise background_fraction, or raise context_window"
            }
        }
    }
}

/// Watches one channel. It restarts with the daemon.
#[derive(Debug, Clone, Default)]
pub struct ThrashingWatch {
    turns: u64,
    tier: Option<Tier>,
    /// Turns in which the tier changed.
    changes: VecDeque<u64>,
    /// Turns after which runs ended.
    runs: VecDeque<u64>,
    warned_at: Option<Timestamp>,
}

impl ThrashingWatch {
    /// Notes a turn's end in that tier. Returns a warning, at most once an hour.
    pub fn turn(&mut self, tier: Tier, now: Timestamp) -> Option<Thrashing> {
        self.turns += 1;
        if self.tier.replace(tier).is_some_and(|before| before != tier) {
            self.changes.push_back(self.turns);
        }
        let swings = recent(&mut self.changes, self.turns) >= CHANGES;
        swings.then_some(Thrashing::Swings).and_then(|thrashing| self.warn(thrashing, now))
    }

    /// Notes a run's end. Returns a warning, at most once an hour. Merges and requested runs do not count.
    pub fn run(&mut self, end: &RunEnd, usable_tokens: u64, now: Timestamp) -> Option<Thrashing> {
        let is_due = matches!(end.trigger, Trigger::Threshold | Trigger::Messages);
        if end.outcome != RunOutcome::Committed || !is_due {
            return None;
        }
        self.runs.push_back(self.turns);
        let freed = end.tokens_before.saturating_sub(end.tokens_after) as f64;
        if recent(&mut self.runs, self.turns) >= RUNS {
            self.warn(Thrashing::Runs, now)
        } else if end.trigger == Trigger::Threshold && freed < usable_tokens as f64 * FREED_SHARE {
            self.warn(Thrashing::LittleFreed, now)
        } else {
            None
        }
    }

    fn warn(&mut self, thrashing: Thrashing, now: Timestamp) -> Option<Thrashing> {
        // A warning that lies ahead is of a clock that was set back since.
        let quiet = SignedDuration::ZERO..QUIET;
        if self.warned_at.is_some_and(|at| quiet.contains(&now.duration_since(at))) {
            return None;
        }
        self.warned_at = Some(now);
        self.changes.clear();
        self.runs.clear();
        Some(thrashing)
    }
}

/// The number of turns that are within the observed ones; older ones are removed.
fn recent(turns: &mut VecDeque<u64>, now: u64) -> usize {
    while turns.front().is_some_and(|turn| turn + TURNS <= now) {
        turns.pop_front();
    }
    turns.len()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use cairn_types::ids::RunId;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap_or_default()
    }

    fn end(trigger: Trigger, freed: u64) -> RunEnd {
        RunEnd {
            run: RunId::from("r1"),
            trigger,
            outcome: RunOutcome::Committed,
            reason: None,
            summary: None,
            memories: Vec::new(),
            messages: 9,
            tokens_before: 8_000,
            tokens_after: 8_000 - freed,
            first_kept_seq: None,
            duration_ms: 5,
            owes_run: false,
            attempts: 0,
            spent: Default::default(),
        }
    }

    #[rstest]
    #[case::up_and_down_twice(&[0, 1, 0, 1, 0], true)]
    #[case::up_and_down_once(&[0, 1, 0, 0, 1, 1, 1], false)]
    #[case::in_ten_turns(&[0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0], true)]
    #[case::in_more(&[0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0], false)]
    #[case::steady(&[1; 30], false)]
    fn a_tier_that_changes_four_times_in_ten_turns_is_a_swing(#[case] tiers: &[u8], #[case] swings: bool) {
        let mut watch = ThrashingWatch::default();
        let tier = |n: u8| if n == 0 { Tier::Calm } else { Tier::Background };
        let warned: Vec<_> = tiers.iter().filter_map(|n| watch.turn(tier(*n), at(0))).collect();
        assert_eq!(warned.len(), usize::from(swings), "{warned:?}");
    }

    #[test]
    fn a_clock_that_was_set_back_silences_no_warning() {
        let mut watch = ThrashingWatch::default();
        let little = end(Trigger::Threshold, 0);
        let warned = [365 * 24 * 60, 0, 59, 60].map(|now| watch.run(&little, 8_000, at(now)).is_some());
        assert_eq!(warned, [true, true, false, true]);
    }

    #[rstest]
    #[case(Trigger::Threshold, 4, 2_000, Some(Thrashing::Runs))]
    #[case(Trigger::Threshold, 5, 2_000, None)]
    #[case(Trigger::Messages, 4, 100, Some(Thrashing::Runs))]
    #[case(Trigger::Merge, 1, 100, None)]
    #[case(Trigger::Manual, 1, 100, None)]
    #[case(Trigger::Threshold, 20, 399, Some(Thrashing::LittleFreed))]
    #[case(Trigger::Threshold, 20, 400, None)]
    fn three_runs_in_ten_turns_or_one_that_frees_little_are_thrashing(
        #[case] trigger: Trigger,
        #[case] turns_between: usize,
        #[case] freed: u64,
        #[case] expected: Option<Thrashing>,
    ) {
        let mut watch = ThrashingWatch::default();
        let mut warned = None;
        for _ in 0..3 {
            for _ in 0..turns_between {
                assert_eq!(watch.turn(Tier::Calm, at(0)), None);
            }
            warned = warned.or(watch.run(&end(trigger, freed), 8_000, at(0)));
        }
        assert_eq!(warned, expected);
    }

    #[test]
    fn a_channel_is_warned_about_once_an_hour() {
        let mut watch = ThrashingWatch::default();
        let little = end(Trigger::Threshold, 0);
        assert_eq!(watch.run(&little, 8_000, at(0)), Some(Thrashing::LittleFreed));
        assert_eq!(watch.run(&little, 8_000, at(59)), None);
        assert!(watch.run(&little, 8_000, at(60)).is_some());
    }

    #[test]
    fn a_remedy_names_the_numbers_that_hold() {
        assert!(Thrashing::Swings.remedy().contains(&format!("{CHANGES} times within {TURNS} turns")));
        assert!(Thrashing::Runs.remedy().contains(&format!("{RUNS} within {TURNS} turns")));
        assert!(Thrashing::LittleFreed.remedy().contains(&format!("{} %", FREED_SHARE * 100.0)));
    }
}
