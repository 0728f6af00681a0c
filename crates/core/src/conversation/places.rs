//! Where an entry is.

use super::Conversation;
use crate::ids::{Seq, SummaryId};
use crate::summary::StackItem;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Summary(SummaryId),
    Marker,
    /// Sealed for the run under way, still in the window.
    Sealed,
    Live,
    /// Of an older generation, or of a turn that was undone.
    Archived,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Summary(id) => write!(f, "summary:{id}"),
            Self::Marker => f.write_str("marker"),
            Self::Sealed => f.write_str("sealed"),
            Self::Live => f.write_str("live"),
            Self::Archived => f.write_str("archived"),
        }
    }
}

impl Conversation {
    /// Where the entry of that number is; `None` when there is none.
    pub fn place(&self, seq: Seq) -> Option<Place> {
        if seq < Seq(1) || seq >= self.next_seq {
            return None;
        }
        if seq < self.first_seq || self.is_undone(seq) {
            return Some(Place::Archived);
        }
        if let Some(item) = self.stack.item_at(seq) {
            return Some(match item {
                StackItem::Summary(summary) => Place::Summary(summary.id.clone()),
                StackItem::Marker(_) => Place::Marker,
            });
        }
        let sealed = self.sealed_range().is_some_and(|(from, to)| (from..=to).contains(&seq));
        Some(if sealed { Place::Sealed } else { Place::Live })
    }
}
