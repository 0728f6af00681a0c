//! The outbox: sends pending deliveries to chat networks, in order within a channel, and channels independently of each
//! other.
//!
//! It has no state of its own: pending deliveries and their progress are in the journal. An outbox that restarts reads them
//! there before it sends anything.

mod deliver;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cairn_core::store_port::Store;
use cairn_types::ids::{ChannelId, OutboxId};
use cairn_types::ports::OutboxItem;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use crate::directory::Directory;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::messages::{OutboxMsg, PendingDelivery};
use crate::ports::Ports;
use crate::shared::Shared;
use crate::tasks::Ended;
use crate::telemetry;
use deliver::{Stopped, deliver};

/// What deliveries need of the runtime.
#[derive(Clone)]
pub(crate) struct OutboxArgs {
    ports: Arc<Ports>,
    live: Arc<Live>,
    directory: Arc<Directory>,
    lifecycle: Arc<Lifecycle>,
}

impl OutboxArgs {
    pub(crate) fn of(shared: &Shared) -> Self {
        let Shared { ports, live, directory, lifecycle, .. } = shared.clone();
        Self { ports, live, directory, lifecycle }
    }
}

pub(crate) struct Outbox;

#[derive(Default)]
struct ChatQueue {
    waiting: VecDeque<PendingDelivery>,
    /// The delivery under way, which is no longer in the queue. Dropping the guard cancels it.
    running: Option<(OutboxId, DropGuard)>,
    /// Its first delivery cannot continue before the next start; the rest of the channel waits behind it.
    parked: bool,
}

pub(crate) struct OutboxState {
    args: OutboxArgs,
    queues: BTreeMap<ChannelId, ChatQueue>,
    /// Whether the deliveries pending at the start are known.
    found: bool,
    /// Channels whose pending deliveries are being read, once for each read. New deliveries of theirs wait, so that none
    /// overtakes what is found.
    looked_for: Vec<ChannelId>,
    draining: Vec<oneshot::Sender<()>>,
    token: CancellationToken,
    /// Cancels deliveries under way with this outbox. The next one finds them in the store.
    _cancel: DropGuard,
}

impl Actor for Outbox {
    type Msg = OutboxMsg;
    type State = OutboxState;
    type Arguments = OutboxArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<OutboxMsg>,
        args: OutboxArgs,
    ) -> Result<OutboxState, ActorProcessingErr> {
        let token = args.lifecycle.tasks.token();
        Ok(OutboxState {
            queues: BTreeMap::new(),
            found: false,
            looked_for: Vec::new(),
            draining: Vec::new(),
            _cancel: token.clone().drop_guard(),
            token,
            args,
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<OutboxMsg>,
        state: &mut OutboxState,
    ) -> Result<(), ActorProcessingErr> {
        state.look(myself, None);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<OutboxMsg>,
        message: OutboxMsg,
        state: &mut OutboxState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OutboxMsg::Look(channel) => {
                state.looked_for.push(channel.clone());
                state.look(myself, Some(channel));
            }
            OutboxMsg::Found { of, items } => state.enqueue_found(&myself, of.as_ref(), items),
            OutboxMsg::Deliver(pending) => state.enqueue(&myself, *pending),
            OutboxMsg::Finished { channel, id, parked } => state.finished(&myself, &channel, &id, parked),
            OutboxMsg::Cancel { channel, id } => state.cancel(&myself, &channel, &id),
            OutboxMsg::Ping { reply } => drop(reply.send(())),
            OutboxMsg::Drain { done } => state.draining.push(done),
        }
        state.tell_drained();
        let depth: usize = state
            .queues
            .values()
            .map(|queue| queue.waiting.len() + usize::from(queue.running.is_some()))
            .sum();
        metrics::gauge!("cairn_deliveries_owed").set(depth as f64);
        Ok(())
    }
}

/// Reads pending deliveries from the store; retries until it succeeds.
async fn find_pending(
    store: Arc<dyn Store>,
    live: Arc<Live>,
    outbox: ActorRef<OutboxMsg>,
    of: Option<ChannelId>,
) {
    let items = loop {
        match store.owed(of.as_ref()).await {
            Ok(items) => break items,
            Err(error) => {
                tracing::error!(%error, "cannot list the pending deliveries; trying again");
                tokio::time::sleep(live.limits().store_retry_pause).await;
            }
        }
    };
    // The next outbox reads it again.
    let _ = outbox.send_message(OutboxMsg::Found { of, items });
}

