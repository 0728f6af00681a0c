//! Ports of chat networks: how messages are sent and received, and what adapters need of the runtime.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Clock, Intake, StoreError};
use crate::command::{CommandAnswer, CommandCall};
use crate::event::SentFile;
use crate::ids::{ApprovalId, ChannelId, MessageId, OutboxId};
use crate::message::Author;
use crate::people::access::AccessPolicy;
use crate::people::pairing::PairingStatus;

#[derive(Debug, Clone, PartialEq)]
pub struct SendPart {
    /// The delivery. With `part` it is the key against duplicates, if the platform takes one.
    pub delivery: OutboxId,
    /// The part, from 0.
    pub part: u32,
    pub channel: ChannelId,
    pub reply_to: Option<MessageId>,
    /// The text, in the model's Markdown: one of the parts that [`Platform::split`] gave.
    pub words: String,
    /// Set on the last part of a text that asks for this approval: people are offered controls to approve and to deny it.
    pub approval: Option<ApprovalId>,
    /// Files that the part consists of: one bundle of [`Platform::bundles`]. `words` is then their caption, and may be empty.
    pub files: Vec<FilePart>,
}

/// A file to send, with its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePart {
    pub file: SentFile,
    pub data: Arc<[u8]>,
}

/// Why a message was not sent, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It can never be sent: the chat is gone, the bot may not write there, or the platform rejects the message.
    #[error("{0}")]
    Refused(String),
    /// It was certainly not sent, and should be sent again.
    #[error("{reason}")]
    Later { after: Option<Duration>, reason: String },
    /// It is unknown whether it arrived: the connection broke after the request had left.
    #[error("{0}")]
    Unknown(String),
}

impl SendError {
    /// Its name in logs. The reason is not logged: it has the network's text, which may repeat the message.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Later { .. } => "later",
            Self::Unknown(_) => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformTraits {
    /// How often typing is shown again while a turn runs.
    pub typing_every: Duration,
    /// How long after its first attempt a send may be repeated without a duplicate; `None`: never.
    pub repeat_within: Option<SignedDuration>,
    /// Least time between two edits of a draft; none: drafts are not shown.
    pub draft_every: Option<Duration>,
    /// People's messages are marked by reactions.
    pub marks: bool,
}

/// What a reaction of the bot says of the message that it stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Accepted and durable.
    Seen,
    /// Its turn runs.
    Working,
    /// Its turn failed.
    Failed,
}

impl PlatformTraits {
    /// Whether a send that was first tried at `since` may be repeated without a duplicate.
    pub fn may_repeat(&self, since: Timestamp, now: Timestamp) -> bool {
        let age = now.duration_since(since);
        // A clock that was set back says nothing.
        self.repeat_within.is_some_and(|within| age >= SignedDuration::ZERO && age <= within)
    }
}

/// The state of the connection to a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    Connecting,
    Connected,
    /// The connection broke; the adapter reconnects automatically.
    Reconnecting,
    /// An operator must act. It is rarely retried.
    Failed,
    Stopped,
}

impl LinkState {
    /// Its name in texts and as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// The connections over which a platform distributes a bot's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    pub total: u32,
    /// Indices of those that are not connected.
    pub down: Vec<u32>,
}

impl Shards {
    /// How many are connected, and which are not.
    pub fn described(&self) -> String {
        const SHOWN: usize = 8;
        let up = self.total.saturating_sub(self.down.len().try_into().unwrap_or(u32::MAX));
        let mut text = format!("{up} of {} shards", self.total);
        let down: Vec<String> = self.down.iter().take(SHOWN).map(u32::to_string).collect();
        if !down.is_empty() {
            text += &format!(", down: {}", down.join(" "));
        }
        let more = self.down.len().saturating_sub(SHOWN);
        if more > 0 {
            text += &format!(" and {more} more");
        }
        text
    }
}

/// A platform in `cairn status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformStatus {
    /// `discord`, `telegram`, the name of a bridge.
    pub platform: String,
    pub state: LinkState,
    /// The bot's own name there, where known.
    pub name: Option<String>,
    pub reason: Option<String>,
    pub hint: Option<String>,
    pub connected_since: Option<Timestamp>,
    pub last_inbound: Option<Timestamp>,
    pub last_outbound: Option<Timestamp>,
    /// Time of the last round trip: a heartbeat, or a request.
    pub latency_ms: Option<u64>,
    /// Events that wait to be processed.
    pub queue: u64,
    /// None where there is one connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    pub troubles: Vec<Trouble>,
    /// The last catch-up on missed messages, if the platform has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caught_up: Option<CaughtUp>,
    /// Requests of the last ten minutes that count against the bot, where the platform counts them. The bots of a daemon on a
    /// network count together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_requests: Option<u64>,
}

/// Something that does not work. In JSON it is the line that people read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Trouble {
    /// Such as `chat -5`.
    pub place: String,
    /// The chat's id, if it is in one. Not in JSON.
    pub chat: Option<String>,
    pub why: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        trouble.to_string()
    }
}

impl From<String> for Trouble {
    fn from(line: String) -> Self {
        let (place, why) = line.split_once(": ").unwrap_or((&line, ""));
        Self { place: place.to_owned(), chat: None, why: why.to_owned() }
    }
}

/// A catch-up on messages that were sent while the bot was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaughtUp {
    pub at: Timestamp,
    /// Chats that were read.
    pub read: u64,
    /// Chats without new messages, which were not read.
    pub quiet: u64,
    /// Chats that could not be read.
    pub unread: u64,
    /// Messages that were accepted.
    pub messages: u64,
    /// Messages accepted earlier that were deleted meanwhile.
    pub deleted: u64,
}

