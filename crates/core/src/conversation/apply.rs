//! The fold: one event at a time.

use super::Conversation;
use crate::event::Record;
use crate::ids::Seq;

/// An event that does not fit the state: a damaged or foreign journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("journal record {n} does not fit the conversation: {reason}")]
pub struct FoldError {
    /// The record.
    pub n: u64,
    /// What does not fit.
    pub reason: String,
}

impl Conversation {
    /// Folds a record in. Records up to [`Conversation::last_n`] are passed over, so that a replay that overlaps
    /// changes nothing.
    ///
    /// # Errors
    /// The event does not fit; the state is as before.
    pub fn apply(&mut self, record: &Record) -> Result<(), FoldError> {
        let _ = (record, Seq(0));
        todo!()
    }
}
