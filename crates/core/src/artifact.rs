//! Artifacts: large results of tools, kept outside of the window and referred to by id.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ArtifactId;

/// An artifact as its channel knows it; its words are in the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id, unique within its channel.
    pub id: ArtifactId,
    /// The tool whose result it is.
    pub tool: String,
    /// Its size.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// When it was stored or read last: it expires so many days after that.
    pub used_at: Timestamp,
    /// When it expired: its words are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
}
