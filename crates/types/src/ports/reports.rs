//! Reports of a store about itself and its work.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Record;

/// The identity of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub address: String,
}

/// A node in the database's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    #[serde(flatten)]
    pub node: Node,
    /// The version of cairn that it runs.
    pub version: String,
    /// The last record that it has.
    pub n: u64,
    pub seen_at: Timestamp,
    /// How long ago that was, by the database's clock.
    pub silent_secs: u64,
    pub leads: bool,
}

/// How far work over the whole state is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressReport {
    /// The current phase: `journal`, `artifacts`, `rows`, `channels`, `views`, `index`, `survey`, `rewrite` or `copy`; empty
    /// before the work starts.
    pub phase: String,
    pub done: u64,
    pub total: u64,
}

/// The result of rewriting segments, done or only estimated, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrunk {
    pub segments: u64,
    /// Bytes that they took.
    pub bytes_before: u64,
    /// Bytes that they take now, or would take.
    pub bytes_after: u64,
    /// Segments that could not be rewritten, and are as before: the log says which and why.
    #[serde(default)]
    pub failed: u64,
}

/// The result of removing expired words, done or only estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Segments and their bytes.
    #[serde(flatten)]
    pub shrunk: Shrunk,
    pub entries: u64,
    pub summaries: u64,
}

/// The history of a memory, read from the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTrail {
    /// Oldest first: its creation, then the newest of its changes.
    pub steps: Vec<TrailStep>,
    /// The records of the ends of the newest turns that recalled it, oldest first.
    pub uses: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrailStep {
    pub record: Record,
    /// Its index among the memories of a run's end; 0 for other records.
    pub idx: usize,
    /// How many steps before it are not kept.
    pub left_out: u64,
}
