//! What became of a replay.

use crate::model::Usage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The turn, from 0.
    pub turn: usize,
    /// Tokens of the whole request.
    pub tokens: u64,
}

/// Something that happened to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The turn, from 0.
    pub turn: usize,
    /// Window tokens after it.
    pub tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    pub turns: usize,
    pub points: Vec<Point>,
    pub compactions: Vec<Mark>,
    pub merges: Vec<Mark>,
    pub emergencies: Vec<Mark>,
    pub prunings: Vec<Mark>,
    /// Tokens of all replies' requests and answers.
    pub replies: Usage,
    /// Tokens of all runs.
    pub runs: Usage,
    /// Tokens of all of it that a plain price would have bought.
    pub billed: f64,
    pub billed_runs: f64,
    /// Mean over the turns of what the window retains, 0 to 1.
    pub retention: f64,
    /// Highest level that a summary reached: times that a text was rewritten, less one.
    pub highest_level: Option<u32>,
}

impl Outcome {
    /// Mean tokens of a request.
    pub fn mean_tokens(&self) -> f64 {
        self.points.iter().map(|point| point.tokens as f64).sum::<f64>() / self.points.len().max(1) as f64
    }

    /// Tokens of the largest request.
    pub fn max_tokens(&self) -> u64 {
        self.points.iter().map(|point| point.tokens).max().unwrap_or(0)
    }

    /// Share of the replies' requests that came from the cache, 0 to 1.
    pub fn cached_share(&self) -> f64 {
        self.replies.cached_tokens as f64 / self.replies.input_tokens.max(1) as f64
    }

    /// Billed-equivalent tokens of a turn, runs included.
    pub fn billed_per_turn(&self) -> f64 {
        self.billed / self.turns.max(1) as f64
    }
}
