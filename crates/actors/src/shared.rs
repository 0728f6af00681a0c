//! What all actors share: what the runtime was given, its limits, the agents, the handles of the channels awake, and the way
//! to a channel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use cairn_core::agent::RuntimeLimits;
use cairn_core::limits::{Limited, Meter, Price, TalkLimits};
use cairn_core::registry::UsageDay;
use cairn_core::store_port::Store;
use cairn_types::event::{Event, MaintenanceEvent, NewRecord};
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM, TextId};
use cairn_types::model::Usage;
use cairn_types::ports::{ArgumentCheck, Clock, Platform, Toolset};
use cairn_types::wire::backoff::Backoff;
use cairn_types::wire::format::KeptText;
use jiff::Timestamp;
use lru::LruCache;
use parking_lot::{Mutex, RwLock};
use ractor::ActorRef;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio::time::Instant;

use crate::admission::CallShares;
use crate::agent::{AgentRuntime, Models};
use crate::events::{RuntimeEvent, RuntimeEventKind};
use crate::failure::RuntimeError;
use crate::handle::ChannelHandle;
use crate::messages::{CompactorMsg, Create, OutboxMsg, Request, RouterMsg};
use crate::tasks::Tasks;
use crate::telemetry;

/// Digests that are made at once.
const DIGESTS: usize = 2;

/// Events that a slow watcher may lag behind before it misses some.
const EVENT_QUEUE: usize = 1024;

/// Texts that are remembered to be journalled. There are three for each model of an agent.
const KEPT_TEXTS: usize = 4096;

/// How often a question to a channel is asked again when its actor failed over it.
const ASK_ATTEMPTS: u32 = 6;
const ASK_PAUSE_MAX: Duration = Duration::from_secs(30);

pub struct RuntimeDeps {
    pub store: Arc<dyn Store>,
    /// Tools beside those that are built in.
    pub tools: Arc<dyn Toolset>,
    /// Checks the arguments of all calls.
    pub arguments: Arc<dyn ArgumentCheck>,
    pub clock: Arc<dyn Clock>,
    /// The agents; the first is the default one.
    pub agents: Vec<AgentRuntime>,
    /// The chat networks. A delivery to one that is not among them waits until a daemon has it.
    pub platforms: Vec<Arc<dyn Platform>>,
    pub limits: RuntimeLimits,
    /// How much people may talk to the bot.
    pub talk: TalkLimits,
    /// What models cost, by their ids in the configuration.
    pub prices: BTreeMap<String, Price>,
    pub usage_day: UsageDay,
    /// Turns found open were not cut short by a crash: the daemon before this one journalled its stop, or there was none,
    /// or it was a runtime of this process whose [`crate::Runtime::shutdown`] ended in order. False: they are counted as
    /// interrupted.
    pub clean_stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Starting = 0,
    Ready = 1,
    Stopping = 2,
}

impl Phase {
    /// Its name in records and errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
        }
    }
}

/// What all actors share.
pub(crate) struct Shared {
    pub(crate) deps: RuntimeDeps,
    /// Bounds and times, as they are now.
    limits: RwLock<Arc<RuntimeLimits>>,
    /// The agents by name, as they are now.
    agents: RwLock<BTreeMap<AgentId, Arc<AgentRuntime>>>,
    pub(crate) handles: RwLock<BTreeMap<ChannelId, Arc<ChannelHandle>>>,
    pub(crate) events: broadcast::Sender<RuntimeEvent>,
    /// Permits of messages on their way to the journal.
    pub(crate) permits: Arc<Semaphore>,
    /// Digests at once: the other blocking threads serve messages.
    pub(crate) digests: Arc<Semaphore>,
    /// Whose calls of models are at work, and whose wait.
    pub(crate) call_shares: CallShares,
    /// When a stop must have come to its end; none before it begins.
    pub(crate) stop_by: watch::Sender<Option<Instant>>,
    pub(crate) models: Models,
    meter: Mutex<Meter>,
    pub(crate) tasks: Tasks,
    phase: AtomicU8,
    restarts: AtomicU64,
    /// Uses of channels so far: the order in which they were used.
    uses: AtomicU64,
    /// Texts that traces name and that are journalled, as far as this runtime knows.
    kept_texts: Mutex<LruCache<TextId, ()>>,
    router: RwLock<Option<ActorRef<RouterMsg>>>,
    outbox: RwLock<Option<ActorRef<OutboxMsg>>>,
}

