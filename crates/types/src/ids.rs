//! Identifiers: every id is a type of its own, so that none is passed where another is meant.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it is. Text from outside must be validated first.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

string_id! {
    /// The name of an agent in the configuration.
    AgentId
}
string_id! {
    /// A turn: `t` and the ordinal, in its channel, of the first message that it takes up.
    TurnId
}
string_id! {
    /// A compaction run: `r` and its ordinal in the channel.
    RunId
}
string_id! {
    /// A summary: `s` and the ordinal of the run that made it. Unique within a channel.
    SummaryId
}
impl SummaryId {
    /// The id of the summary that a run makes.
    pub fn of_run(run: &RunId) -> Self {
        Self(run.as_str().replacen('r', "s", 1).into())
    }

    /// The ordinal in its channel of the run that made it; none of an id that has another shape.
    pub fn ordinal(&self) -> Option<u64> {
        self.as_str().strip_prefix('s')?.parse().ok()
    }
}

string_id! {
    /// A memory: `m` and 16 hex digits that derive from agent, scope and first text.
    MemoryId
}
string_id! {
    /// A text that is stored once, under its hash: see [`crate::trace`].
    TextId
}
string_id! {
    /// A message's id on its platform (or the `id` that a local client gave). Unique within a channel.
    MessageId
}
string_id! {
    /// A request for approval: six letters and digits; see [`crate::tool::approval::approval_id`].
    ApprovalId
}
string_id! {
    /// An artifact: `a` and its ordinal in the channel.
    ArtifactId
}
string_id! {
    /// A reminder: its ordinal in the channel, or `schedule:NAME`.
    ReminderId
}
string_id! {
    /// An outbox item: one delivery that is owed to a platform.
    OutboxId
}

impl OutboxId {
    /// The channels that it may belong to. It starts with the name of its channel, which may contain colons, too.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.0.match_indices(':').filter_map(|(at, _)| self.0[..at].parse().ok())
    }
}

/// Separates the message's id from the time of the edit in the id of a correction.
const CORRECTION: &str = "#e";

impl MessageId {
    /// The id of the correction for an edit of this message at that time. The same edit always gives the same id.
    pub fn correction(&self, at: jiff::Timestamp) -> Self {
        Self::new(format!("{}{}", self.corrections(), at.as_millisecond()))
    }

    /// The prefix of the ids of all corrections of this message.
    pub fn corrections(&self) -> String {
        format!("{self}{CORRECTION}")
    }

    /// Whether this is that message, or a correction of it.
    pub fn is_of(&self, message: &Self) -> bool {
        self == message || self.0.starts_with(&message.corrections())
    }

    /// The time of a correction's edit, in milliseconds since 1970.
    pub fn corrected_at(&self) -> Option<i64> {
        self.0.rsplit_once(CORRECTION)?.1.parse().ok()
    }

    /// Whether the runtime made this id, for an edit or a reminder. Such an id names no message of the platform.
    pub fn is_correction(&self) -> bool {
        self.0.contains('#')
    }
}

/// The number of an entry in its channel: from 1, rising, never reused, not even by `/new`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A channel's conversation between two `/new`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u32);

impl Default for Generation {
    fn default() -> Self {
        Self(1)
    }
}

/// One conversation of one agent: `agent/platform/chat` or `agent/platform/chat/thread`.
///
/// Parts are 1 to 128 bytes without `/`, white space or control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChannelId(Arc<str>);

/// Why a text is not the name of a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a channel: {reason}; write a bare local name ([A-Za-z0-9._-], 1 to 64 characters) or agent/platform/chat[/thread]"
)]
pub struct BadChannel {
    pub name: String,
    pub reason: &'static str,
}

/// The platform of channels that are reached over the socket and the command line.
pub const LOCAL_PLATFORM: &str = "local";

/// The platform in the ids of those who talk through the OpenAI-compatible endpoint: `openai/KEY`. Their channels are local ones.
pub const OPENAI_PLATFORM: &str = "openai";

