//! Who is paired with the bot, and who is banned.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message::Author;

/// What stands before a group's id where a person's would be.
const GROUPS: [&str; 2] = ["chat:", "server:"];

/// A group in the registry, `PLATFORM/chat:ID`. Where there are servers, the whole server: `PLATFORM/server:ID`.
pub fn group(platform: &str, server: Option<&str>, chat: &str) -> String {
    let [of_chat, of_server] = GROUPS;
    match server {
        Some(server) => format!("{platform}/{of_server}{server}"),
        None => format!("{platform}/{of_chat}{chat}"),
    }
}

/// After this time a code that nobody approved is void.
pub const CODE_AGE: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    /// A person, `PLATFORM/USER`, or a [`group`].
    pub user: Author,
    /// The chat that the code was sent to.
    pub chat: String,
    pub code: String,
    /// When the code was first sent. Its age counts from here.
    pub asked_at: Timestamp,
    pub told_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// When an operator revoked the approval, or refused the request. The person's private messages are ignored since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// A newer request took its place, and its code is void. It is remembered until its person may be told again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub displaced: bool,
}

/// Whether an id (`PLATFORM/USER`) stands for a group: a chat or a server.
pub fn is_group(id: &str) -> bool {
    id.split_once('/').is_some_and(|(_, id)| GROUPS.iter().any(|kind| id.starts_with(kind)))
}

impl Pairing {
    /// Whether it is about a group.
    pub fn is_group(&self) -> bool {
        is_group(&self.user.id)
    }

    /// Whether no operator has decided yet.
    fn is_open(&self) -> bool {
        self.approved_at.is_none() && self.revoked_at.is_none()
    }

    pub fn waits(&self, now: Timestamp) -> bool {
        self.is_open() && !self.is_void(now)
    }

    /// Whether nobody approved it in time, or it was displaced. A code that is dated further in the future than [`CODE_AGE`] was made by a wrong
    /// clock, and is void, too.
    pub fn is_void(&self, now: Timestamp) -> bool {
        self.is_open() && (self.displaced || now.duration_since(self.asked_at).abs() > CODE_AGE)
    }
}

/// A ban of a person, who is ignored everywhere while it holds.
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
    /// Ignored everywhere, even if allow-listed.
    Banned,
    Paired,
    /// Was paired or had a code, until an operator revoked or refused it.
    Revoked,
    /// Has a code that waits for an operator.
    Waiting,
    Stranger,
}
