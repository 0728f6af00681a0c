//! The result guard: what becomes of a tool's result when it arrives. Large ones are kept outside of the window as
//! artifacts, and the model sees their head and tail around a note by which it can read on, or the note alone.

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

/// Tokens that a note takes at the most.
const NOTE_TOKENS: u64 = 120;

/// Tokens of the frame of a result in the window.
const FRAME_TOKENS: u64 = 4;

/// A result is weighed in pieces of so many bytes, no further than it takes to know that it is too large.
const PIECE_BYTES: usize = 64 * 1024;

/// Bytes that head and tail of a result have at the least where the window has little room: below that a note says as much.
const HEAD_BYTES: usize = 400;

/// What results may take of the window: all those of one round together, or one of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResultRoom {
    /// Tokens, after correction.
    pub tokens: u64,
    /// The running correction of the model that will read the results.
    pub correction: Correction,
}

impl ResultRoom {
    /// What the results of the next round may take together: the configured share of what is free in the window, so that
    /// there is room for the answer and for another round.
    pub fn of(conversation: &Conversation, agent: &AgentSettings) -> Self {
        let taken = measure(conversation, agent).tokens;
        let free = agent.window.usable_tokens().saturating_sub(taken);
        Self {
            tokens: (free as f64 * agent.result_guard.free_share) as u64,
            correction: conversation.correction(&agent.model),
        }
    }

    /// Takes the room of a result of these words.
    pub fn take(&mut self, shown: &str) {
        self.tokens = self.tokens.saturating_sub(self.weight(shown));
    }

    /// The equal part of each of several results.
    #[must_use]
    pub fn shared_by(&self, n_results: usize) -> Self {
        Self { tokens: self.tokens / (n_results.max(1) as u64), correction: self.correction }
    }

    /// The most that each of some results may take which have ended at the same time, while the calls of `n_open` others
    /// of the round have not: what small ones leave goes to the large ones in equal parts, and each call that has not
    /// ended counts as a large one. So nobody waits for the slowest call, and what early results leave is there for later
    /// ones. `wanted`: what each of the results would take at its best.
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

    /// Takes the room of a picture. False: there is no room for one, and nothing was taken.
    pub fn take_picture(&mut self) -> bool {
        let taken = self.correction.apply(u64::from(IMAGE_TOKENS));
        let fits = taken <= self.tokens;
        if fits {
            self.tokens -= taken;
        }
        fits
    }

    /// A result of these words takes no more than that.
    fn holds(&self, text: &str) -> bool {
        self.weight(text) <= self.tokens
    }

    /// Tokens of a result of these words, after correction; of one that is too large some number above the room.
    fn weight(&self, text: &str) -> u64 {
        let (mut rest, mut tokens) = (text, FRAME_TOKENS);
        while !rest.is_empty() && self.correction.apply(tokens) <= self.tokens {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            tokens += u64::from(estimate(piece));
            rest = after;
        }
        self.correction.apply(tokens)
    }

    /// Tokens of head and tail with the note between them, after correction.
    fn weight_of_edges(&self, text: &str, edges: &Edges) -> u64 {
        let words = estimate(&text[..edges.head]) + estimate(&text[edges.tail..]);
        self.correction.apply(u64::from(words) + NOTE_TOKENS + FRAME_TOKENS)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultVerdict {
    Whole,
    /// It is shown as it is, and kept as an artifact, too: it can become a reference later.
    Kept,
    /// It is kept as an artifact; head and tail are shown.
    Edges(Edges),
    /// It is kept as an artifact; only the note is shown.
    Note,
}

impl ResultVerdict {
    /// The result is to be kept as an artifact.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::Whole)
    }
}

/// Tokens that a result would take if it had the room of the whole round to itself: for [`ResultRoom::share`].
pub fn wanted(text: &str, class: ResultClass, settings: &ResultGuardSettings, room: &ResultRoom) -> u64 {
    match judge(text, class, settings, room) {
        ResultVerdict::Whole | ResultVerdict::Kept => room.weight(text),
        ResultVerdict::Edges(edges) => room.weight_of_edges(text, &edges),
        ResultVerdict::Note => room.correction.apply(NOTE_TOKENS),
    }
}

/// Decides about a result. What is shown of it is never more than `max_bytes`, nor more than `room`: where the room does
/// not do for that, head and tail are as long as it allows, and where they would be too short to be of use, only the note
/// is left.
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

/// The longest head and tail within so many bytes that the room holds; `None`: not even the shortest that are of use.
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

/// The words that are shown of a result.
pub fn shown(text: &str, verdict: ResultVerdict, whereabouts: FullTextAt<'_>) -> String {
    match verdict {
        ResultVerdict::Whole | ResultVerdict::Kept => text.to_owned(),
        ResultVerdict::Edges(edges) => with_edges(text, edges, whereabouts),
        ResultVerdict::Note => note(text, None, whereabouts),
    }
}

/// The longest beginning of a text that the room holds, cut after a line where lines are not giant. Never nothing: a few
/// hundred bytes are left where nothing is free.
pub fn beginning<'a>(text: &'a str, room: &ResultRoom) -> &'a str {
    let mut text = text;
    while text.len() > NOTE_BYTES && !room.holds(text) {
        text = &text[..head(text, (text.len() * 3 / 4).max(NOTE_BYTES))];
    }
    text
}
