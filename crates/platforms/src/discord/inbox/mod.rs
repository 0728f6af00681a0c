//! What comes in: events from the gateway, sorted into a queue for each channel, which a task of its own works off.

mod backfill;
mod commands;
mod interactions;
mod listing;
mod messages;

pub(super) use interactions::words_of;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_core::ports::AdapterPorts;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::all::{ChannelId, GuildId, MessageId, UserId};
use tokio::sync::Semaphore;
use tokio_util::sync::DropGuard;

use self::listing::{Listing, Sessions, unheard};
use super::NAME;
use super::gateway::{Bot, Listener, Ready, Shard, unreadable};
use super::outbox::Outbox;
use super::places::Places;
use super::rest::Rest;
use super::wire::{
    ChannelInfo, Deleted, DeletedMany, Interaction, Message, RoleChange, Server, ServerGone, ThreadList,
    id_at,
};
use crate::chat_queues::{ChatQueues, Tasks, work_off};
use crate::inbound::InboundPath;
use crate::link::Link;

/// Most items that wait in the queue of one channel, and in all of them.
const QUEUE_MAX: usize = 64;
const ALL_MAX: usize = 4096;

/// Channels that are read at the same time after a pause.
const READS_MAX: usize = 4;

/// Commands and buttons that are handled at the same time.
const COMMANDS_MAX: usize = 64;

/// Something that happened in a channel.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Message(Box<Message>),
    Edited(Box<Message>),
    Deleted {
        id: MessageId,
        guild: Option<GuildId>,
    },
    /// What came after this id is missing: the channel is read from there.
    Backfill {
        after: u64,
        /// Not where the servers' lists say that nothing was said there lately.
        if_news: bool,
    },
}

/// Puts something at the end of a channel's queue. What does not fit is not lost but left to Discord: the channel is read
/// again from there. Until then nothing newer is taken, so that what was missed comes before it.
fn enqueue(queue: &mut VecDeque<Item>, n_waiting: usize, channel: ChannelId, item: Item) {
    let full = queue.len() >= QUEUE_MAX || n_waiting >= ALL_MAX;
    let known = queue.iter_mut().find_map(|item| match item {
        Item::Backfill { after, if_news } => Some((after, if_news)),
        _ => None,
    });
    match (item, known) {
        (Item::Backfill { after, if_news }, Some((known, known_if))) => {
            *known = after.min(*known);
            *known_if &= if_news;
        }
        // It is read with the rest, and is news.
        (Item::Message(_), Some((_, if_news))) => *if_news = false,
        (Item::Message(message), None) if full => {
            queue.push_back(Item::Backfill { after: message.id.get() - 1, if_news: false });
            metrics::counter!("cairn_discord_lane_full_total").increment(1);
            tracing::warn!(
                platform = NAME,
                channel = channel.get(),
                "more is said than can be taken in; the channel is read again in a moment"
            );
        }
        (Item::Edited(_) | Item::Deleted { .. }, _) if full => {
            metrics::counter!("cairn_discord_changes_dropped_total").increment(1);
            tracing::warn!(
                platform = NAME,
                channel = channel.get(),
                "a change of an older message was dropped: more happens than can be taken in"
            );
        }
        (item, _) => queue.push_back(item),
    }
}

/// What every task of one run needs.
pub(super) struct InboundHandler {
    pub(super) path: InboundPath,
    pub(super) rest: Arc<Rest>,
    pub(super) link: Arc<Link>,
    pub(super) places: Arc<Places>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) me: Mutex<Option<UserId>>,
    /// By channel the id that was taken in last.
    pub(super) taken: Mutex<HashMap<ChannelId, u64>>,
    pub(super) listing: Listing,
    pub(super) reads: Semaphore,
    pub(super) commands: Arc<Semaphore>,
}