impl Shared {
    pub(crate) fn new(deps: RuntimeDeps) -> Self {
        let agents = by_name(deps.agents.iter().cloned());
        let meter = Meter::new(deps.talk.clone(), deps.prices.clone(), deps.usage_day.clone());
        Self {
            limits: RwLock::new(Arc::new(deps.limits.clone())),
            agents: RwLock::new(agents),
            stop_by: watch::Sender::new(None),
            models: Models::new(deps.limits.cool_downs),
            meter: Mutex::new(meter),
            handles: RwLock::default(),
            events: broadcast::Sender::new(EVENT_QUEUE),
            permits: Arc::new(Semaphore::new(deps.limits.admitted_messages)),
            digests: Arc::new(Semaphore::new(DIGESTS)),
            call_shares: CallShares::default(),
            tasks: Tasks::default(),
            phase: AtomicU8::new(Phase::Starting as u8),
            restarts: AtomicU64::new(0),
            uses: AtomicU64::new(0),
            kept_texts: Mutex::new(LruCache::unbounded()),
            router: RwLock::default(),
            outbox: RwLock::default(),
            deps,
        }
    }

    pub(crate) fn agent(&self, id: &AgentId) -> Option<Arc<AgentRuntime>> {
        self.agents.read().get(id).cloned()
    }

    /// Agents that are configured otherwise from here on; the others stay as they are. Turns under way go on as they
    /// began.
    pub(crate) fn set_agents(&self, agents: Vec<AgentRuntime>) {
        self.agents.write().extend(by_name(agents));
        let handles: Vec<_> = self.handles.read().values().cloned().collect();
        for handle in handles {
            if let Some(agent) = self.agent(&handle.id.agent()) {
                handle.set_agent(agent);
                // Other thresholds may make a run due.
                handle.tell_compactor(CompactorMsg::Look);
            }
        }
    }

    /// Bounds and times, as they are now.
    pub(crate) fn limits(&self) -> Arc<RuntimeLimits> {
        Arc::clone(&self.limits.read())
    }

    /// Other bounds and times from here on, and another measure of how much people may talk. How many messages are
    /// admitted at once stays as it began.
    pub(crate) fn set_limits(
        &self,
        limits: RuntimeLimits,
        talk: TalkLimits,
        prices: BTreeMap<String, Price>,
    ) {
        self.models.set_cool_downs(limits.cool_downs);
        *self.limits.write() = Arc::new(limits);
        self.meter.lock().set(talk, prices);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }

    /// Sets how the runtime is; a runtime that stops never gets ready again.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Counts an actor that is started again.
    pub(crate) fn count_restart(&self, actor: &'static str) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("cairn_actor_restarts_total", "actor" => actor).increment(1);
    }

    /// Actors started again since the start.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// The place of a use of a channel in their order.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// The handle of a channel, when it is awake.
    pub(crate) fn handle(&self, channel: &ChannelId) -> Option<Arc<ChannelHandle>> {
        self.handles.read().get(channel).cloned()
    }

    /// The platform that delivers replies of a channel.
    pub(crate) fn platform(&self, channel: &ChannelId) -> Option<Arc<dyn Platform>> {
        self.deps.platforms.iter().find(|platform| platform.name() == channel.platform()).cloned()
    }

