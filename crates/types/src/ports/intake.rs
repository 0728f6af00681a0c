//! Where messages and their changes enter the runtime, and what a sender sees of their turns.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ChannelRow, StoreError};
use crate::command::Command;
use crate::ids::{AgentId, ChannelId, MemoryId, MessageId, TurnId};
use crate::message::{Amendment, Author, Finish, Inbound, ToolCall};
use crate::model::Usage;
use crate::texts::Saying;
use crate::tool::approval::Approval;

/// Progress of a turn, for those who wait for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Text of the answer. A retry of the model call voids all text so far: see `Restarted`.
    Delta(String),
    /// The model call is repeated: discard the text so far.
    Restarted,
    Tool {
        name: String,
        /// `started`, `done`, `failed`.
        state: &'static str,
    },
    /// Calls of tools that the client runs. The turn waits for their results.
    ClientCalls {
        calls: Vec<ToolCall>,
        /// Tokens of the turn so far.
        usage: Usage,
    },
    /// A tool call waits for approval.
    Approval(Box<Approval>),
    /// No model answers: the turn waits, and resumes as soon as one does. The text is for people.
    Waiting(String),
    /// The turn ended; nothing more comes.
    Ended(Answer),
}

/// The end of a turn, for those who wait for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Reply(Reply),
    Failed(TurnFailure),
}

/// A reply, as JSON shows it. Scripts rely on its shape.
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
    /// Why the answer ended, if the model did not end it itself; a note behind its text says so, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// A warning about the answer: that the model saw only part of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// Why a turn ended without a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFailure {
    /// Typed error: `stopped`, `turn_failed`, `refused`, `refusal`, `content_filter`, `cut_off`, `compaction_failure`,
    /// `dead_letter`, `stopping`, `limited`.
    pub code: String,
    pub message: String,
    pub hint: String,
}

pub struct Admission {
    pub turn: TurnId,
    /// Progress of its turn from here on. Ends after [`Progress::Ended`]. Dropping it cancels nothing.
    pub progress: BoxStream<'static, Progress>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The message's id was used before, for another text.
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
        words: Saying,
        /// They should be told: they were not since the limit was reached.
        tell: bool,
    },
    #[error("the daemon is {0}; try again in a moment")]
    Unavailable(&'static str),
    /// The message answered an approval request. It was applied immediately, and starts no turn.
    #[error("{words}")]
    Decided { words: Saying },
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Accepts messages from platform adapters. Implemented by the runtime.
pub trait Intake: Send + Sync + 'static {
    /// Accepts a message; returns when it is durable. A repeated id joins its turn, or gets its stored answer; on a chat
    /// network it is dropped, however its turn ended.
    ///
    /// [`Refusal::Busy`], [`Refusal::Unavailable`] and [`Refusal::Store`] are temporary: the adapter submits the same message
    /// again, and nothing newer of that channel before it. After the others it continues; the text of [`Refusal::Decided`] is
    /// shown to the person.
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>>;

    /// Accepts a change of an earlier message; returns when it is durable. A change of a message that was never accepted, or
    /// that changes nothing, is ignored.
    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>>;

    /// Records that a command is about to be run. `false`: it was run before, and must not be run again.
    fn claim(
        &self,
        channel: ChannelId,
        message: MessageId,
        command: Command,
        caller: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>>;

    /// The channel's row, which names its last accepted message: what the platform has after that was missed. `None`: it was
    /// never seen.
    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>>;

    /// The private chats of a platform in which anything was ever said to the bot.
    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>>;

    /// People's messages since a time that are pending or in the window, without deleted ones. One that the platform does not
    /// have any more was deleted there.
    fn standing_messages(
        &self,
        channel: &ChannelId,
        since: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<MessageId>, StoreError>>;

    /// Whether a message was accepted before, as far back as ids are remembered.
    fn has_seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<bool, StoreError>>;
}