impl InboundHandler {
    pub(super) fn new(parts: super::Parts, ports: AdapterPorts, taken: HashMap<ChannelId, u64>) -> Self {
        let super::Parts { chat, pairing_store, rest, link, places, outbox } = parts;
        Self {
            path: InboundPath::new(NAME, chat, ports, pairing_store),
            rest,
            link,
            places,
            outbox,
            me: Mutex::new(None),
            taken: Mutex::new(taken),
            listing: Listing::default(),
            reads: Semaphore::new(READS_MAX),
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }
}

impl InboundHandler {
    /// The id of what is still taken in after a pause.
    pub(super) fn oldest(&self) -> u64 {
        let max_age = self.path.chat.get().catch_up.max_age;
        id_at(self.path.now().checked_sub(max_age).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }
}

/// Sorts events into the queues of their channels. Never waits.
pub(super) struct Inbox {
    inbound: Arc<InboundHandler>,
    chat_queues: Arc<ChatQueues<ChannelId, Item>>,
    tasks: Tasks,
    /// By shard the newest message that was taken in before its session.
    heard: Mutex<HashMap<u32, u64>>,
    _stop: DropGuard,
}

impl Inbox {
    /// Dropping it stops all its tasks.
    pub(super) fn new(inbound: Arc<InboundHandler>) -> Self {
        inbound.link.set_queue(0);
        let (tasks, stop) = Tasks::new();
        Self { inbound, chat_queues: Arc::default(), tasks, heard: Mutex::default(), _stop: stop }
    }

    fn push(&self, channel: ChannelId, item: Item) {
        let is_new =
            self.chat_queues.change(channel, |queue, n_waiting| enqueue(queue, n_waiting, channel, item));
        self.inbound.link.set_queue(self.chat_queues.n_waiting() as u64);
        if is_new {
            let (inbound, chat_queues) = (self.inbound.clone(), self.chat_queues.clone());
            let handle = move |item| {
                let (inbound, chat_queues) = (inbound.clone(), chat_queues.clone());
                async move {
                    inbound.link.set_queue(chat_queues.n_waiting() as u64);
                    inbound.handle(channel, item).await;
                }
            };
            self.tasks.spawn(work_off(self.chat_queues.clone(), channel, handle));
        }
    }

    fn message(&self, message: Message, edited: bool) {
        let me = *self.inbound.me.lock();
        if Some(message.author.id) == me {
            self.inbound.outbox.said_last(message.channel_id, message.id.get());
            return;
        }
        let heard =
            message.is_speech() && (!message.is_automatic() || self.inbound.path.chat.get().access.bots);
        if !heard || (edited && !message.was_edited()) {
            return;
        }
        if message.guild_id.is_none() {
            // The gateway names the server of everything that is said in one.
            self.inbound.places.learn_direct(message.channel_id);
        }
        self.inbound.link.inbound();
        self.inbound.listing.said(message.channel_id, message.guild_id, message.id.get());
        let (channel, message) = (message.channel_id, Box::new(message));
        self.push(channel, if edited { Item::Edited(message) } else { Item::Message(message) });
    }

    fn deleted(&self, channel: ChannelId, id: MessageId, guild: Option<GuildId>) {
        self.inbound.link.inbound();
        self.push(channel, Item::Deleted { id, guild });
    }

    fn learn_places(&self, kind: &str, data: Value) {
        let places = self.inbound.places.clone();
        let Some(me) = *self.inbound.me.lock() else { return };
        match kind {
            "GUILD_CREATE" => {
                with(kind, data, |server: Server| {
                    places.learn_server(&server, me);
                    self.listed(&server, me);
                });
            }
            "GUILD_DELETE" => with(kind, data, |gone: ServerGone| self.server_gone(&gone)),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                with(kind, data, |room: ChannelInfo| places.learn(&room, room.guild_id));
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                with(kind, data, |room: ChannelInfo| {
                    places.forget(room.id);
                    self.inbound.link.clear(&messages::sight_of(room.id));
                });
            }
            "THREAD_LIST_SYNC" => {
                if let Some(sync) = read::<ThreadList>(kind, data) {
                    sync.threads.iter().for_each(|thread| places.learn(thread, Some(sync.guild_id)));
                }
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
                with(kind, data, |change: RoleChange| places.learn_role(&change.role, me));
            }
            _ => {}
        }
    }

