//! Gateway events, sorted into one queue per channel; each queue has its own worker task.

mod backfill;
mod commands;
mod interactions;
mod listing;
mod messages;
mod reads;

pub(super) use interactions::words_of;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use cairn_types::ports::AdapterPorts;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::all::{ChannelId, GuildId, MessageId, UserId};
use tokio::sync::Semaphore;
use tokio_util::sync::DropGuard;

use self::listing::{CatchUps, LIST_LIMIT, Missed, with_news};
use self::reads::Reads;
use super::gateway::{Bot, Listener, Ready, Sessions, Shard, unreadable};
use super::outbox::Outbox;
use super::places::{ChannelRef, Places};
use super::rest::Rest;
use super::wire::{
    ChannelInfo, Deleted, DeletedMany, Interaction, MemberChange, Message, Reaction, RoleChange, RoleGone,
    Server, ServerGone, ThreadList, id_at,
};
use crate::chat_queues::{ChatQueues, Tasks, work_off};
use crate::inbound::InboundPath;
use crate::link::Link;

/// Most items waiting in the queue of one channel, and in all queues.
const QUEUE_MAX: usize = 64;
const ALL_MAX: usize = 4096;

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
    /// Somebody reacted to a message, or took that back.
    Reacted {
        reaction: Box<Reaction>,
        removed: bool,
    },
    /// A message that is not for the runtime: the bot's own, a notice of Discord, one of another bot.
    Passed(MessageId),
    /// Messages may be missing; the channel is read.
    Backfill(Missed),
}

/// Appends an item to a channel's queue. If the queue is full, the channel is read from Discord later, starting with
/// this message; until then newer messages are left out of the queue, to keep the order. Returns true if a backfill was
/// added that was not queued before.
fn enqueue(
    platform: &str,
    queue: &mut VecDeque<Item>,
    n_waiting: usize,
    channel: ChannelId,
    item: Item,
) -> bool {
    if let Item::Deleted { id, .. } = &item {
        forget(queue, *id);
    }
    let full = queue.len() >= QUEUE_MAX || n_waiting >= ALL_MAX;
    let known = queue.iter_mut().find_map(|item| match item {
        Item::Backfill(missed) => Some(missed),
        _ => None,
    });
    match (item, known) {
        (Item::Backfill(missed), Some(known)) => known.join(missed),
        // The backfill reads it, too.
        (Item::Message(message), Some(known)) => known.last = known.last.max(message.id.get()),
        (Item::Passed(id), Some(known)) => known.last = known.last.max(id.get()),
        (Item::Passed(_), None) if full => {}
        (Item::Message(message), None) if full => {
            queue.push_back(Item::Backfill(Missed::after(message.id.get() - 1)));
            metrics::counter!("cairn_discord_lane_full_total").increment(1);
            tracing::warn!(
                platform,
                channel = channel.get(),
                "too many messages arrive at once; the channel is read again in a moment"
            );
            return true;
        }
        (Item::Deleted { id, .. }, Some(known)) if full => known.join(Missed::after(id.get() - 1)),
        (Item::Deleted { id, .. }, None) if full => {
            queue.push_back(Item::Backfill(Missed::after(id.get() - 1)));
            return true;
        }
        (Item::Reacted { .. }, _) if full => {
            metrics::counter!("cairn_discord_changes_dropped_total").increment(1);
            tracing::debug!(platform, channel = channel.get(), "a reaction was dropped: too much waits");
        }
        (Item::Edited(_), _) if full => {
            metrics::counter!("cairn_discord_changes_dropped_total").increment(1);
            tracing::warn!(
                platform,
                channel = channel.get(),
                "an edit of an older message was dropped: too many events arrive at once"
            );
        }
        (item, _) => {
            let is_backfill = matches!(item, Item::Backfill(_));
            queue.push_back(item);
            return is_backfill;
        }
    }
    false
}

/// Takes what a message says, and its edits, out of a queue.
fn forget(queue: &mut VecDeque<Item>, gone: MessageId) {
    queue.retain(|item| !matches!(item, Item::Edited(message) if message.id == gone));
    for item in queue.iter_mut() {
        if matches!(item, Item::Message(message) if message.id == gone) {
            *item = Item::Passed(gone);
        }
    }
}