/// Longest text that is split on the runtime's threads, in bytes. A longer one can take a millisecond and more
/// (`docs/design/figures.md`, "Splitting"), and is split on a blocking thread.
pub const SPLIT_AT_ONCE: usize = 1024;

/// A chat network, for sending.
pub trait Platform: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn traits(&self) -> PlatformTraits;

    /// Splits a text into parts that fit the platform's limit, in order. The same text always gives the same parts; a text
    /// that is not blank gives at least one.
    fn split(&self, words: &str) -> Vec<String>;

    /// The first part of [`Platform::split`]. A platform with long drafts reads no more text than that part takes.
    fn first_part(&self, words: &str) -> Option<String> {
        self.split(words).into_iter().next()
    }

    /// Takes long code blocks out of a text, to be sent as files behind it, and leaves their names in their places. The same
    /// text always gives the same. The files have no artifacts.
    fn take_out_code(&self, words: &str) -> (String, Vec<FilePart>) {
        (words.to_owned(), Vec::new())
    }

    /// Largest file that can be sent, in bytes; none: the platform takes no files.
    fn file_max(&self) -> Option<u64> {
        None
    }

    /// Whether a text fits as the caption of files.
    fn is_caption(&self, words: &str) -> bool {
        words.trim().is_empty()
    }

    /// How many files each message takes, in their order. The same files always give the same bundles.
    fn bundles(&self, files: &[SentFile]) -> Vec<usize> {
        vec![1; files.len()]
    }

    /// Sends a part. Does not wait for a rate limit but returns [`SendError::Later`].
    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>>;

    /// Looks in the chat's history for a part that may have been sent. `after`: a message that is older than the part;
    /// `since`: when the part was first attempted. `None`: the part is not there.
    ///
    /// # Errors
    /// [`SendError::Refused`] if the platform cannot tell; otherwise it can be asked again.
    fn find(
        &self,
        _part: SendPart,
        _after: Option<MessageId>,
        _since: Timestamp,
    ) -> BoxFuture<'_, Result<Option<MessageId>, SendError>> {
        let reason = "the network does not show bots what they have sent".to_owned();
        Box::pin(std::future::ready(Err(SendError::Refused(reason))))
    }

    /// Replaces the text of a sent message by a part as [`Platform::split`] gives it. It may be repeated; a message that
    /// already has this text is a success.
    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>>;

    /// Puts the reaction for `to` in the place of that for `from`. It may be repeated; a message that is gone is a success.
    fn mark(
        &self,
        _channel: ChannelId,
        _message: MessageId,
        _from: Option<Mark>,
        _to: Option<Mark>,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Shows for a few seconds that the bot is typing. Returns when the platform has been told.
    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>>;

    fn status(&self) -> PlatformStatus;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {hint}")]
pub struct AdapterFailure {
    pub reason: String,
    pub hint: String,
    /// Retrying soon does not help: a token is wrong, or an intent is missing.
    pub lasting: bool,
}

/// What an adapter needs of the runtime to take messages in.
#[derive(Clone)]
pub struct AdapterPorts {
    pub intake: Arc<dyn Intake>,
    pub chat_commands: Arc<dyn ChatCommands>,
}

/// A chat network, for receiving, too.
pub trait Adapter: Platform {
    /// Connects and receives messages, until it fails in a way that it cannot repair. The adapter reconnects after a broken
    /// connection; its supervisor runs it again after a failure. Dropping the future stops it; what it had not acknowledged
    /// comes again.
    fn run(self: Arc<Self>, ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure>;

    /// Sets the adapter's state between two runs. The supervisor calls it.
    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>);
}

/// Who is paired, and where chats have moved.
pub trait PairingStore: Send + Sync + 'static {
    /// Whether a person is paired or banned; `user` is `PLATFORM/USER`.
    fn standing(&self, user: &str) -> PairingStatus;

    /// A person's standing when they sent a message that is read only now. Somebody who was paired since then, or whose ban
    /// was lifted since then, is treated as before.
    fn standing_at(&self, user: &str, at: Timestamp) -> PairingStatus;

    /// A platform's access policy at a time; for a time before all known ones, the oldest.
    fn access_at(&self, platform: &str, at: Timestamp) -> Option<AccessPolicy>;

    /// The start of a platform's oldest known access policy.
    fn access_since(&self, platform: &str) -> Option<Timestamp>;

    /// The private chats of people who are paired on a platform.
    fn paired_chats(&self, platform: &str) -> Vec<String>;

    /// Requests a pairing for a stranger. Returns the code to send them; `None`: no code may be sent now, such as when it was
    /// sent recently.
    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// The id under which a chat's conversations are kept: its first one.
    fn home_of(&self, platform: &str, chat: &str) -> String;

    /// A chat's current id on the platform.
    fn address_of(&self, platform: &str, chat: &str) -> String;

    /// Records that a platform gave a chat another id.
    fn migrate(&self, platform: String, from: String, to: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The number of the journal's last record.
    fn last_record(&self) -> u64;

    fn clock(&self) -> Arc<dyn Clock>;
}

/// Runs the commands that people give in chats.
pub trait ChatCommands: Send + Sync + 'static {
    /// Runs a command once (see [`Intake::claim`]), if the caller may use it. `None`: it was run before.
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>>;
}
