//! The outbox: delivers what is owed, in order per channel, and has each channel note how it ended.
//!
//! At least once: a crash between a delivery and its receipt delivers again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_core::event::Receipt;
use cairn_core::ids::{ChannelId, OutboxId};
use cairn_core::message::Entry;
use cairn_core::ports::{OutboxItem, SendPart, StoreError};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::channel::ChannelMsg;
use crate::house::HouseError;
use crate::shared::{Create, Phase, Shared};
use crate::tasks::Ended;

/// What the outbox is told.
pub(crate) enum OutboxMsg {
    /// A reply is owed.
    Owe {
        /// The delivery.
        item: OutboxItem,
        /// The reply, where it is at hand.
        reply: Option<Arc<Entry>>,
    },
    /// The first delivery of a channel is over, or to be tried again.
    Over {
        /// The channel.
        channel: ChannelId,
        /// It is settled in the journal.
        settled: bool,
    },
}

type Owed = (OutboxItem, Option<Arc<Entry>>);

/// The actor.
pub(crate) struct Outbox;

/// What is owed, by channel; the first of each is under way.
pub(crate) struct OutboxState {
    shared: Arc<Shared>,
    owed: HashMap<ChannelId, VecDeque<Owed>>,
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
        Ok(OutboxState { owed: HashMap::new(), _cancel: token.clone().drop_guard(), token, shared })
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
            OutboxMsg::Owe { item, reply } => state.owe(&myself, item, reply),
            OutboxMsg::Over { channel, settled } => {
                if settled && let Some(queue) = state.owed.get_mut(&channel) {
                    queue.pop_front();
                }
                state.deliver_next(&myself, channel);
            }
        }
        Ok(())
    }
}

/// Reads what earlier runs of the daemon left owed, until it can be read.
async fn find_owed(shared: Arc<Shared>, outbox: ActorRef<OutboxMsg>) {
    let owed = loop {
        match shared.deps.outbox.deliveries().await {
            Ok(owed) => break owed,
            Err(error) => {
                tracing::error!(%error, "cannot list what is owed to platforms; trying again");
                tokio::time::sleep(shared.deps.limits.store_retry_pause).await;
            }
        }
    };
    for item in owed {
        if outbox.send_message(OutboxMsg::Owe { item, reply: None }).is_err() {
            return;
        }
    }
}

impl OutboxState {
    fn owe(&mut self, myself: &ActorRef<OutboxMsg>, item: OutboxItem, reply: Option<Arc<Entry>>) {
        if self.shared.platform(&item.channel).is_none() {
            tracing::warn!(channel = %item.channel, delivery = %item.id,
                "a reply is owed there, but its platform is not configured; it waits");
            return;
        }
        let channel = item.channel.clone();
        let queue = self.owed.entry(channel.clone()).or_default();
        // Found in the store and told by the channel: one and the same.
        if queue.iter().any(|(known, _)| known.id == item.id) {
            return;
        }
        queue.push_back((item, reply));
        if queue.len() == 1 {
            self.deliver_next(myself, channel);
        }
    }

    fn deliver_next(&mut self, myself: &ActorRef<OutboxMsg>, channel: ChannelId) {
        let Some((item, reply)) = self.owed.get(&channel).and_then(VecDeque::front).cloned() else {
            self.owed.remove(&channel);
            return;
        };
        let shared = Arc::clone(&self.shared);
        let outbox = myself.clone();
        let id = item.id.clone();
        self.shared.tasks.watch(self.token.clone(), deliver(shared, item, reply), move |ended| {
            let settled = match ended {
                Ended::Done(settled) => settled,
                Ended::Panicked(message) => {
                    tracing::error!(delivery = %id, message, "a delivery panicked; please report it");
                    // It would do so again.
                    true
                }
                Ended::Cancelled => return,
            };
            let _ = outbox.send_message(OutboxMsg::Over { channel, settled });
        });
    }
}

/// Delivers and settles. False: it is to be tried again.
async fn deliver(shared: Arc<Shared>, item: OutboxItem, reply: Option<Arc<Entry>>) -> bool {
    let Some(platform) = shared.platform(&item.channel) else { return true };
    let receipt = match find_reply(&shared, &item, reply).await {
        Ok(Some(reply)) => {
            let part = SendPart {
                delivery: item.id.clone(),
                part: 0,
                channel: item.channel.clone(),
                reply_to: item.reply_to.clone(),
                words: reply.text(),
            };
            match platform.send(part).await {
                Ok(message) => Receipt::Delivered { messages: vec![message] },
                Err(error) => Receipt::Dead { reason: error.to_string() },
            }
        }
        Ok(None) => Receipt::Dead { reason: "the reply is not in the history".to_owned() },
        Err(error) => {
            tracing::error!(channel = %item.channel, %error, "cannot read a reply that is owed; trying again");
            tokio::time::sleep(shared.deps.limits.store_retry_pause).await;
            return false;
        }
    };
    if let Receipt::Dead { reason } = &receipt {
        tracing::error!(channel = %item.channel, turn = %item.turn, reason, "a reply cannot be delivered");
    }
    settle(&shared, &item.channel, &item.id, receipt).await;
    true
}

async fn find_reply(
    shared: &Shared,
    item: &OutboxItem,
    reply: Option<Arc<Entry>>,
) -> Result<Option<Arc<Entry>>, StoreError> {
    if reply.is_some() {
        return Ok(reply);
    }
    Ok(shared.deps.archive.entries(&item.channel, item.seq, item.seq, 1).await?.pop())
}

/// Has the channel note the receipt, until it is durable or the house stops.
async fn settle(shared: &Shared, channel: &ChannelId, id: &OutboxId, receipt: Receipt) {
    while shared.phase() != Phase::Stopping {
        let settle = |reply| ChannelMsg::Settle { id: id.clone(), receipt: receipt.clone(), reply };
        match shared.ask(channel, Create::No, settle).await {
            Ok(Ok(())) => return,
            Ok(Err(HouseError::NoSuchChannel(_) | HouseError::UnknownAgent(_) | HouseError::Stopping)) => {
                return;
            }
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%channel, %error, "a receipt is not journalled yet; trying again");
                tokio::time::sleep(shared.deps.limits.store_retry_pause).await;
            }
        }
    }
}
