//! The outbox: delivers what is owed to chat networks, in order per channel, channels independent of each other.
//!
//! It keeps nothing of its own: what is owed, and how far each delivery has come, is in the journal. An outbox that
//! starts again reads it there before it sends anything.

mod deliver;
mod pace;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_core::ids::{ChannelId, OutboxId};
use cairn_core::message::Entry;
use cairn_core::ports::{DeliveryState, OutboxItem};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use crate::shared::Shared;
use crate::show::Typing;
use crate::span;
use crate::tasks::Ended;
use deliver::{Left, deliver};

pub(crate) use pace::{Pace, Paced};

pub(crate) struct Owed {
    /// What is owed, and what of it is there.
    pub(crate) item: OutboxItem,
    pub(crate) reply: Option<Arc<Entry>>,
    /// Shows that the bot is typing, until the last part is sent.
    pub(crate) typing: Option<Arc<Typing>>,
}

pub(crate) enum OutboxMsg {
    /// What earlier runs left owed: nothing is sent before it is known.
    Found(Vec<OutboxItem>),
    Owe(Box<Owed>),
    /// The first delivery of a channel is over, or cannot go on now.
    Over {
        channel: ChannelId,
        id: OutboxId,
        left: Left,
    },
    Forget {
        channel: ChannelId,
        id: OutboxId,
    },
    Ping {
        reply: oneshot::Sender<()>,
    },
    /// The runtime stops: answer when nothing is on its way any more.
    Drain {
        done: oneshot::Sender<()>,
    },
}

pub(crate) struct Outbox;

#[derive(Default)]
struct Lane {
    queue: VecDeque<Owed>,
    /// The delivery under way, which is no longer in the queue; dropping the guard cancels it.
    running: Option<(OutboxId, DropGuard)>,
    /// It cannot go on in this run of the daemon: the rest of the channel waits behind it.
    parked: bool,
}

pub(crate) struct OutboxState {
    shared: Arc<Shared>,
    lanes: HashMap<ChannelId, Lane>,
    /// What was owed at the start is known.
    found: bool,
    draining: Vec<oneshot::Sender<()>>,
    token: CancellationToken,
    /// Deliveries under way end with the outbox that started them; the next one finds them in the store.
    _cancel: DropGuard,
}

impl Actor for Outbox {
    type Msg = OutboxMsg;
    type State = OutboxState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _myself: ActorRef<OutboxMsg>,
        shared: Arc<Shared>,
    ) -> Result<OutboxState, ActorProcessingErr> {
        let token = shared.tasks.token();
        Ok(OutboxState {
            lanes: HashMap::new(),
            found: false,
            draining: Vec::new(),
            _cancel: token.clone().drop_guard(),
            token,
            shared,
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<OutboxMsg>,
        state: &mut OutboxState,
    ) -> Result<(), ActorProcessingErr> {
        let shared = Arc::clone(&state.shared);
        state.shared.tasks.spawn("find what is owed", find_owed(shared, myself));
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<OutboxMsg>,
        message: OutboxMsg,
        state: &mut OutboxState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OutboxMsg::Found(items) => state.take_found(&myself, items),
            OutboxMsg::Owe(owed) => state.owe(&myself, *owed),
            OutboxMsg::Over { channel, id, left } => state.over(&myself, &channel, &id, left),
            OutboxMsg::Forget { channel, id } => state.forget(&myself, &channel, &id),
            OutboxMsg::Ping { reply } => drop(reply.send(())),
            OutboxMsg::Drain { done } => state.draining.push(done),
        }
        state.tell_drained();
        let depth: usize =
            state.lanes.values().map(|lane| lane.queue.len() + usize::from(lane.running.is_some())).sum();
        metrics::gauge!("cairn_deliveries_owed").set(depth as f64);
        Ok(())
    }
}

