//! Who is reachable: the channels awake, router, outbox, and those who watch events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::wire::backoff::Backoff;
use jiff::Timestamp;
use parking_lot::RwLock;
use ractor::ActorRef;
use tokio::sync::{broadcast, oneshot};

use crate::events::{RuntimeEvent, RuntimeEventKind};
use crate::failure::RuntimeError;
use crate::handle::ChannelHandle;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::messages::{AlarmMsg, Create, OutboxMsg, Request, RouterMsg};

/// Events that a slow watcher may lag behind before it misses some.
const EVENT_QUEUE: usize = 1024;

/// How often a request is repeated when the channel's actor fails over it.
const ASK_ATTEMPTS: u32 = 6;
const ASK_PAUSE_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Directory {
    handles: RwLock<BTreeMap<ChannelId, Arc<ChannelHandle>>>,
    /// `None` while it is down.
    router: RwLock<Option<ActorRef<RouterMsg>>>,
    /// `None` while it is down.
    outbox: RwLock<Option<ActorRef<OutboxMsg>>>,
    /// `None` while it is down.
    alarm: RwLock<Option<ActorRef<AlarmMsg>>>,
    watchers: broadcast::Sender<RuntimeEvent>,
    /// Number of the last use of a channel.
    uses: AtomicU64,
    live: Arc<Live>,
    lifecycle: Arc<Lifecycle>,
}

impl Directory {
    /// `live` gives [`Directory::ask`] its pauses, `lifecycle` tells it when to give up.
    pub(crate) fn new(live: Arc<Live>, lifecycle: Arc<Lifecycle>) -> Self {
        Self {
            handles: RwLock::default(),
            router: RwLock::default(),
            outbox: RwLock::default(),
            alarm: RwLock::default(),
            watchers: broadcast::Sender::new(EVENT_QUEUE),
            uses: AtomicU64::new(0),
            live,
            lifecycle,
        }
    }

    /// The handle of a channel, if it is awake.
    pub(crate) fn handle(&self, channel: &ChannelId) -> Option<Arc<ChannelHandle>> {
        self.handles.read().get(channel).cloned()
    }

    /// The handles of all channels awake.
    pub(crate) fn handles(&self) -> Vec<Arc<ChannelHandle>> {
        self.handles.read().values().cloned().collect()
    }

    /// The channels awake.
    pub(crate) fn awake(&self) -> Vec<ChannelId> {
        self.handles.read().keys().cloned().collect()
    }

    /// About how many bytes of memory the channels awake take together.
    pub(crate) fn bytes(&self) -> u64 {
        self.handles.read().values().map(|handle| handle.bytes()).sum()
    }

    /// Adds a channel that is awake from now on.
    pub(crate) fn insert(&self, handle: Arc<ChannelHandle>) {
        self.handles.write().insert(handle.id.clone(), handle);
    }

    /// Removes a channel that is no longer awake.
    pub(crate) fn remove(&self, channel: &ChannelId) -> Option<Arc<ChannelHandle>> {
        self.handles.write().remove(channel)
    }

    pub(crate) fn clear(&self) {
        self.handles.write().clear();
    }

    /// Numbers the uses of channels in their order.
    pub(crate) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends an event to the watchers, if there are any.
    pub(crate) fn notify(&self, at: Timestamp, channel: &ChannelId, kind: RuntimeEventKind) {
        let _ = self.watchers.send(RuntimeEvent { at, channel: channel.clone(), kind });
    }

    /// The events from now on. A slow receiver misses some.
    pub(crate) fn watch(&self) -> broadcast::Receiver<RuntimeEvent> {
        self.watchers.subscribe()
    }

    pub(crate) fn set_router(&self, router: Option<ActorRef<RouterMsg>>) {
        *self.router.write() = router;
    }

    pub(crate) fn set_outbox(&self, outbox: Option<ActorRef<OutboxMsg>>) {
        *self.outbox.write() = outbox;
    }

    pub(crate) fn set_alarm(&self, alarm: Option<ActorRef<AlarmMsg>>) {
        *self.alarm.write() = alarm;
    }

    /// Sends a message to the alarm. An alarm that is down reads what is due when it restarts.
    pub(crate) fn tell_alarm(&self, message: AlarmMsg) {
        if let Some(alarm) = self.alarm.read().as_ref() {
            let _ = alarm.send_message(message);
        }
    }

    /// Kills the router in the middle of what it does, unless it is down.
    #[cfg(test)]
    pub(crate) fn kill_router(&self) {
        self.router.read().iter().for_each(|router| router.kill());
    }

    /// Kills the outbox in the middle of what it does, unless it is down.
    #[cfg(test)]
    pub(crate) fn kill_outbox(&self) {
        self.outbox.read().iter().for_each(|outbox| outbox.kill());
    }

    /// Sends a message to the router. False: it is down.
    pub(crate) fn tell_router(&self, message: RouterMsg) -> bool {
        let router = self.router.read().clone();
        router.is_some_and(|router| router.send_message(message).is_ok())
    }

    /// Sends a message to the outbox. An outbox that is down reads pending deliveries from the store when it restarts.
    pub(crate) fn tell_outbox(&self, message: OutboxMsg) {
        let outbox = self.outbox.read().clone();
        if outbox.is_none_or(|outbox| outbox.send_message(message).is_err()) {
            tracing::debug!("the outbox is down; it starts again and finds what is pending in the store");
        }
    }

    /// Sends a request to a channel, which wakes for it, and waits for the answer. When the channel's actor fails over the
    /// request, it is repeated after a pause. `create`: whether a channel that was never seen starts with this.
    ///
    /// # Errors
    /// The runtime stops, or the channel failed every time. The channel's own errors are in `T`.
    pub(crate) async fn ask<T>(
        &self,
        channel: &ChannelId,
        create: Create,
        question: impl Fn(oneshot::Sender<T>) -> Request + Send,
    ) -> Result<T, RuntimeError> {
        let mut pauses = Backoff::new(self.live.limits().restart_pause, ASK_PAUSE_MAX);
        for _attempt in 0..ASK_ATTEMPTS {
            let (reply, answer) = oneshot::channel();
            let message = RouterMsg::Deliver { channel: channel.clone(), create, request: question(reply) };
            if self.tell_router(message)
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            if self.lifecycle.is_stopping() {
                return Err(RuntimeError::Stopping);
            }
            tokio::time::sleep(pauses.next_pause()).await;
        }
        Err(RuntimeError::Interrupted(channel.clone()))
    }
}
