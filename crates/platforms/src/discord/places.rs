//! Knows where channels are: the server of a channel, the channel of a thread, the bot's roles and rights.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serenity::all::{ChannelId, GuildId, RoleId, UserId};

use super::rest::{Rest, RestError};
use super::rights::{HISTORY, MANAGE_THREADS, SEND, SEND_IN_THREADS, ServerRights, VIEW};
use crate::markup::name::display;

use super::wire::{ChannelInfo, MemberChange, Overwrite, PRIVATE_CHAT, Role, RoleGone, Server};

/// Most channels that are remembered; beyond it all are forgotten and looked up again.
const PLACES_MAX: usize = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChannelRef {
    /// The server; `None` for a private chat.
    pub(super) guild: Option<GuildId>,
    /// The channel; for a thread, its parent channel.
    pub(super) chat: ChannelId,
    pub(super) thread: Option<ChannelId>,
}

impl ChannelRef {
    /// From Discord's description of a channel. `None` for a private group chat, or if the description lacks a thread's
    /// parent.
    pub(super) fn of_room(room: &ChannelInfo, guild: Option<GuildId>) -> Option<Self> {
        let guild = guild.or(room.guild_id);
        if guild.is_none() && room.kind != PRIVATE_CHAT {
            return None;
        }
        match (room.is_thread(), room.parent_id) {
            (true, Some(parent)) => Some(Self { guild, chat: parent, thread: Some(room.id) }),
            (true, None) => None,
            (false, _) => Some(Self { guild, chat: room.id, thread: None }),
        }
    }

    pub(super) fn is_direct(&self) -> bool {
        self.guild.is_none()
    }
}

/// All that is known about places.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Known {
    channels: HashMap<ChannelId, ChannelRef>,
    /// The permission overwrites of channels; a thread uses its channel's.
    rules: HashMap<ChannelId, Vec<Overwrite>>,
    locked: HashSet<ChannelId>,
    /// Channels that Discord no longer knows.
    gone: HashSet<ChannelId>,
    servers: HashMap<GuildId, ServerRights>,
    /// Names of channels and threads, and of servers, as they are displayed.
    #[serde(default)]
    names: HashMap<ChannelId, String>,
    #[serde(default)]
    server_names: HashMap<GuildId, String>,
    role_names: HashMap<RoleId, String>,
    own_roles: HashSet<RoleId>,
    /// Channels that could not be read, with the id to read from later.
    #[serde(default)]
    unread: HashMap<ChannelId, u64>,
    /// For each channel the id up to which its messages are with the runtime, or are none that it takes.
    #[serde(default)]
    heard: HashMap<ChannelId, u64>,
}

impl Known {
    /// The bot's rights in a channel or thread; `None` if Discord has not told enough.
    fn rights(&self, channel: ChannelId, me: UserId, now: Timestamp) -> Option<u64> {
        let channel_ref = self.channels.get(&channel)?;
        let server = self.servers.get(&channel_ref.guild?)?;
        server.in_channel(me, self.rules.get(&channel_ref.chat)?, now)
    }

    fn forget(&mut self, channel: ChannelId) {
        self.channels.remove(&channel);
        self.rules.remove(&channel);
        self.names.remove(&channel);
        self.locked.remove(&channel);
        self.unread.remove(&channel);
        self.heard.remove(&channel);
    }

    /// Whether there is something that [`Self::lasting`] keeps.
    pub(super) fn has_lasting(&self) -> bool {
        !self.unread.is_empty() || !self.heard.is_empty()
    }

    /// The part that stays true beyond a session.
    pub(super) fn lasting(self) -> Self {
        Self { unread: self.unread, heard: self.heard, ..Self::default() }
    }
}

#[derive(Default)]
pub(super) struct Places(Mutex<Known>);

impl Places {
    /// A copy, to be kept for the next run.
    pub(super) fn known_now(&self) -> Known {
        self.0.lock().clone()
    }

    /// Restores the state of an earlier run.
    pub(super) fn restore(&self, known: Known) {
        *self.0.lock() = known;
    }

    /// Stores a server with its channels, threads and roles.
    pub(super) fn learn_server(&self, server: &Server, me: UserId) {
        let rights = ServerRights::of(server, me);
        let mut state = self.0.lock();
        state.servers.insert(server.id, rights);
        if !server.name.is_empty() {
            state.server_names.insert(server.id, display(&server.name));
        }
        drop(state);
        for room in server.channels.iter().chain(&server.threads) {
            self.learn(room, Some(server.id));
        }
        for role in &server.roles {
            self.name_role(role, me);
        }
    }

