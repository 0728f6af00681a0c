//! Pruning: old results of tools are sent shorter, in batches, before anything is summarised. It changes what is sent,
//! never what is kept.

use serde::{Deserialize, Serialize};

use crate::ids::Seq;
use crate::message::Entry;

/// Why results were pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneCause {
    /// The background threshold was reached.
    Pressure,
    /// The provider's cache has gone cold.
    CacheTtl,
    /// The window would be too full without.
    Emergency,
    /// The model refused a request as too large.
    Overflow,
}

/// How a result is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum PruneForm {
    /// So many bytes of head and tail around a notice.
    Shrunk {
        /// Bytes that are kept.
        bytes: usize,
    },
    /// So many characters of head and as many of tail around a notice.
    Edges {
        /// Characters of each.
        chars: usize,
    },
    /// A notice alone.
    Cleared,
}

/// A result that is sent shorter than it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedResult {
    /// The result.
    pub seq: Seq,
    /// How it is sent.
    #[serde(flatten)]
    pub form: PruneForm,
    /// Estimated tokens as it is sent, before correction.
    pub tokens: u32,
}

/// The entry as it is sent.
pub fn as_sent(entry: &Entry, pruned: &PrunedResult) -> Entry {
    Entry { tokens: pruned.tokens, ..entry.clone() }
}
