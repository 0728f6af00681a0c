//! Ports: what the decisions need from the world. Adapters implement them; nothing here does I/O.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::event::{NewRecord, Record};
use crate::ids::{AgentId, ChannelId, MemoryId, MessageId, Seq, TurnId};
use crate::memory::{Memory, MemoryKind, Reach, Scope};
use crate::message::{Author, Entry};
use crate::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};

mod adapter;
mod intake;
mod outbox;
mod tools;

pub use adapter::{
    Adapter, AdapterFailure, AdapterPorts, ChatCommands, LinkState, PairingStore, Platform, PlatformStatus,
    PlatformTraits, SendError, SendPart,
};
pub use intake::{Admission, Answer, Intake, Progress, Refusal, Reply, TurnFailure};
pub use outbox::{DeliveryState, OutboxItem, OutboxStore, RegistryStore};
pub use tools::{ArgumentCheck, ArtifactLines, ArtifactStore, LineRange, Tool, Toolset};

pub trait Clock: Send + Sync + 'static {
    /// Now, in UTC.
    fn now(&self) -> Timestamp;
}

pub trait ChatModel: Send + Sync + 'static {
    fn info(&self) -> &ModelInfo;

    /// Its window as its server lists it; `None`: the server lists none. What the server has answered is not asked again.
    ///
    /// # Errors
    /// The server does not answer now; it may later.
    fn discover_window(&self) -> BoxFuture<'_, Result<Option<u64>, Unanswered>>;

    /// Sends a request. Dropping the stream cancels it. After an error, or after [`ModelEvent::Done`], nothing
    /// more comes; a stream that ends otherwise has yielded a [`ModelError::Protocol`].
    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// A model's server did not say what it was asked about the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's server does not say how large its window is")]
pub struct Unanswered;

/// Why the store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full: intake pauses until there is room.
    #[error("the disk that holds {path} is full; make room, the daemon goes on by itself")]
    DiskFull { path: String },
    /// A file could not be read or written.
    #[error("{action} {path}: {message}")]
    Io { action: &'static str, path: String, message: String },
    /// Something in the state folder is damaged.
    #[error("{file}, line {line}: {message}; `cairn store verify --quarantine` goes on without it")]
    Damaged {
        file: String,
        /// The line, from 1.
        line: u64,
        message: String,
    },
    /// Another process owns the state folder.
    #[error("the state folder {path} is in use by another daemon (process {pid})")]
    InUse { path: String, pid: String },
    /// A view (sled or the search index) failed; the journal is intact.
    #[error("the view `{view}` failed: {message}; `cairn store rebuild` makes it again from the journal")]
    View { view: &'static str, message: String },
    /// A newer version of this program wrote the state folder: nothing in it was touched.
    #[error(
        "{path} has format {format}, written by cairn {written_by}; this cairn knows formats up to {known}"
    )]
    Newer {
        path: String,
        format: u32,
        written_by: String,
        /// The newest format that this program knows.
        known: u32,
    },
    #[error("the store is closed")]
    Closed,
}

pub trait Journal: Send + Sync + 'static {
    /// Appends the records together, in order, and returns once they are durable, with their numbers and times:
    /// all of them or, on error, none. Records of concurrent calls share a sync.
    fn append(&self, records: Vec<NewRecord>) -> BoxFuture<'_, Result<Vec<Record>, StoreError>>;
}

/// How a message id stands with the channel.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// Never seen (or longer ago than ids are remembered).
    New,
    Open {
        /// Its turn as announced when it was accepted.
        turn: TurnId,
        fingerprint: String,
    },
    Ended {
        turn: TurnId,
        fingerprint: String,
        /// How it ended; a stored answer is read by its reply's `seq`.
        end: Box<crate::event::TurnEnd>,
    },
}

/// A line of the list of channels, from the views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub channel: ChannelId,
    /// When anything last happened in it.
    pub last_at: Timestamp,
    /// It has pending messages, an open turn or a run: it must be woken at start.
    pub unfinished: bool,
    /// The message or command that was taken in last; what a platform may have more of comes after it.
    pub last_message: Option<MessageId>,
}

/// Conversations at rest: what channels are restored from, and where old words are read.
pub trait Archive: Send + Sync + 'static {
    /// All channels ever seen, by name.
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>>;

    /// Restores a channel: its last head, and the events since. `None` when it was never seen.
    fn restore(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>>;

    /// Keeps a conversation's head, so that the next restore is quick. Only a cache: losing it loses nothing.
    fn keep_head(&self, conversation: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Entries with `from <= seq <= to`, in order, at most `limit`, of all generations; pending ones excluded. Deleted
    /// messages are without their words.
    fn entries(
        &self,
        channel: &ChannelId,
        from: Seq,
        to: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    /// The entries that a message and its corrections became, in order: for [`crate::conversation::amend`]. None while
    /// it is pending, and when its id is not remembered any more.
    fn said(
        &self,
        channel: &ChannelId,
        message: &MessageId,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;

    fn seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HitKind {
    Entry,
    Summary,
    Memory,
}

/// One result of a search; the shape is the contract's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The entry, or the first entry of a summary's or memory's range.
    pub seq: Option<Seq>,
    pub score: f64,
    pub at: Timestamp,
    pub author: Option<Author>,
    pub text: String,
    pub kind: HitKind,
    /// Id of the summary or memory; of an entry, its platform message id or its `seq`.
    pub id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The channel whose history is searched.
    pub channel: ChannelId,
    /// Words, in any order; all are optional (OR), stop words do not count.
    pub text: String,
    pub kind: Option<HitKind>,
    /// Memories are found through these scopes alone; empty: no memories.
    pub scopes: Vec<Scope>,
    pub limit: usize,
    /// Wait a little, until everything journalled so far can be found. The command line asks for it; the model does not.
    pub settled: bool,
}

/// Search over raw words, summaries and memories.
pub trait Search: Send + Sync + 'static {
    fn search(&self, query: Query) -> BoxFuture<'_, Result<Vec<Hit>, StoreError>>;

    /// Records of the journal whose words are not in the index yet: many, while it is made again.
    fn unindexed(&self) -> u64 {
        0
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryFilter {
    pub kind: Option<MemoryKind>,
    pub subject: Option<String>,
    /// Only those that match these words, best first.
    pub query: Option<String>,
    pub limit: usize,
}

/// The memories. There is no way to read one but within a reach.
pub trait MemoryStore: Send + Sync + 'static {
    /// Memories of an agent within reach, oldest first (best first with a query).
    fn list(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        filter: MemoryFilter,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>>;

    /// One memory by its id, for the operator.
    fn get(&self, id: &MemoryId) -> BoxFuture<'_, Result<Option<Memory>, StoreError>>;

    /// The few that fit the question, for the tail of a window: best first, at most `limit`.
    fn recall(
        &self,
        agent: &AgentId,
        reach: &[Reach],
        question: &str,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Memory>, StoreError>>;
}
