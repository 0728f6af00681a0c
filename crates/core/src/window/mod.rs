//! The window: the only assembler of requests, and the measure of the window.

mod assemble;
mod fit;
mod measure;
mod place;
mod quotes;
mod render;
#[cfg(test)]
mod tests;

use serde::Serialize;

use cairn_types::memory::Memory;
use cairn_types::model::ChatRequest;
use cairn_types::tier::Tier;

pub use assemble::{AssembleError, asking, assemble, question};
pub use measure::{Frame, Sizes, has_room, least_tokens, measure};
pub(crate) use measure::{frame_tokens, leaves_room, stack_tokens, system_tokens};
pub use place::Place;
pub use quotes::{Found, QUOTES_MAX, Quoted, choose, left_window};
pub(crate) use render::guide_tokens;
pub use render::{guide_text, memory_dates, memory_words, tail_tokens};

pub use cairn_types::message::{entry_tokens, pending_tokens};
pub use cairn_types::summary::{LookupTools, marker_text, marker_tokens, summary_text, summary_tokens};
pub use cairn_types::text::escape::{
    escape_hidden, escape_name, escape_text, is_hidden, short_date, short_time,
};

/// Tokens and entries of one region of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Region {
    /// Tokens, corrected.
    pub tokens: u64,
    /// Number of entries, summaries, memories or tools.
    pub entries: u64,
}

/// All regions; `pending` is outside usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Regions {
    /// The system prompt, and where the agent talks.
    pub system: Region,
    pub tools: Region,
    /// The summary stack, markers included.
    pub summaries: Region,
    /// Entries sealed for the run under way.
    pub sealed: Region,
    pub live: Region,
    /// Recalled memories and the clock, at the tail.
    pub recalled: Region,
    /// Accepted messages not yet in a turn.
    pub pending: Region,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauge {
    pub regions: Regions,
    /// Sum of all regions but `pending`, before correction.
    pub estimated_tokens: u64,
    /// Sum of all regions but `pending`, after correction.
    pub tokens: u64,
    /// `tokens` / (window − output reserve).
    pub usage_ratio: f64,
    pub tier: Tier,
}

/// The volatile part of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The current time, for the model's sense of date.
    pub now: jiff::Timestamp,
    pub zone: jiff::tz::TimeZone,
    /// Memories that fit the question, best first.
    pub recalled: Vec<Memory>,
    /// Entries that left the window and fit the question, best first.
    pub quotes: Vec<Quoted>,
    /// No tool is called after this request, so the model is told to answer.
    pub last_call: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Assembled {
    pub request: ChatRequest,
    /// Its estimated tokens, before correction.
    pub estimated_tokens: u64,
    pub tokens: u64,
    /// Entries that were shortened to fit (tool results, then the open turn's message) or, if that was not enough, left
    /// out; only in this request.
    pub shortened: Vec<cairn_types::ids::Seq>,
}