    /// Stores a channel or thread. If its description is incomplete it is looked up on the first message there.
    pub(super) fn learn(&self, room: &ChannelInfo, guild: Option<GuildId>) {
        let Some(channel_ref) = ChannelRef::of_room(room, guild) else { return };
        self.insert(room.id, channel_ref);
        let mut state = self.0.lock();
        if let Some(name) = &room.name {
            state.names.insert(room.id, display(name));
        }
        if !room.is_thread() {
            state.rules.insert(room.id, room.permission_overwrites.clone());
        } else if room.thread_metadata.locked {
            state.locked.insert(room.id);
        } else {
            state.locked.remove(&room.id);
        }
    }

    /// What people see as the name of a channel or thread: `Harbour #general › Regatta`. `None` for a private chat, and where
    /// Discord has not told it.
    pub(super) fn name_of(&self, channel: ChannelId) -> Option<String> {
        let state = self.0.lock();
        let ChannelRef { guild, chat, thread } = *state.channels.get(&channel)?;
        let mut name = format!("#{}", state.names.get(&chat)?);
        if let Some(server) = state.server_names.get(&guild?) {
            name.insert_str(0, &format!("{server} "));
        }
        if let Some(thread) = thread.and_then(|thread| state.names.get(&thread)) {
            name.push_str(&format!(" › {thread}"));
        }
        Some(name)
    }

    fn insert(&self, channel: ChannelId, channel_ref: ChannelRef) {
        let mut state = self.0.lock();
        if state.channels.len() >= PLACES_MAX {
            state.channels.clear();
            state.names.clear();
            state.rules.clear();
            state.locked.clear();
            state.gone.clear();
        }
        state.gone.remove(&channel);
        state.channels.insert(channel, channel_ref);
    }

    /// Stores a private chat, unless the channel is known as something else.
    pub(super) fn learn_direct(&self, channel: ChannelId) {
        if self.known(channel).is_none() {
            let private = ChannelRef { guild: None, chat: channel, thread: None };
            self.insert(channel, private);
        }
    }

    pub(super) fn learn_role(&self, server: GuildId, role: &Role, me: UserId) {
        if let Some(rights) = self.0.lock().servers.get_mut(&server) {
            rights.learn_role(role);
        }
        self.name_role(role, me);
    }

    pub(super) fn forget_role(&self, gone: &RoleGone) {
        if let Some(rights) = self.0.lock().servers.get_mut(&gone.guild_id) {
            rights.forget_role(gone.role_id.get());
        }
    }

    pub(super) fn learn_member(&self, change: &MemberChange, me: UserId) {
        if let Some(rights) = self.0.lock().servers.get_mut(&change.guild_id) {
            rights.learn_member(&change.member, me);
        }
    }

    fn name_role(&self, role: &Role, me: UserId) {
        let mut state = self.0.lock();
        if state.role_names.len() >= PLACES_MAX {
            state.role_names.clear();
        }
        state.role_names.insert(role.id, role.name.clone());
        if role.tags.as_ref().and_then(|tags| tags.bot_id) == Some(me) {
            state.own_roles.insert(role.id);
        }
    }

    /// Marks a channel as gone: nothing is sent to it or read from it until Discord mentions it again. Returns false if
    /// that was known.
    pub(super) fn set_gone(&self, channel: ChannelId) -> bool {
        let mut state = self.0.lock();
        state.forget(channel);
        if state.gone.len() >= PLACES_MAX {
            state.gone.clear();
        }
        state.gone.insert(channel)
    }

    pub(super) fn is_gone(&self, channel: ChannelId) -> bool {
        self.0.lock().gone.contains(&channel)
    }

    /// Whether the bot may write in a server's channel; `None`: unknown.
    pub(super) fn may_send(&self, channel: ChannelId, me: UserId, now: Timestamp) -> Option<bool> {
        let state = self.0.lock();
        let rights = state.rights(channel, me, now)?;
        let is_thread = state.channels.get(&channel)?.thread.is_some();
        let send = if is_thread { SEND_IN_THREADS } else { SEND };
        let is_open = !state.locked.contains(&channel) || rights & MANAGE_THREADS != 0;
        Some(rights & (VIEW | send) == VIEW | send && is_open)
    }

    /// Whether the bot may read a channel's history; `None`: unknown. Reading without the right would count as a
    /// refused request.
    pub(super) fn may_read(&self, channel: ChannelId, me: UserId, now: Timestamp) -> Option<bool> {
        self.0.lock().rights(channel, me, now).map(|rights| rights & (VIEW | HISTORY) == VIEW | HISTORY)
    }

