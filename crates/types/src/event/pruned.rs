//! Tool results and messages that are sent shortened.

use serde::{Deserialize, Serialize};

use crate::ids::{ArtifactId, Seq};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneCause {
    /// The background threshold was reached.
    Pressure,
    /// The provider's cache has expired.
    CacheTtl,
    /// The window would otherwise be too full.
    Emergency,
    /// The model refused a request as too large.
    Overflow,
    /// A message is larger than the window allows.
    Message,
}

impl PruneCause {
    /// The cause's name in records, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pressure => "pressure",
            Self::CacheTtl => "cache_ttl",
            Self::Emergency => "emergency",
            Self::Overflow => "overflow",
            Self::Message => "message",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum PruneForm {
    /// Head and tail around a notice.
    Shrunk {
        /// Most bytes of the whole.
        bytes: usize,
    },
    /// Head and tail of equal length around a notice.
    Edges {
        /// Characters of each.
        chars: usize,
    },
    Cleared,
}

/// A tool result or message that is sent shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedResult {
    pub seq: Seq,
    #[serde(flatten)]
    pub form: PruneForm,
    /// Estimated tokens as it is sent, before correction. Always fewer than before.
    pub tokens: u32,
    /// The tool whose result it is; empty for a message.
    #[serde(default)]
    pub tool: String,
    /// Bytes of the whole result; of the artifact, if it is stored as one.
    #[serde(default)]
    pub whole_bytes: u64,
    /// For a message: the artifact in which the model can read on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
}
