//! Runs over more than a model takes: how large a chunk is, and where it may end.

use std::sync::Arc;

use crate::agent::AgentSettings;
use cairn_types::message::{Entry, Role};

/// Tokens that a request of a run keeps for the answer; less where the model's own reserve is less.
const ANSWER_TOKENS: u64 = 4_096;

/// Safety factor for estimates of a request.
const SAFETY: f64 = 1.2;

/// Share of the window that a chunk takes, as long as messages are short.
const CHUNK_SHARE: f64 = 0.40;

/// Least share, where messages are long: what a cut at their ends leaves over is large then.
const CHUNK_SHARE_MIN: f64 = 0.15;

/// Mean message, as a share of the window, from which on chunks shrink.
const LONG_MESSAGE: f64 = 0.10;

/// A message over this share of the window is left out of the transcript.
const LEFT_OUT: f64 = 0.5;

/// What a request of a run may hold, in tokens by our own estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRoom {
    /// The window of the model that summarises.
    window: f64,
    /// Of the window, what is kept for the answer.
    answer: f64,
    /// Everything but the transcript: prompt, tools, the summary so far.
    frame: f64,
    /// How much larger than estimated a request may turn out.
    factor: f64,
}

impl RequestRoom {
    /// The room on a model. `correction`: how far the provider counts above our estimate; below 1 it counts as 1.
    pub fn new(reader: &AgentSettings, frame_tokens: u64, correction: f64) -> Self {
        let window = reader.window;
        Self {
            window: window.window_tokens as f64,
            answer: window.output_reserve_tokens.min(ANSWER_TOKENS) as f64,
            frame: frame_tokens as f64,
            factor: SAFETY * correction.max(1.0),
        }
    }

    /// Most tokens of a transcript that goes in one request.
    pub fn whole(&self) -> u64 {
        ((self.window - self.answer) / self.factor - self.frame).max(0.0) as u64
    }

    /// Tokens of a chunk of a transcript that does not, by the mean size of its messages.
    pub fn chunk(&self, mean_tokens: f64) -> u64 {
        let long = mean_tokens * self.factor / self.window - LONG_MESSAGE;
        let share = (CHUNK_SHARE - long.max(0.0)).max(CHUNK_SHARE_MIN);
        ((share * self.window / self.factor) as u64).min(self.whole())
    }

    /// A message of so many tokens is left out of the transcript.
    pub fn leaves_out(&self, tokens: u64) -> bool {
        tokens as f64 * self.factor > LEFT_OUT * self.window
    }

    /// Most tokens of the answer to a request of so many.
    pub fn answer(&self, request_tokens: u64) -> u64 {
        (self.window - request_tokens as f64 * self.factor).max(self.answer.min(self.window / 4.0)) as u64
    }
}

/// How many of the entries the next request takes: all that fit together, or else a chunk. It ends with a turn where
/// one ends in its second half, and never between a call and its results. `sizes`: tokens of the entries as the
/// transcript has them.
pub fn next_chunk(entries: &[Arc<Entry>], sizes: &[u64], room: &RequestRoom) -> usize {
    let total: u64 = sizes.iter().sum();
    if total <= room.whole() || entries.is_empty() {
        return entries.len();
    }
    let budget = room.chunk(total as f64 / entries.len() as f64);
    let (mut taken, mut end, mut turn_end) = (0, 0, 0);
    for (idx, size) in sizes.iter().enumerate() {
        taken += size;
        if taken > budget && end > 0 {
            break;
        }
        let next = entries.get(idx + 1);
        if next.is_none_or(|next| next.role != Role::Tool) {
            end = idx + 1;
            if next.is_none_or(|next| next.turn != entries[idx].turn) {
                turn_end = end;
            }
        }
    }
    if turn_end * 2 >= end { turn_end } else { end }
}

#[cfg(test)]
mod tests;
