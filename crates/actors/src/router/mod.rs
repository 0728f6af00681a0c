//! The router: knows which channels are awake, wakes them from the archive, lets idle ones sleep, and starts their
//! actors again when they fail.

mod recover;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::conversation::Conversation;
use cairn_core::ids::ChannelId;
use cairn_core::ports::StoreError;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, SupervisionEvent};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::channel::{Channel, ChannelArgs, ChannelMsg};
use crate::compactor::CompactorMsg;
use crate::failure;
use crate::handle::ChannelHandle;
use crate::runtime::RuntimeError;
use crate::shared::{Create, Phase, Shared};
use crate::supervisor::Crashes;
use crate::tasks::Ended;

/// Channels that are restored at once.
const WAKING_AT_ONCE: usize = 16;

pub(crate) enum RouterMsg {
    /// Hand a message to a channel, waking it.
    Deliver {
        channel: ChannelId,
        create: Create,
        message: ChannelMsg,
    },
    /// Wake a channel that has something unfinished.
    Wake(ChannelId),
    /// A channel was read from the archive.
    Woken {
        channel: ChannelId,
        /// What was read; `None` when it was never seen.
        restored: Result<Option<Box<Conversation>>, StoreError>,
    },
    /// A channel has nothing to do and may sleep, when nothing is on its way to it.
    Idle {
        channel: ChannelId,
        who: ActorId,
        /// Messages from the router that the actor has taken.
        received: u64,
    },
    /// The pause after a compactor's failure is over.
    StartCompactor(ChannelId),
    Ping {
        reply: oneshot::Sender<()>,
    },
}

pub(crate) struct RouterArgs {
    /// What all actors share.
    pub(crate) shared: Arc<Shared>,
    /// Turns found open were cut short, by a crash of the daemon or of the router before this one.
    pub(crate) interrupted: bool,
}

struct Waking {
    queue: Vec<(Create, ChannelMsg)>,
    /// It has something unfinished: reading it is tried until it succeeds.
    must: bool,
    interrupted: bool,
    crashes: Crashes,
    compactor: Option<ActorRef<CompactorMsg>>,
}

struct Awake {
    channel: ActorRef<ChannelMsg>,
    compactor: Option<ActorRef<CompactorMsg>>,
    sent: u64,
    crashes: Crashes,
    compactor_crashes: Crashes,
    /// Cancels the tasks of this incarnation.
    token: CancellationToken,
}

enum Slot {
    Waking(Waking),
    Awake(Awake),
}

#[derive(Clone, Copy)]
enum Part {
    Channel,
    Compactor,
}

pub(crate) struct Router;

/// The channels awake or on their way.
pub(crate) struct RouterState {
    shared: Arc<Shared>,
    interrupted: bool,
    slots: HashMap<ChannelId, Slot>,
    who: HashMap<ActorId, (ChannelId, Part)>,
    waking: Arc<Semaphore>,
}