    /// Records that a channel could not be read from this id on.
    pub(super) fn set_unread(&self, channel: ChannelId, from: u64) {
        let mut state = self.0.lock();
        let known = state.unread.entry(channel).or_insert(from);
        *known = from.min(*known);
    }

    /// Records that all messages of a channel up to this one were handled.
    pub(super) fn set_heard(&self, channel: ChannelId, id: u64) {
        let mut state = self.0.lock();
        if state.heard.len() >= PLACES_MAX {
            state.heard.clear();
        }
        let known = state.heard.entry(channel).or_insert(id);
        *known = id.max(*known);
    }

    /// The id up to which all messages of a channel were handled; 0: not known.
    pub(super) fn heard(&self, channel: ChannelId) -> u64 {
        self.0.lock().heard.get(&channel).copied().unwrap_or_default()
    }

    pub(super) fn set_read(&self, channel: ChannelId) {
        self.0.lock().unread.remove(&channel);
    }

    /// The channels that could not be read and match `is_there`, which gets `None` where the place is unknown.
    pub(super) fn unread(
        &self,
        is_there: impl Fn(ChannelId, Option<&ChannelRef>) -> bool,
    ) -> Vec<(ChannelId, u64)> {
        let state = self.0.lock();
        let there =
            state.unread.iter().filter(|(channel, _)| is_there(**channel, state.channels.get(channel)));
        there.map(|(channel, from)| (*channel, *from)).collect()
    }

    /// Forgets a server that the bot has left. Returns its channels and threads.
    pub(super) fn forget_server(&self, server: GuildId) -> Vec<ChannelId> {
        let mut state = self.0.lock();
        state.servers.remove(&server);
        state.server_names.remove(&server);
        let of_server = state.channels.iter().filter(|(_, channel_ref)| channel_ref.guild == Some(server));
        let gone: Vec<ChannelId> = of_server.map(|(channel, _)| *channel).collect();
        gone.iter().for_each(|channel| state.forget(*channel));
        gone
    }

    pub(super) fn is_own_role(&self, role: RoleId) -> bool {
        self.0.lock().own_roles.contains(&role)
    }

    pub(super) fn role_name(&self, role: RoleId) -> Option<String> {
        self.0.lock().role_names.get(&role).cloned()
    }

    pub(super) fn known(&self, channel: ChannelId) -> Option<ChannelRef> {
        self.0.lock().channels.get(&channel).copied()
    }

