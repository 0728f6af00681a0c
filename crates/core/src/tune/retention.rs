//! How much of what was said a window still holds.
//!
//! Every token that was ever said counts, a newer one more than an older one: half as much for every
//! [`HALF_LIFE_TOKENS`] that were said since. Of what it counts a token gives its whole when it is in sight as itself; by a
//! summary of a share `c` of its source `c^0.15`, by a digest or a shortened result `c^0.35` (a summary of 18 % answered
//! 77 % of questions, a digest of 20 % held 37 % of the evidence and 90 % of the words of answers: `docs/design/figures.md`); behind a
//! bare marker nothing, though a search finds it. Retention is the share that is given, 0 to 1.

use crate::conversation::Conversation;
use cairn_types::ids::Seq;
use cairn_types::summary::{MarkerKind, StackItem};

/// A token counts half as much when so many more have been said.
pub const HALF_LIFE_TOKENS: f64 = 64_000.0;

/// What a summary of a share `c` of its source is worth: `c` to this power.
const SUMMARY_POWER: f64 = 0.15;

/// The power for a digest and for a shortened result.
const EXTRACT_POWER: f64 = 0.35;

/// Tokens said so far, by entry: what retention is measured against.
#[derive(Debug, Clone)]
pub(super) struct SpokenTokens {
    first: Seq,
    /// Tokens up to and with each entry.
    sums: Vec<u64>,
}

impl SpokenTokens {
    /// Nothing yet; the first entry will be that one.
    pub(super) fn from(first: Seq) -> Self {
        Self { first, sums: Vec::new() }
    }

    pub(super) fn push(&mut self, tokens: u32) {
        let sum = self.total() + u64::from(tokens);
        self.sums.push(sum);
    }

    fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// Tokens before an entry.
    fn before(&self, seq: Seq) -> u64 {
        let idx = seq.0.saturating_sub(self.first.0) as usize;
        idx.checked_sub(1)
            .and_then(|idx| self.sums.get(idx.min(self.sums.len().saturating_sub(1))))
            .copied()
            .unwrap_or(0)
    }

    /// Tokens of a range of entries.
    pub(super) fn tokens(&self, from: Seq, to: Seq) -> u64 {
        self.before(to.next()).saturating_sub(self.before(from))
    }

    fn weight(&self, from: Seq, to: Seq) -> f64 {
        let age = |tokens: u64| (self.total() - tokens.min(self.total())) as f64 / HALF_LIFE_TOKENS;
        0.5_f64.powf(age(self.before(to.next()))) - 0.5_f64.powf(age(self.before(from)))
    }

    pub(super) fn retention(&self, conversation: &Conversation) -> f64 {
        let all = self.weight(self.first, Seq(conversation.next_seq.0.saturating_sub(1)));
        if all <= 0.0 {
            return 1.0;
        }
        let share = |tokens: u64, from, to| (tokens as f64 / self.tokens(from, to).max(1) as f64).min(1.0);
        let mut held = 0.0;
        for item in conversation.stack.items() {
            let (from, to) = item.range();
            let worth = match item {
                StackItem::Summary(summary) => share(u64::from(summary.tokens), from, to).powf(SUMMARY_POWER),
                StackItem::Marker(marker)
                    if marker.kind == MarkerKind::Truncated && !marker.digest.is_empty() =>
                {
                    share(u64::from(marker.tokens), from, to).powf(EXTRACT_POWER)
                }
                StackItem::Marker(_) => 0.0,
            };
            held += worth * self.weight(from, to);
        }
        if let (Some(first), Some(last)) = (conversation.live.front(), conversation.live.back()) {
            held += self.weight(first.seq, last.seq);
        }
        for (seq, pruned) in &conversation.pruned {
            let worth = share(u64::from(pruned.tokens), *seq, *seq).powf(EXTRACT_POWER);
            held -= (1.0 - worth) * self.weight(*seq, *seq);
        }
        (held / all).clamp(0.0, 1.0)
    }
}
