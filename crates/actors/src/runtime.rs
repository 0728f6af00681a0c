//! The runtime: the daemon starts, queries and stops the actors through it, and adapters submit messages to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cairn_core::client_list::ClientList;
use cairn_core::compaction::Decision;
use cairn_core::conversation::{Conversation, Outline};
use cairn_core::import::{Imported, PastMessage};
use cairn_core::limits::{Price, TalkLimits};
use cairn_core::reminder::NewReminder;
use cairn_core::settings::check_instruction;
use cairn_core::window::measure;
use cairn_types::command::Command;
use cairn_types::event::MaintenanceEvent;
use cairn_types::ids::{AgentId, ChannelId, Generation, LOCAL_PLATFORM, MessageId, OutboxId, ReminderId};
use cairn_types::message::{Amendment, Author, Inbound, Part};
use cairn_types::ports::{Admission, ChannelRow, Intake, OutboxItem, Refusal, Seen, StoreError};
use cairn_types::reminder::Reminder;
use cairn_types::texts::{Key, Saying};
use cairn_types::tier::Tier;
use cairn_types::tool::approval::{Approval, ApprovalOutcome, reads_as};
use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};
use futures::stream;
use jiff::Timestamp;
use ractor::{Actor as _, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::agent::{AgentRuntime, ModelStatus, statuses};
use crate::approvals::{ApprovalAnswer, ApprovalDecision, ApprovalError, ApprovalTarget, Approver};
use crate::events::RuntimeEvent;
use crate::failure::{RuntimeError, refusal};
use crate::handle::ChannelHandle;
use crate::lifecycle::Phase;
use crate::messages::{ChannelMsg, Compaction, CompactorMsg, Create, OutboxMsg, Request};
use crate::router::RouterArgs;
use crate::shared::{RuntimeDeps, Shared};
use crate::supervisor::{Liveness, Supervisor, SupervisorMsg};
use cairn_core::agent::RuntimeLimits;

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Health {
    /// `starting`, `ready` or `stopping`.
    pub state: &'static str,
    pub awake: usize,
    pub turns: usize,
    pub runs: usize,
    /// Accepted messages that are not in a turn yet, in all awake channels.
    pub pending: usize,
    /// Actors that restarted after a failure, since the start.
    pub restarts: u64,
}

/// The handle to the actors. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    shared: Shared,
    default_agent: AgentId,
    supervisor: ActorRef<SupervisorMsg>,
}

