//! Making a request fit that does not: of a model with a smaller window than the history keeps to, or of a turn that alone
//! is too large. It changes what is sent, never what is kept.

use std::borrow::Cow;
use std::sync::Arc;

use super::Tail;
use super::render::tail_tokens;
use crate::compaction::sections::digest_by_sections;
use crate::conversation::Conversation;
use crate::digest::{self, MARKER_TOKENS, quoted, read_tokens};
use crate::prune;
use cairn_types::ids::Seq;
use cairn_types::message::{Entry, Part, Role, entry_tokens, header, text_of};
use cairn_types::summary::{
    DigestLine, LookupTools, Marker, MarkerKind, StackItem, digest_text, marker_text,
};
use cairn_types::text::escape::{CUT_NOTE, cut_around};
use cairn_types::tokens::{Correction, estimate};

/// A request before it is put together.
pub(super) struct RequestDraft {
    /// Tokens of system prompt and tools.
    pub(super) frame: u64,
    /// The stack's items, rendered, with their tokens.
    pub(super) stack: Vec<(String, u32)>,
    /// Tokens of the line that leads the stack, where there is one.
    pub(super) stack_overhead: u64,
    /// Entries, oldest first.
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) tail: Tail,
    /// What the tail says of reactions to the bot's messages.
    pub(super) reactions: String,
    /// Entries that were shortened or left out.
    pub(super) shortened: Vec<Seq>,
}

/// Tokens that a shortened tool result keeps at the least.
const RESULT_FLOOR: u64 = 120;

/// Tokens that a message cut in the middle keeps at the least.
const MESSAGE_FLOOR: u64 = 64;

/// One part of the usable window in so many is the most that the stack takes in a request that does not fit.
const STACK_PART: u64 = 4;

/// Turns are left out by so many parts of the usable window at once: the requests that follow begin alike.
const STEP_PART: u64 = 10;

impl RequestDraft {
    /// Estimated tokens of the whole request, before correction.
    pub(super) fn tokens(&self) -> u64 {
        let stack: u64 = self.stack.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let overhead = if self.stack.is_empty() { 0 } else { self.stack_overhead };
        let entries: u64 = self.entries.iter().map(|entry| u64::from(entry.tokens)).sum();
        let tail = u64::from(tail_tokens(&self.tail)) + u64::from(estimate(&self.reactions));
        self.frame + stack + overhead + entries + tail
    }
}

/// Makes the draft fit into `usable` tokens after correction. First a digest takes the place of the oldest of the stack and of
/// the oldest closed turns. When that is not enough: memories out, tool results shortened, the turn reduced to its latest user
/// message, the stack left out, the message cut in the middle.
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
    shorten_stack(draft, conversation, correction.undo(usable / STACK_PART));
    leave_out_turns(draft, conversation, excess(draft), correction, usable);
    if excess(draft) == 0 {
        return;
    }
    draft.tail.recalled.clear();
    draft.tail.quotes.clear();
    draft.reactions.clear();
    shorten_results(draft, &excess);
    if excess(draft) == 0 {
        return;
    }
    reduce_to_latest(draft, conversation);
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

/// Puts a digest in the place of the oldest of the stack, so that it takes `most` tokens. The newest half of that stays as it is.
fn shorten_stack(draft: &mut RequestDraft, conversation: &Conversation, most: u64) {
    let tokens: u64 = draft.stack.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
    if tokens <= most {
        return;
    }
    let mut kept = 0;
    let is_kept = |tokens: &u64| {
        kept += tokens;
        kept <= most / 2
    };
    let newest = draft.stack.iter().rev().map(|(_, tokens)| u64::from(*tokens));
    let kept_tokens: Vec<u64> = newest.take_while(is_kept).collect();
    let n_out = draft.stack.len() - kept_tokens.len();
    let out = &conversation.stack.items()[..n_out];
    let (Some(first), Some(last)) = (out.first(), out.last()) else { return };
    let words = |item: &StackItem| match item {
        StackItem::Summary(summary) => summary.text.clone(),
        StackItem::Marker(marker) => digest_text(&marker.digest),
    };
    let texts: Vec<String> = out.iter().map(words).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let room = most.saturating_sub(kept_tokens.iter().sum::<u64>() + MARKER_TOKENS).max(digest::FLOOR);
    let to_seq = last.range().1;
    let line = DigestLine { seq: to_seq, text: digest_by_sections(&texts, room as u32) };
    let messages = out.iter().map(StackItem::messages).sum();
    let marker = Marker::new(MarkerKind::Truncated, first.range().0, to_seq, vec![line]).counting(messages);
    draft.stack.splice(..n_out, [(marker_text(&marker, LookupTools::ALL), marker.tokens)]);
}

/// Leaves out the oldest closed turns, as many as are `over` the usable tokens, and puts their digest behind the stack.
fn leave_out_turns(
    draft: &mut RequestDraft,
    conversation: &Conversation,
    over: u64,
    correction: &Correction,
    usable: u64,
) {
    let digest_most = digest::most_tokens(usable, correction).max(digest::FLOOR);
    let step = (usable / STEP_PART).max(1);
    let head = if draft.stack.is_empty() { draft.stack_overhead } else { 0 };
    let goal = correction.undo(over.div_ceil(step) * step) + digest_most + MARKER_TOKENS + head;
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let (mut left, mut n_out) = (0, 0);
    for turn in draft.entries.chunk_by(|one, next| one.turn == next.turn) {
        if over == 0 || left >= goal || open == Some(&turn[0].turn) {
            break;
        }
        left += turn.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>();
        n_out += turn.len();
    }
    let out: Vec<Arc<Entry>> = draft.entries.drain(..n_out).collect();
    let (Some(first), Some(last)) = (out.first(), out.last()) else { return };
    let budget = digest::budget(read_tokens(&out), digest_most).max(digest::FLOOR) as u32;
    let marker = Marker::new(MarkerKind::Truncated, first.seq, last.seq, quoted(&out, budget))
        .counting(conversation.count(first.seq, last.seq));
    draft.stack.push((marker_text(&marker, LookupTools::ALL), marker.tokens));
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
