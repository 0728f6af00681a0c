//! Who is paired with the bot, and who is banned.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message::Author;

/// A code that nobody approved is void after so long.
pub const CODE_AGE: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    pub user: Author,
    /// The chat in which the code was told.
    pub chat: String,
    pub code: String,
    /// When it was told first: its age counts from here.
    pub asked_at: Timestamp,
    pub told_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// An operator revoked the approval, or refused the request: they are told nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl Pairing {
    /// No operator has said anything yet.
    fn is_open(&self) -> bool {
        self.approved_at.is_none() && self.revoked_at.is_none()
    }

    pub fn waits(&self, now: Timestamp) -> bool {
        self.is_open() && !self.is_void(now)
    }

    /// Nobody approved it in time. One that lies further ahead than a code lives was made by a clock that was wrong.
    pub fn is_void(&self, now: Timestamp) -> bool {
        self.is_open() && now.duration_since(self.asked_at).abs() > CODE_AGE
    }
}

/// A person who is heard nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    pub reason: Option<String>,
    pub since: Timestamp,
    /// None: until it is lifted.
    pub until: Option<Timestamp>,
    /// The operator, `PLATFORM/USER`.
    pub by: String,
}

impl Ban {
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairingStatus {
    /// Heard nowhere, whatever else says so.
    Banned,
    Paired,
    /// Was paired or had a code, until an operator said otherwise.
    Revoked,
    /// Has a code that waits for an operator.
    Waiting,
    Stranger,
}