/// What every task of one run needs.
pub(super) struct InboundHandler {
    pub(super) path: InboundPath,
    pub(super) rest: Arc<Rest>,
    pub(super) link: Arc<Link>,
    pub(super) places: Arc<Places>,
    pub(super) outbox: Arc<Outbox>,
    sessions: Arc<Sessions>,
    pub(super) me: Mutex<Option<UserId>>,
    /// Private chats with the bot, which are in no server's list.
    private_chats: Mutex<HashSet<ChannelId>>,
    pub(super) catch_ups: CatchUps,
    pub(super) reads: Reads,
    pub(super) commands: Arc<Semaphore>,
}

impl InboundHandler {
    pub(super) fn new(
        parts: super::Parts,
        ports: AdapterPorts,
        private_chats: HashSet<ChannelId>,
        sessions: Arc<Sessions>,
    ) -> Self {
        let super::Parts { chat, pairing_store, rest, link, places, outbox } = parts;
        Self {
            path: InboundPath::new(link.platform(), chat, ports, pairing_store),
            rest,
            link,
            places,
            outbox,
            sessions,
            me: Mutex::new(None),
            private_chats: Mutex::new(private_chats),
            catch_ups: CatchUps::default(),
            reads: Reads::default(),
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }
}

impl InboundHandler {
    /// The oldest message id that is still taken in after downtime.
    pub(super) fn oldest(&self) -> u64 {
        let max_age = self.path.chat.get().catch_up.max_age;
        id_at(self.path.now().checked_sub(max_age).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// If no work is left, all events so far are with the runtime.
    fn settle(&self, chat_queues: &ChatQueues<ChannelId, Item>) {
        self.sessions.settle(|| {
            chat_queues.is_idle()
                && !self.catch_ups.is_open()
                && self.commands.available_permits() == COMMANDS_MAX
        });
    }

    /// Reads an event. One that cannot be read is counted and skipped.
    fn read<T: DeserializeOwned>(&self, kind: &str, data: Value) -> Option<T> {
        let event = serde_json::from_value(data).ok();
        if event.is_none() {
            unreadable(self.link.platform(), kind);
        }
        event
    }

    /// Forgets a channel that Discord no longer knows.
    pub(super) fn gone(&self, channel: ChannelId) {
        if self.places.set_gone(channel) {
            tracing::info!(
                platform = self.link.platform(),
                channel = channel.get(),
                "a channel no longer exists; it is forgotten"
            );
        }
        self.private_chats.lock().remove(&channel);
        self.clear_troubles(channel);
    }

    /// Removes the status entries of a channel.
    fn clear_troubles(&self, channel: ChannelId) {
        for place in
            [messages::sight_of(channel), messages::rights_in(channel), backfill::history_of(channel)]
        {
            self.link.clear(place);
        }
    }

    /// Reports the catch-up in the log and the status, once it is complete.
    pub(super) fn tell_caught_up(&self) {
        let Some(done) = self.catch_ups.done(self.path.now()) else { return };
        tracing::info!(
            platform = self.link.platform(),
            n_read = done.read,
            n_quiet = done.quiet,
            n_unread = done.unread,
            n_messages = done.messages,
            n_deleted = done.deleted,
            "caught up with missed messages"
        );
        self.link.caught_up(done);
    }
}

/// Sorts gateway events into the queues of their channels. Never waits.
pub(super) struct Inbox {
    inbound: Arc<InboundHandler>,
    chat_queues: Arc<ChatQueues<ChannelId, Item>>,
    tasks: Tasks,
    _stop: DropGuard,
}

impl Inbox {
    /// Dropping the inbox stops its tasks.
    pub(super) fn new(inbound: Arc<InboundHandler>) -> Self {
        inbound.link.set_queue(0);
        let (tasks, stop) = Tasks::new();
        Self { inbound, chat_queues: Arc::default(), tasks, _stop: stop }
    }

    fn push(&self, channel: ChannelId, item: Item) {
        let platform = self.inbound.link.platform();
        let is_new = self.chat_queues.change(channel, |queue, n_waiting| {
            // Under the queue's lock: its worker may start at once.
            if enqueue(platform, queue, n_waiting, channel, item) {
                self.inbound.catch_ups.opened();
            }
        });
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
            let (inbound, chat_queues) = (self.inbound.clone(), self.chat_queues.clone());
            self.tasks.spawn(async move {
                work_off(chat_queues.clone(), channel, handle).await;
                inbound.settle(&chat_queues);
            });
        }
    }

    /// Reads an event and passes it to `act`.
    fn with<T: DeserializeOwned>(&self, kind: &str, data: Value, act: impl FnOnce(T)) {
        if let Some(event) = self.inbound.read(kind, data) {
            act(event);
        }
    }

    fn message(&self, message: Message, edited: bool) {
        let me = *self.inbound.me.lock();
        if Some(message.author.id) == me {
            self.inbound.outbox.said_last(message.channel_id, message.id.get());
        }
        let heard = Some(message.author.id) != me
            && message.is_speech()
            && (!message.is_automatic() || self.inbound.path.chat.get().access.bots);
        if !heard && !edited {
            return self.push(message.channel_id, Item::Passed(message.id));
        }
        if !heard || (edited && !message.was_edited()) {
            return;
        }
        if message.guild_id.is_none() {
            // The gateway names the server of every message in one, so this is a private chat.
            self.inbound.places.learn_direct(message.channel_id);
            self.inbound.private_chats.lock().insert(message.channel_id);
        }
        self.inbound.link.inbound();
        let (channel, message) = (message.channel_id, Box::new(message));
        self.push(channel, if edited { Item::Edited(message) } else { Item::Message(message) });
    }

    fn deleted(&self, channel: ChannelId, id: MessageId, guild: Option<GuildId>) {
        self.inbound.link.inbound();
        self.push(channel, Item::Deleted { id, guild });
    }

    /// A reaction counts when it is to a message of the bot; of one that is taken back Discord does not tell whose message it is.
    fn reacted(&self, reaction: Reaction, removed: bool) {
        let me = *self.inbound.me.lock();
        let is_others = reaction.message_author_id.is_some_and(|author| Some(author) != me);
        if me.is_none() || Some(reaction.user_id) == me || is_others {
            return;
        }
        self.inbound.link.inbound();
        self.push(reaction.channel_id, Item::Reacted { reaction: Box::new(reaction), removed });
    }

    fn learn_places(&self, kind: &str, data: Value) {
        let places = self.inbound.places.clone();
        let Some(me) = *self.inbound.me.lock() else { return };
        match kind {
            "GUILD_CREATE" => {
                self.with(kind, data, |server: Server| {
                    places.learn_server(&server, me);
                    self.listed(&server, me);
                });
            }
            "GUILD_DELETE" => self.with(kind, data, |gone: ServerGone| self.server_gone(&gone)),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                self.with(kind, data, |room: ChannelInfo| {
                    places.learn(&room, room.guild_id);
                    // A thread uses the rights of its channel.
                    self.rights_changed(me, |id, at| {
                        id == room.id || at.is_some_and(|at| at.chat == room.id)
                    });
                });
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                self.with(kind, data, |room: ChannelInfo| self.inbound.gone(room.id));
            }
            "THREAD_LIST_SYNC" => {
                if let Some(sync) = self.inbound.read::<ThreadList>(kind, data) {
                    sync.threads.iter().for_each(|thread| places.learn(thread, Some(sync.guild_id)));
                }
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
                self.with(kind, data, |change: RoleChange| {
                    places.learn_role(change.guild_id, &change.role, me);
                    self.server_rights_changed(change.guild_id, me);
                });
            }
            "GUILD_ROLE_DELETE" => {
                self.with(kind, data, |gone: RoleGone| {
                    places.forget_role(&gone);
                    self.server_rights_changed(gone.guild_id, me);
                });
            }
            "GUILD_MEMBER_UPDATE" => {
                self.with(kind, data, |change: MemberChange| {
                    places.learn_member(&change, me);
                    if change.member.user.as_ref().is_some_and(|user| user.id == me) {
                        self.server_rights_changed(change.guild_id, me);
                    }
                });
            }
            _ => {}
        }
    }