impl Actor for Router {
    type Msg = RouterMsg;
    type State = RouterState;
    type Arguments = RouterArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<RouterMsg>,
        args: RouterArgs,
    ) -> Result<RouterState, ActorProcessingErr> {
        Ok(RouterState {
            shared: args.shared,
            interrupted: args.interrupted,
            slots: HashMap::new(),
            who: HashMap::new(),
            waking: Arc::new(Semaphore::new(WAKING_AT_ONCE)),
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<RouterMsg>,
        state: &mut RouterState,
    ) -> Result<(), ActorProcessingErr> {
        let awake: Vec<ChannelId> = state.shared.handles.read().keys().cloned().collect();
        for channel in awake {
            state.wake_unfinished(&myself, channel);
        }
        let shared = Arc::clone(&state.shared);
        state.shared.tasks.spawn("find unfinished channels", find_unfinished(shared, myself));
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<RouterMsg>,
        message: RouterMsg,
        state: &mut RouterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RouterMsg::Deliver { channel, create, message } => {
                state.deliver(&myself, channel, create, message);
            }
            RouterMsg::Wake(channel) => state.wake_unfinished(&myself, channel),
            RouterMsg::Woken { channel, restored } => state.woken(&myself, channel, restored).await,
            RouterMsg::Idle { channel, who, received } => state.idle(&channel, who, received),
            RouterMsg::StartCompactor(channel) => state.start_compactor(&myself, &channel).await,
            RouterMsg::Ping { reply } => drop(reply.send(())),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<RouterMsg>,
        event: SupervisionEvent,
        state: &mut RouterState,
    ) -> Result<(), ActorProcessingErr> {
        let (who, reason) = match event {
            SupervisionEvent::ActorFailed(who, error) => (who.get_id(), failure::of_actor(&error)),
            SupervisionEvent::ActorTerminated(who, _, reason) => (who.get_id(), reason.unwrap_or_default()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        // Who sleeps or was given up is no longer in the list.
        let Some((channel, part)) = state.who.get(&who).cloned() else { return Ok(()) };
        match part {
            Part::Channel => state.recover(&myself, &channel, &reason),
            Part::Compactor => state.recover_compactor(&myself, who, &channel, &reason),
        }
        Ok(())
    }
}

/// Reads the list of channels until it can be read, and has those woken that have something unfinished.
async fn find_unfinished(shared: Arc<Shared>, router: ActorRef<RouterMsg>) {
    let rows = loop {
        match shared.deps.store.channels().await {
            Ok(rows) => break rows,
            Err(error) => {
                tracing::error!(%error, "cannot list the channels; trying again");
                tokio::time::sleep(shared.limits().store_retry_pause).await;
            }
        }
    };
    for row in rows.into_iter().filter(|row| row.unfinished) {
        if router.send_message(RouterMsg::Wake(row.channel)).is_err() {
            return;
        }
    }
}

impl RouterState {
    fn deliver(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        channel: ChannelId,
        create: Create,
        message: ChannelMsg,
    ) {
        // Receipts are journalled to the last.
        let is_receipt = matches!(message, ChannelMsg::Post { .. });
        if self.shared.phase() == Phase::Stopping && !is_receipt {
            return message.refuse(RuntimeError::Stopping);
        }
        if self.shared.agent(&channel.agent()).is_none() {
            return message.refuse(RuntimeError::UnknownAgent(channel.agent()));
        }
        let back = match self.slots.get_mut(&channel) {
            Some(Slot::Waking(waking)) => return waking.queue.push((create, message)),
            Some(Slot::Awake(awake)) => match awake.channel.send_message(message) {
                Ok(()) => {
                    awake.sent += 1;
                    return;
                }
                Err(MessagingErr::SendErr(message)) => message,
                Err(MessagingErr::ChannelClosed | MessagingErr::InvalidActorType) => return,
            },
            None => {
                let waking = Waking {
                    queue: vec![(create, message)],
                    must: false,
                    interrupted: self.interrupted,
                    crashes: Crashes::default(),
                    compactor: None,
                };
                self.wake(myself, channel, waking, Duration::ZERO);
                return;
            }
        };
        // The actor has just failed and its supervision event is on its way.
        self.recover(myself, &channel, "it takes no messages");
        if let Some(Slot::Waking(waking)) = self.slots.get_mut(&channel) {
            waking.queue.push((create, back));
        }
    }

    fn wake_unfinished(&mut self, myself: &ActorRef<RouterMsg>, channel: ChannelId) {
        if self.shared.agent(&channel.agent()).is_none() {
            tracing::warn!(%channel, "something is unfinished there, but its agent is not configured; it waits");
            return;
        }
        match self.slots.get_mut(&channel) {
            Some(Slot::Waking(waking)) => waking.must = true,
            Some(Slot::Awake(_)) => {}
            None => {
                let waking = Waking {
                    queue: Vec::new(),
                    must: true,
                    interrupted: self.interrupted,
                    crashes: Crashes::default(),
                    compactor: None,
                };
                self.wake(myself, channel, waking, Duration::ZERO);
            }
        }
    }

    /// Reads the channel from the archive, after a pause.
    fn wake(&mut self, myself: &ActorRef<RouterMsg>, channel: ChannelId, waking: Waking, pause: Duration) {
        self.slots.insert(channel.clone(), Slot::Waking(waking));
        let (shared, permits) = (Arc::clone(&self.shared), Arc::clone(&self.waking));
        let (wanted, router) = (channel.clone(), myself.clone());
        let work = async move {
            tokio::time::sleep(pause).await;
            if let Some(handle) = shared.handle(&wanted) {
                // An actor that was killed may have left an append under way.
                drop(handle.writing().await);
            }
            let _permit = permits.acquire().await;
            shared.deps.store.restore(&wanted).await
        };
        self.shared.tasks.watch(self.shared.tasks.token(), work, move |ended| {
            let restored = match ended {
                Ended::Done(restored) => restored.map(|found| found.map(Box::new)),
                Ended::Panicked(_) => {
                    let message = "reading it panicked; the log says where".to_owned();
                    Err(StoreError::View { view: "archive", message })
                }
                Ended::Cancelled => Err(StoreError::Closed),
            };
            // A router that is gone reads it again when it is back.
            let _ = router.send_message(RouterMsg::Woken { channel, restored });
        });
    }

    async fn woken(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        channel: ChannelId,
        restored: Result<Option<Box<Conversation>>, StoreError>,
    ) {
        let waking = match self.slots.remove(&channel) {
            Some(Slot::Waking(waking)) => waking,
            Some(awake) => {
                self.slots.insert(channel, awake);
                return;
            }
            None => return,
        };
        if self.shared.phase() == Phase::Stopping {
            return refuse_all(waking.queue, &RuntimeError::Stopping);
        }
        match restored {
            Ok(Some(conversation)) => self.start(myself, *conversation, waking).await,
            Ok(None) if waking.queue.iter().any(|(create, _)| *create == Create::Yes) => {
                self.start(myself, Conversation::new(channel), waking).await;
            }
            Ok(None) => {
                if let Some(handle) = self.shared.handles.write().remove(&channel) {
                    handle.dispose();
                    handle.subscribers.close(&failure::lost());
                }
                refuse_all(waking.queue, &RuntimeError::NoSuchChannel(channel));
            }
            Err(error) => {
                tracing::error!(%channel, %error, "cannot read the channel from the store");
                self.put_off(myself, channel, waking, RuntimeError::Store(error));
            }
        }
    }

    async fn start(&mut self, myself: &ActorRef<RouterMsg>, conversation: Conversation, waking: Waking) {
        let channel = conversation.channel.clone();
        let Some(agent) = self.shared.agent(&channel.agent()) else {
            return refuse_all(waking.queue, &RuntimeError::UnknownAgent(channel.agent()));
        };
        let handle = match self.shared.handle(&channel) {
            Some(handle) => {
                handle.replace(conversation);
                handle
            }
            None => Arc::new(ChannelHandle::new(agent, conversation)),
        };
        let token = self.shared.tasks.token();
        let args = ChannelArgs {
            shared: Arc::clone(&self.shared),
            handle: Arc::clone(&handle),
            interrupted: waking.interrupted,
            token: token.clone(),
        };
        let actor = match Channel::spawn_linked(None, Channel, args, myself.get_cell()).await {
            Ok((actor, _)) => actor,
            Err(error) => {
                tracing::error!(%channel, %error, "cannot start the channel's actor");
                let error = RuntimeError::Spawn { actor: "channel", message: error.to_string() };
                return self.put_off(myself, channel, waking, error);
            }
        };
        self.shared.handles.write().insert(channel.clone(), handle);
        self.who.insert(actor.get_id(), (channel.clone(), Part::Channel));
        let mut awake = Awake {
            channel: actor,
            compactor: waking.compactor,
            sent: 0,
            crashes: waking.crashes,
            compactor_crashes: Crashes::default(),
            token,
        };
        let mut back = Vec::new();
        for (create, message) in waking.queue {
            match awake.channel.send_message(message) {
                Ok(()) => awake.sent += 1,
                Err(MessagingErr::SendErr(message)) => back.push((create, message)),
                Err(MessagingErr::ChannelClosed | MessagingErr::InvalidActorType) => {}
            }
        }
        match &awake.compactor {
            Some(compactor) => drop(compactor.send_message(CompactorMsg::Resume)),
            None => drop(myself.send_message(RouterMsg::StartCompactor(channel.clone()))),
        }
        self.slots.insert(channel.clone(), Slot::Awake(awake));
        metrics::gauge!("cairn_channels_awake").set(self.slots.len() as f64);
        for (create, message) in back {
            self.deliver(myself, channel.clone(), create, message);
        }
    }

    fn idle(&mut self, channel: &ChannelId, who: ActorId, received: u64) {
        let Some(Slot::Awake(awake)) = self.slots.get(channel) else { return };
        if awake.channel.get_id() != who || awake.sent != received {
            return;
        }
        self.who.remove(&who);
        awake.channel.stop(Some("idle".to_owned()));
        if let Some(compactor) = &awake.compactor {
            self.who.remove(&compactor.get_id());
            compactor.stop(Some("idle".to_owned()));
        }
        self.slots.remove(channel);
        let handle = self.shared.handles.write().remove(channel);
        if let Some(handle) = handle {
            handle.dispose();
        }
        metrics::gauge!("cairn_channels_awake").set(self.slots.len() as f64);
        tracing::debug!(%channel, "channel falls asleep");
    }
}

fn refuse_all(queue: Vec<(Create, ChannelMsg)>, error: &RuntimeError) {
    for (_, message) in queue {
        message.refuse(error.clone());
    }
}
