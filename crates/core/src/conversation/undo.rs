//! Turns taken back: by `/undo`, which archives the last one, and by a message that is sent again after its turn ended
//! without an answer, so that it stands once in the history.

use serde::{Deserialize, Serialize};

use super::Conversation;
use crate::turn::{Span, spans};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::{MessageId, Seq, TurnId};
use cairn_types::message::Role;
use cairn_types::texts::{Key, Saying};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    pub turn: TurnId,
    pub from_seq: Seq,
    pub to_seq: Seq,
}

/// Why the last turn cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoError {
    Open,
    /// There is none.
    Nothing,
    Sealed,
    Summarised,
}

impl std::error::Error for UndoError {}

impl std::fmt::Display for UndoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Saying::from(self.told()).fmt(f)
    }
}

impl UndoError {
    /// Why, for a chat.
    pub fn told(self) -> Key {
        match self {
            Self::Open => Key::UndoOpen,
            Self::Nothing => Key::UndoNothing,
            Self::Sealed => Key::UndoSealed,
            Self::Summarised => Key::UndoSummarised,
        }
    }
}

/// The event that archives the last turn that ended. One that is pending or open is none of those: an open one is
/// stopped first.
///
/// # Errors
/// Why there is none to archive.
pub fn undo(conversation: &Conversation) -> Result<Event, UndoError> {
    if conversation.open_turn.is_some() {
        return Err(UndoError::Open);
    }
    let Some(last) = spans(conversation).pop() else {
        let is_empty = conversation.stack.items().is_empty();
        return Err(if is_empty { UndoError::Nothing } else { UndoError::Summarised });
    };
    if conversation.sealed_range().is_some_and(|(_, sealed_to)| sealed_to >= last.from_seq) {
        return Err(UndoError::Sealed);
    }
    Ok(Event::Turn(TurnEvent::Undone { turn: last.turn, from_seq: last.from_seq, to_seq: last.to_seq }))
}

impl Conversation {
    /// The turn of that entry was undone.
    pub fn is_undone(&self, seq: Seq) -> bool {
        self.undone.iter().any(|undone| (undone.from_seq..=undone.to_seq).contains(&seq))
    }

    /// How many entries of a range were not undone.
    pub fn count(&self, from: Seq, to: Seq) -> u64 {
        let numbers = |from: Seq, to: Seq| (to.0 + 1).saturating_sub(from.0);
        let undone =
            self.undone.iter().map(|undone| numbers(undone.from_seq.max(from), undone.to_seq.min(to)));
        numbers(from, to).saturating_sub(undone.sum())
    }

    /// What a message of its own turn leads to that is sent again after that turn ended without an answer: the turn is open
    /// again, where it is the last one; else it is taken back where it has nothing but the message and words that were cut
    /// short, so that the window shows the message once. `None` when the turn has left the window, or tools were called in it.
    pub fn sent_again(&self, turn: &TurnId, message: &MessageId) -> Option<Event> {
        let spans = spans(self);
        let idx = spans.iter().position(|span| span.turn == *turn)?;
        let span = &spans[idx];
        if self.sealed_range().is_some_and(|(_, sealed_to)| sealed_to >= span.from_seq) {
            return None;
        }
        if self.messages_of(span) != [message.clone()] {
            return None;
        }
        if idx + 1 == spans.len() && self.open_turn.is_none() && self.pending.is_empty() {
            return Some(Event::Turn(TurnEvent::Reopened {
                turn: turn.clone(),
                messages: vec![message.clone()],
            }));
        }
        // Words of an answer that was cut short go with it.
        let is_bare = self
            .live
            .iter()
            .filter(|entry| entry.turn == *turn)
            .skip(1)
            .all(|entry| entry.role == Role::Assistant && entry.tool_calls.is_empty());
        is_bare.then(|| {
            Event::Turn(TurnEvent::Undone {
                turn: turn.clone(),
                from_seq: span.from_seq,
                to_seq: span.to_seq,
            })
        })
    }

    fn messages_of(&self, span: &Span) -> Vec<MessageId> {
        let of_turn = self.live.iter().filter(|entry| entry.turn == span.turn);
        of_turn.filter_map(|entry| entry.message.clone()).collect()
    }
}
