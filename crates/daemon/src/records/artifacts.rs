//! The records of artifacts: `cairn artifact`, and their part of `cairn context`.

use cairn_core::artifact::{Artifact, ReadOn, read_on};
use cairn_core::conversation::Conversation;
use cairn_core::ids::{ArtifactId, Seq};
use cairn_core::ports::ArtifactLines;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A large result of a tool, or a large message, that is kept outside of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its id, unique within its channel.
    pub id: ArtifactId,
    /// The tool whose result it is; empty for a message.
    pub tool: String,
    /// The message that it is a copy of, while the window shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Seq>,
    pub bytes: u64,
    pub lines: u64,
    pub stored_at: Timestamp,
    /// When it was stored or the model read it last.
    pub used_at: Timestamp,
    /// When it expired: its words are gone.
    pub expired_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactPage {
    pub artifact: ArtifactRecord,
    /// The first line, from 1.
    pub from: u64,
    /// Bytes of that line that were passed over.
    pub offset: u64,
    pub count: u64,
    /// The lines, joined by line breaks.
    pub text: String,
    /// Where to read on; none at the end.
    pub next: Option<ReadOn>,
}

/// The artifacts of a channel that have not expired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsRecord {
    pub count: u64,
    pub bytes: u64,
}

impl ArtifactRecord {
    pub fn of(artifact: &Artifact) -> Self {
        Self {
            id: artifact.id.clone(),
            tool: artifact.tool.clone(),
            message: artifact.message,
            bytes: artifact.bytes,
            lines: artifact.lines,
            stored_at: artifact.stored_at,
            used_at: artifact.used_at,
            expired_at: artifact.expired_at,
        }
    }
}

impl ArtifactPage {
    /// The record of what was found from a line on.
    pub fn of(artifact: &Artifact, from: u64, found: ArtifactLines) -> Self {
        Self {
            artifact: ArtifactRecord::of(artifact),
            from,
            offset: found.offset,
            count: found.lines,
            next: read_on(artifact, from, &found, &found.text),
            text: found.text,
        }
    }
}

impl ArtifactsRecord {
    pub fn of(conversation: &Conversation) -> Self {
        let kept = conversation.artifacts.values().filter(|artifact| artifact.expired_at.is_none());
        kept.fold(Self::default(), |sum, artifact| Self {
            count: sum.count + 1,
            bytes: sum.bytes + artifact.bytes,
        })
    }
}
