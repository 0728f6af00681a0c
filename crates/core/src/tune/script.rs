//! A conversation reduced to its sizes, and how its runs went.

use cairn_types::ids::{Generation, TurnId};
use cairn_types::message::Role;
use jiff::{SignedDuration, Timestamp};

use crate::agent::AgentSettings;
use crate::compaction::HEAD_TOKENS;
use crate::summary::StackSizes;
use cairn_types::event::{RunOutcome, RunReport, SummarySize};
use cairn_types::tokens::Correction;

/// What happens within a turn, in order. All sizes are estimated tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TuneStep {
    Message {
        tokens: u32,
    },
    /// The model called tools, and their results came.
    Call {
        tokens: u32,
        results: Vec<u32>,
    },
    Answer {
        tokens: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptTurn {
    pub at: Timestamp,
    /// The generation it belongs to; a new one begins with an empty window.
    pub generation: u32,
    pub steps: Vec<TuneStep>,
}

/// A conversation reduced to its sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationSizes {
    turns: Vec<ScriptTurn>,
}

impl ConversationSizes {
    /// A conversation of those turns. Times are made to rise: a turn that claims to be earlier than the one before it
    /// begins a second after it.
    pub fn new(mut turns: Vec<ScriptTurn>) -> Self {
        turns.retain(|turn| turn.steps.iter().any(|step| matches!(step, TuneStep::Message { .. })));
        let mut earliest = Timestamp::MIN;
        for turn in &mut turns {
            turn.at = turn.at.max(earliest);
            earliest = turn.at.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
        }
        Self { turns }
    }

    pub fn turns(&self) -> &[ScriptTurn] {
        &self.turns
    }

    /// Tokens of all that is said.
    pub fn tokens(&self) -> u64 {
        let step = |step: &TuneStep| match step {
            TuneStep::Message { tokens } | TuneStep::Answer { tokens } => u64::from(*tokens),
            TuneStep::Call { tokens, results } => {
                u64::from(*tokens) + results.iter().copied().map(u64::from).sum::<u64>()
            }
        };
        self.turns.iter().flat_map(|turn| &turn.steps).map(step).sum()
    }
}

/// Milliseconds that a run takes where none has been measured.
pub const ASSUMED_RUN_MS: u64 = 20_000;

/// How long runs take, and how large their summaries are.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Runs {
    /// Runs whose durations are known; 0: [`ASSUMED_RUN_MS`] is taken.
    pub measured: usize,
    /// The median of their durations.
    pub run_ms: u64,
    /// Summaries whose sizes are known; 0: they are taken to be as large as they are asked to be.
    pub summaries: usize,
    /// Size of a summary beside the size that it is asked to have, the median.
    pub summary_share: f64,
    pub merges: usize,
    /// Size of a merge beside the size that it is asked to have, the median.
    pub merge_share: f64,
}

impl Runs {
    /// Where nothing has been measured.
    pub const ASSUMED: Self = Self {
        measured: 0,
        run_ms: ASSUMED_RUN_MS,
        summaries: 0,
        summary_share: 1.0,
        merges: 0,
        merge_share: 1.0,
    };

    /// As the ends of a conversation's runs say; what none of them tells is assumed. `agent`: the settings in force.
    pub fn of(outcomes: &[RunReport], agent: &AgentSettings) -> Self {
        // A replay has nothing to correct.
        let asked = StackSizes::of(agent, &Correction::default(), u64::MAX);
        let committed = || outcomes.iter().filter(|end| end.outcome == RunOutcome::Committed);
        let shares = |merge: bool| -> Vec<f64> {
            let sizes = committed().filter_map(|end| end.summary_size).filter(|size| size.merge == merge);
            let share = |size: SummarySize| {
                // A replay puts the head of its own before the text.
                let text = u64::from(size.tokens).saturating_sub(HEAD_TOKENS).max(1);
                let most = if merge {
                    asked.merge(size.source_tokens, 1)
                } else {
                    asked.summary(size.source_tokens)
                };
                text as f64 / most as f64
            };
            sizes.map(share).collect()
        };
        let durations: Vec<f64> = committed().map(|end| end.duration_ms as f64).collect();
        let (summaries, merges) = (shares(false), shares(true));
        Self {
            measured: durations.len(),
            summaries: summaries.len(),
            merges: merges.len(),
            run_ms: median(durations).map_or(ASSUMED_RUN_MS, |ms| ms as u64),
            summary_share: median(summaries).unwrap_or(1.0),
            merge_share: median(merges).unwrap_or(1.0),
        }
    }

    /// The share of a summary, or of a merge.
    pub(super) fn share(&self, merge: bool) -> f64 {
        if merge { self.merge_share } else { self.summary_share }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

/// An entry, as far as a script has it.
#[derive(Debug, Clone, Copy)]
pub struct ScriptEntry<'a> {
    pub turn: &'a TurnId,
    pub at: Timestamp,
    pub generation: Generation,
    pub role: Role,
    pub tokens: u64,
    pub calls_tools: bool,
}