    fn server_rights_changed(&self, server: GuildId, me: UserId) {
        self.rights_changed(me, |_, at| at.is_some_and(|at| at.guild == Some(server)));
    }

    /// The bot's rights in some places may have changed: clears troubles where it may write again, and reads channels
    /// that could not be read.
    fn rights_changed(&self, me: UserId, is_there: impl Fn(ChannelId, Option<&ChannelRef>) -> bool) {
        let (places, link, now) = (&self.inbound.places, &self.inbound.link, self.inbound.path.now());
        // There are few, so all are checked.
        for channel in messages::channels_without_rights(link) {
            if places.may_send(channel, me, now) == Some(true) {
                link.clear(messages::rights_in(channel));
            }
        }
        for (channel, from) in places.unread(is_there) {
            if places.may_read(channel, me, now) == Some(true) {
                self.push(channel, Item::Backfill(Missed::after(from)));
            }
        }
    }

    /// Queues a channel to be checked before its next messages. A channel that cannot be read is checked outside its
    /// queue, so that new messages are not added to a read that fails.
    fn look(&self, channel: ChannelId, missed: Missed, me: UserId) {
        let inbound = self.inbound.clone();
        if inbound.places.may_read(channel, me, inbound.path.now()) != Some(false) {
            return self.push(channel, Item::Backfill(missed));
        }
        inbound.catch_ups.opened();
        self.tasks.spawn(async move { inbound.handle(channel, Item::Backfill(missed)).await });
    }

