//! What comes in: events from the gateway, sorted into lanes, each lane worked off by a task of its own.

mod chat_queues;
mod commands;
mod missed;
mod presses;
mod take;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use cairn_core::access::AccessPolicy;
use cairn_core::ports::{AdapterPorts, PairingStore};
use futures::FutureExt as _;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::all::{ChannelId, UserId};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use self::chat_queues::{ChatQueues, Item, Work};
use super::gateway::{Listener, Ready, unreadable};
use super::outbox::Outbox;
use super::places::Places;
use super::rest::Rest;
use super::wire::{Gone, GoneMany, Interaction, RoleChange, Room, Said, Server, Threads};
use crate::link::Link;
use crate::settings::LiveChat;

/// Channels that are read at the same time after a pause.
const READS_MAX: usize = 4;

/// Commands and presses that are taken in at the same time.
const COMMANDS_MAX: usize = 64;

/// What every task of one run needs.
pub(super) struct InboundHandler {
    pub(super) chat: LiveChat,
    pub(super) ports: AdapterPorts,
    pub(super) pairing_store: Arc<dyn PairingStore>,
    pub(super) rest: Arc<Rest>,
    pub(super) link: Arc<Link>,
    pub(super) places: Arc<Places>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) me: Mutex<Option<UserId>>,
    /// By channel the id that was taken in last.
    pub(super) taken: Mutex<HashMap<ChannelId, u64>>,
    pub(super) reads: Semaphore,
    pub(super) commands: Arc<Semaphore>,
}

impl InboundHandler {
    pub(super) fn new(parts: super::Parts, ports: AdapterPorts, taken: HashMap<ChannelId, u64>) -> Self {
        let super::Parts { chat, pairing_store, rest, link, places, outbox } = parts;
        Self {
            chat,
            ports,
            pairing_store,
            rest,
            link,
            places,
            outbox,
            me: Mutex::new(None),
            taken: Mutex::new(taken),
            reads: Semaphore::new(READS_MAX),
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }
}

/// The rules without the people in them: which agent a place belongs to.
fn for_nobody(access: &AccessPolicy) -> AccessPolicy {
    let mut access = access.clone();
    access.bots = true;
    access.members.clear();
    for place in &mut access.places {
        place.members = None;
    }
    access
}

/// Sorts events into lanes. Never waits.
pub(super) struct Inbox {
    inbound: Arc<InboundHandler>,
    chat_queues: Arc<ChatQueues>,
    tasks: JoinSet<()>,
    broken: Arc<Notify>,
}

impl Inbox {
    /// Dropping it stops all its tasks. `broken` is told when one of them panics.
    pub(super) fn new(inbound: Arc<InboundHandler>, broken: Arc<Notify>) -> Self {
        let chat_queues = Arc::new(ChatQueues::new(inbound.link.clone()));
        Self { inbound, chat_queues, tasks: JoinSet::new(), broken }
    }

    fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        let broken = self.broken.clone();
        self.tasks.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                broken.notify_one();
            }
        });
    }

    fn push(&mut self, channel: ChannelId, item: Item) {
        self.inbound.link.inbound();
        if self.chat_queues.push(channel, item) {
            self.work_off(channel);
        }
    }

    fn work_off(&mut self, channel: ChannelId) {
        let (inbound, chat_queues) = (self.inbound.clone(), self.chat_queues.clone());
        self.spawn(async move {
            loop {
                match chat_queues.next(channel) {
                    Work::Take(item) => inbound.take(channel, item).await,
                    Work::Read(after) => inbound.take_missed(channel, after).await,
                    Work::Rest => return,
                }
            }
        });
    }

    fn said(&mut self, said: Said, edited: bool) {
        let me = *self.inbound.me.lock();
        if Some(said.author.id) == me {
            self.inbound.outbox.said_last(said.channel_id, said.id.get());
            return;
        }
        let heard = said.is_speech() && (!said.is_automatic() || self.inbound.chat.get().access.bots);
        if !heard || (edited && !said.was_edited()) {
            return;
        }
        if said.guild_id.is_none() {
            // The gateway names the server of everything that is said in one.
            self.inbound.places.learn_direct(said.channel_id);
        }
        let (channel, said) = (said.channel_id, Box::new(said));
        self.push(channel, if edited { Item::Edited(said) } else { Item::Said(said) });
    }

    fn told_of_places(&mut self, kind: &str, data: Value) {
        let places = self.inbound.places.clone();
        let Some(me) = *self.inbound.me.lock() else { return };
        match kind {
            "GUILD_CREATE" => with(kind, data, |server: Server| places.learn_server(&server, me)),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                with(kind, data, |room: Room| places.learn(&room, room.guild_id));
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                with(kind, data, |room: Room| {
                    places.forget(room.id);
                    self.inbound.link.clear(&take::sight_of(room.id));
                });
            }
            "THREAD_LIST_SYNC" => {
                if let Some(sync) = read::<Threads>(kind, data) {
                    sync.threads.iter().for_each(|thread| places.learn(thread, Some(sync.guild_id)));
                }
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
                with(kind, data, |change: RoleChange| places.learn_role(&change.role, me));
            }
            _ => {}
        }
    }

    fn called(&mut self, interaction: Interaction) {
        self.inbound.link.inbound();
        let Ok(permit) = self.inbound.commands.clone().try_acquire_owned() else {
            tracing::warn!(
                platform = "discord",
                "too many commands and presses at once; one was left unanswered"
            );
            return;
        };
        let inbound = self.inbound.clone();
        self.spawn(async move {
            inbound.answer(interaction).await;
            drop(permit);
        });
    }
}

impl Listener for Inbox {
    fn ready(&mut self, ready: &Ready) {
        self.inbound.link.set_name(ready.user.username.clone());
        *self.inbound.me.lock() = Some(ready.user.id);
        let known: Vec<(ChannelId, u64)> =
            self.inbound.taken.lock().iter().map(|(channel, last)| (*channel, *last)).collect();
        for (channel, last) in known {
            let after = self.inbound.overlap(last);
            if self.chat_queues.miss(channel, after) {
                self.work_off(channel);
            }
        }
        let (inbound, application) = (self.inbound.clone(), ready.application.id);
        self.spawn(async move { inbound.register_commands(application).await });
    }

    fn heard(&mut self, kind: &str, data: Value) {
        match kind {
            "MESSAGE_CREATE" => with(kind, data, |said: Said| self.said(said, false)),
            "MESSAGE_UPDATE" => {
                // A change that Discord made itself may lack an author; then nobody changed any words.
                if data.get("author").is_some() {
                    with(kind, data, |said: Said| self.said(said, true));
                }
            }
            "MESSAGE_DELETE" => {
                if let Some(Gone { id, channel_id, guild_id }) = read(kind, data) {
                    self.push(channel_id, Item::Gone { id, guild: guild_id });
                }
            }
            "MESSAGE_DELETE_BULK" => {
                if let Some(GoneMany { ids, channel_id, guild_id }) = read(kind, data) {
                    for id in ids {
                        self.push(channel_id, Item::Gone { id, guild: guild_id });
                    }
                }
            }
            "INTERACTION_CREATE" => {
                with(kind, data, |interaction: Interaction| self.called(interaction));
            }
            kind => self.told_of_places(kind, data),
        }
    }
}

/// Reads an event and does something with it.
fn with<T: DeserializeOwned>(kind: &str, data: Value, act: impl FnOnce(T)) {
    if let Some(event) = read(kind, data) {
        act(event);
    }
}

/// Reads an event; one that cannot be read is counted and passed over.
fn read<T: DeserializeOwned>(kind: &str, data: Value) -> Option<T> {
    let event = serde_json::from_value(data).ok();
    if event.is_none() {
        unreadable(kind);
    }
    event
}
