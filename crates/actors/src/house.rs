//! The house: the handle by which the daemon starts, asks and stops the actors.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::conversation::Conversation;
use cairn_core::event::RunEnd;
use cairn_core::ids::{AgentId, ChannelId, Generation, RunId};
use cairn_core::ports::{
    Archive, ChatModel, Clock, Journal, MemoryStore, OutboxStore, Platform, Search, StoreError,
};
use cairn_core::tier::Tier;
use futures::future::BoxFuture;
use tokio::sync::broadcast;

use crate::limits::HouseLimits;
use crate::notice::Notice;

/// An agent with its model.
#[derive(Clone)]
pub struct AgentRuntime {
    /// What decisions need to know of it.
    pub settings: Arc<AgentSettings>,
    /// The model that answers and summarises.
    pub model: Arc<dyn ChatModel>,
}

/// What the house stands on.
pub struct HouseDeps {
    /// The truth.
    pub journal: Arc<dyn Journal>,
    /// Conversations at rest.
    pub archive: Arc<dyn Archive>,
    /// Search over words, summaries and memories.
    pub search: Arc<dyn Search>,
    /// The memories.
    pub memories: Arc<dyn MemoryStore>,
    /// Deliveries owed.
    pub outbox: Arc<dyn OutboxStore>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The agents; the first is the default one.
    pub agents: Vec<AgentRuntime>,
    /// The chat networks. Replies in channels of a platform that is not among them are not delivered, only handed
    /// to who waits for them.
    pub platforms: Vec<Arc<dyn Platform>>,
    /// Bounds and times.
    pub limits: HouseLimits,
    /// The daemon before this one journalled its stop (or there was none): turns found open were not cut short
    /// by a crash.
    pub clean_stop: bool,
}

/// Why the house could not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HouseError {
    /// Nothing was ever said there.
    #[error("no channel `{0}`; `cairn channels` lists them")]
    NoSuchChannel(ChannelId),
    /// No agent of that name.
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentId),
    /// No agent at all was given.
    #[error("no agent is configured")]
    NoAgent,
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Stopping,
    /// The channel's actor failed again and again while it was asked.
    #[error("channel `{0}` failed while it was asked; it is started again, try once more")]
    Interrupted(ChannelId),
    /// An actor could not be started.
    #[error("cannot start the {actor}: {message}")]
    Spawn {
        /// Which.
        actor: &'static str,
        /// Why.
        message: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A compaction that was asked for.
pub struct RunTicket {
    /// The run; of one that is queued behind another, the id that it will have.
    pub run: RunId,
    /// It waits for the one under way.
    pub queued: bool,
    /// Its end. `None` when it never will be: `/new`, or the daemon stopped first.
    pub ended: BoxFuture<'static, Option<RunEnd>>,
}

/// How the house is.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Health {
    /// `starting`, `ready` or `stopping`.
    pub state: &'static str,
    /// Channels awake.
    pub awake: usize,
    /// Turns under way.
    pub turns: usize,
    /// Compaction runs under way.
    pub runs: usize,
    /// Actors started again after a failure, since the start.
    pub restarts: u64,
}

/// The handle to the actors. Cheap to clone.
#[derive(Clone)]
pub struct House {
    inner: Arc<HouseDeps>,
}

impl House {
    /// Journals the start, starts the actors and wakes every channel that has something unfinished.
    ///
    /// # Errors
    /// There is no agent, the journal cannot be written, or an actor does not start.
    pub async fn start(deps: HouseDeps) -> Result<Self, HouseError> {
        Ok(Self { inner: Arc::new(deps) })
    }

    /// A snapshot of a conversation, and whether its channel is awake; one at rest is read from the archive and
    /// not woken. `None` when it was never seen.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversation(
        &self,
        channel: &ChannelId,
    ) -> Result<Option<(Arc<Conversation>, bool)>, HouseError> {
        Ok(self.inner.archive.restore(channel).await?.map(|conversation| (Arc::new(conversation), false)))
    }

    /// The channels awake, by name.
    pub async fn awake(&self) -> Vec<ChannelId> {
        Vec::new()
    }

    /// The agent of that name.
    pub fn agent(&self, id: &AgentId) -> Option<Arc<AgentRuntime>> {
        self.inner.agents.iter().find(|agent| agent.settings.id == *id).cloned().map(Arc::new)
    }

    /// The agent that is meant when none is named: the first.
    pub fn default_agent(&self) -> AgentId {
        self.inner.agents.first().map_or_else(|| AgentId::from("main"), |agent| agent.settings.id.clone())
    }

    /// Asks for a compaction. `None`: there is nothing to compact.
    ///
    /// # Errors
    /// The channel was never seen, its agent is unknown, the store failed, or the daemon stops.
    pub async fn compact(
        &self,
        channel: &ChannelId,
        instruction: Option<String>,
    ) -> Result<Option<RunTicket>, HouseError> {
        let _ = instruction;
        Err(HouseError::NoSuchChannel(channel.clone()))
    }

    /// Archives the conversation and begins a new generation. An open turn is stopped, a run cancelled; pending
    /// messages belong to the new generation.
    ///
    /// # Errors
    /// As for [`House::compact`].
    pub async fn new_generation(&self, channel: &ChannelId) -> Result<Generation, HouseError> {
        Err(HouseError::NoSuchChannel(channel.clone()))
    }

    /// Stops the open turn. False when there was none.
    ///
    /// # Errors
    /// As for [`House::compact`].
    pub async fn stop_turn(&self, channel: &ChannelId) -> Result<bool, HouseError> {
        Err(HouseError::NoSuchChannel(channel.clone()))
    }

    /// What happens from here on, in all channels. A slow receiver misses some.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        broadcast::channel(16).1
    }

    /// Returns when the channel's tier is below `below`, or no run is under way, queued or due.
    pub async fn wait_calm(&self, channel: &ChannelId, below: Tier) {
        let _ = (channel, below);
    }

    /// Accepts messages: started and not stopping.
    pub fn is_ready(&self) -> bool {
        false
    }

    /// How the house is.
    pub fn health(&self) -> Health {
        Health { state: "starting", awake: 0, turns: 0, runs: 0, restarts: 0 }
    }

    /// Stops: takes nothing more in, lets open turns end within `grace`, cancels the rest (they are taken up
    /// again at the next start, as are runs), keeps heads, journals the stop. Returns when all is at rest.
    pub async fn shutdown(&self, grace: Duration) {
        let _ = grace;
    }
}
