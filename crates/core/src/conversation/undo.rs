//! `/undo`: the last turn leaves the window, and stays in the history as archived.

use serde::{Deserialize, Serialize};

use super::Conversation;
use crate::event::Event;
use crate::ids::{Seq, TurnId};
use crate::turn::spans;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    pub turn: TurnId,
    pub from_seq: Seq,
    pub to_seq: Seq,
}

/// Why the last turn cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    #[error("an answer is under way; stop it first")]
    Open,
    /// There is none.
    #[error("there is nothing to take back")]
    Nothing,
    #[error("the last turn is being summarised; try again when that is done")]
    Sealed,
    #[error("the last turn has been summarised already and cannot be taken back")]
    Summarised,
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
    Ok(Event::TurnUndone { turn: last.turn, from_seq: last.from_seq, to_seq: last.to_seq })
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

    pub(super) fn take_back(&mut self, turn: &TurnId, from_seq: Seq, to_seq: Seq) -> Result<(), String> {
        if self.open_turn.as_ref().is_some_and(|open| open.id == *turn) {
            return Err(format!("turn {turn} is open"));
        }
        let first = self.live.front().map_or(self.next_seq, |entry| entry.seq);
        if from_seq < first || to_seq >= self.next_seq || to_seq < from_seq || self.is_undone(from_seq) {
            return Err(format!("turn {turn} is not in the window"));
        }
        self.live.retain(|entry| !(from_seq..=to_seq).contains(&entry.seq));
        self.pruned.retain(|seq, _| !(from_seq..=to_seq).contains(seq));
        self.undone.push(Undone { turn: turn.clone(), from_seq, to_seq });
        self.undone.sort_by_key(|undone| undone.from_seq);
        Ok(())
    }

    /// Markers say how many messages they stand for: undone ones are none of them.
    pub(super) fn recount_markers(&mut self) {
        if self.undone.is_empty() {
            return;
        }
        let mut stack = std::mem::take(&mut self.stack);
        stack.recount(|from, to| self.count(from, to));
        self.stack = stack;
    }
}