/// Reads what earlier runs of the daemon left owed, until it can be read.
async fn find_owed(shared: Arc<Shared>, outbox: ActorRef<OutboxMsg>) {
    let mut items = loop {
        match shared.deps.store.deliveries().await {
            Ok(items) => break items,
            Err(error) => {
                tracing::error!(%error, "cannot list what is owed to platforms; trying again");
                tokio::time::sleep(shared.limits().store_retry_pause).await;
            }
        }
    };
    items.retain(|item| item.state == DeliveryState::Owed);
    // An outbox that is gone finds it again when it is back.
    let _ = outbox.send_message(OutboxMsg::Found(items));
}

impl OutboxState {
    /// What the store has comes first, in its order; what was told meanwhile may be among it.
    fn take_found(&mut self, myself: &ActorRef<OutboxMsg>, items: Vec<OutboxItem>) {
        self.found = true;
        let mut told: HashMap<ChannelId, VecDeque<Owed>> =
            self.lanes.drain().map(|(channel, lane)| (channel, lane.queue)).collect();
        for item in items {
            let known = told.get_mut(&item.channel).and_then(|queue| {
                let idx = queue.iter().position(|owed| owed.item.id == item.id)?;
                queue.remove(idx)
            });
            let (reply, typing) = known.map_or((None, None), |owed| (owed.reply, owed.typing));
            self.owe(myself, Owed { item, reply, typing });
        }
        for owed in told.into_values().flatten() {
            self.owe(myself, owed);
        }
    }

    fn owe(&mut self, myself: &ActorRef<OutboxMsg>, owed: Owed) {
        let channel = owed.item.channel.clone();
        if self.shared.platform(&channel).is_none() {
            tracing::info!(%channel, delivery = %owed.item.id,
                "words are owed there, but its platform is not running; they wait");
            return;
        }
        let lane = self.lanes.entry(channel.clone()).or_default();
        let running = lane.running.as_ref().is_some_and(|(id, _)| *id == owed.item.id);
        if running || lane.queue.iter().any(|known| known.item.id == owed.item.id) {
            return;
        }
        lane.queue.push_back(owed);
        self.deliver_next(myself, &channel);
    }

    fn deliver_next(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId) {
        let Some(lane) = self.lanes.get_mut(channel) else { return };
        if !self.found || lane.parked || lane.running.is_some() {
            return;
        }
        let Some(owed) = lane.queue.pop_front() else {
            self.lanes.remove(channel);
            return;
        };
        let token = self.token.child_token();
        let id = owed.item.id.clone();
        lane.running = Some((id.clone(), token.clone().drop_guard()));
        let (outbox, channel) = (myself.clone(), channel.clone());
        let span = span::delivery(&owed.item);
        let work = deliver(Arc::clone(&self.shared), owed).instrument(span);
        self.shared.tasks.watch(token, work, move |ended| {
            let left = match ended {
                Ended::Done(left) => left,
                Ended::Panicked(_) => {
                    tracing::error!(delivery = %id, %channel,
                        "a delivery panicked, please report it; it waits for the next start");
                    // It would do so again.
                    Left::Nothing
                }
                Ended::Cancelled => return,
            };
            let _ = outbox.send_message(OutboxMsg::Over { channel, id, left });
        });
    }

    fn over(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId, id: &OutboxId, left: Left) {
        let Some(lane) = self.lanes.get_mut(channel) else { return };
        if lane.running.take_if(|(running, _)| running == id).is_none() {
            return;
        }
        lane.parked = left == Left::Rest;
        self.deliver_next(myself, channel);
    }

    fn forget(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId, id: &OutboxId) {
        let Some(lane) = self.lanes.get_mut(channel) else { return };
        lane.queue.retain(|owed| owed.item.id != *id);
        lane.running.take_if(|(running, _)| running == id);
        self.deliver_next(myself, channel);
    }

    /// Answers who waits for the outbox to come to rest.
    fn tell_drained(&mut self) {
        let at_rest = self.found && self.lanes.values().all(|lane| lane.running.is_none());
        if at_rest {
            for done in self.draining.drain(..) {
                let _ = done.send(());
            }
        }
    }
}
