//! A channel that is awake, as other actors see it: its conversation behind a lock, its waiters, its actors.
//!
//! The handle outlives restarts of its actors. Only the channel's actor writes the conversation, for microseconds and never
//! across an await; all others take snapshots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use cairn_core::agent::AgentSettings;
use cairn_core::awake::{self, Awake};
use cairn_core::compaction::Decision;
use cairn_core::conversation::{Conversation, FoldError};
use cairn_core::engine::{self, ContextEngine};
use cairn_core::silence::shown;
use cairn_core::store_port::Store;
use cairn_core::window::Place;
use cairn_types::event::Record;
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::StoreError;
use cairn_types::texts::{Saying, Texts};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::agent::AgentRuntime;
use crate::approvals::Approvals;
use crate::client_tools::ClientTools;
use crate::messages::{ChannelMsg, CompactorMsg};
use crate::subscribers::TurnSubscribers;

/// With fewer new records than this, no snapshot is saved: reading them is quick, while a snapshot is as large as the
/// window.
const LITTLE_TO_READ: usize = 32;

#[derive(Default)]
struct Actors {
    channel: Option<ActorRef<ChannelMsg>>,
    compactor: Option<ActorRef<CompactorMsg>>,
}

pub(crate) struct ChannelHandle {
    pub(crate) id: ChannelId,
    /// The agent with its current settings.
    agent: RwLock<Arc<AgentRuntime>>,
    pub(crate) engine: Arc<dyn ContextEngine>,
    /// The engine was disposed of.
    disposed: AtomicBool,
    pub(crate) subscribers: TurnSubscribers,
    pub(crate) approvals: Approvals,
    /// The tools of the client that asked last.
    client_tools: Mutex<Option<Arc<ClientTools>>>,
    conversation: RwLock<Conversation>,
    actors: Mutex<Actors>,
    changed: watch::Sender<u64>,
    /// Number of the last record at the last save.
    saved_n: AtomicU64,
    /// Records since the last snapshot, or since the channel woke.
    since_snapshot: AtomicUsize,
    /// Memory that the channel takes, in bytes, estimated.
    bytes: AtomicU64,
    /// Order of the last use; higher is later.
    used: AtomicU64,
    /// Held during an append.
    writing: Arc<Semaphore>,
}

impl ChannelHandle {
    pub(crate) fn new(agent: Arc<AgentRuntime>, conversation: Conversation) -> Self {
        let engine = agent.engine();
        engine.bootstrap(&conversation);
        Self {
            id: conversation.channel.clone(),
            agent: RwLock::new(agent),
            engine,
            disposed: AtomicBool::new(false),
            subscribers: TurnSubscribers::default(),
            approvals: Approvals::default(),
            client_tools: Mutex::default(),
            changed: watch::Sender::new(conversation.last_n),
            saved_n: AtomicU64::new(conversation.last_n),
            since_snapshot: AtomicUsize::new(0),
            bytes: AtomicU64::new(awake::bytes(&conversation)),
            used: AtomicU64::new(0),
            conversation: RwLock::new(conversation),
            actors: Mutex::default(),
            writing: Arc::new(Semaphore::new(1)),
        }
    }

    pub(crate) fn set_client_tools(&self, tools: ClientTools) {
        *self.client_tools.lock() = Some(Arc::new(tools));
    }

    /// The tools of the client that waits for the open turn.
    pub(crate) fn client_tools(&self) -> Option<Arc<ClientTools>> {
        let tools = self.client_tools.lock().clone()?;
        let is_open = |conversation: &Conversation| {
            let open = conversation.open_turn.as_ref();
            open.is_some_and(|open| open.messages.contains(&tools.message))
        };
        self.read(is_open).then_some(tools)
    }