    /// A server sent its list: checks its served channels for missed messages, also where the bot never heard anything.
    fn listed(&self, server: &Server, me: UserId) {
        let inbound = &self.inbound;
        let rules = inbound.path.for_everybody();
        let is_served = |room: &ChannelInfo| {
            let channel_ref = ChannelRef::of_room(room, Some(server.id));
            channel_ref.is_some_and(|at| inbound.path.channel_under(&rules, &(&at).into()).is_some())
        };
        let (news, n_quiet) = with_news(server, inbound.oldest(), is_served);
        for (channel, missed) in news {
            self.look(channel, missed, me);
        }
        inbound.catch_ups.listed(server.id, n_quiet);
        inbound.tell_caught_up();
    }

    fn server_gone(&self, gone: &ServerGone) {
        self.inbound.catch_ups.listed(gone.id, 0);
        self.inbound.tell_caught_up();
        if !gone.unavailable {
            let channels = self.inbound.places.forget_server(gone.id);
            tracing::info!(
                platform = self.inbound.link.platform(),
                server = gone.id.get(),
                "the bot is no longer in a server"
            );
            for channel in channels {
                self.inbound.clear_troubles(channel);
            }
        }
    }

    /// Records the bot's identity. The first shard registers the commands.
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
                platform = self.inbound.link.platform(),
                "too many commands and buttons at once; one was left unanswered"
            );
            return;
        };
        let (inbound, chat_queues) = (self.inbound.clone(), self.chat_queues.clone());
        self.tasks.spawn(async move {
            inbound.answer(interaction).await;
            drop(permit);
            inbound.settle(&chat_queues);
        });
    }
}