    /// Where a channel is; Discord is asked if it is not known. `guild`: the server, where the event names it. `None`
    /// if Discord's description is incomplete.
    ///
    /// # Errors
    /// The lookup failed.
    pub(super) async fn find(
        &self,
        rest: &Rest,
        channel: ChannelId,
        guild: Option<GuildId>,
    ) -> Result<Option<ChannelRef>, RestError> {
        // A channel in a server is no private chat, even if it was taken for one before.
        let fits = |channel_ref: &ChannelRef| guild.is_none() || !channel_ref.is_direct();
        if let Some(channel_ref) = self.known(channel).filter(fits) {
            return Ok(Some(channel_ref));
        }
        let described = rest.patiently(|| rest.channel(channel)).await?;
        let room: ChannelInfo = serde_json::from_value(described).map_err(|_| {
            RestError::Unknown("Discord describes a channel in a way that cannot be read".to_owned())
        })?;
        self.learn(&room, guild);
        Ok(ChannelRef::of_room(&room, guild))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn room(value: Value) -> ChannelInfo {
        serde_json::from_value(value).expect("is a room")
    }

    #[test]
    fn a_thread_is_found_under_its_channel_and_a_channel_not_under_its_category() {
        let guild = Some(GuildId::new(1));
        let thread = ChannelRef::of_room(&room(json!({"id": "30", "type": 11, "parent_id": "20"})), guild);
        assert_eq!(
            thread,
            Some(ChannelRef { guild, chat: ChannelId::new(20), thread: Some(ChannelId::new(30)) })
        );
        let plain = ChannelRef::of_room(&room(json!({"id": "20", "type": 0, "parent_id": "10"})), guild);
        assert_eq!(plain, Some(ChannelRef { guild, chat: ChannelId::new(20), thread: None }));
        let private = ChannelRef::of_room(&room(json!({"id": "40", "type": 1})), None);
        assert!(private.is_some_and(|channel_ref| channel_ref.is_direct()));
    }

    #[test]
    fn what_is_not_described_well_enough_is_nowhere() {
        let guild = Some(GuildId::new(1));
        let nowhere = |value, guild| assert_eq!(ChannelRef::of_room(&room(value), guild), None);
        nowhere(json!({"id": "30", "type": 11}), guild);
        nowhere(json!({"id": "40", "type": 3}), None);
        nowhere(json!({"id": "20", "type": 0}), None);
    }

    #[test]
    fn what_the_bot_may_do_follows_its_roles_the_channels_rules_and_the_state_of_a_thread() {
        let (places, me, now) = (Places::default(), UserId::new(99), Timestamp::UNIX_EPOCH);
        let all = (VIEW | SEND | SEND_IN_THREADS | HISTORY).to_string();
        let server: Server = serde_json::from_value(json!({
            "id": "1", "channels": [{"id": "20", "type": 0}],
            "threads": [{"id": "30", "type": 11, "parent_id": "20", "thread_metadata": {"locked": true}}],
            "roles": [{"id": "1", "permissions": "0"}, {"id": "5", "permissions": all}],
            "members": [{"user": {"id": "99"}, "roles": ["5"]}],
        }))
        .expect("is a server");
        places.learn_server(&server, me);
        let may = |channel| places.may_send(ChannelId::new(channel), me, now);
        assert_eq!((may(20), may(30), may(40)), (Some(true), Some(false), None), "30 is locked, 40 unknown");
        places.learn(&room(json!({"id": "30", "type": 11, "parent_id": "20"})), Some(GuildId::new(1)));
        assert_eq!(may(30), Some(true));
        let rules = json!([{"id": "99", "type": 1, "allow": "0", "deny": SEND_IN_THREADS.to_string()}]);
        places.learn(&room(json!({"id": "20", "permission_overwrites": rules})), Some(GuildId::new(1)));
        assert_eq!((may(20), may(30)), (Some(true), Some(false)), "a thread has the rules of its channel");
        let change =
            json!({"guild_id": "1", "user": {"id": "99", "username": "cairn"}, "roles": [], "nick": null});
        places.learn_member(&serde_json::from_value(change).expect("is a change"), me);
        assert_eq!((may(20), may(30)), (Some(false), Some(false)), "it has lost its role");
        assert_eq!(places.may_read(ChannelId::new(20), me, now), Some(false));
        assert!(places.set_gone(ChannelId::new(20)) && !places.set_gone(ChannelId::new(20)));
        assert_eq!((may(20), places.is_gone(ChannelId::new(20))), (None, true));
        places.learn(&room(json!({"id": "20"})), Some(GuildId::new(1)));
        assert!(!places.is_gone(ChannelId::new(20)), "Discord tells of it again");
    }

    #[test]
    fn a_channel_is_named_with_its_server_and_a_thread_with_its_channel() {
        let places = Places::default();
        let server: Server = serde_json::from_value(json!({
            "id": "1", "name": "Harbour\n crew", "channels": [{"id": "20", "type": 0, "name": "general"}, {"id": "21", "type": 0}],
            "threads": [{"id": "30", "type": 11, "parent_id": "20", "name": "Regatta"}],
        }))
        .expect("is a server");
        places.learn_server(&server, UserId::new(99));
        places.learn_direct(ChannelId::new(40));
        let name = |channel| places.name_of(ChannelId::new(channel));
        assert_eq!(name(20).as_deref(), Some("Harbour crew #general"));
        assert_eq!(name(30).as_deref(), Some("Harbour crew #general › Regatta"));
        assert_eq!((name(21), name(40), name(50)), (None, None, None), "unnamed, private, unknown");
        places.learn(&room(json!({"id": "20", "type": 0, "name": "lobby"})), Some(GuildId::new(1)));
        assert_eq!(name(20).as_deref(), Some("Harbour crew #lobby"));
    }

    #[test]
    fn the_bots_own_role_is_known_by_its_tag() {
        let places = Places::default();
        let server: Server = serde_json::from_value(json!({
            "id": "1", "channels": [{"id": "20", "type": 0}], "threads": [],
            "roles": [{"id": "5", "name": "cairn", "tags": {"bot_id": "99"}}, {"id": "6", "name": "staff"}],
        }))
        .expect("is a server");
        places.learn_server(&server, UserId::new(99));
        assert!(places.is_own_role(RoleId::new(5)) && !places.is_own_role(RoleId::new(6)));
        assert_eq!(places.role_name(RoleId::new(6)).as_deref(), Some("staff"));
        let channel_ref = places.known(ChannelId::new(20)).expect("is known");
        assert_eq!(channel_ref.guild, Some(GuildId::new(1)));
    }
}