    /// Reads under the lock. `look` must be quick.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Conversation) -> T) -> T {
        look(&self.conversation.read())
    }

    /// Whether an answer here may consist of silence: nobody waits for each answer, since several people talk or the turn is a
    /// schedule's.
    pub(crate) fn may_be_silent(&self) -> bool {
        self.read(|conversation| {
            let open = conversation.open_turn.as_ref();
            let is_scheduled = open
                .is_some_and(|open| !open.asked.is_empty() && open.asked.iter().all(MessageId::is_schedule));
            is_scheduled || Place::of(conversation).is_group()
        })
    }

    /// What may be shown of the answer under way.
    pub(crate) fn shown_so_far(&self) -> String {
        let words = self.subscribers.text_so_far();
        if self.may_be_silent() { shown(&words).into_owned() } else { words }
    }

    /// The current settings, on the model to whose window the history keeps: [`AgentRuntime::settings`]. Takes the lock of the
    /// conversation, so it must not be called while that is held.
    pub(crate) fn settings(&self) -> Arc<AgentSettings> {
        let agent = self.agent();
        self.read(|conversation| agent.settings(conversation))
    }

    /// The texts of the bot in the language of this conversation.
    pub(crate) fn texts(&self) -> Arc<Texts> {
        let agent = self.agent();
        self.read(|conversation| Arc::clone(agent.first_settings().texts(conversation)))
    }

    pub(crate) fn say(&self, saying: impl Into<Saying>) -> String {
        self.texts().say(saying)
    }

    /// The agent with its current settings.
    pub(crate) fn agent(&self) -> Arc<AgentRuntime> {
        Arc::clone(&self.agent.read())
    }

    /// Replaces the agent after a reload.
    pub(crate) fn set_agent(&self, agent: Arc<AgentRuntime>) {
        *self.agent.write() = agent;
    }

    /// The compaction that is due in this conversation, as the engine decides.
    pub(crate) fn due(
        &self,
        conversation: &Conversation,
        settings: &AgentSettings,
        now: Timestamp,
    ) -> Decision {
        if self.is_disposed() {
            return Decision::Idle;
        }
        engine::due(&*self.engine, conversation, settings, now)
    }

    /// Disposes of the engine, once: the channel falls asleep, or the runtime stops.
    pub(crate) fn dispose(&self) {
        if !self.disposed.swap(true, Ordering::AcqRel) {
            self.engine.dispose();
        }
    }

    fn is_disposed(&self) -> bool {
        self.disposed.load(Ordering::Acquire)
    }

    /// A copy of the conversation. The entries are shared, not copied.
    pub(crate) fn snapshot(&self) -> Conversation {
        self.conversation.read().clone()
    }

    /// Saves a snapshot in the store, or only the outline if few records are new. Does nothing if no record is new.
    pub(crate) async fn save(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (copy, is_due) = {
            let conversation = self.conversation.read();
            if self.saved_n.swap(conversation.last_n, Ordering::AcqRel) == conversation.last_n {
                return Ok(());
            }
            let is_due = self.since_snapshot() >= LITTLE_TO_READ;
            if is_due {
                self.since_snapshot.store(0, Ordering::Release);
            }
            (Arc::new(conversation.clone()), is_due)
        };
        if is_due { store.keep_snapshot(copy).await } else { store.keep_outline(copy).await }
    }

    /// Records since the last snapshot, or since the channel woke.
    pub(crate) fn since_snapshot(&self) -> usize {
        self.since_snapshot.load(Ordering::Acquire)
    }

    /// Folds journalled records into the conversation. Only the channel's actor may call it.
    ///
    /// # Errors
    /// A record does not fit. The state has to be restored from the archive.
    pub(crate) fn apply(&self, records: &[Record]) -> Result<(), FoldError> {
        let begun = Instant::now();
        {
            let mut conversation = self.conversation.write();
            for record in records {
                conversation.apply(record)?;
            }
            if !self.is_disposed() {
                self.engine.ingest_many(&conversation, records);
            }
        }
        metrics::histogram!("cairn_write_lock_seconds").record(begun.elapsed().as_secs_f64());
        self.since_snapshot.fetch_add(records.len(), Ordering::AcqRel);
        if let Some(record) = records.last() {
            self.changed.send_replace(record.n);
        }
        Ok(())
    }

    /// Waits until no append is under way. The next append waits until the result is dropped.
    pub(crate) async fn writing(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.writing).acquire_owned().await.ok()
    }

    /// Replaces the conversation with a restored one. Only the router may call it, while no actor writes.
    pub(crate) fn replace(&self, conversation: Conversation) {
        let n = conversation.last_n;
        self.engine.bootstrap(&conversation);
        self.bytes.store(awake::bytes(&conversation), Ordering::Relaxed);
        *self.conversation.write() = conversation;
        self.saved_n.store(n, Ordering::Release);
        self.changed.send_replace(n);
    }

    /// Memory that the channel takes, in bytes, estimated.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Estimates the memory again, after a turn or a run.
    pub(crate) fn update_size(&self) {
        self.bytes.store(self.read(awake::bytes), Ordering::Relaxed);
    }

    /// Adds to the estimate until the next [`ChannelHandle::update_size`].
    pub(crate) fn add_bytes(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
    }

    /// Notes a use; `order` is higher than at all uses before.
    pub(crate) fn note_used(&self, order: u64) {
        self.used.store(order, Ordering::Relaxed);
    }

    /// What decides whether the channel falls asleep when memory is short.
    pub(crate) fn as_awake(self: &Arc<Self>) -> Awake<Arc<Self>> {
        let is_idle = !self.subscribers.is_awaited()
            && self.read(|conversation| conversation.open_turn.is_none() && conversation.run.is_none());
        Awake {
            channel: Arc::clone(self),
            bytes: self.bytes(),
            used: self.used.load(Ordering::Relaxed),
            is_idle,
        }
    }

    /// Changes with each batch of records that is applied; the value is the last record's number.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Sets the channel's actor after a start.
    pub(crate) fn set_channel(&self, channel: ActorRef<ChannelMsg>) {
        self.actors.lock().channel = Some(channel);
    }

    /// Sets the compactor after a start.
    pub(crate) fn set_compactor(&self, compactor: ActorRef<CompactorMsg>) {
        self.actors.lock().compactor = Some(compactor);
    }

    /// Sends a message to the channel's actor. One that has just failed loses it; its restart makes up for that.
    pub(crate) fn tell_channel(&self, message: ChannelMsg) {
        let channel = self.actors.lock().channel.clone();
        if channel.is_none_or(|channel| channel.send_message(message).is_err()) {
            tracing::debug!(channel = %self.id, "the channel's actor is down; it starts again");
        }
    }

    /// Sends a message to the compactor. One that has just failed loses it; it looks for due work when it restarts.
    pub(crate) fn tell_compactor(&self, message: CompactorMsg) {
        let compactor = self.actors.lock().compactor.clone();
        if compactor.is_none_or(|compactor| compactor.send_message(message).is_err()) {
            tracing::debug!(channel = %self.id, "the compactor is down; it starts again");
        }
    }
}