impl Runtime {
    /// Journals the start, starts the actors and wakes all channels with unfinished work.
    ///
    /// # Errors
    /// There is no agent, the journal cannot be written, or an actor does not start.
    pub async fn start(deps: RuntimeDeps) -> Result<Self, RuntimeError> {
        let default_agent = deps.agents.first().ok_or(RuntimeError::NoAgent)?.id.clone();
        let interrupted = !deps.clean_stop;
        let shared = Shared::new(deps);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        shared.ports.journal(MaintenanceEvent::DaemonStarted { version }).await?;
        let args = RouterArgs { shared: shared.clone(), interrupted };
        let started = Supervisor::spawn(None, Supervisor, args).await;
        let (supervisor, _) = started
            .map_err(|error| RuntimeError::Spawn { actor: "supervisor", message: error.to_string() })?;
        shared.lifecycle.set_phase(Phase::Ready);
        Ok(Self { shared, default_agent, supervisor })
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A snapshot of a conversation, and whether its channel is awake. A channel at rest is read from the archive and not
    /// woken. `None`: it was never seen.
    ///
    /// # Errors
    /// The store failed.
    pub async fn conversation(
        &self,
        channel: &ChannelId,
    ) -> Result<Option<(Arc<Conversation>, bool)>, RuntimeError> {
        if let Some(handle) = self.shared.directory.handle(channel) {
            return Ok(Some((Arc::new(handle.snapshot()), true)));
        }
        let restored = self.shared.ports.store.restore(channel).await?;
        Ok(restored.map(|conversation| (Arc::new(conversation), false)))
    }

    /// The entry of an awake channel in the list of channels; `None`: it is not awake.
    pub fn outline(&self, channel: &ChannelId) -> Option<Outline> {
        Some(self.shared.directory.handle(channel)?.read(Outline::of))
    }

    /// The channels that are awake.
    #[cfg(test)]
    pub(crate) fn awake(&self) -> Vec<ChannelId> {
        self.shared.directory.awake()
    }

    pub fn agent(&self, id: &AgentId) -> Option<Arc<AgentRuntime>> {
        self.shared.live.agent(id)
    }

    /// Replaces the settings of these agents; their next turns and runs use them. The other agents keep theirs.
    pub fn set_agents(&self, agents: Vec<AgentRuntime>) {
        let Shared { live, directory, .. } = &self.shared;
        live.set_agents(agents);
        for handle in directory.handles() {
            if let Some(agent) = live.agent(&handle.id.agent()) {
                handle.set_agent(agent);
                // Other thresholds may make a run due.
                handle.tell_compactor(CompactorMsg::Look);
            }
        }
    }

    /// Waits for the next answer of a model. Returns at once if there was one since the last call.
    pub async fn model_answered(&self) {
        self.shared.live.models.answers.notified().await;
    }

    /// Sets limits and prices. The number of messages admitted at the same time does not change.
    pub fn set_limits(&self, limits: RuntimeLimits, talk: TalkLimits, prices: BTreeMap<String, Price>) {
        self.shared.live.set_limits(limits);
        self.shared.budgets.set(talk, prices);
    }

    /// The status of each model in an agent's chain, in order.
    pub fn models(&self, agent: &AgentRuntime) -> Vec<ModelStatus> {
        let models = &self.shared.live.models;
        statuses(agent, |model| models.known(model), self.shared.ports.now())
    }

    /// The agent that is used when a request names none.
    pub fn default_agent(&self) -> AgentId {
        self.default_agent.clone()
    }

    /// Starts a compaction. `tell`: the chat is told the result.
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
        let ask = |reply| Request::Compact { instruction: instruction.clone(), tell, reply };
        self.shared.directory.ask(channel, Create::No, ask).await?
    }

    /// Archives the conversation and starts a new one. An open turn is stopped, a run cancelled; pending messages belong to
    /// the new conversation.
    ///
    /// # Errors
    /// The channel was never seen, its agent is unknown, the store failed, or the daemon stops.
    pub async fn new_generation(&self, channel: &ChannelId) -> Result<Generation, RuntimeError> {
        self.shared.directory.ask(channel, Create::No, |reply| Request::NewGeneration { reply }).await?
    }

    /// Stops the open turn. False: there was none.
    ///
    /// # Errors
    /// The channel was never seen, its agent is unknown, the store failed, or the daemon stops.
    pub async fn stop_turn(&self, channel: &ChannelId) -> Result<bool, RuntimeError> {
        self.shared.directory.ask(channel, Create::No, |reply| Request::Stop { reply }).await?
    }