    /// A server has sent its list: what was missed in it is read, in channels, too, where nothing was ever heard.
    fn listed(&self, server: &Server, me: UserId) {
        let inbound = &self.inbound;
        let oldest = inbound.oldest();
        let (known, unheard) = {
            let taken = inbound.taken.lock();
            let rooms = server.channels.iter().chain(&server.threads);
            let known: Vec<(ChannelId, u64)> = rooms
                .filter(|room| taken.contains_key(&room.id))
                .filter_map(|room| Some((room.id, room.last_message_id?.get())))
                .collect();
            let shard = inbound.listing.shard_of(server.id);
            let heard = self.heard.lock().get(&shard).copied();
            (known, unheard(server, me, heard, oldest, |channel| taken.contains_key(&channel)))
        };
        if !unheard.is_empty() {
            let n_channels = unheard.len();
            tracing::info!(
                platform = NAME,
                server = server.id.get(),
                n_channels,
                "reading channels that are new to the bot"
            );
        }
        for (channel, after) in unheard {
            self.push(channel, Item::Backfill { after, if_news: false });
        }
        self.arrived(server.id, known);
    }

    fn arrived(&self, server: GuildId, known: Vec<(ChannelId, u64)>) {
        let inbound = &self.inbound;
        if inbound.listing.arrived(server, known) {
            let n_quiet = inbound.listing.n_quiet(inbound.oldest());
            let n_read = inbound.taken.lock().len().saturating_sub(n_quiet);
            tracing::info!(
                platform = NAME,
                n_read,
                n_quiet,
                "all servers are listed; channels with nothing new are not read"
            );
        }
    }

    fn server_gone(&self, gone: &ServerGone) {
        self.arrived(gone.id, Vec::new());
        if !gone.unavailable {
            let channels = self.inbound.places.forget_server(gone.id);
            tracing::info!(platform = NAME, server = gone.id.get(), "the bot is no longer in a server");
            for channel in channels {
                self.inbound.taken.lock().remove(&channel);
                self.inbound.link.clear(&messages::sight_of(channel));
                self.inbound.link.clear(&backfill::history_of(channel));
            }
        }
    }

    /// Who the bot is. Its commands are those of this version: the first shard registers them.
    fn known_as(&self, shard: Shard, bot: &Bot) {
        self.inbound.link.set_name(bot.user.username.clone());
        *self.inbound.me.lock() = Some(bot.user.id);
        if shard.id == 0 {
            let (inbound, application) = (self.inbound.clone(), bot.application.id);
            self.tasks.spawn(async move { inbound.register_commands(application).await });
        }
    }

    fn called(&self, interaction: Interaction) {
        self.inbound.link.inbound();
        let Ok(permit) = self.inbound.commands.clone().try_acquire_owned() else {
            tracing::warn!(
                platform = "discord",
                "too many commands and buttons at once; one was left unanswered"
            );
            return;
        };
        let inbound = self.inbound.clone();
        self.tasks.spawn(async move {
            inbound.answer(interaction).await;
            drop(permit);
        });
    }
}

impl Listener for Inbox {
    fn ready(&self, shard: Shard, ready: &Ready) {
        self.known_as(shard, &Bot { user: ready.user.clone(), application: ready.application.clone() });
        let sessions = self.inbound.listing.begin(shard, ready.guilds.iter().map(|server| server.id));
        let known: Vec<(ChannelId, u64)> =
            self.inbound.taken.lock().iter().map(|(channel, last)| (*channel, *last)).collect();
        if sessions == Sessions::First {
            // What the other shards take in from now on says nothing of what this one missed.
            let newest = known.iter().map(|(_, last)| *last).max();
            *self.heard.lock() =
                newest.into_iter().flat_map(|newest| (0..shard.of).map(move |id| (id, newest))).collect();
        }
        let places = &self.inbound.places;
        let of_shard = known.into_iter().filter(|(channel, _)| match places.server_of(*channel) {
            Some(server) => shard.hears(server),
            // The first session stands for all shards, so that nothing is read as often as there are shards.
            None => sessions != Sessions::OfShard,
        });
        let of_shard: Vec<(ChannelId, u64)> = of_shard.collect();
        if sessions == Sessions::Again {
            let newest = of_shard.iter().map(|(_, last)| *last).max();
            self.heard.lock().extend(newest.map(|newest| (shard.id, newest)));
        }
        for (channel, last) in of_shard {
            self.push(channel, Item::Backfill { after: backfill::overlap(last), if_news: true });
        }
    }

