//! What goes wrong: on the way, at the gateway, with the bot's rights.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::gateway::session::{Connection, End, Session, intent};
use super::rest::refusal::Refusal;
use super::world::{Access, kind};
use super::{FakeDiscord, Fault, Route, shapes};

impl FakeDiscord {
    /// What happens to the next request of a route that no earlier scripted fault takes.
    pub fn fail_next(&self, route: Route, fault: Fault) {
        self.shared.update(|state| state.faults.push(route, fault));
    }

    /// Scripted faults of a route that nobody has met yet.
    pub fn unmet(&self, route: Route) -> usize {
        self.shared.state.lock().faults.unused(route)
    }

    /// What happens to all requests of a route from now on; `None`: what should.
    pub fn fail(&self, route: Route, fault: impl Into<Option<Fault>>) {
        self.shared.update(|state| state.faults.stand(Some(route), fault.into()));
    }

    /// The next request of a route gets a 429, and so do all others of its kind and channel until the time is over.
    pub fn rate_limit(&self, route: Route, after: Duration) {
        self.shared.update(|state| state.limits.script(route, after));
    }

    /// The next request gets a 429 for all requests.
    pub fn rate_limit_globally(&self, after: Duration) {
        self.shared.update(|state| state.limits.script_global(after));
    }

    /// Requests that got a 429 so far.
    pub fn limited(&self) -> usize {
        self.shared.state.lock().limits.refused
    }

    /// Cuts all connections, and takes no new ones until told otherwise.
    pub fn set_unreachable(&self, unreachable: bool) {
        self.shared.update(|state| state.unreachable = unreachable);
        if unreachable {
            self.disconnect();
        }
    }

    /// Connections that were made while it could not be reached.
    pub fn turned_away(&self) -> usize {
        self.shared.state.lock().turned_away
    }

    /// Takes the token back, or gives it again. Connected sessions are closed with 4004.
    pub fn set_revoked(&self, revoked: bool) {
        self.shared.update(|state| state.revoked = revoked);
        if revoked {
            self.close(4004);
        }
    }

    /// Grants the privileged intent for message content, or takes it back.
    pub fn set_message_content(&self, granted: bool) {
        self.shared.update(|state| state.content_allowed = granted);
    }

    /// Names another gateway than the own one, in REST and in READY.
    pub fn name_gateway(&self, url: &str) {
        self.shared.update(|state| state.foreign_gateway = Some(url.to_owned()));
    }

    /// So many sessions may still be begun.
    pub fn set_identify_budget(&self, left: u64) {
        self.shared.update(|state| state.identify_budget = left);
    }

    /// From now on so many shards are recommended, and fewer are not taken. Their connections are closed with 4011.
    pub fn require_shards(&self, shards: u32) {
        self.shared.update(|state| (state.shards, state.shards_min) = (shards, shards));
        self.close(4011);
    }

    /// Cuts the connection of a shard without a word. Its session can be resumed.
    pub fn disconnect_shard(&self, id: u64) {
        self.shared.update(|state| {
            let gateway = &mut state.gateway;
            let is_it = |one: &Connection, sessions: &BTreeMap<String, Session>| {
                one.session
                    .as_ref()
                    .and_then(|session| sessions.get(session))
                    .is_some_and(|session| session.shard.id == id)
            };
            for connection in gateway.connections.values_mut().filter(|one| is_it(one, &gateway.sessions)) {
                connection.end = Some(End::Drop);
            }
        });
    }

    /// Cuts the gateway's connections without a word. The sessions can be resumed.
    pub fn disconnect(&self) {
        self.end(End::Drop);
    }

    /// Closes the gateway's connections with a code. The sessions can be resumed.
    pub fn close(&self, code: u16) {
        self.end(End::Close(code));
    }

    fn end(&self, end: End) {
        self.shared.update(|state| {
            state.gateway.connections.values_mut().for_each(|connection| connection.end = Some(end));
        });
    }

    /// From now on nothing goes out on the connections that are open: no acknowledgement, no event. New connections
    /// are served.
    pub fn stop_acks(&self) {
        self.shared.update(|state| {
            state.gateway.connections.values_mut().for_each(|connection| connection.frozen = true);
        });
    }

    pub fn ask_heartbeat(&self) {
        self.tell(&json!({"op": 1, "d": null, "t": null, "s": null}));
    }

    /// Asks the bot to connect again and resume.
    pub fn ask_reconnect(&self) {
        self.tell(&json!({"op": 7, "d": null, "t": null, "s": null}));
    }

    /// Says that the session is invalid; unless `resumable`, it is gone.
    pub fn invalid_session(&self, resumable: bool) {
        self.tell(&json!({"op": 9, "d": resumable, "t": null, "s": null}));
        self.shared.update(|state| {
            for connection in state.gateway.connections.values_mut() {
                let session = connection.session.take();
                if !resumable && let Some(session) = session {
                    state.gateway.sessions.remove(&session);
                }
            }
        });
    }

