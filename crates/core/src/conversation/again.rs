//! A message that is sent again after its turn ended without an answer: it stands once in the history.

use std::collections::BTreeMap;

use super::{Conversation, OpenTurn};
use crate::event::Event;
use crate::ids::{MessageId, TurnId};
use crate::turn::{Span, spans};

impl Conversation {
    /// What a message of its own turn leads to that is sent again after that turn ended without an answer: the turn is open
    /// again, where it is the last one; else it is taken back where it has nothing but the message, so that the window shows
    /// the message once. `None` when the turn has left the window, or tools were called in it.
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
            return Some(Event::TurnReopened { turn: turn.clone(), messages: vec![message.clone()] });
        }
        let is_bare = span.messages == 1;
        is_bare.then(|| Event::TurnUndone {
            turn: turn.clone(),
            from_seq: span.from_seq,
            to_seq: span.to_seq,
        })
    }

    fn messages_of(&self, span: &Span) -> Vec<MessageId> {
        let of_turn = self.live.iter().filter(|entry| entry.turn == span.turn);
        of_turn.filter_map(|entry| entry.message.clone()).collect()
    }

    pub(super) fn reopen_turn(&mut self, turn: &TurnId, messages: &[MessageId]) -> Result<(), String> {
        if let Some(open) = &self.open_turn {
            return Err(format!("turn {} is open", open.id));
        }
        let last = spans(self).pop().filter(|span| span.turn == *turn);
        let last = last.ok_or_else(|| format!("turn {turn} is not the last one"))?;
        self.open_turn = Some(OpenTurn {
            id: turn.clone(),
            first_seq: last.from_seq,
            messages: messages.to_vec(),
            addressed: true,
            interruptions: 0,
            reply_to: messages.last().cloned(),
            draft: None,
            notes: Vec::new(),
            approvals: Vec::new(),
            questions: BTreeMap::new(),
        });
        Ok(())
    }
}
