//! Heads: a conversation without its words, so that the store keeps them once.

use std::sync::Arc;

use super::Conversation;
use crate::ids::{MessageId, Seq};
use crate::message::{Entry, Pending};

impl Conversation {
    /// A copy without the words of live entries and pending messages, for the store's head record.
    pub fn to_head(&self) -> Self {
        todo!()
    }

    /// The entries whose words a head lacks, in order.
    pub fn missing_entries(&self) -> Vec<Seq> {
        self.live.iter().map(|entry| entry.seq).collect()
    }

    /// The pending messages whose words a head lacks.
    pub fn missing_pending(&self) -> Vec<MessageId> {
        self.pending.iter().map(|pending| pending.message.clone()).collect()
    }

    /// Puts the words back. Returns false when one is missing: the head is of no use then.
    pub fn fill(&mut self, entries: Vec<Arc<Entry>>, pending: Vec<Pending>) -> bool {
        let _ = (entries, pending);
        todo!()
    }
}