    /// Deliveries that are pending or failed, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn deliveries(&self) -> Result<Vec<OutboxItem>, RuntimeError> {
        Ok(self.shared.ports.store.deliveries().await?)
    }

    /// Retries a failed delivery from the first part that was not sent. A pending delivery is left alone.
    ///
    /// # Errors
    /// There is no such delivery, the store failed, or the daemon stops.
    pub async fn retry_delivery(&self, channel: &ChannelId, id: &OutboxId) -> Result<(), RuntimeError> {
        let question = |reply| Request::RetryDelivery { id: id.clone(), reply };
        if !self.shared.directory.ask(channel, Create::No, question).await?? {
            return Ok(());
        }
        tracing::info!(%channel, delivery = %id, "a delivery is retried by command");
        // The outbox reads it from the store, and keeps trying if the store is away.
        self.shared.directory.tell_outbox(OutboxMsg::Look(channel.clone()));
        Ok(())
    }

    /// Gives up a delivery that is pending or failed.
    ///
    /// # Errors
    /// There is no such delivery, the store failed, or the daemon stops.
    pub async fn drop_delivery(&self, channel: &ChannelId, id: &OutboxId) -> Result<(), RuntimeError> {
        let question = |reply| Request::DropDelivery { id: id.clone(), reply };
        self.shared.directory.ask(channel, Create::No, question).await??;
        tracing::info!(%channel, delivery = %id, "a delivery was dropped by command");
        let platform = channel.platform().to_owned();
        metrics::counter!("cairn_deliveries_total", "platform" => platform, "outcome" => "dropped")
            .increment(1);
        self.shared.directory.tell_outbox(OutboxMsg::Cancel { channel: channel.clone(), id: id.clone() });
        Ok(())
    }

    /// Sets a reminder.
    ///
    /// # Errors
    /// It is against the limits, the channel's agent is unknown, the store failed, or the daemon stops. `create`: whether the
    /// channel may be one that was never seen.
    pub async fn set_reminder(
        &self,
        channel: &ChannelId,
        new: NewReminder,
        create: bool,
    ) -> Result<Reminder, RuntimeError> {
        let create = if create { Create::Yes } else { Create::No };
        let set = |reply| Request::SetReminder { new: new.clone(), reply };
        self.shared.directory.ask(channel, create, set).await?
    }

    /// Imports a part of a conversation from another program, in order. It is durable when this returns. The channel may be a
    /// new one.
    ///
    /// # Errors
    /// An answer is under way, the channel's agent is unknown, the store failed, or the daemon stops.
    pub async fn import(
        &self,
        channel: &ChannelId,
        said: Vec<PastMessage>,
    ) -> Result<Imported, RuntimeError> {
        let said = Arc::new(said);
        let import = |reply| Request::Import { said: Arc::clone(&said), reply };
        self.shared.directory.ask(channel, Create::Yes, import).await?
    }

    /// Brings a conversation to where a client's list of messages stands, and accepts the last one. It is durable when this
    /// returns. The channel may be a new one.
    ///
    /// # Errors
    /// As those of [`Intake::submit`]; an answer under way counts as [`Refusal::Busy`].
    pub async fn take_list(&self, list: ClientList) -> Result<Admission, Refusal> {
        let list = Arc::new(list);
        let taken = async {
            let permit = self.permit()?;
            let take =
                |reply| Request::TakeList { list: Arc::clone(&list), permit: Arc::clone(&permit), reply };
            match self.shared.directory.ask(&list.channel, Create::Yes, take).await {
                Ok(admitted) => admitted,
                Err(error) => Err(refusal(error)),
            }
        };
        taken.await.inspect_err(count_refusal)
    }

    /// Hands in what tools of a client returned, by the ids of their calls. Returns the turn that waits for them and its progress
    /// from here on; `None`: none of these calls waits, since the daemon has restarted or the client took too long.
    pub fn answer_calls(&self, channel: &ChannelId, results: &[(String, String)]) -> Option<Admission> {
        let handle = self.shared.directory.handle(channel)?;
        let tools = handle.client_tools()?;
        let turn = handle.read(|conversation| conversation.open_turn.as_ref().map(|open| open.id.clone()))?;
        // Joined first, so that nothing of the rest is missed.
        let progress = handle.subscribers.join_rest(&tools.message);
        tools.answer(results).then_some(Admission { turn, progress })
    }

    /// Whether the open turn of a channel waits for its client to run tools.
    pub fn waits_for_client(&self, channel: &ChannelId) -> bool {
        let handle = self.shared.directory.handle(channel);
        handle.and_then(|handle| handle.client_tools()).is_some_and(|tools| tools.is_awaited())
    }

    /// Cancels a reminder. `owner`: the reminder has to be theirs; `None`: of whomever. Returns it.
    ///
    /// # Errors
    /// There is no such reminder, the store failed, or the daemon stops.
    pub async fn cancel_reminder(
        &self,
        channel: &ChannelId,
        id: &ReminderId,
        by: &str,
        owner: Option<&str>,
    ) -> Result<Reminder, RuntimeError> {
        let cancel = |reply| Request::CancelReminder {
            id: id.clone(),
            by: by.to_owned(),
            owner: owner.map(str::to_owned),
            reply,
        };
        self.shared.directory.ask(channel, Create::No, cancel).await?
    }

    /// The reminders of a channel, or of all channels by name, at most `limit`, in the order in which they are due.
    ///
    /// # Errors
    /// The store failed.
    pub async fn reminders(
        &self,
        channel: Option<&ChannelId>,
        limit: usize,
    ) -> Result<Vec<(ChannelId, Reminder)>, RuntimeError> {
        Ok(self.shared.ports.store.reminders(channel, limit).await?)
    }

    /// Counts a command that reads or writes what is stored, against the limits of its caller and its channel.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn admit_command(&self, channel: &ChannelId, user: &str) -> Result<(), RuntimeError> {
        let admitted = self.shared.budgets.admit_command(channel, user, self.shared.ports.now());
        admitted.map_err(|limited| RuntimeError::Limited(limited.words))
    }

    /// The money that the day has cost so far, in the currency of the prices.
    pub fn spent_today(&self) -> f64 {
        self.shared.budgets.spent_today(self.shared.ports.now())
    }

    /// Takes the last turn back: it is archived and never shown to the model again. An open turn is stopped first and
    /// counts as the last one. Returns the text of its first message.
    ///
    /// # Errors
    /// There is nothing to take back, the channel was never seen, its agent is unknown, the store failed, or the daemon
    /// stops.
    pub async fn undo(&self, channel: &ChannelId) -> Result<String, RuntimeError> {
        self.shared.directory.ask(channel, Create::No, |reply| Request::Undo { reply }).await?
    }

    /// Events of all channels from now on. A slow receiver misses some.
    pub fn notices(&self) -> broadcast::Receiver<RuntimeEvent> {
        self.shared.directory.watch()
    }

    /// Waits until the channel's tier is below `below`, or until no run is under way or due.
    pub async fn wait_calm(&self, channel: &ChannelId, below: Tier) {
        loop {
            let Some(handle) = self.shared.directory.handle(channel) else { return };
            let mut changes = handle.changes();
            changes.borrow_and_update();
            let settings = &handle.settings();
            let now = self.shared.ports.now();
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

    /// Whether messages are accepted: the runtime has started and is not stopping.
    pub fn is_ready(&self) -> bool {
        self.shared.lifecycle.phase() == Phase::Ready
    }

    pub fn health(&self) -> Health {
        let handles = self.shared.directory.handles();
        let count =
            |what: fn(&Conversation) -> bool| handles.iter().filter(|handle| handle.read(what)).count();
        Health {
            state: self.shared.lifecycle.phase().name(),
            awake: handles.len(),
            turns: count(|conversation| conversation.open_turn.is_some()),
            runs: count(|conversation| conversation.run.is_some()),
            pending: handles
                .iter()
                .map(|handle| handle.read(|conversation| conversation.pending.len()))
                .sum(),
            restarts: self.shared.lifecycle.restarts(),
        }
    }

    /// Stops the runtime. Open turns may end within `grace`; the rest are cancelled and resume at the next start, as do
    /// runs. Snapshots are saved and the stop is journalled.
    ///
    /// Returns whether every actor and task ended in order, even if the stop could not be journalled (see
    /// [`RuntimeDeps::clean_stop`]).
    pub async fn shutdown(&self, grace: Duration) -> bool {
        let mut in_order = true;
        let stop_by = Instant::now() + grace;
        self.shared.lifecycle.set_phase(Phase::Stopping);
        self.shared.lifecycle.stop_by.send_replace(Some(stop_by));
        let handles = self.shared.directory.handles();
        let ask_all = |message: fn(oneshot::Sender<()>) -> ChannelMsg| {
            let answers = handles.iter().map(|handle| {
                let (done, answer) = oneshot::channel();
                handle.tell_channel(message(done));
                answer
            });
            join_all(answers.collect::<Vec<_>>())
        };
        if timeout_at(stop_by, ask_all(|done| ChannelMsg::Drain { done })).await.is_err() {
            tracing::warn!("turns were still running after the grace time; the next start resumes them");
        }
        // Deliveries under way get a little more time, so that their outcome is known.
        let (done, drained) = oneshot::channel();
        self.shared.directory.tell_outbox(OutboxMsg::Drain { done });
        if timeout_at(stop_by.max(Instant::now()) + SEND_LIMIT, drained).await.is_err() {
            tracing::warn!("a message was still being sent; the next start checks whether it arrived");
        }
        if timeout(STOP_LIMIT, ask_all(|done| ChannelMsg::Abandon { done })).await.is_err() {
            tracing::warn!("a channel did not stop in time; its state is in the journal");
            in_order = false;
        }
        self.shared.lifecycle.tasks.cancel();
        self.supervisor.stop(Some("shutdown".to_owned()));
        if let Err(error) = self.supervisor.wait(Some(STOP_LIMIT)).await {
            tracing::warn!(%error, "the actors are slow to stop");
            in_order = false;
        }
        if timeout(STOP_LIMIT, self.shared.lifecycle.tasks.wait()).await.is_err() {
            tracing::warn!("tasks are slow to stop");
            in_order = false;
        }
        handles.iter().for_each(|handle| handle.dispose());
        self.save_snapshots(&handles).await;
        self.shared.directory.clear();
        match timeout(STOP_LIMIT, self.shared.ports.journal(MaintenanceEvent::DaemonStopped)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "cannot journal the shutdown; the next start treats it as a crash");
            }
            Err(_) => {
                tracing::error!(
                    "the journal does not respond; the next start treats this shutdown as a crash"
                );
            }
        }
        in_order
    }

    /// Saves snapshots until the time is up. The other channels are read from the journal when they wake.
    async fn save_snapshots(&self, handles: &[Arc<ChannelHandle>]) {
        let n_kept = AtomicUsize::new(0);
        let store = &*self.shared.ports.store;
        // All at once: the store limits how many it writes at the same time.
        let snapshots =
            stream::iter(handles).for_each_concurrent(None, async |handle| match handle.save(store).await {
                Ok(()) => drop(n_kept.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    tracing::warn!(%error, "a snapshot could not be saved; its channel wakes more slowly");
                }
            });
        if timeout(SNAPSHOT_LIMIT, snapshots).await.is_err() {
            tracing::info!(
                kept = n_kept.into_inner(),
                "not all snapshots were saved in time; the other channels wake more slowly"
            );
        }
    }

    /// Asks every actor for a sign of life. Actors that do not answer within `outage_wait` are listed.
    pub async fn liveness(&self, outage_wait: Duration) -> Liveness {
        let by = Instant::now() + outage_wait;
        let (reply, answer) = oneshot::channel();
        let nobody = || Liveness { heard: 0, silent: vec!["supervisor".to_owned()] };
        if self.supervisor.send_message(SupervisorMsg::Liveness { by, reply }).is_err() {
            return nobody();
        }
        // A little longer than the actors have, so that the result arrives.
        match timeout_at(by + outage_wait / 4, answer).await {
            Ok(Ok(liveness)) => liveness,
            Ok(Err(_)) | Err(_) => nobody(),
        }
    }

    /// Tool calls of all channels that wait for an approval.
    pub fn approvals(&self) -> Vec<(ChannelId, Approval)> {
        let handles = self.shared.directory.handles();
        handles
            .iter()
            .flat_map(|handle| approvals_of(handle).into_iter().map(|open| (handle.id.clone(), open)))
            .collect()
    }

    /// Answers a request for approval immediately, whatever else waits in its channel. Returns when the answer is in the
    /// journal.
    ///
    /// # Errors
    /// No request waits, several wait, or the approver may not approve.
    pub async fn decide(
        &self,
        which: ApprovalTarget,
        granted: bool,
        by: Approver,
    ) -> Result<ApprovalDecision, ApprovalError> {
        let (channel, approval, by) = self.may_decide(which, by)?;
        let handle = self.shared.directory.handle(&channel).ok_or(ApprovalError::Nothing)?;
        let (told, journalled) = oneshot::channel();
        if !handle.approvals.decide(&approval.id, ApprovalAnswer { granted, by, told })
            || journalled.await.is_err()
        {
            return Err(ApprovalError::Nothing);
        }
        let outcome = if granted { ApprovalOutcome::Granted } else { ApprovalOutcome::Denied };
        Ok(ApprovalDecision { channel, approval, outcome })
    }

    /// The request for approval that is meant, with its channel, and the person who may answer it.
    ///
    /// # Errors
    /// As those of [`Runtime::decide`].
    pub fn may_decide(
        &self,
        which: ApprovalTarget,
        by: Approver,
    ) -> Result<(ChannelId, Approval, String), ApprovalError> {
        let open = match &which {
            ApprovalTarget::Id(id) => {
                self.approvals().into_iter().filter(|(_, open)| open.id == *id).collect()
            }
            ApprovalTarget::OnlyOf(channel) => {
                let mut open = self.approvals();
                open.retain(|(of, _)| of == channel);
                open
            }
        };
        let (channel, approval) = match open.as_slice() {
            [] => return Err(ApprovalError::Nothing),
            [one] => one.clone(),
            several => {
                return Err(ApprovalError::Several(
                    several.iter().map(|(_, open)| open.id.clone()).collect(),
                ));
            }
        };
        let handle = self.shared.directory.handle(&channel).ok_or(ApprovalError::Nothing)?;
        let by = match by {
            Approver::Socket => "local/operator".to_owned(),
            Approver::Person(person) if handle.settings().trust.may_approve(&person) => person,
            Approver::Person(person) => {
                tracing::warn!(%channel, approval = %approval.id, %person,
                    "a person without permission answered an approval request");
                return Err(ApprovalError::NotAllowed);
            }
        };
        Ok((channel, approval, by))
    }
}

