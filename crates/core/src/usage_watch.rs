//! What usage reports reveal about a model's server: whether it reads whole requests, and whether it counts them whole.
//!
//! Some servers silently drop the oldest part of a request that is larger than their window. Only the token count shows it:
//! it falls, or stays, although the request grew. Others count only the tokens that were not in their cache. Neither count
//! may change the estimate.

use serde::{Deserialize, Serialize};

use crate::window_size::{WindowSize, WindowSource};
use cairn_types::ids::TextId;
use cairn_types::model::Usage;
use cairn_types::tokens::Correction;

/// A request that grew by a smaller share than this may not have grown at all: estimates of pieces are off by 9.4 %
/// (`docs/design/figures.md`).
const ERROR_SHARE: f64 = 0.1;

/// The least error in tokens, since recalled memories change.
const ERROR_MIN: u64 = 512;

/// A report this close to the added tokens counts only those: the rest was in the server's cache.
const ADDED_SHARE: (f64, f64) = (0.85, 1.15);

/// Tokens that a cache may lack beside the added ones: the clock and recalled memories, and part of a block of 128 tokens
/// (<https://platform.openai.com/docs/guides/prompt-caching>).
const ADDED_SLACK: f64 = 384.0;

/// A server that cuts keeps at least this share of what it took before: Ollama keeps half a window
/// (<https://github.com/ollama/ollama/issues/17427>).
const KEPT_SHARE: f64 = 0.45;

/// A report has grown with the request if it grew by at least this share of the added tokens; our estimate may be too high
/// for some text.
const GROWN_SHARE: f64 = 0.75;

/// A larger report that grew by less than this share of the added tokens is of a server that fills its window now a little
/// more and now a little less: the request is not the largest that it read.
const CREPT_SHARE: f64 = 0.25;

/// From this share on, the window counts as full.
const FULL_SHARE: f64 = 0.9;

/// The usage reports of one model in one conversation, folded from the journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageWatch {
    /// Requests since the window changed in another way than by growing.
    run: Option<GrowingRequests>,
    /// Our estimate of the newest request, before correction.
    newest: u64,
    /// The model's window in the configuration at the newest request; 0: not set.
    set_window: u64,
    /// Whether the newest report was not believed.
    is_doubted: bool,
}

/// Requests that each contain all of those before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct GrowingRequests {
    /// Their common [`cairn_types::trace::CallFrame`].
    frame: TextId,
    /// The request with the largest report.
    largest: Counted,
    /// The last request whose report grew along; `None`: no report was believed.
    whole: Option<Counted>,
    /// The correction at that report.
    correction: Correction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    /// Our estimate of the request, before correction.
    estimated: u64,
    reported: u64,
}

/// The request of a complete answer, with the server's report.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The [`cairn_types::trace::CallFrame`] of the request.
    pub frame: Option<&'a TextId>,
    /// Our estimate of the request, before correction.
    pub estimated: u64,
    /// Our estimate of the call, corrected.
    pub ours: Usage,
    /// Most tokens of the answer.
    pub answer_max: u64,
    pub usage: Usage,
}

/// How far a report is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Believed.
    Whole(Usage),
    /// Not believed, since it leaves something out or cannot be true: our own estimate counts.
    Untrue,
    /// The server has read only part of the request.
    Cut,
}

impl UsageWatch {
    pub fn read(&self, report: &Report<'_>) -> Reading {
        let usage = report.usage.with_cached(report.ours);
        match self.growth(report, usage.input_tokens) {
            Growth::Cut => Reading::Cut,
            Growth::Partial => Reading::Untrue,
            Growth::Whole => usage
                .believed(report.ours, report.estimated, report.answer_max)
                .map_or(Reading::Untrue, Reading::Whole),
        }
    }

    fn growth(&self, report: &Report<'_>, reported: u64) -> Growth {
        let Some(run) = self.run_of(report.frame, report.estimated) else { return Growth::Whole };
        let grown = report.estimated.saturating_sub(run.largest.estimated);
        if grown <= error_of(run.largest.estimated) || reported > run.largest.reported {
            return Growth::Whole;
        }
        let added = run.correction.apply(report.estimated.saturating_sub(self.newest)) as f64;
        let (low, high) = (added * ADDED_SHARE.0, added * ADDED_SHARE.1 + ADDED_SLACK);
        let tokens = reported as f64;
        let kept = reported >= ERROR_MIN && tokens >= run.largest.reported as f64 * KEPT_SHARE;
        if kept && !(low..=high).contains(&tokens) { Growth::Cut } else { Growth::Partial }
    }

