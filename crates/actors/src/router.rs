//! The router: knows which channels are awake, wakes them from the store, puts idle ones to sleep, and restarts their
//! actors when they fail.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cairn_core::awake::to_sleep;
use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store;
use cairn_types::ids::ChannelId;
use cairn_types::ports::StoreError;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, SupervisionEvent};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::channel::{Channel, ChannelArgs};
use crate::compactor::{Compactor, CompactorArgs};
use crate::failure::{self, RuntimeError};
use crate::handle::ChannelHandle;
use crate::live::Live;
use crate::messages::{ChannelMsg, CompactorMsg, Create, Request, RouterMsg};
use crate::pace::Crashes;
use crate::shared::Shared;
use crate::tasks::Ended;

/// Channels that are restored at the same time.
const WAKING_AT_ONCE: usize = 16;

pub(crate) struct RouterArgs {
    pub(crate) shared: Shared,
    /// Whether turns found open were interrupted by a crash, of the daemon or of the previous router.
    pub(crate) interrupted: bool,
}

struct Waking {
    queue: Vec<(Create, Request)>,
    /// The channel has unfinished work: reading it is retried until it succeeds.
    is_required: bool,
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
    /// Its open turn, if any, was interrupted by a crash.
    interrupted: bool,
    /// Cancels the tasks of this actor.
    token: CancellationToken,
}