/// Seconds until the runtime is worth another try when no permit is left.
const RETRY_SECS: u64 = 1;

fn count_refusal(refusal: &Refusal) {
    let reason = match refusal {
        Refusal::Conflict(_) => "conflict",
        Refusal::Busy { .. } => "busy",
        Refusal::Limited { .. } => "limited",
        Refusal::Decided { .. } => "decided",
        Refusal::Unavailable(_) => "unavailable",
        Refusal::UnknownAgent(_) => "unknown_agent",
        Refusal::Store(_) => "store",
    };
    metrics::counter!("cairn_refusals_total", "reason" => reason).increment(1);
}

impl Intake for Runtime {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        Box::pin(async move { self.admit(inbound).await.inspect_err(count_refusal) })
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let permit = self.permit()?;
            let amendment = Arc::new(amendment);
            let amend = |reply| Request::Amend {
                amendment: Arc::clone(&amendment),
                permit: Arc::clone(&permit),
                reply,
            };
            match self.shared.directory.ask(&amendment.channel, Create::No, amend).await {
                Ok(amended) => amended,
                Err(error) => Err(refusal(error)),
            }
        })
    }

    fn claim(
        &self,
        channel: ChannelId,
        message: MessageId,
        command: Command,
        caller: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        Box::pin(async move {
            let permit = self.permit()?;
            let claim = |reply| Request::Claim {
                message: message.clone(),
                command: command.name(),
                caller: caller.clone(),
                permit: Arc::clone(&permit),
                reply,
            };
            match self.shared.directory.ask(&channel, Create::Yes, claim).await {
                Ok(claimed) => claimed,
                Err(error) => Err(refusal(error)),
            }
        })
    }

    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>> {
        self.shared.ports.store.channel(channel)
    }

    fn private_chats(&self, platform: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        self.shared.ports.store.private_chats(platform)
    }

    fn standing_messages(
        &self,
        channel: &ChannelId,
        since: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<MessageId>, StoreError>> {
        let channel = channel.clone();
        Box::pin(async move {
            if let Some(handle) = self.shared.directory.handle(&channel) {
                return Ok(handle.read(|conversation| conversation.standing_messages(since)));
            }
            let at_rest = self.shared.ports.store.restore(&channel).await?;
            Ok(at_rest.map(|conversation| conversation.standing_messages(since)).unwrap_or_default())
        })
    }

    fn has_seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<bool, StoreError>> {
        let seen = self.shared.ports.store.seen(channel, message);
        Box::pin(async move { Ok(seen.await? != Seen::New) })
    }
}

