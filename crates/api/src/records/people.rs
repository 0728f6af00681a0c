//! The records of people and of what is kept of them: `cairn pair`, `cairn ban`, `cairn forget-user`, `cairn store retain`.

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
    /// The chat in which they were told the code.
    pub chat: String,
    pub asked_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// The chat was told of the approval; only in the answer to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<bool>,
}

impl PairingRecord {
    pub fn of(pairing: Pairing) -> Self {
        let Pairing { user: Author { id, name }, chat, code, asked_at, approved_at, revoked_at, told_at: _ } =
            pairing;
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

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// `PLATFORM/USER`.
    pub user: String,
    #[serde(default)]
    pub dry_run: bool,
}

/// An erasure that is asked for: it is done when the daemon has restarted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForgetRecord {
    /// When it was asked for: the erasure that is told later has the same.
    pub at: Timestamp,
    /// What goes, as far as it was there now.
    #[serde(flatten)]
    pub figures: ErasureFigures,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErasuresRecord {
    pub pending: bool,
    /// How far the one is that is pending.
    #[serde(default)]
    pub progress: ProgressReport,
    /// Those that are done, oldest first.
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
    /// What was taken out of journal segments.
    pub expired: Expired,
    /// Bytes by which the journal is still over its limit, when nothing makes it smaller any more.
    pub over_bytes: u64,
    pub memories: u64,
    pub seconds: f64,
}
