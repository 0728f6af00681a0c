//! Turn boundaries: where a history may be cut.

use crate::conversation::Conversation;
use cairn_types::ids::{Seq, TurnId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub turn: TurnId,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    /// Estimated tokens as sent, before correction.
    pub tokens: u64,
}

/// The turns of the live history, oldest first. A cut is allowed only between two of them.
pub fn spans(conversation: &Conversation) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for entry in &conversation.live {
        let tokens = conversation.weight(entry);
        match spans.last_mut() {
            Some(span) if span.turn == entry.turn => {
                span.to_seq = entry.seq;
                span.messages += 1;
                span.tokens += tokens;
            }
            _ => spans.push(Span {
                turn: entry.turn.clone(),
                from_seq: entry.seq,
                to_seq: entry.seq,
                messages: 1,
                tokens,
            }),
        }
    }
    spans
}
