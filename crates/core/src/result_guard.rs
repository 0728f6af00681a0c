//! The result guard: decides what happens to a tool result when it arrives. A large one is stored as an artifact, and the
//! model sees its head and tail around a note, or the note alone.

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::settings::ResultGuardSettings;
use crate::window::measure;
use cairn_types::message::IMAGE_TOKENS;
use cairn_types::text::edges::{Edges, FullTextAt, NOTE_BYTES, edges, head, note, with_edges};
use cairn_types::tokens::{Correction, estimate};
use cairn_types::tool::result_class::ResultClass;

#[cfg(test)]
mod tests;

/// Bytes of head, note and tail of a result of the class [`ResultClass::AlwaysOffload`]; smaller ones stay whole.
pub const SHORT_BYTES: usize = 2_000;

/// Most tokens of a note.
const NOTE_TOKENS: u64 = 120;

/// Tokens of a result's frame in the window.
const FRAME_TOKENS: u64 = 4;

/// Bytes of a piece: a result is measured piece by piece, until it is known to be too large.
const PIECE_BYTES: usize = 64 * 1024;

/// Fewest bytes of head and tail in a window with little room. Below that only the note is shown.
const HEAD_BYTES: usize = 400;

/// Room in the window for tool results: all results of one round, or one of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResultRoom {
    /// Tokens, corrected.
    pub tokens: u64,
    /// The correction for the model that will read the results.
    pub correction: Correction,
}

impl ResultRoom {
    /// The room for the results of the next round: the configured share of the window's free part, so that an answer and
    /// another round still fit.
    pub fn of(conversation: &Conversation, agent: &AgentSettings) -> Self {
        let taken = measure(conversation, agent).tokens;
        let free = agent.window.usable_tokens().saturating_sub(taken);
        Self {
            tokens: (free as f64 * agent.result_guard.free_share) as u64,
            correction: conversation.correction(&agent.model),
        }
    }

    /// Takes the room of a result with this text.
    pub fn take(&mut self, shown: &str) {
        self.tokens = self.tokens.saturating_sub(self.weight(shown));
    }

    /// The equal part of each of several results.
    #[must_use]
    pub fn shared_by(&self, n_results: usize) -> Self {
        Self { tokens: self.tokens / (n_results.max(1) as u64), correction: self.correction }
    }

    /// The room for each of several results that ended at the same time, while `n_open` calls of the round are still
    /// running. Room that small results leave is divided equally among the large ones; a call that is still running counts
    /// as a large one. So nobody waits for the slowest call, and room that early results leave is there for later ones.
    /// `wanted`: the tokens that each result would take at best.
    #[must_use]
    pub fn share(&self, wanted: &[u64], n_open: usize) -> Self {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        let (mut tokens, mut n_left) = (self.tokens, wanted.len() + n_open);
        for one in wanted {
            if one > tokens / (n_left as u64) {
                break;
            }
            tokens -= one;
            n_left -= 1;
        }
        if n_left == 0 { *self } else { Self { tokens, ..*self }.shared_by(n_left) }
    }

    /// Takes the room of a picture. False: there is none, and nothing was taken.
    pub fn take_picture(&mut self) -> bool {
        let taken = self.correction.apply(u64::from(IMAGE_TOKENS));
        let fits = taken <= self.tokens;
        if fits {
            self.tokens -= taken;
        }
        fits
    }

    /// Whether a result with this text fits.
    fn holds(&self, text: &str) -> bool {
        self.weight(text) <= self.tokens
    }

    /// Tokens of a result with this text, corrected; for one that is too large, some number above the room.
    fn weight(&self, text: &str) -> u64 {
        let (mut rest, mut tokens) = (text, FRAME_TOKENS);
        while !rest.is_empty() && self.correction.apply(tokens) <= self.tokens {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            tokens += u64::from(estimate(piece));
            rest = after;
        }
        self.correction.apply(tokens)
    }