    fn resumes(&self, shard: Shard, bot: &Bot) {
        self.inbound.listing.resumes(shard);
        self.known_as(shard, bot);
    }

    fn is_idle(&self) -> bool {
        self.chat_queues.is_idle() && self.inbound.commands.available_permits() == COMMANDS_MAX
    }

    fn heard(&self, kind: &str, data: Value) {
        match kind {
            "MESSAGE_CREATE" => with(kind, data, |message: Message| self.message(message, false)),
            "MESSAGE_UPDATE" => {
                // A change that Discord made itself may lack an author; then nobody changed any words.
                if data.get("author").is_some() {
                    with(kind, data, |message: Message| self.message(message, true));
                }
            }
            "MESSAGE_DELETE" => {
                if let Some(Deleted { id, channel_id, guild_id }) = read(kind, data) {
                    self.deleted(channel_id, id, guild_id);
                }
            }
            "MESSAGE_DELETE_BULK" => {
                if let Some(DeletedMany { ids, channel_id, guild_id }) = read(kind, data) {
                    ids.into_iter().for_each(|id| self.deleted(channel_id, id, guild_id));
                }
            }
            "INTERACTION_CREATE" => {
                with(kind, data, |interaction: Interaction| self.called(interaction));
            }
            kind => self.learn_places(kind, data),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: ChannelId = ChannelId::new(1);

    fn message(id: u64) -> Item {
        let message = json!({"id": id.to_string(), "channel_id": "1", "author": {"id": "9"}});
        Item::Message(Box::new(serde_json::from_value(message).expect("is a message")))
    }

    /// Ids of messages, and of those after which the channel is read, in their order.
    fn ids(queue: &VecDeque<Item>) -> Vec<(&'static str, u64)> {
        let id = |item: &Item| match item {
            Item::Message(message) => ("message", message.id.get()),
            Item::Backfill { after, .. } => ("backfill", *after),
            other => panic!("only messages are queued: {other:?}"),
        };
        queue.iter().map(id).collect()
    }

    #[test]
    fn what_does_not_fit_is_read_from_discord_and_nothing_newer_overtakes_it() {
        for (fit, n_others) in [(QUEUE_MAX, 0), (2, ALL_MAX - 2)] {
            let mut queue = VecDeque::new();
            for id in 1000..1100 {
                let n_waiting = n_others + queue.len();
                enqueue(&mut queue, n_waiting, ONE, message(id));
            }
            let last = 1000 + fit as u64 - 1;
            let ids = ids(&queue);
            assert_eq!((ids.len(), ids[fit]), (fit + 1, ("backfill", last)));
        }
    }

    #[test]
    fn what_was_missed_comes_after_what_waited_and_before_what_is_said_next() {
        let mut queue = VecDeque::from([message(10)]);
        for item in [
            Item::Backfill { after: 9, if_news: true },
            message(20),
            Item::Backfill { after: 8, if_news: true },
        ] {
            enqueue(&mut queue, 1, ONE, item);
        }
        assert_eq!(ids(&queue), [("message", 10), ("backfill", 8)], "20 is read with what was missed");
        assert!(
            matches!(queue[1], Item::Backfill { if_news: false, .. }),
            "20 is news, whatever a list says"
        );
        queue.clear();
        enqueue(&mut queue, 0, ONE, message(21));
        assert_eq!(ids(&queue), [("message", 21)]);
    }
}
