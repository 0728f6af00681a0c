//! Chat networks: what leaves through them, and what their adapters need of the runtime.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Clock, Intake, StoreError};
use crate::command::{CommandAnswer, CommandCall};
use crate::ids::{ApprovalId, ChannelId, MessageId, OutboxId};
use crate::message::Author;
use crate::people::access::AccessPolicy;
use crate::people::pairing::PairingStatus;

#[derive(Debug, Clone, PartialEq)]
pub struct SendPart {
    /// The delivery; with `part` it is the key against doubles, where the platform takes one.
    pub delivery: OutboxId,
    /// The part, from 0.
    pub part: u32,
    pub channel: ChannelId,
    pub reply_to: Option<MessageId>,
    /// The words, in the model's Markdown; one of those that [`Platform::split`] gave.
    pub words: String,
    /// The words ask for this approval, and this is their last part: people are offered ways to say yes and no.
    pub approval: Option<ApprovalId>,
}

/// Why a message was not sent, as far as anybody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Never: the chat is gone, the bot may not write there, or the platform finds fault with the message.
    #[error("{0}")]
    Refused(String),
    /// Certainly not sent; to be tried again.
    #[error("{reason}")]
    Later { after: Option<Duration>, reason: String },
    /// It may be there, or not: the connection broke after the request had left.
    #[error("{0}")]
    Unknown(String),
}

impl SendError {
    /// Its name in logs: the reason holds the network's words, which may repeat the message.
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
    /// How often typing is shown again while a turn goes on.
    pub typing_every: Duration,
    /// How long after its first attempt a send may be repeated without a double; none: never.
    pub repeat_within: Option<SignedDuration>,
    /// Least time between two edits of a draft; none: drafts are not shown.
    pub draft_every: Option<Duration>,
}

impl PlatformTraits {
    /// Whether a send that was first tried at `since` may be repeated without a double.
    pub fn may_repeat(&self, since: Timestamp, now: Timestamp) -> bool {
        let age = now.duration_since(since);
        // A clock that was set back says nothing.
        self.repeat_within.is_some_and(|within| age >= SignedDuration::ZERO && age <= within)
    }
}

/// How the connection to a platform is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    Connecting,
    Connected,
    /// The connection broke; the next attempt follows by itself.
    Reconnecting,
    /// Somebody must do something; it is tried again, seldom.
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

/// The connections among which a platform divides what it tells a bot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    pub total: u32,
    /// Those that are not connected.
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
            text += &format!(", not {}", down.join(" "));
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
    /// `discord`, `telegram`.
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
    /// Events that wait to be taken in.
    pub queue: u64,
    /// None where there is one connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// Chats in which something does not work, and what.
    pub troubles: Vec<String>,
    /// The last time that it read what was missed, where the platform has that read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caught_up: Option<CaughtUp>,
    /// Requests of the last ten minutes that count against the bot, where the platform counts them. The bots of a daemon on a
    /// network count together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_requests: Option<u64>,
}

/// What was done about what was said while the bot was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaughtUp {
    pub at: Timestamp,
    /// Chats that were read.
    pub read: u64,
    /// Chats in which nothing new was said: they were not read.
    pub quiet: u64,
    /// Chats that could not be read.
    pub unread: u64,
    /// Messages that were taken in.
    pub messages: u64,
    /// Messages taken in before that were deleted meanwhile.
    pub deleted: u64,
}

/// A chat network, for what leaves.
pub trait Platform: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn traits(&self) -> PlatformTraits;

    /// The words in parts that fit the platform's limit, in order. The same words always give the same parts; words
    /// that are not blank give at least one.
    fn split(&self, words: &str) -> Vec<String>;

    /// The first of these parts. A platform whose drafts are long reads no more than it takes.
    fn first_part(&self, words: &str) -> Option<String> {
        self.split(words).into_iter().next()
    }

    /// Sends a part. Waits for no rate limit: that is [`SendError::Later`].
    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>>;

    /// Has a message that was sent before say other words (a part as [`Platform::split`] gives it). Repeating it does
    /// no harm; that it says so already is a success.
    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>>;

    /// Shows for a few seconds that the bot is typing. Returns when the platform has been told.
    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>>;

    fn status(&self) -> PlatformStatus;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {hint}")]
pub struct AdapterFailure {
    pub reason: String,
    pub hint: String,
    /// Trying again soon does not help: a token is wrong, an intent is missing.
    pub lasting: bool,
}

/// What an adapter needs of the runtime to take messages in.
#[derive(Clone)]
pub struct AdapterPorts {
    pub intake: Arc<dyn Intake>,
    pub chat_commands: Arc<dyn ChatCommands>,
}

/// A chat network, for what comes in, too.
pub trait Adapter: Platform {
    /// Connects and takes in what people say, until it fails in a way that it cannot mend itself. Reconnecting after
    /// a broken connection is its own work, connecting again after a failure that of its supervisor. Dropping the
    /// future stops it; what it had not acknowledged comes again.
    fn run(self: Arc<Self>, ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure>;

    /// The supervisor says how the adapter is between two runs.
    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>);
}

/// Who is paired, and where chats have moved.
pub trait PairingStore: Send + Sync + 'static {
    /// How a person stands; `user` is `PLATFORM/USER`.
    fn standing(&self, user: &str) -> PairingStatus;

    /// How a person stood when they said something that is read only now: who was let in since, or whose ban was lifted
    /// since, stands as before.
    fn standing_at(&self, user: &str, at: Timestamp) -> PairingStatus;

    /// The rules of a platform that held at a time; before all that are known, the oldest of them.
    fn access_at(&self, platform: &str, at: Timestamp) -> Option<AccessPolicy>;

    /// Since when the rules of a platform are known.
    fn access_since(&self, platform: &str) -> Option<Timestamp>;

    /// The private chats of people whom operators let in on a platform.
    fn paired_chats(&self, platform: &str) -> Vec<String>;

    /// A stranger asks to be let in. The code to tell them; `None` when they have been told of late.
    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>>;

    /// The id under which the conversations of a chat are kept: its first one.
    fn home_of(&self, platform: &str, chat: &str) -> String;

    /// The id that the platform knows a chat by now.
    fn address_of(&self, platform: &str, chat: &str) -> String;

    /// A platform gave a chat another id.
    fn migrate(&self, platform: String, from: String, to: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The number of the last record of the journal that it is read from.
    fn last_record(&self) -> u64;

    fn clock(&self) -> Arc<dyn Clock>;
}

/// Runs the commands that people give in chats.
pub trait ChatCommands: Send + Sync + 'static {
    /// Runs a command, if the caller may, once (see [`Intake::claim`]). `None`: it was run before.
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>>;
}
