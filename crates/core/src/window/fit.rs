//! Making a request fit that does not: the last resort, after the emergency. It changes what is sent, never what
//! is kept.

use std::borrow::Cow;
use std::sync::Arc;

use super::Tail;
use super::render::tail_tokens;
use crate::conversation::Conversation;
use crate::prune;
use cairn_types::ids::Seq;
use cairn_types::message::{Entry, Part, Role, entry_tokens, header, text_of};
use cairn_types::text::escape::{CUT_NOTE, cut_around};
use cairn_types::tokens::{Correction, estimate};

/// A request before it is put together.
pub(super) struct RequestDraft {
    /// Tokens of system prompt and tools.
    pub(super) frame: u64,
    /// The stack's items, rendered, with their tokens.
    pub(super) stack: Vec<(String, u32)>,
    /// Tokens of the stack's own frame.
    pub(super) stack_overhead: u64,
    /// Entries, oldest first.
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) tail: Tail,
    /// Entries that were shortened or left out.
    pub(super) shortened: Vec<Seq>,
}

/// Tokens that a shortened tool result keeps at the least.
const RESULT_FLOOR: u64 = 120;

/// Tokens that a message cut in the middle keeps at the least.
const MESSAGE_FLOOR: u64 = 64;

impl RequestDraft {
    /// Estimated tokens of the whole request, before correction.
    pub(super) fn tokens(&self) -> u64 {
        let stack: u64 = self.stack.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let overhead = if self.stack.is_empty() { 0 } else { self.stack_overhead };
        let entries: u64 = self.entries.iter().map(|entry| u64::from(entry.tokens)).sum();
        self.frame + stack + overhead + entries + u64::from(tail_tokens(&self.tail))
    }
}

/// Makes the draft fit into `usable` tokens after correction: memories out, tool results shortened, the turn
/// reduced to its latest user message, the oldest of the stack left out, the message cut in the middle.
pub(super) fn fit(
    draft: &mut RequestDraft,
    conversation: &Conversation,
    correction: &Correction,
    usable: u64,
) {
    let excess = |draft: &RequestDraft| correction.apply(draft.tokens()).saturating_sub(usable);
    if excess(draft) == 0 {
        return;
    }
    draft.tail.recalled.clear();
    shorten_results(draft, &excess);
    if excess(draft) == 0 {
        return;
    }
    reduce_to_latest(draft, conversation);
    while excess(draft) > 0 && !draft.stack.is_empty() && stack_is_over_a_quarter(draft, correction, usable) {
        draft.stack.remove(0);
    }
    let Some(last) = draft.entries.last().cloned() else { return };
    // Estimates of pieces do not add up exactly: cut, measure, cut again.
    let mut keep = u64::from(last.tokens);
    for _ in 0..16 {
        let over = excess(draft);
        if over == 0 {
            return;
        }
        let over = (over as f64 / correction.ratio).ceil() as u64 + 8;
        keep = keep.saturating_sub(over).max(MESSAGE_FLOOR);
        let idx = draft.entries.len() - 1;
        draft.entries[idx] = Arc::new(cut(&last, keep));
        if !draft.shortened.contains(&last.seq) {
            draft.shortened.push(last.seq);
        }
        if keep == MESSAGE_FLOOR {
            draft.stack.clear();
        }
    }
}

fn stack_is_over_a_quarter(draft: &RequestDraft, correction: &Correction, usable: u64) -> bool {
    let stack: u64 = draft.stack.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
    correction.apply(stack) > usable / 4
}

fn shorten_results(draft: &mut RequestDraft, excess: &impl Fn(&RequestDraft) -> u64) {
    let mut results: Vec<usize> =
        (0..draft.entries.len()).filter(|idx| draft.entries[*idx].role == Role::Tool).collect();
    results.sort_by_key(|idx| std::cmp::Reverse(draft.entries[*idx].tokens));
    for idx in results {
        let over = excess(draft);
        let entry = &draft.entries[idx];
        if over == 0 || u64::from(entry.tokens) <= RESULT_FLOOR {
            return;
        }
        let keep = u64::from(entry.tokens).saturating_sub(over + 16).max(RESULT_FLOOR);
        draft.shortened.push(entry.seq);
        draft.entries[idx] = Arc::new(cut(entry, keep));
    }
}

/// Leaves the latest user entry of the open turn alone.
fn reduce_to_latest(draft: &mut RequestDraft, conversation: &Conversation) {
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let is_latest = |entry: &&Arc<Entry>| entry.role == Role::User && open.is_none_or(|id| entry.turn == *id);
    if let Some(latest) = draft.entries.iter().rev().find(is_latest).cloned() {
        let rest = draft.entries.iter().map(|entry| entry.seq).filter(|seq| *seq != latest.seq);
        let left_out: Vec<Seq> = rest.filter(|seq| !draft.shortened.contains(seq)).collect();
        draft.shortened.extend(left_out);
        draft.entries = vec![latest];
    }
}

/// A copy of the entry whose text keeps about `keep` tokens, half from its head and half from its tail. Pictures stay
/// while they leave room for words; otherwise they are left out, and said to be.
fn cut(entry: &Entry, keep: u64) -> Entry {
    let (pictures, words): (Vec<Part>, Vec<Part>) =
        entry.parts.iter().cloned().partition(|part| matches!(part, Part::Image { .. }));
    let mut alone = entry.clone();
    alone.parts.clone_from(&pictures);
    let of_pictures = u64::from(entry_tokens(&alone));
    let stays = entry.role == Role::User && !pictures.is_empty() && of_pictures + MESSAGE_FLOOR <= keep;
    let (pictures, words) = if stays { (pictures, words) } else { (Vec::new(), entry.parts.clone()) };
    let keep = if stays { keep - of_pictures } else { keep };
    let text = text_of(&words);
    let total = u64::from(estimate(&text)).max(1);
    let head_cost = match entry.role {
        Role::User => u64::from(estimate(&header(entry.author.as_ref(), entry.at))),
        Role::Assistant | Role::Tool => 0,
    };
    // A result keeps the reference to the whole of it.
    let note = match entry.role {
        Role::Tool => Cow::Owned(prune::cut_notice(entry)),
        Role::User | Role::Assistant => Cow::Borrowed(CUT_NOTE),
    };
    let keep = keep.saturating_sub(head_cost + 16).max(16);
    let mut shorter = entry.clone();
    let mut share = (keep as f64 / total as f64).min(1.0);
    for _ in 0..12 {
        shorter.parts = vec![Part::text(cut_around(&text, share, &note))];
        shorter.parts.extend(pictures.iter().cloned());
        shorter.tokens = entry_tokens(&shorter);
        if u64::from(shorter.tokens) <= keep + head_cost + 16 + if stays { of_pictures } else { 0 } {
            break;
        }
        share *= 0.8;
    }
    shorter
}
