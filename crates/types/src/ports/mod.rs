//! Ports: what the core and the runtime need from the world. Adapters implement them; nothing here does I/O.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;

use crate::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};

mod adapter;
mod embed;
mod intake;
mod reports;
mod speak;
mod store;
mod tools;

pub use adapter::{
    Adapter, AdapterFailure, AdapterPorts, CaughtUp, ChatCommands, FilePart, LinkState, Mark, PairingStore,
    Platform, PlatformStatus, PlatformTraits, SPLIT_AT_ONCE, SendError, SendPart, Shards, Trouble,
};
pub use embed::{Embedder, NoRank, Reranker};
pub use intake::{Admission, Answer, Intake, Progress, Refusal, Reply, TurnFailure};
pub use reports::{Expired, MemoryTrail, Node, NodeRow, ProgressReport, Shrunk, TrailStep};
pub use speak::{NoSpeech, Speaker};
pub use store::{
    ArtifactLines, ChannelRow, DeliveryState, Hit, HitKind, LineRange, MemoryFilter, NEAR_MAX, OutboxCounts,
    OutboxItem, Query, Recall, Seen, StoreError,
};
pub use tools::{ArgumentCheck, Tool, Toolset};

pub trait Clock: Send + Sync + 'static {
    /// Now, in UTC.
    fn now(&self) -> Timestamp;
}

pub trait ChatModel: Send + Sync + 'static {
    fn info(&self) -> &ModelInfo;

    /// Asks the model's server for the model's window.
    ///
    /// # Errors
    /// The server does not answer now; it may later.
    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>>;

    /// Sends a request. Dropping the stream cancels it. After an error, or after [`ModelEvent::Done`], nothing
    /// more comes; a stream that ends otherwise has yielded a [`ModelError::Protocol`]. It ends in bounded time, however
    /// silent its server is: a turn in a chat waits for that.
    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// The window of a model as its server tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerWindow {
    Listed(u64),
    /// The window with which the model is loaded now. It may differ when the model is loaded again.
    Loaded(u64),
    /// The server loads the model with its first request, and tells the window then.
    NotLoaded,
    /// The server does not tell it.
    Unlisted,
}

impl ServerWindow {
    /// The window in tokens, where the server tells it.
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Listed(tokens) | Self::Loaded(tokens) => Some(tokens),
            Self::NotLoaded | Self::Unlisted => None,
        }
    }
}

/// A model's server did not say what it was asked about the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model's server does not say how large its window is")]
pub struct Unanswered;