impl Listener for Inbox {
    fn ready(&self, shard: Shard, ready: &Ready) {
        self.known_as(shard, &Bot { user: ready.user.clone(), application: ready.application.clone() });
        self.inbound.catch_ups.begin(shard, ready.guilds.iter().map(|server| server.id));
        if shard.hears(None) {
            let private_chats: Vec<ChannelId> = self.inbound.private_chats.lock().iter().copied().collect();
            for channel in private_chats {
                self.inbound.places.learn_direct(channel);
                self.push(channel, Item::Backfill(Missed::untold()));
            }
        }
        let is_its = |_, at: Option<&ChannelRef>| at.is_none_or(|at| shard.hears(at.guild));
        for (channel, from) in self.inbound.places.unread(is_its) {
            self.look(channel, Missed::after(from), ready.user.id);
        }
        let inbound = self.inbound.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(LIST_LIMIT).await;
            inbound.catch_ups.give_up_lists(shard);
            inbound.tell_caught_up();
        });
    }

    fn resumes(&self, shard: Shard, bot: &Bot) {
        self.known_as(shard, bot);
    }

    fn settle(&self) {
        self.inbound.settle(&self.chat_queues);
    }

    fn heard(&self, kind: &str, data: Value) {
        match kind {
            "MESSAGE_CREATE" => self.with(kind, data, |message: Message| self.message(message, false)),
            "MESSAGE_REACTION_ADD" => self.with(kind, data, |reaction| self.reacted(reaction, false)),
            "MESSAGE_REACTION_REMOVE" => self.with(kind, data, |reaction| self.reacted(reaction, true)),
            "MESSAGE_UPDATE" => {
                // Changes that Discord makes itself, such as link previews, may lack an author; the text is unchanged
                // then.
                if data.get("author").is_some() {
                    self.with(kind, data, |message: Message| self.message(message, true));
                }
            }
            "MESSAGE_DELETE" => {
                if let Some(Deleted { id, channel_id, guild_id }) = self.inbound.read(kind, data) {
                    self.deleted(channel_id, id, guild_id);
                }
            }
            "MESSAGE_DELETE_BULK" => {
                if let Some(DeletedMany { ids, channel_id, guild_id }) = self.inbound.read(kind, data) {
                    ids.into_iter().for_each(|id| self.deleted(channel_id, id, guild_id));
                }
            }
            "INTERACTION_CREATE" => {
                self.with(kind, data, |interaction: Interaction| self.called(interaction));
            }
            kind => self.learn_places(kind, data),
        }
    }
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
            Item::Backfill(missed) => ("backfill", missed.after.unwrap_or(missed.last)),
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
                enqueue("discord", &mut queue, n_waiting, ONE, message(id));
            }
            let last = 1000 + fit as u64 - 1;
            let ids = ids(&queue);
            assert_eq!((ids.len(), ids[fit]), (fit + 1, ("backfill", last)));
        }
    }

    #[test]
    fn a_deletion_takes_what_waits_of_its_message_out_of_the_queue_and_is_never_dropped() {
        let gone = |id| Item::Deleted { id: MessageId::new(id), guild: None };
        let edit = |id| match message(id) {
            Item::Message(message) => Item::Edited(message),
            other => other,
        };
        let mut queue = VecDeque::from([message(10), edit(10), message(11), edit(11)]);
        enqueue("discord", &mut queue, 4, ONE, gone(10));
        let left: Vec<String> =
            queue.iter().map(|item| format!("{item:?}").chars().take(7).collect()).collect();
        assert_eq!(left, ["Passed(", "Message", "Edited(", "Deleted"]);
        for (n_waiting, n) in [(ALL_MAX, 1), (ALL_MAX + 1, 1)] {
            enqueue("discord", &mut queue, n_waiting, ONE, gone(7));
            let missed: Vec<_> = queue.iter().filter(|item| matches!(item, Item::Backfill(_))).collect();
            assert_eq!(missed.len(), n, "the channel is read from there on, once");
        }
    }

    #[test]
    fn what_was_missed_comes_after_what_waited_and_before_what_is_said_next() {
        let mut queue = VecDeque::from([message(10)]);
        let missed = |last| Item::Backfill(Missed { after: None, last, since: 0 });
        let to_read =
            [missed(9), message(20), missed(8)].map(|item| enqueue("discord", &mut queue, 1, ONE, item));
        assert_eq!(to_read, [true, false, false], "it is read once");
        assert_eq!(
            ids(&queue),
            [("message", 10), ("backfill", 20)],
            "20 is read with what was missed, and is news"
        );
        queue.clear();
        enqueue("discord", &mut queue, 0, ONE, message(21));
        assert_eq!(ids(&queue), [("message", 21)]);
    }
}