    /// Whether a person is within the limits; a message that is counts. The local platform has no limit but the money.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn admit(&self, channel: &ChannelId, user: &str) -> Result<(), Limited> {
        let now = self.now();
        let mut meter = self.meter.lock();
        match channel.platform() {
            LOCAL_PLATFORM => meter.admit_spend(now),
            _ => meter.admit(channel, user, now),
        }
    }

    /// Whether the day's cap leaves money for a run that people ask for.
    pub(crate) fn admit_spend(&self) -> Result<(), Limited> {
        self.meter.lock().admit_spend(self.now())
    }

    /// What a model costs, where it has a price.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        self.meter.lock().price(model)
    }

    /// Journals the texts among these that are not in the journal yet: after a start, and after a change of the
    /// configuration. They belong to no channel.
    pub(crate) async fn keep_texts(&self, texts: Vec<KeptText>) {
        let mut new = Vec::new();
        for text in texts {
            if self.kept_texts.lock().get(&text.id).is_some() {
                continue;
            }
            match self.deps.store.kept_text(&text.id).await {
                Ok(None) => new.push(text),
                Ok(Some(_)) => self.note_kept([text.id]),
                Err(error) => {
                    tracing::warn!(%error, "it is not known whether the prompt of a call is journalled")
                }
            }
        }
        if new.is_empty() {
            return;
        }
        let ids: Vec<TextId> = new.iter().map(|text| text.id.clone()).collect();
        let record = |KeptText { id, text }| {
            let event = Event::Maintenance(MaintenanceEvent::TextKept { id, text: text.to_string() });
            NewRecord { channel: None, at: self.now(), event }
        };
        // Noted only when it is there: a call that ends meanwhile takes this future with it. Two calls beside each other may
        // both write a text, which does no harm.
        match self.deps.store.append(new.into_iter().map(record).collect()).await {
            Ok(_) => self.note_kept(ids),
            Err(error) => {
                tracing::warn!(%error, "the prompt of a call is not journalled; the next call tries again");
            }
        }
    }

    fn note_kept(&self, ids: impl IntoIterator<Item = TextId>) {
        let mut kept = self.kept_texts.lock();
        for id in ids {
            kept.put(id, ());
            if kept.len() > KEPT_TEXTS {
                kept.pop_lru();
            }
        }
    }

    /// Counts what a model was used for, on behalf of these people, at that time.
    pub(crate) fn count_usage(
        &self,
        channel: &ChannelId,
        users: &[String],
        model: &str,
        usage: Usage,
        at: Timestamp,
    ) {
        // The embedded model takes nothing.
        if usage == Usage::default() {
            return;
        }
        telemetry::usage(model, usage);
        let mut meter = self.meter.lock();
        meter.spent(channel, users, model, usage, at);
        metrics::gauge!("cairn_spent_today").set(meter.spent_today(at));
    }

    /// The money that the day has cost so far.
    pub(crate) fn spent_today(&self) -> f64 {
        let now = self.now();
        self.meter.lock().spent_today(now)
    }

    /// Tells watchers. That nobody watches is fine.
    pub(crate) fn notify(&self, at: Timestamp, channel: &ChannelId, kind: RuntimeEventKind) {
        let _ = self.events.send(RuntimeEvent { at, channel: channel.clone(), kind });
    }

    pub(crate) fn set_router(&self, router: Option<ActorRef<RouterMsg>>) {
        *self.router.write() = router;
    }

    pub(crate) fn set_outbox(&self, outbox: Option<ActorRef<OutboxMsg>>) {
        *self.outbox.write() = outbox;
    }

    /// Kills the router where it stands, unless it is down.
    #[cfg(test)]
    pub(crate) fn kill_router(&self) {
        self.router.read().iter().for_each(|router| router.kill());
    }

    /// Kills the outbox where it stands, unless it is down.
    #[cfg(test)]
    pub(crate) fn kill_outbox(&self) {
        self.outbox.read().iter().for_each(|outbox| outbox.kill());
    }

    /// Tells the router. False when it is down.
    pub(crate) fn tell_router(&self, message: RouterMsg) -> bool {
        let router = self.router.read().clone();
        router.is_some_and(|router| router.send_message(message).is_ok())
    }

    /// Tells the outbox. What it misses while it is down it finds in the store when it starts again.
    pub(crate) fn tell_outbox(&self, message: OutboxMsg) {
        let outbox = self.outbox.read().clone();
        if outbox.is_none_or(|outbox| outbox.send_message(message).is_err()) {
            tracing::debug!("the outbox is down; it starts again and finds what is pending in the store");
        }
    }

    /// Asks a channel, which is woken for it, and asks again when its actor fails over the question. `create`: the
    /// channel may begin with this.
    ///
    /// # Errors
    /// The runtime stops, or the channel failed every time. What the channel itself answers is in `T`.
    pub(crate) async fn ask<T>(
        &self,
        channel: &ChannelId,
        create: Create,
        question: impl Fn(oneshot::Sender<T>) -> Request + Send,
    ) -> Result<T, RuntimeError> {
        let mut pauses = Backoff::new(self.limits().restart_pause, ASK_PAUSE_MAX);
        for _attempt in 0..ASK_ATTEMPTS {
            let (reply, answer) = oneshot::channel();
            let message = RouterMsg::Deliver { channel: channel.clone(), create, request: question(reply) };
            if self.tell_router(message)
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            if self.phase() == Phase::Stopping {
                return Err(RuntimeError::Stopping);
            }
            tokio::time::sleep(pauses.next_pause()).await;
        }
        Err(RuntimeError::Interrupted(channel.clone()))
    }
}

fn by_name(agents: impl IntoIterator<Item = AgentRuntime>) -> BTreeMap<AgentId, Arc<AgentRuntime>> {
    agents.into_iter().map(|agent| (agent.id.clone(), Arc::new(agent))).collect()
}
