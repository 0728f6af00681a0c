//! A conversation reduced to its sizes.

use jiff::{SignedDuration, Timestamp};

/// What happens within a turn, in order. All sizes are estimated tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
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
    pub steps: Vec<Step>,
}

/// A conversation reduced to its sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    turns: Vec<ScriptTurn>,
}

impl Script {
    /// A conversation of those turns. Times are made to rise: a turn that claims to be earlier than the one before it
    /// begins a second after it.
    pub fn new(mut turns: Vec<ScriptTurn>) -> Self {
        turns.retain(|turn| turn.steps.iter().any(|step| matches!(step, Step::Message { .. })));
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
        let step = |step: &Step| match step {
            Step::Message { tokens } | Step::Answer { tokens } => u64::from(*tokens),
            Step::Call { tokens, results } => {
                u64::from(*tokens) + results.iter().copied().map(u64::from).sum::<u64>()
            }
        };
        self.turns.iter().flat_map(|turn| &turn.steps).map(step).sum()
    }
}
