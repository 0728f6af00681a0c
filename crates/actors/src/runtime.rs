//! The runtime: the handle by which the daemon starts, asks and stops the actors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::compaction::Decision;
use cairn_core::compaction::{InstructionTooLong, NothingToCompact, check_instruction};
use cairn_core::conversation::Conversation;
use cairn_core::event::{Event, NewRecord, RunEnd};
use cairn_core::ids::{AgentId, ChannelId, Generation, OutboxId, RunId, TurnId};
use cairn_core::limits::{Price, TalkLimits};
use cairn_core::pairing_store::UsageDay;
use cairn_core::ports::{ArgumentCheck, Clock, OutboxItem, Platform, Store, StoreError, Toolset};
use cairn_core::tier::Tier;
use cairn_core::window::measure;
use futures::future::{BoxFuture, join_all};
use ractor::{Actor as _, ActorRef};
use tokio::sync::{broadcast, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::agent::AgentRuntime;
use crate::channel::ChannelMsg;
use crate::limits::HouseLimits;
use crate::models::{ModelStatus, statuses};
use crate::notice::Notice;
use crate::outbox::{OutboxMsg, Owed};
use crate::shared::{Create, Phase, Shared};
use crate::supervisor::{Supervisor, SupervisorMsg};

pub struct RuntimeDeps {
    pub store: Arc<dyn Store>,
    /// Tools beside those that are built in.
    pub tools: Arc<dyn Toolset>,
    /// Checks the arguments of all calls.
    pub arguments: Arc<dyn ArgumentCheck>,
    pub clock: Arc<dyn Clock>,
    /// The agents; the first is the default one.
    pub agents: Vec<AgentRuntime>,
    /// The chat networks. What is owed to one that is not among them stays owed until a daemon has it.
    pub platforms: Vec<Arc<dyn Platform>>,
    pub limits: HouseLimits,
    /// How much people may talk to the bot.
    pub talk: TalkLimits,
    /// What models cost, by their ids in the configuration.
    pub prices: BTreeMap<String, Price>,
    pub usage_day: UsageDay,
    /// The daemon before this one journalled its stop (or there was none): turns found open were not cut short
    /// by a crash.
    pub clean_stop: bool,
}

/// Why the runtime could not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuntimeError {
    #[error("no channel `{0}`; `cairn channels` lists them")]
    NoSuchChannel(ChannelId),
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentId),
    #[error("no agent is configured")]
    NoAgent,
    /// No delivery of that name is owed.
    #[error("no delivery `{0}` is owed; `cairn outbox list` shows what is")]
    NoSuchDelivery(OutboxId),
    /// There is no turn that could be taken back.
    #[error("nothing to undo: {0}")]
    NothingToUndo(String),
    /// What a summary is to attend to is too long.
    #[error(transparent)]
    Instruction(#[from] InstructionTooLong),
    #[error("{0}")]
    Limited(String),
    #[error("the daemon is stopping")]
    Stopping,
    /// The channel's actor failed again and again while it was asked.
    #[error("channel `{0}` failed while it was asked; it is started again, try once more")]
    Interrupted(ChannelId),
    #[error("cannot start the {actor}: {message}")]
    Spawn { actor: &'static str, message: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a request for a compaction leads to.
pub enum Compaction {
    Nothing(NothingToCompact),
    Run(RunTicket),
    /// Room was made at once: by a context engine without runs.
    Made(RoomMade),
}

impl Compaction {
    pub fn run(self) -> Option<RunTicket> {
        match self {
            Self::Run(ticket) => Some(ticket),
            Self::Nothing(_) | Self::Made(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomMade {
    pub messages: u64,
    /// Window tokens before, after correction.
    pub tokens_before: u64,
    /// Window tokens after, after correction.
    pub tokens_after: u64,
}

pub struct RunTicket {
    /// The run; of one that is queued behind another, the id that it will have.
    pub run: RunId,
    pub queued: bool,
    /// It was under way, or queued, before it was asked for.
    pub joined: bool,
    /// Its end. `None` when it never will be: `/new`, or the daemon stopped first.
    pub ended: BoxFuture<'static, Option<RunEnd>>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Health {
    /// `starting`, `ready` or `stopping`.
    pub state: &'static str,
    pub awake: usize,
    pub turns: usize,
    pub runs: usize,
    /// Messages that are accepted and in no turn yet, over all channels awake.
    pub pending: usize,
    /// Actors started again after a failure, since the start.
    pub restarts: u64,
}

/// The handle to the actors. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
}

impl Runtime {
    /// Journals the start, starts the actors and wakes every channel that has something unfinished.
    ///
    /// # Errors
    /// There is no agent, the journal cannot be written, or an actor does not start.
    pub async fn start(deps: RuntimeDeps) -> Result<Self, RuntimeError> {
        if deps.agents.is_empty() {
            return Err(RuntimeError::NoAgent);
        }
        let shared = Arc::new(Shared::new(deps));
        journal(&shared, Event::DaemonStarted { version: env!("CARGO_PKG_VERSION").to_owned() }).await?;
        let started = Supervisor::spawn(None, Supervisor, Arc::clone(&shared)).await;
        let (supervisor, _) = started
            .map_err(|error| RuntimeError::Spawn { actor: "supervisor", message: error.to_string() })?;
        shared.set_phase(Phase::Ready);
        Ok(Self { shared, supervisor })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A snapshot of a conversation, and whether its channel is awake; one at rest is read from the archive and
    /// not woken. `None` when it was never seen.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversation(
        &self,
        channel: &ChannelId,
    ) -> Result<Option<(Arc<Conversation>, bool)>, RuntimeError> {
        if let Some(handle) = self.shared.handle(channel) {
            return Ok(Some((Arc::new(handle.snapshot()), true)));
        }
        let restored = self.shared.deps.store.restore(channel).await?;
        Ok(restored.map(|conversation| (Arc::new(conversation), false)))
    }

    #[expect(clippy::unused_async, reason = "callers need not know that nothing is awaited")]
    pub async fn awake(&self) -> Vec<ChannelId> {
        self.shared.handles.read().keys().cloned().collect()
    }

    pub fn agent(&self, id: &AgentId) -> Option<Arc<AgentRuntime>> {
        self.shared.agent(id)
    }

    /// Agents that are configured otherwise from here on: their next turns and runs are by these settings. Those that
    /// are not among them stay as they are.
    pub fn set_agents(&self, agents: Vec<AgentRuntime>) {
        self.shared.set_agents(agents);
    }

    /// Waits until a model has answered; at once where one has since this was asked last.
    pub async fn model_answered(&self) {
        self.shared.models.answers.notified().await;
    }

    /// Bounds, times and prices from here on. How many messages are admitted at once stays as it began.
    pub fn set_limits(&self, limits: HouseLimits, talk: TalkLimits, prices: BTreeMap<String, Price>) {
        self.shared.set_limits(limits, talk, prices);
    }

    pub(crate) fn supervisor(&self) -> &ActorRef<SupervisorMsg> {
        &self.supervisor
    }

    /// The chain of an agent's models, in its order, and how each of them is.
    pub fn models(&self, agent: &AgentRuntime) -> Vec<ModelStatus> {
        let models = &self.shared.models;
        statuses(agent, |model| models.health(model), self.shared.now())
    }

    /// The agent that is meant when none is named: the first.
    pub fn default_agent(&self) -> AgentId {
        let first = self.shared.deps.agents.first();
        first.map_or_else(|| AgentId::from("main"), |agent| agent.id.clone())
    }

    /// Asks for a compaction. `tell`: the chat is told how it ends.
    ///
    /// # Errors
    /// The instruction is too long, the day's money is spent, the channel was never seen, its agent is unknown, the store
    /// failed, or the daemon stops.
    pub async fn compact(
        &self,
        channel: &ChannelId,
        instruction: Option<String>,
        tell: bool,
    ) -> Result<Compaction, RuntimeError> {
        instruction.as_deref().map_or(Ok(()), check_instruction)?;
        let ask = |reply| ChannelMsg::Compact { instruction: instruction.clone(), tell, reply };
        self.shared.ask(channel, Create::No, ask).await?
    }

    /// Archives the conversation and begins a new generation. An open turn is stopped, a run cancelled; pending
    /// messages belong to the new generation.
    ///
    /// # Errors
    /// As for [`Runtime::compact`].
    pub async fn new_generation(&self, channel: &ChannelId) -> Result<Generation, RuntimeError> {
        self.shared.ask(channel, Create::No, |reply| ChannelMsg::NewGeneration { reply }).await?
    }

    /// Stops the open turn. False when there was none.
    ///
    /// # Errors
    /// As for [`Runtime::compact`].
    pub async fn stop_turn(&self, channel: &ChannelId) -> Result<bool, RuntimeError> {
        self.shared.ask(channel, Create::No, |reply| ChannelMsg::Stop { reply }).await?
    }

    /// What is not delivered yet, or could not be, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn deliveries(&self) -> Result<Vec<OutboxItem>, RuntimeError> {
        Ok(self.shared.deps.store.deliveries().await?)
    }

    /// Has a delivery that did not succeed tried again, from its first part that is not there. One that is under way
    /// goes on as it is.
    ///
    /// # Errors
    /// There is no such delivery, the store failed, or the daemon stops.
    pub async fn retry_delivery(&self, id: &OutboxId) -> Result<(), RuntimeError> {
        let item = self.delivery(id).await?;
        if !self
            .shared
            .ask(&item.channel, Create::No, |reply| ChannelMsg::Retry { id: id.clone(), reply })
            .await??
        {
            return Ok(());
        }
        // As the journal has it now, and sends it from there.
        let item = self.delivery(id).await?;
        tracing::info!(channel = %item.channel, delivery = %id, "a delivery is tried again by command");
        self.shared.tell_outbox(OutboxMsg::Owe(Box::new(Owed { item, reply: None, typing: None })));
        Ok(())
    }

    /// Gives a delivery up.
    ///
    /// # Errors
    /// As for [`Runtime::retry_delivery`].
    pub async fn drop_delivery(&self, id: &OutboxId) -> Result<(), RuntimeError> {
        let item = self.delivery(id).await?;
        let channel = item.channel;
        self.shared.ask(&channel, Create::No, |reply| ChannelMsg::Drop { id: id.clone(), reply }).await??;
        tracing::info!(%channel, delivery = %id, "a delivery was dropped by command");
        let platform = channel.platform().to_owned();
        metrics::counter!("cairn_deliveries_total", "platform" => platform, "outcome" => "dropped")
            .increment(1);
        self.shared.tell_outbox(OutboxMsg::Forget { channel, id: id.clone() });
        Ok(())
    }

    async fn delivery(&self, id: &OutboxId) -> Result<OutboxItem, RuntimeError> {
        let found = self.deliveries().await?.into_iter().find(|item| item.id == *id);
        found.ok_or_else(|| RuntimeError::NoSuchDelivery(id.clone()))
    }

    /// The money that the day has cost so far, in the currency of the prices.
    pub fn spent_today(&self) -> f64 {
        self.shared.spent_today()
    }

    /// Takes the last turn back: it is archived, and the model never sees it again. An open turn is stopped first; it is
    /// the last one then.
    ///
    /// # Errors
    /// As for [`Runtime::compact`]; or there is nothing to take back.
    pub async fn undo(&self, channel: &ChannelId) -> Result<TurnId, RuntimeError> {
        self.shared.ask(channel, Create::No, |reply| ChannelMsg::Undo { reply }).await?
    }

    /// What happens from here on, in all channels. A slow receiver misses some.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }

    /// Returns when the channel's tier is below `below`, or no run is under way or due.
    pub async fn wait_calm(&self, channel: &ChannelId, below: Tier) {
        loop {
            let Some(handle) = self.shared.handle(channel) else { return };
            let mut changes = handle.changes();
            changes.borrow_and_update();
            let settings = &handle.settings();
            let now = self.shared.now();
            let calm = handle.read(|conversation| {
                let decision = || handle.due(conversation, settings, now);
                let due = || matches!(decision(), Decision::Start(_) | Decision::Apply(_));
                measure(conversation, settings).tier < below || (conversation.run.is_none() && !due())
            });
            drop(handle);
            if calm || changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Accepts messages: started and not stopping.
    pub fn is_ready(&self) -> bool {
        self.shared.phase() == Phase::Ready
    }

    pub fn health(&self) -> Health {
        let handles: Vec<_> = self.shared.handles.read().values().cloned().collect();
        let count =
            |what: fn(&Conversation) -> bool| handles.iter().filter(|handle| handle.read(what)).count();
        Health {
            state: self.shared.phase().name(),
            awake: handles.len(),
            turns: count(|conversation| conversation.open_turn.is_some()),
            runs: count(|conversation| conversation.run.is_some()),
            pending: handles
                .iter()
                .map(|handle| handle.read(|conversation| conversation.pending.len()))
                .sum(),
            restarts: self.shared.restarts(),
        }
    }

    /// Stops: takes nothing more in, lets open turns end within `grace`, cancels the rest (they are taken up
    /// again at the next start, as are runs), keeps heads, journals the stop. Returns when all is at rest.
    pub async fn shutdown(&self, grace: Duration) {
        let stop_by = Instant::now() + grace;
        self.shared.set_phase(Phase::Stopping);
        self.shared.stop_by.send_replace(Some(stop_by));
        let handles: Vec<_> = self.shared.handles.read().values().cloned().collect();
        let ask_all = |message: fn(oneshot::Sender<()>) -> ChannelMsg| {
            let answers = handles.iter().map(|handle| {
                let (done, answer) = oneshot::channel();
                handle.tell_channel(message(done));
                answer
            });
            join_all(answers.collect::<Vec<_>>())
        };
        if timeout_at(stop_by, ask_all(|done| ChannelMsg::Drain { done })).await.is_err() {
            tracing::warn!(
                "turns are still open after the grace time; they are taken up again at the next start"
            );
        }
        // What is on its way when the time is over gets a little more, so that its fate is known.
        let (done, drained) = oneshot::channel();
        self.shared.tell_outbox(OutboxMsg::Drain { done });
        if timeout_at(stop_by.max(Instant::now()) + SEND_LIMIT, drained).await.is_err() {
            tracing::warn!(
                "something is still being sent; whether it is there is found out at the next start"
            );
        }
        if timeout(STOP_LIMIT, ask_all(|done| ChannelMsg::Abandon { done })).await.is_err() {
            tracing::warn!("a channel does not answer; its state is in the journal");
        }
        self.shared.tasks.cancel();
        self.supervisor.stop(Some("shutdown".to_owned()));
        if let Err(error) = self.supervisor.wait(Some(STOP_LIMIT)).await {
            tracing::warn!(%error, "the actors are slow to stop");
        }
        if timeout(STOP_LIMIT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("tasks are slow to stop");
        }
        handles.iter().for_each(|handle| handle.dispose());
        let heads = async {
            for handle in &handles {
                let head = Arc::new(handle.snapshot());
                if let Err(error) = self.shared.deps.store.keep_snapshot(head).await {
                    tracing::warn!(channel = %handle.id, %error, "a head was not kept; the next start takes longer");
                }
            }
        };
        if timeout(STOP_LIMIT, heads).await.is_err() {
            tracing::warn!("not all heads were kept in time; the next start takes longer");
        }
        self.shared.handles.write().clear();
        match timeout(STOP_LIMIT, journal(&self.shared, Event::DaemonStopped)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "the stop was not journalled; the next start takes it for a crash");
            }
            Err(_) => {
                tracing::error!("the journal does not answer; the next start takes this stop for a crash");
            }
        }
    }
}

/// What the outbox is given beyond the grace time for what is on its way.
const SEND_LIMIT: Duration = Duration::from_secs(2);

/// Longest that the parts of the runtime are given to stop once they are told so.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Journals an event of the daemon itself.
async fn journal(shared: &Shared, event: Event) -> Result<(), StoreError> {
    let record = NewRecord { channel: None, at: shared.now(), event };
    shared.deps.store.append(vec![record]).await.map(drop)
}
