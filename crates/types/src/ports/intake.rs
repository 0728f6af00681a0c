//! The way in: messages, their changes, and what becomes of them.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ChannelRow, StoreError};
use crate::command::Command;
use crate::ids::{AgentId, ChannelId, MemoryId, MessageId, TurnId};
use crate::message::{Amendment, Author, Finish, Inbound};
use crate::model::Usage;
use crate::tool::approval::Approval;

/// What a turn does, for whoever waits for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Words of the answer. After a retry of the model call all words so far are void: see `Restarted`.
    Delta(String),
    /// The model call is made again: forget the words so far.
    Restarted,
    Tool {
        name: String,
        /// `started`, `done`, `failed`.
        state: &'static str,
    },
    /// A call waits for a person's yes.
    Approval(Box<Approval>),
    /// No model answers: the turn waits, and goes on as soon as one does. For people.
    Waiting(String),
    /// The turn ended; nothing more comes.
    Ended(Answer),
}

/// The end of a turn, for whoever waits for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Reply(Reply),
    Failed(TurnFailure),
}

/// A reply as the contract shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub turn: TurnId,
    pub message: MessageId,
    pub reply: String,
    /// The model, by its id in the configuration.
    pub model: String,
    /// Tokens of the turn.
    pub usage: Usage,
    /// Memories that were in the window.
    pub recalled: Vec<MemoryId>,
    /// Why the answer ended, where the model did not end it itself; a note behind its words says so, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// What is to be known about the answer: that the model saw only part of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// Why a turn ended without a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFailure {
    /// Typed error: `stopped`, `turn_failed`, `refused`, `refusal`, `content_filter`, `cut_off`, `compaction_failure`,
    /// `dead_letter`, `stopping`.
    pub code: String,
    pub message: String,
    pub hint: String,
}

pub struct Admission {
    pub turn: TurnId,
    /// What its turn does from here on. Ends after [`Progress::Ended`]. Dropping it cancels nothing.
    pub progress: BoxStream<'static, Progress>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The same id was used for another text.
    #[error("message id `{0}` was used before with another text; give each message an id of its own")]
    Conflict(MessageId),
    #[error("too many messages wait in this channel; try again in {retry_after_secs} s")]
    Busy {
        /// Seconds to wait.
        retry_after_secs: u64,
    },
    /// The person, the channel or the whole bot is over a limit. The message is not kept.
    #[error("{words}")]
    Limited {
        /// Seconds until there is room.
        retry_after_secs: u64,
        words: String,
        /// They have not been told since the limit was reached.
        tell: bool,
    },
    #[error("the daemon is {0}; try again in a moment")]
    Unavailable(&'static str),
    /// The message answered a request for approval: it was taken as that at once, and begins no turn.
    #[error("{words}")]
    Decided { words: String },
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The way in for platform adapters: implemented by the runtime.
pub trait Intake: Send + Sync + 'static {
    /// Takes a message in: returns when it is durable. A repeated id joins its turn, or gets its stored answer; on a
    /// chat network it is dropped, however its turn ended.
    ///
    /// [`Refusal::Busy`], [`Refusal::Unavailable`] and [`Refusal::Store`] are passing: the adapter submits the same
    /// message again, and takes nothing newer of that channel before. After the others it goes on; what
    /// [`Refusal::Decided`] says is told.
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>>;

    /// Takes a change of an earlier message in: returns when it is durable. A change of a message that was never
    /// taken in, or that changes nothing, is passed over.
    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>>;

    /// Notes that a command is about to be run. False: it was run before, so it is not run again.
    fn claim(
        &self,
        channel: ChannelId,
        message: MessageId,
        command: Command,
        caller: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>>;

    /// What was taken in last of a channel: what a platform has after that was missed. None: it was never seen.
    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>>;

    /// The private chats of a platform in which anything was ever said to the bot.
    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// The messages of people since a time that wait or are in the window, without deleted ones: what of them the platform
    /// does not have any more was deleted.
    fn standing_messages(
        &self,
        channel: &ChannelId,
        since: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<MessageId>, StoreError>>;

    /// Whether a message was taken in before, as far back as ids are remembered.
    fn has_seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<bool, StoreError>>;
}