    /// The requests that this one contains.
    fn run_of(&self, frame: Option<&TextId>, estimated: u64) -> Option<&GrowingRequests> {
        let is_held = |run: &&GrowingRequests| {
            Some(&run.frame) == frame && estimated + error_of(run.largest.estimated) >= run.largest.estimated
        };
        self.run.as_ref().filter(is_held)
    }

    /// Folds in a complete answer. `set_window`: the window in the configuration, 0: not set; `reported`: the server's
    /// report; `correction`: with this report, if it is believed.
    pub(crate) fn take(
        &mut self,
        (frame, set_window): (Option<&TextId>, u64),
        (estimated, reported): (u64, u64),
        is_believed: bool,
        correction: Correction,
    ) {
        let before = self.run_of(frame, estimated).cloned();
        (self.newest, self.set_window, self.is_doubted) = (estimated, set_window, !is_believed);
        let counted = Counted { estimated, reported };
        let begun = frame.cloned().map(|frame| GrowingRequests {
            frame,
            largest: counted,
            whole: is_believed.then_some(counted),
            correction,
        });
        self.run = match before {
            Some(before) if is_believed && before.has_grown(counted) => begun,
            Some(before) if reported > before.largest.reported => {
                Some(GrowingRequests { largest: before.largest_with(counted), ..before })
            }
            Some(before) => Some(before),
            None => begun,
        };
    }

    /// Starts over, since the window changed in another way than by growing: the next report cannot be compared with
    /// earlier ones.
    pub(crate) fn restart(&mut self) {
        self.run = None;
    }

    /// The largest request that the server read whole, by its own count, since the last restart.
    pub fn believed(&self) -> Option<u64> {
        Some(self.run.as_ref()?.whole?.reported)
    }

    /// The correction at that request.
    pub(crate) fn correction(&self) -> Option<Correction> {
        let run = self.run.as_ref()?;
        run.whole.map(|_| run.correction)
    }

    pub fn set_window(&self) -> u64 {
        self.set_window
    }

    pub fn is_doubted(&self) -> bool {
        self.is_doubted
    }
}

impl GrowingRequests {
    /// The largest report, this one, with the estimate of the request for which it was about reached.
    fn largest_with(&self, counted: Counted) -> Counted {
        let added = self.correction.apply(counted.estimated.saturating_sub(self.largest.estimated));
        let grown = counted.reported.saturating_sub(self.largest.reported);
        let has_crept = (grown as f64) < added as f64 * CREPT_SHARE;
        Counted { estimated: if has_crept { self.largest.estimated } else { counted.estimated }, ..counted }
    }

    /// Whether the report of a request that contains these grew along.
    fn has_grown(&self, counted: Counted) -> bool {
        let Some(whole) = self.whole else { return false };
        let grown = self.correction.apply(counted.estimated.saturating_sub(whole.estimated));
        counted.reported >= self.largest.reported
            && counted.reported as f64 >= whole.reported as f64 + grown as f64 * GROWN_SHARE
    }
}

enum Growth {
    Whole,
    Partial,
    Cut,
}

fn error_of(estimated: u64) -> u64 {
    ((estimated as f64 * ERROR_SHARE) as u64).max(ERROR_MIN)
}

/// The window of a server that reports `length` without one token of an answer or of reasoning: it cut the request to its
/// window, which the request then filled. `None`: this was not the cause. `taken`: the largest request that the server has
/// answered; `window`: the window as assumed.
pub fn filled_window(usage: Usage, estimated: u64, taken: u64, window: WindowSize) -> Option<u64> {
    let tokens = usage.input_tokens;
    let is_possible = usage.output_tokens == 0 && tokens >= taken && tokens.saturating_mul(2) >= estimated;
    let is_full = match window.source {
        WindowSource::Learnt | WindowSource::Cut => tokens as f64 >= window.window_tokens as f64 * FULL_SHARE,
        WindowSource::Agent
        | WindowSource::Model
        | WindowSource::Server
        | WindowSource::Assumed
        | WindowSource::Defaults => true,
    };
    (is_possible && is_full && tokens > 0).then_some(tokens)
}

#[cfg(test)]
mod tests;