impl OutboxState {
    fn look(&self, myself: ActorRef<OutboxMsg>, of: Option<ChannelId>) {
        let OutboxArgs { ports, live, lifecycle, .. } = &self.args;
        let work = find_pending(Arc::clone(&ports.store), Arc::clone(live), myself, of);
        lifecycle.tasks.spawn("find pending deliveries", work);
    }

    /// Adds deliveries found in the store, in their order, before those enqueued meanwhile, some of which may be the same.
    /// The one under way continues.
    fn enqueue_found(
        &mut self,
        myself: &ActorRef<OutboxMsg>,
        of: Option<&ChannelId>,
        items: Vec<OutboxItem>,
    ) {
        match of {
            Some(of) => {
                let known = self.looked_for.iter().position(|channel| channel == of);
                known.map(|idx| self.looked_for.remove(idx));
            }
            None => self.found = true,
        }
        let mut told: BTreeMap<ChannelId, VecDeque<PendingDelivery>> = BTreeMap::new();
        for (channel, queue) in &mut self.queues {
            told.insert(channel.clone(), std::mem::take(&mut queue.waiting));
        }
        // Settled since the store was read.
        let is_over = |item: &OutboxItem| {
            let handle = self.args.directory.handle(&item.channel);
            handle.is_some_and(|handle| !handle.read(|conversation| conversation.owed.contains(&item.id)))
        };
        let items: Vec<_> = items.into_iter().filter(|item| !is_over(item)).collect();
        for item in items {
            let known = told.get_mut(&item.channel).and_then(|queue| {
                let idx = queue.iter().position(|pending| pending.item.id == item.id)?;
                queue.remove(idx)
            });
            let (reply, typing) = known.map_or((None, None), |pending| (pending.reply, pending.typing));
            self.enqueue(myself, PendingDelivery { item, reply, typing });
        }
        for pending in told.into_values().flatten() {
            self.enqueue(myself, pending);
        }
    }

    fn enqueue(&mut self, myself: &ActorRef<OutboxMsg>, pending: PendingDelivery) {
        let channel = pending.item.channel.clone();
        if self.args.ports.platform(&channel).is_none() {
            tracing::info!(%channel, delivery = %pending.item.id,
                "a delivery waits: its platform is not running");
            return;
        }
        let queue = self.queues.entry(channel.clone()).or_default();
        let running = queue.running.as_ref().is_some_and(|(id, _)| *id == pending.item.id);
        if running || queue.waiting.iter().any(|known| known.item.id == pending.item.id) {
            return;
        }
        queue.waiting.push_back(pending);
        self.deliver_next(myself, &channel);
    }

    fn deliver_next(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId) {
        let Some(queue) = self.queues.get_mut(channel) else { return };
        let is_known = self.found && !self.looked_for.contains(channel);
        if !is_known || queue.parked || queue.running.is_some() {
            return;
        }
        let Some(pending) = queue.waiting.pop_front() else {
            self.queues.remove(channel);
            return;
        };
        let token = self.token.child_token();
        let id = pending.item.id.clone();
        queue.running = Some((id.clone(), token.clone().drop_guard()));
        let (outbox, channel) = (myself.clone(), channel.clone());
        let span = telemetry::delivery_span(&pending.item);
        let work = deliver(self.args.clone(), pending).instrument(span);
        self.args.lifecycle.tasks.watch(token, work, move |ended| {
            let left = match ended {
                Ended::Done(left) => left,
                Ended::Panicked(_) => {
                    tracing::error!(delivery = %id, %channel,
                        "a delivery panicked; it waits for the next start; please report it");
                    // It would panic again.
                    Stopped::Over
                }
                Ended::Cancelled => return,
            };
            let parked = left == Stopped::Parked;
            let _ = outbox.send_message(OutboxMsg::Finished { channel, id, parked });
        });
    }

    fn finished(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId, id: &OutboxId, parked: bool) {
        let Some(queue) = self.queues.get_mut(channel) else { return };
        if queue.running.take_if(|(running, _)| running == id).is_none() {
            return;
        }
        queue.parked = parked;
        self.deliver_next(myself, channel);
    }

    fn cancel(&mut self, myself: &ActorRef<OutboxMsg>, channel: &ChannelId, id: &OutboxId) {
        let Some(queue) = self.queues.get_mut(channel) else { return };
        queue.waiting.retain(|pending| pending.item.id != *id);
        queue.running.take_if(|(running, _)| running == id);
        self.deliver_next(myself, channel);
    }

    /// Answers [`OutboxMsg::Drain`], if no delivery is under way.
    fn tell_drained(&mut self) {
        let at_rest = self.found && self.queues.values().all(|queue| queue.running.is_none());
        if at_rest {
            for done in self.draining.drain(..) {
                let _ = done.send(());
            }
        }
    }
}
