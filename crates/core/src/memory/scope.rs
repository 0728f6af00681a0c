//! Scopes: who may read a memory. A scope is part of a memory's key; there is no unscoped read path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{ChannelId, LOCAL_PLATFORM};

/// Who may read a memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Everybody who talks to the agent; fed by operators alone.
    Agent,
    /// Whoever is in the chat.
    Chat {
        /// Platform of the chat.
        platform: String,
        /// The chat; all its threads share the scope.
        chat: String,
    },
    /// One person, in private chats only.
    User {
        /// Platform of the person.
        platform: String,
        /// The person's id there.
        user: String,
    },
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope; write `agent`, `chat:PLATFORM/CHAT` or `user:PLATFORM/USER`")]
pub struct BadScope(pub String);

impl Scope {
    /// The scope that memories learnt in a channel get. A local channel counts as a group; direct messages on
    /// chat networks, which feed the person's own scope, name their person: by `PLATFORM/USER`, as authors are.
    pub fn learnt_in(channel: &ChannelId, direct_with: Option<&str>) -> Self {
        match direct_with {
            Some(person) if channel.platform() != LOCAL_PLATFORM => {
                let platform = channel.platform();
                let bare = person.strip_prefix(platform).and_then(|rest| rest.strip_prefix('/'));
                Self::User { platform: platform.to_owned(), user: bare.unwrap_or(person).to_owned() }
            }
            _ => Self::Chat { platform: channel.platform().to_owned(), chat: channel.chat().to_owned() },
        }
    }

    /// The scopes that may be recalled in a channel, widest first: never a person's own in a group.
    pub fn readable_in(channel: &ChannelId, direct_with: Option<&str>) -> Vec<Self> {
        let chat = Self::Chat { platform: channel.platform().to_owned(), chat: channel.chat().to_owned() };
        let mut scopes = vec![Self::Agent, chat];
        let learnt = Self::learnt_in(channel, direct_with);
        if !scopes.contains(&learnt) {
            scopes.push(learnt);
        }
        scopes
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            Self::Chat { platform, chat } => write!(f, "chat:{platform}/{chat}"),
            Self::User { platform, user } => write!(f, "user:{platform}/{user}"),
        }
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        let bad = || BadScope(text.chars().take(80).collect());
        if text == "agent" {
            return Ok(Self::Agent);
        }
        let (kind, place) = text.split_once(':').ok_or_else(bad)?;
        let (platform, id) = place.split_once('/').ok_or_else(bad)?;
        let fine = |part: &str| {
            !part.is_empty()
                && part.len() <= 128
                && !part.chars().any(|c| c == '/' || c.is_whitespace() || c.is_control())
        };
        if !fine(platform) || !fine(id) {
            return Err(bad());
        }
        let platform = platform.to_owned();
        match kind {
            "chat" => Ok(Self::Chat { platform, chat: id.to_owned() }),
            "user" => Ok(Self::User { platform, user: id.to_owned() }),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = BadScope;

    fn try_from(text: String) -> Result<Self, BadScope> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}
