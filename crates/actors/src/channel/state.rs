//! The actor's state beside the conversation, the one way to change a conversation (journal, then fold), and how a channel
//! falls asleep and stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cairn_core::compaction::Decision;
use cairn_core::gather::Arrival;
use cairn_core::thrashing::ThrashingWatch;
use cairn_types::event::{Event, MessageEvent, NewRecord, Record, TurnEnd};
use cairn_types::ids::{MessageId, RunId, TurnId};
use cairn_types::model::Finish;
use cairn_types::ports::{Mark, Refusal, StoreError, TurnFailure};
use cairn_types::tier::Tier;
use jiff::Timestamp;
use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::voice::VoiceAnswer;
use crate::failure::{self, ChannelFault, RuntimeError};
use crate::handle::ChannelHandle;
use crate::marks::Marker;
use crate::messages::{AlarmMsg, ChannelMsg, CompactorMsg, Reply, RouterMsg};
use crate::shared::Shared;
use crate::show::Show;
use crate::tasks::Ended;
use crate::telemetry::Times;
use crate::turn::CallUnderWay;
use crate::typing::Typing;

/// Why something was not done.
pub(super) enum Failed<E> {
    /// Nothing was changed; the caller gets the reason.
    Refused(E),
    /// The actor cannot go on.
    Fault(ChannelFault),
}