/// Most characters of a message on Discord.
pub const DISCORD_MESSAGE_MAX: usize = 2_000;

/// Most characters of a message on Telegram.
pub const TELEGRAM_MESSAGE_MAX: usize = 4_096;

/// Longest bare local channel name, in characters.
pub const LOCAL_NAME_MAX: usize = 64;

impl ChannelId {
    /// Joins validated parts.
    ///
    /// # Errors
    /// A part is empty, longer than 128 bytes, or has a slash, white space or a control character.
    pub fn new(
        agent: &AgentId,
        platform: &str,
        chat: &str,
        thread: Option<&str>,
    ) -> Result<Self, BadChannel> {
        let mut name = format!("{agent}/{platform}/{chat}");
        if let Some(thread) = thread {
            name.push('/');
            name.push_str(thread);
        }
        name.parse()
    }

    /// A local channel of an agent, by its bare name.
    ///
    /// # Errors
    /// The name is empty, too long, or has other characters than `[A-Za-z0-9._-]`.
    pub fn local(agent: &AgentId, name: &str) -> Result<Self, BadChannel> {
        let bad = |reason| BadChannel { name: name.chars().take(80).collect(), reason };
        if name.is_empty() || name.len() > LOCAL_NAME_MAX {
            return Err(bad("a local name has 1 to 64 characters"));
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
            return Err(bad("a local name has only the characters A-Z a-z 0-9 . _ -"));
        }
        Self::new(agent, LOCAL_PLATFORM, name, None)
    }

    /// Reads what a person or a script wrote: a bare local name of `default_agent`, or a full name.
    ///
    /// # Errors
    /// As for [`ChannelId::local`] and for parsing a full name.
    pub fn resolve(text: &str, default_agent: &AgentId) -> Result<Self, BadChannel> {
        if text.contains('/') { text.parse() } else { Self::local(default_agent, text) }
    }

    fn part(&self, idx: usize) -> Option<&str> {
        self.0.split('/').nth(idx)
    }

    pub fn agent(&self) -> AgentId {
        AgentId::new(self.part(0).unwrap_or_default())
    }

    /// The platform: `local`, `discord`, `telegram`.
    pub fn platform(&self) -> &str {
        self.part(1).unwrap_or_default()
    }

    pub fn chat(&self) -> &str {
        self.part(2).unwrap_or_default()
    }

    /// The thread or topic within the chat.
    pub fn thread(&self) -> Option<&str> {
        self.part(3)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ChannelId {
    type Err = BadChannel;

    fn from_str(text: &str) -> Result<Self, BadChannel> {
        let bad = |reason| BadChannel { name: text.chars().take(80).collect(), reason };
        let mut parts = text.split('/');
        let (Some(agent), Some(platform), Some(chat), thread, None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad("a full name has three or four parts"));
        };
        for part in [agent, platform, chat].into_iter().chain(thread) {
            if part.is_empty() {
                return Err(bad("a part is empty"));
            }
            if part.len() > 128 {
                return Err(bad("a part is longer than 128 bytes"));
            }
            if part.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(bad("a part has white space or a control character"));
            }
        }
        if platform == LOCAL_PLATFORM
            && !(chat.len() <= LOCAL_NAME_MAX
                && chat.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)))
        {
            return Err(bad("a local name has 1 to 64 of the characters A-Z a-z 0-9 . _ -"));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for ChannelId {
    type Error = BadChannel;

    fn try_from(text: String) -> Result<Self, BadChannel> {
        text.parse()
    }
}

impl From<ChannelId> for String {
    fn from(id: ChannelId) -> Self {
        id.0.to_string()
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelId({})", self.0)
    }
}

/// A range of entries, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SeqRange {
    pub from_seq: Seq,
    pub to_seq: Seq,
}

impl SeqRange {
    pub fn contains(&self, seq: Seq) -> bool {
        (self.from_seq..=self.to_seq).contains(&seq)
    }
}