    /// Forgets all sessions, so that none can be resumed: what happens meanwhile is to be had by REST alone.
    pub fn forget_sessions(&self) {
        self.shared.update(|state| state.gateway.sessions.clear());
    }

    /// Dispatches any payload under any name: for events that are malformed or unknown.
    pub fn dispatch(&self, name: &'static str, data: Value) {
        self.shared.update(|state| state.dispatch(name, 0, data));
    }

    fn tell(&self, payload: &Value) {
        self.shared.update(|state| {
            let live = state.gateway.live();
            live.into_iter().for_each(|id| state.gateway.tell(id, payload));
        });
    }

    /// The bot listens: it has a session and is connected.
    pub fn is_ready(&self) -> bool {
        !self.shared.state.lock().gateway.live().is_empty()
    }

    /// Shards that listen.
    pub fn n_ready(&self) -> usize {
        self.shared.state.lock().gateway.live().len()
    }

    pub fn identified(&self) -> usize {
        self.shared.state.lock().gateway.identified.len()
    }

    /// The shards that identified, in their order: their numbers, and how many there were to be.
    pub fn identified_shards(&self) -> Vec<(u64, u64)> {
        let identified = &self.shared.state.lock().gateway.identified;
        identified.iter().map(|(shard, _)| (shard.id, shard.of)).collect()
    }

    pub fn resumed(&self) -> usize {
        self.shared.state.lock().gateway.resumed
    }

    /// Connections to the gateway so far.
    pub fn connected(&self) -> u64 {
        self.shared.state.lock().gateway.n_connections
    }

    pub fn heartbeats(&self) -> usize {
        self.shared.state.lock().gateway.heartbeats
    }

    /// The bot may read in a channel, and not write.
    pub fn deny(&self, channel: u64) {
        self.access(channel, Access::ReadOnly);
    }

    /// The bot may write in a channel, and not read what was said before: Discord tells it that there is nothing.
    pub fn hide_history(&self, channel: u64) {
        self.access(channel, Access::NoHistory);
    }

    pub fn hide(&self, channel: u64) {
        self.access(channel, Access::Hidden);
    }

    /// The bot may do everything in a channel again.
    pub fn allow(&self, channel: u64) {
        self.access(channel, Access::Full);
    }

    /// The person of a private chat blocks the bot.
    pub fn block(&self, channel: u64) {
        self.access(channel, Access::Blocked);
    }

    /// The bot may do everything in all channels of a server again, by a right that everybody there gets.
    pub fn allow_by_role(&self, guild: u64) {
        self.shared.update(|state| {
            let inside = state.world.channels.values_mut().filter(|channel| channel.guild == Some(guild));
            inside.for_each(|channel| channel.access = Access::Full);
            let everyone = json!({"id": guild.to_string(), "name": "@everyone", "permissions": "8"});
            let data = json!({"guild_id": guild.to_string(), "role": everyone});
            state.dispatch("GUILD_ROLE_UPDATE", intent::GUILDS, data);
        });
    }

    fn access(&self, channel: u64, access: Access) {
        self.shared.update(|state| {
            let place = state.world.channel(channel);
            place.access = access;
            let place = place.clone();
            if place.guild.is_some() && place.kind != kind::THREAD {
                let data = shapes::channel(&state.world, &place);
                state.dispatch("CHANNEL_UPDATE", intent::GUILDS, data);
            }
        });
    }

    /// A moderator locks a thread: nobody writes there without the right to manage threads.
    pub fn lock(&self, thread: u64) {
        self.shared.update(|state| {
            let place = state.world.channel(thread);
            place.access = Access::ReadOnly;
            let place = place.clone();
            let data = shapes::channel(&state.world, &place);
            state.dispatch("THREAD_UPDATE", intent::GUILDS, data);
        });
    }

    /// From now on a reply to a message that is gone is refused with this status and code, whatever the request says: not
    /// every server heeds `fail_if_not_exists`.
    pub fn refuse_stray_replies(&self, status: u16, code: u32) {
        self.shared.update(|state| state.stray_replies = Some(Refusal::new(status, code, "Unknown Message")));
    }

    /// A channel or thread is deleted.
    pub fn remove(&self, channel: u64) {
        self.shared.update(|state| {
            let gone = state.world.channel(channel).clone();
            state.world.channels.remove(&channel);
            let data = shapes::channel(&state.world, &gone);
            if gone.kind == kind::THREAD {
                let data = json!({"id": data["id"], "guild_id": data["guild_id"], "parent_id": data["parent_id"], "type": 11});
                state.dispatch("THREAD_DELETE", intent::GUILDS, data);
            } else {
                state.dispatch("CHANNEL_DELETE", intent::GUILDS, data);
            }
        });
    }
}