impl Awake {
    /// Sends a request to the actor. Returns it if the actor has just failed; the supervision event will follow.
    fn send(&mut self, request: Request) -> Option<Request> {
        match self.channel.send_message(ChannelMsg::Request(request)) {
            Ok(()) => self.sent += 1,
            Err(MessagingErr::SendErr(ChannelMsg::Request(request))) => return Some(request),
            Err(_) => {}
        }
        None
    }
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

/// Channels that are awake, or waking.
pub(crate) struct RouterState {
    shared: Shared,
    interrupted: bool,
    slots: BTreeMap<ChannelId, Slot>,
    actors: HashMap<ActorId, (ChannelId, Part)>,
    permits: Arc<Semaphore>,
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
            slots: BTreeMap::new(),
            actors: HashMap::new(),
            permits: Arc::new(Semaphore::new(WAKING_AT_ONCE)),
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<RouterMsg>,
        state: &mut RouterState,
    ) -> Result<(), ActorProcessingErr> {
        let awake = state.shared.directory.awake();
        for channel in awake {
            state.wake_unfinished(&myself, channel);
        }
        let Shared { ports, live, .. } = &state.shared;
        let work = find_unfinished(Arc::clone(&ports.store), Arc::clone(live), myself);
        state.shared.lifecycle.tasks.spawn("find unfinished channels", work);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<RouterMsg>,
        message: RouterMsg,
        state: &mut RouterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RouterMsg::Deliver { channel, create, request } => {
                state.deliver(&myself, channel, create, request);
            }
            RouterMsg::Wake(channel) => state.wake_unfinished(&myself, channel),
            RouterMsg::Woken { channel, restored } => state.woken(&myself, channel, restored).await,
            RouterMsg::Idle { channel, who, received } => state.idle(&channel, who, received),
            RouterMsg::StartCompactor(channel) => state.start_compactor(&myself, &channel).await,
            RouterMsg::SizeChanged => state.make_room(),
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
        let (who, reason, by_store) = match event {
            SupervisionEvent::ActorFailed(who, error) => {
                (who.get_id(), failure::of_actor(&error), error.is::<StoreError>())
            }
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                (who.get_id(), reason.unwrap_or_default(), false)
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        // An actor that was put to sleep or given up is no longer listed.
        let Some((channel, part)) = state.actors.get(&who).cloned() else { return Ok(()) };
        match part {
            Part::Channel => state.recover(&myself, &channel, &reason, by_store),
            Part::Compactor => state.recover_compactor(&myself, who, &channel, &reason),
        }
        Ok(())
    }
}

/// Wakes channels with unfinished work, as soon as the store can list them.
async fn find_unfinished(store: Arc<dyn Store>, live: Arc<Live>, router: ActorRef<RouterMsg>) {
    let channels = loop {
        match store.unfinished().await {
            Ok(channels) => break channels,
            Err(error) => {
                tracing::error!(%error, "cannot list channels with unfinished work; trying again");
                tokio::time::sleep(live.limits().store_retry_pause).await;
            }
        }
    };
    for channel in channels {
        if router.send_message(RouterMsg::Wake(channel)).is_err() {
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
        request: Request,
    ) {
        // Receipts are journalled until the end of the stop.
        let is_receipt = matches!(request, Request::NoteDelivery { .. });
        if self.shared.lifecycle.is_stopping() && !is_receipt {
            return request.refuse(RuntimeError::Stopping);
        }
        if self.shared.live.agent(&channel.agent()).is_none() {
            return request.refuse(RuntimeError::UnknownAgent(channel.agent()));
        }
        let back = match self.slots.get_mut(&channel) {
            Some(Slot::Waking(waking)) => return waking.queue.push((create, request)),
            Some(Slot::Awake(awake)) => match awake.send(request) {
                Some(back) => back,
                None => return,
            },
            None => {
                let waking = self.waking(vec![(create, request)], false);
                self.wake(myself, channel, waking, Duration::ZERO);
                return;
            }
        };
        self.recover(myself, &channel, "it takes no messages", false);
        if let Some(Slot::Waking(waking)) = self.slots.get_mut(&channel) {
            waking.queue.push((create, back));
        }
    }

    fn wake_unfinished(&mut self, myself: &ActorRef<RouterMsg>, channel: ChannelId) {
        if self.shared.live.agent(&channel.agent()).is_none() {
            tracing::warn!(%channel,
                "a channel has unfinished work, but its agent is not configured; the work waits");
            return;
        }
        match self.slots.get_mut(&channel) {
            Some(Slot::Waking(waking)) => waking.is_required = true,
            Some(Slot::Awake(_)) => {}
            None => {
                let waking = self.waking(Vec::new(), true);
                self.wake(myself, channel, waking, Duration::ZERO);
            }
        }
    }

    fn waking(&self, queue: Vec<(Create, Request)>, is_required: bool) -> Waking {
        Waking {
            queue,
            is_required,
            interrupted: self.interrupted,
            crashes: Crashes::default(),
            compactor: None,
        }
    }

    /// Reads the channel from the store, after a pause.
    fn wake(&mut self, myself: &ActorRef<RouterMsg>, channel: ChannelId, waking: Waking, pause: Duration) {
        self.slots.insert(channel.clone(), Slot::Waking(waking));
        let (store, permits) = (Arc::clone(&self.shared.ports.store), Arc::clone(&self.permits));
        let directory = Arc::clone(&self.shared.directory);
        let (wanted, router) = (channel.clone(), myself.clone());
        let work = async move {
            tokio::time::sleep(pause).await;
            if let Some(handle) = directory.handle(&wanted) {
                // An actor that was killed may have left an append under way.
                drop(handle.writing().await);
            }
            let _permit = permits.acquire().await;
            store.restore(&wanted).await
        };
        self.shared.lifecycle.tasks.watch(self.shared.lifecycle.tasks.token(), work, move |ended| {
            let restored = match ended {
                Ended::Done(restored) => restored.map(|found| found.map(Box::new)),
                Ended::Panicked(_) => {
                    let message = "reading it panicked; the log says where".to_owned();
                    Err(StoreError::View { view: "archive", message })
                }
                Ended::Cancelled => Err(StoreError::Closed),
            };
            // The next router reads it again.
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
        if self.shared.lifecycle.is_stopping() {
            return refuse_all(waking.queue, &RuntimeError::Stopping);
        }
        match restored {
            Ok(Some(conversation)) => {
                self.shared.live.models.woke(&conversation);
                self.start(myself, *conversation, waking).await;
            }
            Ok(None) if waking.queue.iter().any(|(create, _)| *create == Create::Yes) => {
                self.start(myself, Conversation::new(channel), waking).await;
            }
            Ok(None) => {
                if let Some(handle) = self.shared.directory.remove(&channel) {
                    handle.dispose();
                    handle.subscribers.close(&failure::lost());
                }
                refuse_all(waking.queue, &RuntimeError::NoSuchChannel(channel));
            }
            Err(error) => {
                tracing::error!(%channel, %error, "cannot read the channel from the store");
                self.postpone(myself, channel, waking, RuntimeError::Store(error));
            }
        }
    }

    async fn start(&mut self, myself: &ActorRef<RouterMsg>, conversation: Conversation, waking: Waking) {
        let channel = conversation.channel.clone();
        let Some(agent) = self.shared.live.agent(&channel.agent()) else {
            return refuse_all(waking.queue, &RuntimeError::UnknownAgent(channel.agent()));
        };
        let handle = match self.shared.directory.handle(&channel) {
            Some(handle) => {
                handle.replace(conversation);
                handle
            }
            None => Arc::new(ChannelHandle::new(agent, conversation)),
        };
        let token = self.shared.lifecycle.tasks.token();
        let args = ChannelArgs {
            shared: self.shared.clone(),
            handle: Arc::clone(&handle),
            interrupted: waking.interrupted,
            token: token.clone(),
        };
        let actor = match Channel::spawn_linked(None, Channel, args, myself.get_cell()).await {
            Ok((actor, _)) => actor,
            Err(error) => {
                tracing::error!(%channel, %error, "cannot start the channel's actor");
                let error = RuntimeError::Spawn { actor: "channel", message: error.to_string() };
                return self.postpone(myself, channel, waking, error);
            }
        };
        handle.note_used(self.shared.directory.next_use());
        self.shared.directory.insert(handle);
        self.actors.insert(actor.get_id(), (channel.clone(), Part::Channel));
        let mut awake = Awake {
            channel: actor,
            compactor: waking.compactor,
            sent: 0,
            crashes: waking.crashes,
            compactor_crashes: Crashes::default(),
            interrupted: waking.interrupted,
            token,
        };
        let mut back = Vec::new();
        for (create, request) in waking.queue {
            back.extend(awake.send(request).map(|request| (create, request)));
        }
        match &awake.compactor {
            Some(compactor) => drop(compactor.send_message(CompactorMsg::Resume)),
            None => drop(myself.send_message(RouterMsg::StartCompactor(channel.clone()))),
        }
        self.slots.insert(channel.clone(), Slot::Awake(awake));
        metrics::gauge!("cairn_channels_awake").set(self.slots.len() as f64);
        for (create, request) in back {
            self.deliver(myself, channel.clone(), create, request);
        }
        self.make_room();
    }

    /// Puts the least recently used channels to sleep while those awake take too much memory.
    fn make_room(&self) {
        let most = self.shared.live.limits().awake_bytes;
        let directory = &self.shared.directory;
        if most == 0 || directory.bytes() <= most {
            return;
        }
        let asleep = to_sleep(directory.handles().iter().map(ChannelHandle::as_awake).collect(), most);
        tracing::debug!(n = asleep.len(), "the channels awake take too much memory; these fall asleep");
        asleep.iter().for_each(|handle| handle.tell_channel(ChannelMsg::Sleep));
    }

    fn idle(&mut self, channel: &ChannelId, who: ActorId, received: u64) {
        let Some(Slot::Awake(awake)) = self.slots.get(channel) else { return };
        if awake.channel.get_id() != who || awake.sent != received {
            return;
        }
        self.actors.remove(&who);
        awake.channel.stop(Some("idle".to_owned()));
        if let Some(compactor) = &awake.compactor {
            self.actors.remove(&compactor.get_id());
            compactor.stop(Some("idle".to_owned()));
        }
        self.slots.remove(channel);
        let handle = self.shared.directory.remove(channel);
        if let Some(handle) = handle {
            handle.dispose();
        }
        metrics::gauge!("cairn_channels_awake").set(self.slots.len() as f64);
        tracing::debug!(%channel, "channel falls asleep");
    }

    /// Refuses the waiting requests. If the channel has unfinished work, waking it is retried after a pause.
    fn postpone(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        channel: ChannelId,
        mut waking: Waking,
        error: RuntimeError,
    ) {
        refuse_all(std::mem::take(&mut waking.queue), &error);
        if waking.is_required {
            let pause = waking.crashes.pause(self.shared.live.limits().store_retry_pause);
            self.wake(myself, channel, waking, pause);
        }
    }

    /// Starts the compactor of a channel that is awake and has none.
    async fn start_compactor(&mut self, myself: &ActorRef<RouterMsg>, channel: &ChannelId) {
        let Some(Slot::Awake(awake)) = self.slots.get_mut(channel) else { return };
        let Some(handle) = self.shared.directory.handle(channel).filter(|_| awake.compactor.is_none()) else {
            return;
        };
        let args = CompactorArgs::of(&self.shared, handle);
        match Compactor::spawn_linked(None, Compactor, args, myself.get_cell()).await {
            Ok((compactor, _)) => {
                self.actors.insert(compactor.get_id(), (channel.clone(), Part::Compactor));
                awake.compactor = Some(compactor);
            }
            Err(error) => {
                let pause = awake.compactor_crashes.pause(self.shared.live.limits().restart_pause);
                tracing::error!(%channel, %error, ?pause, "cannot start the compactor; trying again");
                let channel = channel.clone();
                myself.send_after(pause, || RouterMsg::StartCompactor(channel));
            }
        }
    }

    /// Restarts a channel's actor that failed, after a pause. `by_store`: the store was away when the actor started, before
    /// it ran a turn.
    fn recover(&mut self, myself: &ActorRef<RouterMsg>, channel: &ChannelId, reason: &str, by_store: bool) {
        let Some(Slot::Awake(mut awake)) = self.slots.remove(channel) else { return };
        awake.token.cancel();
        self.actors.remove(&awake.channel.get_id());
        if self.shared.lifecycle.is_stopping() {
            return;
        }
        let pause = awake.crashes.pause(self.shared.live.limits().restart_pause);
        tracing::error!(%channel, reason, ?pause, "a channel failed; it restarts from the store");
        self.shared.lifecycle.count_restart("channel");
        let waking = Waking {
            queue: Vec::new(),
            is_required: true,
            interrupted: awake.interrupted || !by_store,
            crashes: awake.crashes,
            compactor: awake.compactor,
        };
        self.wake(myself, channel.clone(), waking, pause);
    }

    fn recover_compactor(
        &mut self,
        myself: &ActorRef<RouterMsg>,
        who: ActorId,
        channel: &ChannelId,
        reason: &str,
    ) {
        self.actors.remove(&who);
        match self.slots.get_mut(channel) {
            Some(Slot::Awake(awake)) => {
                awake.compactor = None;
                let pause = awake.compactor_crashes.pause(self.shared.live.limits().restart_pause);
                tracing::error!(%channel, reason, ?pause, "a compactor failed; it restarts after a pause");
                self.shared.lifecycle.count_restart("compactor");
                let channel = channel.clone();
                myself.send_after(pause, || RouterMsg::StartCompactor(channel));
            }
            Some(Slot::Waking(waking)) => waking.compactor = None,
            None => {}
        }
    }
}

fn refuse_all(queue: Vec<(Create, Request)>, error: &RuntimeError) {
    for (_, request) in queue {
        request.refuse(error.clone());
    }
}