impl<E> From<ChannelFault> for Failed<E> {
    fn from(fault: ChannelFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RuntimeError> for Failed<RuntimeError> {
    fn from(error: RuntimeError) -> Self {
        Self::Refused(error)
    }
}

impl From<Refusal> for Failed<Refusal> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Failed<StoreError>> for Failed<RuntimeError> {
    fn from(failed: Failed<StoreError>) -> Self {
        match failed {
            Failed::Refused(error) => Self::Refused(RuntimeError::Store(error)),
            Failed::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl From<Failed<StoreError>> for Failed<Refusal> {
    fn from(failed: Failed<StoreError>) -> Self {
        match failed {
            Failed::Refused(error) => Self::Refused(Refusal::Store(error)),
            Failed::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// Separates refusals, which go to the caller, from faults, which fail the actor; the caller then asks again.
pub(super) fn answer<T, E>(result: Result<T, Failed<E>>) -> Result<Result<T, E>, ChannelFault> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(Failed::Refused(error)) => Ok(Err(error)),
        Err(Failed::Fault(fault)) => Err(fault),
    }
}

fn changes_reminders(event: &Event) -> bool {
    match event {
        Event::Reminder(_) => true,
        Event::Message(MessageEvent::Accepted(pending)) => pending.reminder.is_some(),
        _ => false,
    }
}

/// What a channel's actor starts with.
pub(crate) struct ChannelArgs {
    pub(crate) shared: Shared,
    pub(crate) handle: Arc<ChannelHandle>,
    /// A turn found open was interrupted by a crash.
    pub(crate) interrupted: bool,
    /// Cancels the tasks of this actor.
    pub(crate) token: CancellationToken,
}

/// Most messages of one turn that are marked, the newest ones.
const MARKED_MAX: usize = 8;

/// How long a channel stays awake after an activity.
const FRESH: Duration = Duration::from_secs(2);

/// The actor's state beside the conversation.
pub(crate) struct ChannelState {
    pub(super) shared: Shared,
    pub(super) handle: Arc<ChannelHandle>,
    pub(super) myself: ActorRef<ChannelMsg>,
    pub(super) interrupted: bool,
    pub(super) token: CancellationToken,
    /// Cancels the tasks with the state: a router that fails takes its channels down without a message.
    _cancel: DropGuard,
    /// Requests received from the router.
    pub(super) received: u64,
    /// The router was told that this channel may sleep, so no run may start.
    pub(super) going_idle: bool,
    pub(super) last_active: Instant,
    /// The turn under way.
    pub(super) current: Option<Current>,
    pub(super) attempts: u64,
    /// A turn's end that the store has refused for now.
    pub(super) unsaved: Option<Closing>,
    /// The records being committed are imported: their turns appear in no metric, event or log line of this daemon.
    pub(super) importing: bool,
    /// The turn under way, or one before it, has stored artifacts since they were last looked through.
    pub(super) has_stored: bool,
    /// Messages whose turns ended recently.
    pub(super) recent: VecDeque<EndedMessage>,
    pub(super) tier: Tier,
    pub(super) thrashing: ThrashingWatch,
    /// The tier in which the run under way started.
    pub(super) run_tier: Option<Tier>,
    pub(super) draining: bool,
    pub(super) drained: Vec<Reply<()>>,
    /// Automatic runs whose results people in the chat have asked for.
    pub(super) asked_for: BTreeSet<RunId>,
    /// When messages that may be pending came in, since `began`.
    pub(super) arrivals: BTreeMap<MessageId, Arrival>,
    pub(super) began: Instant,
    /// Typing that is shown while messages that get an answer still wait for more.
    pub(super) gathering_typing: Option<Typing>,
    /// Shows marks at people's messages, once there was one to show.
    marker: Option<Marker>,
    /// The time of the last record that was reported.
    pub(super) reported_at: Timestamp,
    /// Delayed messages to itself. They end with the actor.
    timers: JoinSet<()>,
}

/// The turn under way.
pub(super) struct Current {
    pub(super) attempt: u64,
    pub(super) token: CancellationToken,
    pub(super) started: Instant,
    pub(super) times: Arc<Times>,
    pub(super) call: Arc<CallUnderWay>,
    pub(super) authors: Vec<String>,
    /// Typing and drafts in the chat.
    pub(super) show: Option<Arc<Show>>,
}

/// A turn's end on its way to the journal.
pub(super) struct Closing {
    pub(super) events: Vec<Event>,
    pub(super) end: TurnEnd,
    /// The reply's text, or why there is none.
    pub(super) answer: Result<String, TurnFailure>,
    /// Why the reply ended early; `None`: the model finished it.
    pub(super) finish: Option<Finish>,
    /// A note to whoever gets the reply.
    pub(super) notice: Option<String>,
    pub(super) messages: Vec<MessageId>,
    /// The reply, if it is to be spoken, too.
    pub(super) voice: Option<VoiceAnswer>,
}

impl Closing {
    pub(super) fn turn(&self) -> &TurnId {
        &self.end.turn
    }
}

/// A message whose turn ended recently.
pub(super) struct EndedMessage {
    pub(super) message: MessageId,
    pub(super) fingerprint: String,
    pub(super) end: TurnEnd,
}

impl ChannelState {
    pub(super) fn new(myself: ActorRef<ChannelMsg>, args: ChannelArgs) -> Self {
        args.handle.set_channel(myself.clone());
        let run_tier = args.handle.read(|conversation| conversation.run.as_ref().map(|run| run.tier));
        Self {
            shared: args.shared,
            handle: args.handle,
            myself,
            interrupted: args.interrupted,
            _cancel: args.token.clone().drop_guard(),
            token: args.token,
            received: 0,
            going_idle: false,
            last_active: Instant::now(),
            current: None,
            attempts: 0,
            unsaved: None,
            importing: false,
            has_stored: false,
            recent: VecDeque::new(),
            tier: Tier::Calm,
            thrashing: ThrashingWatch::default(),
            run_tier,
            draining: false,
            drained: Vec::new(),
            asked_for: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            began: Instant::now(),
            gathering_typing: None,
            marker: None,
            reported_at: Timestamp::UNIX_EPOCH,
            timers: JoinSet::new(),
        }
    }

    /// Journals the events together and folds them in once they are durable. Only then are deliveries enqueued and watchers
    /// notified. If the store refuses the events, nothing changes.
    pub(super) async fn commit(&mut self, events: Vec<Event>) -> Result<(), Failed<StoreError>> {
        if events.is_empty() {
            return Ok(());
        }
        let at = self.shared.ports.now();
        let channel = Some(&self.handle.id);
        let records =
            events.into_iter().map(|event| NewRecord { channel: channel.cloned(), at, event }).collect();
        let records = self.append(records).await?.map_err(|error| {
            tracing::error!(channel = %self.handle.id, %error,
                "the journal refused a change; the conversation is unchanged");
            Failed::Refused(error)
        })?;
        self.handle.apply(&records).map_err(ChannelFault::from)?;
        self.enqueue_deliveries(&records);
        if records.iter().any(|record| changes_reminders(&record.event)) {
            self.shared.directory.tell_alarm(AlarmMsg::Changed);
        }
        self.notify_watchers(&records);
        Ok(())
    }

    /// Marks messages that people sent, where the network and the configuration have marks. Nothing waits for it.
    pub(super) fn mark(&mut self, messages: &[MessageId], from: Option<Mark>, to: Option<Mark>) {
        let channel = &self.handle.id;
        let Some(platform) = self.shared.ports.platform(channel) else { return };
        if !platform.traits().marks {
            return;
        }
        let tasks = &self.shared.lifecycle.tasks;
        let marker = self.marker.get_or_insert_with(|| Marker::begin(tasks, platform, channel.clone()));
        let is_sent = |message: &&MessageId| !message.is_reminder() && !message.is_correction();
        for (idx, message) in messages.iter().rev().filter(is_sent).enumerate() {
            match from {
                _ if idx < MARKED_MAX => marker.set(message.clone(), from, to),
                Some(Mark::Seen) => marker.set(message.clone(), from, None),
                _ => {}
            }
        }
    }

    /// Appends in a separate task, which finishes even if this actor is killed. The next actor reads the store only after
    /// that, so it sees everything that was written in its name.
    async fn append(&self, records: Vec<NewRecord>) -> Result<Result<Vec<Record>, StoreError>, ChannelFault> {
        let store = Arc::clone(&self.shared.ports.store);
        let writing = self.handle.writing().await;
        let (told, done) = oneshot::channel();
        let work = async move {
            let result = store.append(records).await;
            drop(writing);
            result
        };
        self.shared
            .lifecycle
            .tasks
            .watch(CancellationToken::new(), work, move |ended| drop(told.send(ended)));
        match done.await {
            Ok(Ended::Done(result)) => Ok(result),
            Ok(Ended::Panicked(message)) => Err(ChannelFault::Journal(message)),
            Ok(Ended::Cancelled) | Err(_) => Err(ChannelFault::Journal("its task is gone".to_owned())),
        }
    }

    /// Keeps the channel awake, since a request came.
    pub(super) fn note_activity(&mut self) {
        self.last_active = Instant::now();
        self.handle.note_used(self.shared.directory.next_use());
        if std::mem::take(&mut self.going_idle) {
            // A run proposed meanwhile was not started.
            self.handle.tell_compactor(CompactorMsg::Look);
        }
    }

    /// Requests sleep if nothing has happened for long, and plans the next check.
    pub(super) fn tick(&mut self) {
        let limit = self.shared.live.limits().idle_after;
        let quiet = self.last_active.elapsed();
        if quiet >= limit {
            self.request_sleep();
        }
        let wait = if quiet < limit { limit - quiet } else { limit };
        self.later(wait, || ChannelMsg::Tick);
    }

    /// Asks the router to put the channel to sleep, unless something is under way.
    pub(super) fn request_sleep(&mut self) {
        if let Some(left) = FRESH.checked_sub(self.last_active.elapsed()).filter(|left| !left.is_zero()) {
            // Messages beside requests, such as a run's usage, may still be on their way.
            return self.later(left, || ChannelMsg::Sleep);
        }
        if !self.may_sleep() {
            // Counts as a use, so that other channels are asked first.
            return self.handle.note_used(self.shared.directory.next_use());
        }
        self.going_idle = true;
        let (channel, who, received) = (self.handle.id.clone(), self.myself.get_id(), self.received);
        self.shared.directory.tell_router(RouterMsg::Idle { channel, who, received });
    }

    /// Sends itself a message after a delay. A timer does not keep a sleeping channel in memory.
    pub(super) fn later(&mut self, wait: Duration, message: fn() -> ChannelMsg) {
        while self.timers.try_join_next().is_some() {}
        let myself = self.myself.clone();
        self.timers.spawn(async move {
            tokio::time::sleep(wait).await;
            // If the actor has failed, the router knows.
            let _ = myself.send_message(message());
        });
    }

    fn may_sleep(&self) -> bool {
        let is_busy = self.current.is_some() || self.unsaved.is_some() || self.gathering().is_some();
        if is_busy || self.handle.subscribers.is_awaited() {
            return false;
        }
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        self.handle.read(|conversation| {
            conversation.open_turn.is_none()
                && conversation.run.is_none()
                && matches!(self.handle.due(conversation, &settings, now), Decision::Idle)
        })
    }

    /// Starts no more turns; `done` is answered when none is open.
    pub(super) fn drain(&mut self, done: Reply<()>) {
        self.draining = true;
        self.drained.push(done);
        if self.current.is_none() && self.unsaved.is_none() {
            self.tell_drained();
        }
    }

    /// Answers [`ChannelMsg::Drain`], unless a turn is open.
    pub(super) fn tell_drained(&mut self) {
        if self.current.is_none() && self.unsaved.is_none() {
            for done in self.drained.drain(..) {
                let _ = done.send(());
            }
        }
    }

    /// Drops the open turn's task. The turn stays open in the journal, with the usage of its call so far.
    pub(super) async fn abandon(&mut self) -> Result<(), ChannelFault> {
        self.draining = true;
        if let Some(current) = &self.current {
            current.token.cancel();
            let took = current.call.take().and_then(|call| call.took());
            if let Err(error) = answer(self.commit(took.into_iter().collect()).await)? {
                tracing::warn!(channel = %self.handle.id, %error,
                    "cannot journal the token usage of an interrupted call");
            }
        }
        self.cancel_turn();
        self.handle.subscribers.close(&failure::stopping());
        self.tell_drained();
        Ok(())
    }

    /// Saves a snapshot in a task. It is only a cache.
    pub(super) fn save_snapshot(&self) {
        let (store, handle) = (Arc::clone(&self.shared.ports.store), Arc::clone(&self.handle));
        self.shared.lifecycle.tasks.spawn("keep a snapshot", async move {
            if let Err(error) = handle.save(&*store).await {
                tracing::warn!(%error, "a conversation's snapshot could not be saved; its next start takes longer");
            }
        });
    }
}
