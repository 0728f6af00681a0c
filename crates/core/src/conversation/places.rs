//! Where an entry is.

use super::Conversation;
use crate::ids::{Seq, SummaryId};

/// The one place of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Under a summary.
    Summary(SummaryId),
    /// Under a marker.
    Marker,
    /// Sealed for the run under way, still in the window.
    Sealed,
    /// In the window as itself.
    Live,
    /// Of an older generation.
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
        let _ = seq;
        todo!()
    }
}
