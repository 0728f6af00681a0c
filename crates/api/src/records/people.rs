//! The records of people, erasures and retention: `cairn pair`, `cairn ban`, `cairn forget-user`, `cairn store retain`.

use cairn_core::registry::Erasure;
use cairn_types::event::ErasureFigures;
use cairn_types::message::Author;
use cairn_types::people::pairing::{Ban, Pairing};
use cairn_types::ports::{Expired, ProgressReport, Shrunk};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A person who is paired, or waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingRecord {
    /// `PLATFORM/USER`.
    pub user: String,
    pub name: String,
    /// `waiting`, `paired`, `revoked`.
    pub state: String,
    pub code: String,
    /// The chat that the code was sent to.
    pub chat: String,
    pub asked_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// Whether the chat was told of the approval; only in the answer to the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<bool>,
}

impl PairingRecord {
    pub fn of(pairing: Pairing) -> Self {
        let Pairing {
            user: Author { id, name },
            chat,
            code,
            asked_at,
            approved_at,
            revoked_at,
            told_at: _,
            displaced: _,
        } = pairing;
        let state = match (approved_at, revoked_at) {
            (Some(_), _) => "paired",
            (None, Some(_)) => "revoked",
            (None, None) => "waiting",
        };
        Self { user: id, name, state: state.to_owned(), code, chat, asked_at, approved_at, told: None }
    }
}

/// A person who is banned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanRecord {
    /// `PLATFORM/USER`.
    pub user: String,
    pub reason: Option<String>,
    pub since: Timestamp,
    /// None: until it is lifted.
    pub until: Option<Timestamp>,
    /// The operator, `PLATFORM/USER`.
    pub by: String,
}

impl BanRecord {
    pub fn of(user: String, Ban { reason, since, until, by }: Ban) -> Self {
        Self { user, reason, since, until, by }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanRequest {
    /// `PLATFORM/USER`.
    pub user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it lasts, such as `3d`; until it is lifted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
}

/// A person or a chat from which nothing is learnt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateRecord {
    /// `PLATFORM/USER` of a person, `PLATFORM/CHAT` of a chat.
    pub who: String,
    pub is_chat: bool,
    pub since: Timestamp,
}

/// Makes a person or a chat private, or ends that; exactly one of them is named.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateRequest {
    /// `PLATFORM/USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `PLATFORM/CHAT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    pub on: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// `PLATFORM/USER`.
    pub user: String,
    #[serde(default)]
    pub dry_run: bool,
}

/// A requested erasure. It is done when the daemon has restarted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForgetRecord {
    /// When it was requested. The finished erasure has the same time.
    pub at: Timestamp,
    /// What it will remove, as of now.
    #[serde(flatten)]
    pub figures: ErasureFigures,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErasuresRecord {
    pub pending: bool,
    /// Progress of the pending erasure.
    #[serde(default)]
    pub progress: ProgressReport,
    /// Finished erasures, oldest first.
    pub erasures: Vec<Erasure>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetainRequest {
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RetainRecord {
    pub dry_run: bool,
    /// Journal segments that were compressed.
    pub compressed: Shrunk,
    /// What was removed from journal segments.
    pub expired: Expired,
    /// Bytes by which the journal still exceeds its limit, if nothing more can be removed.
    pub over_bytes: u64,
    pub memories: u64,
    pub seconds: f64,
}