    /// Tokens of head, note and tail, corrected.
    fn weight_of_edges(&self, text: &str, edges: &Edges) -> u64 {
        let words = estimate(&text[..edges.head]) + estimate(&text[edges.tail..]);
        self.correction.apply(u64::from(words) + NOTE_TOKENS + FRAME_TOKENS)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultVerdict {
    Whole,
    /// Shown as it is, and also stored as an artifact, so that it can become a reference later.
    Kept,
    /// Stored as an artifact; head and tail are shown.
    Edges(Edges),
    /// Stored as an artifact; only the note is shown.
    Note,
}

impl ResultVerdict {
    /// Whether the result is stored as an artifact.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::Whole)
    }
}

/// Tokens that a result would take if it had the whole round's room, for [`ResultRoom::share`].
pub fn wanted(text: &str, class: ResultClass, settings: &ResultGuardSettings, room: &ResultRoom) -> u64 {
    match judge(text, class, settings, room) {
        ResultVerdict::Whole | ResultVerdict::Kept => room.weight(text),
        ResultVerdict::Edges(edges) => room.weight_of_edges(text, &edges),
        ResultVerdict::Note => room.correction.apply(NOTE_TOKENS),
    }
}

/// Decides about a result. What is shown never exceeds `max_bytes` or `room`. If the room is small, head and tail are as
/// long as it allows; if they would be too short to be of use, only the note is shown.
pub fn judge(
    text: &str,
    class: ResultClass,
    settings: &ResultGuardSettings,
    room: &ResultRoom,
) -> ResultVerdict {
    if !settings.enabled || text.len() <= NOTE_BYTES {
        return ResultVerdict::Whole;
    }
    let max_bytes = match class {
        ResultClass::AlwaysOffload => settings.max_bytes.min(SHORT_BYTES),
        ResultClass::Auto | ResultClass::KeepRecent => settings.max_bytes,
    };
    if text.len() <= max_bytes && room.holds(text) {
        return ResultVerdict::Whole;
    }
    if class == ResultClass::KeepRecent && room.holds(text) {
        return ResultVerdict::Kept;
    }
    longest_edges(text, max_bytes, room).map_or(ResultVerdict::Note, ResultVerdict::Edges)
}

/// The longest head and tail within `max_bytes` that the room holds; `None`: not even the shortest useful ones fit.
fn longest_edges(text: &str, max_bytes: usize, room: &ResultRoom) -> Option<Edges> {
    let least = (NOTE_BYTES + 2 * HEAD_BYTES).min(max_bytes);
    let mut bytes = max_bytes.min(text.len());
    while bytes >= least {
        let edges = edges(text, bytes);
        let weight = room.weight_of_edges(text, &edges);
        if edges.head > 0 && weight <= room.tokens {
            return Some(edges);
        }
        let in_proportion = (bytes as u64).saturating_mul(room.tokens) / weight.max(1);
        bytes = (in_proportion as usize).min(bytes * 15 / 16);
    }
    None
}

/// The text that is shown of a result.
pub fn shown(text: &str, verdict: ResultVerdict, whereabouts: FullTextAt<'_>) -> String {
    match verdict {
        ResultVerdict::Whole | ResultVerdict::Kept => text.to_owned(),
        ResultVerdict::Edges(edges) => with_edges(text, edges, whereabouts),
        ResultVerdict::Note => note(text, None, whereabouts),
    }
}

/// The longest beginning of a text that the room holds, cut after a line unless lines are very long. Never empty: a few
/// hundred bytes are shown even if nothing is free.
pub fn beginning<'a>(text: &'a str, room: &ResultRoom) -> &'a str {
    let mut text = text;
    while text.len() > NOTE_BYTES && !room.holds(text) {
        text = &text[..head(text, (text.len() * 3 / 4).max(NOTE_BYTES))];
    }
    text
}
