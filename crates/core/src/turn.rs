//! Turns: where a history may be cut.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ids::{Seq, TurnId};
use crate::message::Entry;

/// A turn within the live history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The turn.
    pub turn: TurnId,
    /// Its first entry.
    pub from_seq: Seq,
    /// Its last entry.
    pub to_seq: Seq,
    /// How many entries.
    pub messages: u64,
    /// Estimated tokens, before correction.
    pub tokens: u64,
}

/// The turns of a history, oldest first. A cut is allowed between any two of them and nowhere else.
pub fn spans(entries: &VecDeque<Arc<Entry>>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for entry in entries {
        match spans.last_mut() {
            Some(span) if span.turn == entry.turn => {
                span.to_seq = entry.seq;
                span.messages += 1;
                span.tokens += u64::from(entry.tokens);
            }
            _ => spans.push(Span {
                turn: entry.turn.clone(),
                from_seq: entry.seq,
                to_seq: entry.seq,
                messages: 1,
                tokens: u64::from(entry.tokens),
            }),
        }
    }
    spans
}