impl Runtime {
    /// A permit to send something to a channel. It bounds the mailboxes, which have no limit of their own.
    fn permit(&self) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
        let phase = self.shared.lifecycle.phase();
        if phase != Phase::Ready {
            return Err(Refusal::Unavailable(phase.name()));
        }
        let permit = Arc::clone(&self.shared.budgets.permits).try_acquire_owned();
        Ok(Arc::new(permit.map_err(|_| Refusal::Busy { retry_after_secs: RETRY_SECS })?))
    }

    async fn admit(&self, inbound: Inbound) -> Result<Admission, Refusal> {
        if let Some(words) = self.taken_as_answer(&inbound).await? {
            return Err(Refusal::Decided { words });
        }
        let permit = self.permit()?;
        let inbound = Arc::new(inbound);
        let accept =
            |reply| Request::Accept { inbound: Arc::clone(&inbound), permit: Arc::clone(&permit), reply };
        match self.shared.directory.ask(&inbound.channel, Create::Yes, accept).await {
            Ok(admitted) => admitted,
            Err(error) => Err(refusal(error)),
        }
    }

    /// Takes a yes or no from an approver while a call waits for approval, whatever else waits. Returns the reply to it;
    /// `None`: the message is not an answer.
    async fn taken_as_answer(&self, inbound: &Inbound) -> Result<Option<Saying>, Refusal> {
        let [Part::Text { text }] = inbound.parts.as_slice() else { return Ok(None) };
        let Some(granted) = reads_as(text).filter(|_| inbound.addressed) else { return Ok(None) };
        let channel = &inbound.channel;
        if channel.platform() == LOCAL_PLATFORM {
            return Ok(None);
        }
        let Some(handle) = self.shared.directory.handle(channel) else { return Ok(None) };
        // A reply answers only the question that it replies to. A bare word answers the only question of a private chat.
        let asked = handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let asked = match (&inbound.reply_to, open.approvals.as_slice()) {
                (Some(message), _) => open.asked_by(message)?,
                (None, [only]) if inbound.direct => only,
                (None, _) => return None,
            };
            (inbound.at >= whole_second(asked.asked_at)).then(|| asked.id.clone())
        });
        let Some(id) = asked.filter(|_| handle.settings().trust.may_approve(&inbound.author.id)) else {
            return Ok(None);
        };
        let command = if granted {
            Command::Approve { id: Some(id.clone()) }
        } else {
            Command::Deny { id: Some(id.clone()) }
        };
        if !self.claim(channel.clone(), inbound.message.clone(), command, inbound.author.clone()).await? {
            return Ok(Some(Key::ApprovalBefore.into()));
        }
        let by = Approver::Person(inbound.author.id.clone());
        Ok(Some(match self.decide(ApprovalTarget::Id(id), granted, by).await {
            Ok(decided) => decided.told(),
            Err(undecided) => undecided.told(),
        }))
    }
}

/// Platforms give times in whole seconds.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn approvals_of(handle: &ChannelHandle) -> Vec<Approval> {
    handle
        .read(|conversation| conversation.open_turn.as_ref().map(|open| open.approvals.clone()))
        .unwrap_or_default()
}

/// Extra time of the outbox for deliveries under way, after the grace time.
const SEND_LIMIT: Duration = Duration::from_secs(2);

/// Longest wait for each part of the runtime to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Longest that snapshots delay a stop.
const SNAPSHOT_LIMIT: Duration = Duration::from_millis(500);
