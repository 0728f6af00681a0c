//! What the servers list when a session begins: in which channels something was said that may have been missed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use serenity::all::{ChannelId, GuildId, UserId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::backfill::overlap;
use crate::discord::gateway::Shard;
use crate::discord::wire::{ChannelInfo, Overwrite, Server, id_at};

/// Longest that a channel waits for the next list, in which it may be; then it is read. A server in trouble sends none, and none has private
/// chats, so that what is said there waits as long.
const LIST_LIMIT: Duration = Duration::from_secs(5);

/// The same while shards have had no session yet. One may begin every five seconds, and needs some more to be there.
const SHARD_LIMIT: Duration = Duration::from_secs(15);

/// Rights of a bot in a channel, as Discord numbers them.
const ADMINISTRATOR: u64 = 1 << 3;
const VIEW_CHANNEL: u64 = 1 << 10;
const READ_HISTORY: u64 = 1 << 16;

/// A list of threads, and no chat itself.
const NO_CHAT: [u64; 3] = [4, 15, 16];

#[derive(Debug)]
struct Listed {
    /// By known channel its server and the message that was said last.
    last: HashMap<ChannelId, (Option<GuildId>, u64)>,
    /// Servers that have not sent their list.
    awaited: HashSet<GuildId>,
    /// Shards that have had no session yet.
    to_come: HashSet<u32>,
    n_shards: u32,
    /// A session has begun since the number of shards is this one.
    has_begun: bool,
    /// When a session began last, or a list came.
    stirred: Instant,
    /// Channels that wait for their list. Each is told of its own, so that a list of many costs no more than it lists.
    waiting: HashMap<ChannelId, oneshot::Sender<()>>,
}

/// The lists of the sessions of all shards.
#[derive(Debug)]
pub(in crate::discord) struct Listing(Mutex<Listed>);

/// Which session of the shards has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sessions {
    /// The first one of all.
    First,
    /// The first one of its shard.
    OfShard,
    /// A further one of its shard.
    Again,
}

impl Default for Listing {
    fn default() -> Self {
        let (last, awaited, to_come) = (HashMap::new(), HashSet::new(), HashSet::new());
        let (stirred, waiting) = (Instant::now(), HashMap::new());
        Self(Mutex::new(Listed { last, awaited, to_come, n_shards: 0, has_begun: false, stirred, waiting }))
    }
}

impl Listed {
    fn is_complete(&self) -> bool {
        self.to_come.is_empty() && self.awaited.is_empty()
    }

    /// Until when a channel waits that no list has named. While shards are still to come, the next may bring it.
    fn patience(&self) -> Instant {
        self.stirred + if self.to_come.is_empty() { LIST_LIMIT } else { SHARD_LIMIT }
    }

    /// There are so many shards. Where there were others, nothing of theirs holds.
    fn divide(&mut self, n_shards: u32) {
        if self.n_shards != n_shards {
            (self.n_shards, self.has_begun) = (n_shards, false);
            self.to_come = (0..n_shards).collect();
            self.last.clear();
            self.awaited.clear();
        }
    }

    /// When all lists are there, whoever still waits is in none.
    fn release(&mut self) {
        if self.is_complete() {
            self.waiting.clear();
        }
    }

    fn tell(&mut self, channel: ChannelId) {
        if let Some(waiting) = self.waiting.remove(&channel) {
            // It may have stopped waiting.
            let _ = waiting.send(());
        }
    }
}

impl Listing {
    /// A session of an earlier run goes on: no list comes.
    pub(super) fn resumes(&self, shard: Shard) {
        let listed = &mut *self.0.lock();
        listed.divide(shard.of);
        listed.to_come.remove(&shard.id);
        listed.release();
    }

    /// A session of a shard has begun, with these servers.
    pub(super) fn begin(&self, shard: Shard, servers: impl IntoIterator<Item = GuildId>) -> Sessions {
        let listed = &mut *self.0.lock();
        listed.divide(shard.of);
        let is_first = !std::mem::replace(&mut listed.has_begun, true);
        let is_new = listed.to_come.remove(&shard.id);
        listed.last.retain(|_, (server, _)| !shard.hears(*server));
        listed.awaited.retain(|server| !shard.hears(Some(*server)));
        listed.awaited.extend(servers);
        listed.stirred = Instant::now();
        listed.release();
        match (is_first, is_new) {
            (true, _) => Sessions::First,
            (false, true) => Sessions::OfShard,
            (false, false) => Sessions::Again,
        }
    }

    /// The shard that hears a server.
    pub(super) fn shard_of(&self, server: GuildId) -> u32 {
        let of = self.0.lock().n_shards;
        (0..of).find(|id| Shard { id: *id, of }.hears(Some(server))).unwrap_or(0)
    }

    /// A server has sent its list, or that it has none. True: it was the last one awaited.
    pub(super) fn arrived(&self, server: GuildId, last: impl IntoIterator<Item = (ChannelId, u64)>) -> bool {
        let listed = &mut *self.0.lock();
        listed.stirred = Instant::now();
        for (channel, id) in last {
            listed.last.insert(channel, (Some(server), id));
            listed.tell(channel);
        }
        let was_awaited = listed.awaited.remove(&server);
        listed.release();
        was_awaited && listed.is_complete()
    }

    /// Something was said in a channel just now: it need not wait for a list.
    pub(super) fn said(&self, channel: ChannelId, server: Option<GuildId>, id: u64) {
        let listed = &mut *self.0.lock();
        if listed.waiting.contains_key(&channel) {
            listed.last.insert(channel, (server, id));
            listed.tell(channel);
        }
    }

    /// How many known channels have had nothing since.
    pub(super) fn n_quiet(&self, since: u64) -> usize {
        self.0.lock().last.values().filter(|(_, last)| *last < since).count()
    }

    /// Whether something may have been said in a known channel since; waits for its server's list. Of private chats, and of
    /// threads that are archived, no list tells.
    pub(super) async fn has_news(&self, channel: ChannelId, since: u64) -> bool {
        let mut told = {
            let listed = &mut *self.0.lock();
            // Dropped, it tells as well.
            let (tell, told) = oneshot::channel();
            if !listed.last.contains_key(&channel) && !listed.is_complete() {
                listed.waiting.insert(channel, tell);
            }
            told
        };
        loop {
            let until = self.0.lock().patience();
            let in_time = tokio::time::timeout_at(until, &mut told).await.is_ok();
            if in_time || self.0.lock().patience() <= until {
                break;
            }
        }
        let listed = &mut *self.0.lock();
        listed.waiting.remove(&channel);
        listed.last.get(&channel).is_none_or(|(_, last)| *last >= since)
    }
}

/// The channels and threads of a server in which the bot has never heard anything and something was said while it was away,
/// with the id to read them from. `heard`: the newest message taken in anywhere before the session; without one the bot has
/// never been there before. `oldest`: what is older is not taken in any more.
pub(super) fn unheard(
    server: &Server,
    me: UserId,
    heard: Option<u64>,
    oldest: u64,
    is_known: impl Fn(ChannelId) -> bool,
) -> Vec<(ChannelId, u64)> {
    let Some(heard) = heard else { return Vec::new() };
    let joined = server.joined_at.map_or(0, id_at);
    let since = overlap(heard).max(joined).max(oldest);
    let by_id: HashMap<ChannelId, &ChannelInfo> =
        server.channels.iter().map(|room| (room.id, room)).collect();
    let rights = |room: &ChannelInfo| {
        let parent =
            room.parent_id.filter(|_| room.is_thread()).and_then(|parent| by_id.get(&parent).copied());
        rights_in(server, parent.unwrap_or(room), me)
    };
    let rooms = server.channels.iter().chain(&server.threads);
    rooms
        .filter(|room| !NO_CHAT.contains(&room.kind) && !is_known(room.id))
        .filter(|room| room.last_message_id.is_some_and(|last| last.get() > since))
        .filter(|room| rights(room) & (VIEW_CHANNEL | READ_HISTORY) == VIEW_CHANNEL | READ_HISTORY)
        .map(|room| (room.id, since))
        .collect()
}

/// The bot's rights in a channel: those of its roles, then what the channel takes and gives, for everybody, for roles, for
/// the bot itself. A request without the right to make it would count against the bot.
fn rights_in(server: &Server, room: &ChannelInfo, me: UserId) -> u64 {
    let everyone = server.id.get();
    let member = server.members.iter().find(|member| member.user.as_ref().is_some_and(|user| user.id == me));
    let own: HashSet<u64> =
        member.into_iter().flat_map(|member| &member.roles).map(|role| role.get()).collect();
    let has = |role: u64| role == everyone || own.contains(&role);
    let roles = server.roles.iter().filter(|role| has(role.id.get()));
    let base = roles.fold(0, |rights, role| rights | bits(&role.permissions));
    if base & ADMINISTRATOR != 0 {
        return u64::MAX;
    }
    let steps: [&dyn Fn(&&Overwrite) -> bool; 3] = [
        &|one| one.id == everyone.to_string(),
        &|one| one.kind == 0 && one.id.parse().is_ok_and(|role| own.contains(&role)),
        &|one| one.kind == 1 && one.id == me.to_string(),
    ];
    steps.into_iter().fold(base, |rights, step| {
        let these = || room.permission_overwrites.iter().filter(step);
        let denied = these().fold(0, |all, one| all | bits(&one.deny));
        let allowed = these().fold(0, |all, one| all | bits(&one.allow));
        rights & !denied | allowed
    })
}

/// Discord writes rights as a number in a string.
fn bits(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ME: UserId = UserId::new(99);
    const SEEN: &str = "66560";

    fn server(rooms: Value, threads: Value, everyone: &str) -> Server {
        serde_json::from_value(json!({
            "id": "1", "joined_at": "2026-01-01T00:00:00.000000+00:00", "channels": rooms, "threads": threads,
            "roles": [{"id": "1", "permissions": everyone}, {"id": "5", "permissions": SEEN}, {"id": "6", "permissions": "8"}],
            "members": [{"user": {"id": "99"}, "roles": ["5"]}, {"user": {"id": "98"}, "roles": ["6"]}],
        }))
        .expect("is a server")
    }

    fn at(text: &str) -> u64 {
        id_at(text.parse().expect("is a time"))
    }

    fn found(server: &Server, heard: Option<u64>) -> Vec<u64> {
        let known = ChannelId::new(21);
        let all = unheard(server, ME, heard, at("2026-02-01T00:00:00Z"), |channel| channel == known);
        all.into_iter().map(|(channel, _)| channel.get()).collect()
    }

    #[test]
    fn channels_that_were_never_heard_in_are_read_where_something_new_was_said() {
        let (old, new) = (at("2026-02-09T00:00:00Z").to_string(), at("2026-02-11T00:00:00Z").to_string());
        let room = |id: u64, kind: u64, last: &str| json!({"id": id.to_string(), "type": kind, "last_message_id": last});
        let thread = json!({"id": "30", "type": 11, "parent_id": "20", "last_message_id": new});
        let rooms = json!([room(20, 0, &new), room(21, 0, &new), room(22, 0, &old), room(23, 15, &new), {"id": "24"}]);
        let one = server(rooms, json!([thread]), "0");
        assert_eq!(found(&one, Some(at("2026-02-10T00:00:00Z"))), [20, 30]);
        assert_eq!(found(&one, None), [0; 0], "a bot that has heard nothing at all has missed nothing");
        assert_eq!(found(&one, Some(at("2026-02-08T00:00:00Z"))), [20, 22, 30]);
    }

    #[test]
    fn what_was_said_before_the_bot_came_or_is_too_old_is_left() {
        let said = |time: &str| json!([{"id": "20", "type": 0, "last_message_id": at(time).to_string()}]);
        let one = server(said("2026-01-15T00:00:00Z"), json!([]), "0");
        assert_eq!(found(&one, Some(at("2025-12-01T00:00:00Z"))), [0; 0], "older than what is taken in");
        let young: Server = Server {
            joined_at: "2026-03-01T00:00:00Z".parse().ok(),
            ..server(said("2026-02-20T00:00:00Z"), json!([]), "0")
        };
        assert_eq!(found(&young, Some(at("2026-02-10T00:00:00Z"))), [0; 0], "before it joined");
    }

    #[test]
    fn a_channel_that_the_bot_may_not_read_is_not_asked_for() {
        let last = at("2026-02-11T00:00:00Z").to_string();
        let take = |id: &str, kind: u64| json!({"id": id, "type": kind, "allow": "0", "deny": "1024"});
        let give = |id: &str, kind: u64| json!({"id": id, "type": kind, "allow": "1024", "deny": "0"});
        let cases = [
            (json!([]), true),
            (json!([take("1", 0)]), false),
            (json!([take("1", 0), give("5", 0)]), true),
            (json!([give("1", 0), take("5", 0)]), false),
            (json!([take("5", 0), give("99", 1)]), true),
            (json!([take("6", 0), take("98", 1)]), true),
        ];
        for (rules, may) in cases {
            let room =
                json!({"id": "20", "type": 0, "last_message_id": last, "permission_overwrites": rules});
            let thread = json!({"id": "30", "type": 11, "parent_id": "20", "last_message_id": last});
            let expected: &[u64] = if may { &[20, 30] } else { &[] };
            let one = server(json!([room]), json!([thread]), "0");
            assert_eq!(found(&one, Some(at("2026-02-10T00:00:00Z"))), expected, "{rules}");
        }
        let room = json!([{"id": "20", "type": 0, "last_message_id": last, "permission_overwrites": [take("5", 0)]}]);
        assert_eq!(
            found(&server(room, json!([]), "8"), Some(at("2026-02-10T00:00:00Z"))),
            [20],
            "an administrator"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_channel_waits_for_its_servers_list_and_not_for_ever() {
        let (listing, quiet, busy, private) =
            (Listing::default(), ChannelId::new(1), ChannelId::new(2), ChannelId::new(3));
        listing.begin(Shard { id: 0, of: 1 }, [GuildId::new(1), GuildId::new(2)]);
        assert!(!listing.arrived(GuildId::new(1), [(quiet, 10), (busy, 30)]));
        assert!(!listing.has_news(quiet, 20).await);
        assert!(listing.has_news(busy, 20).await);
        assert_eq!(listing.n_quiet(20), 1);
        let before = tokio::time::Instant::now();
        assert!(listing.has_news(private, 20).await);
        assert_eq!(before.elapsed(), LIST_LIMIT);
        assert!(listing.arrived(GuildId::new(2), []));
        assert!(listing.has_news(private, 20).await);
        assert_eq!(before.elapsed(), LIST_LIMIT, "all lists are there");
    }
    #[tokio::test(start_paused = true)]
    async fn a_channel_waits_for_shards_that_are_to_come_and_not_for_one_that_stays_away() {
        let (listing, began) = (Listing::default(), tokio::time::Instant::now());
        let server = |shard: u64| GuildId::new(shard << 22 | 1);
        let begin = |id| listing.begin(Shard { id, of: 4 }, [server(u64::from(id))]);
        assert_eq!(begin(0), Sessions::First);
        assert!(!listing.arrived(server(0), []));
        let (quiet, private, none) = (ChannelId::new(1), ChannelId::new(2), ChannelId::new(3));
        let wait = async |channel| (listing.has_news(channel, 20).await, began.elapsed().as_secs());
        let lists = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            listing.said(private, None, 30);
            tokio::time::sleep(Duration::from_secs(9)).await;
            assert_eq!(begin(1), Sessions::OfShard);
            assert!(!listing.arrived(server(1), [(quiet, 10)]));
        };
        let (quiet, private, none, ()) = futures::join!(wait(quiet), wait(private), wait(none), lists);
        assert_eq!((quiet, private), ((false, 10), (true, 1)), "told at once");
        assert_eq!(none, (true, 10 + SHARD_LIMIT.as_secs()));
        assert_eq!((begin(2), begin(1), begin(3)), (Sessions::OfShard, Sessions::Again, Sessions::OfShard));
        assert_eq!(listing.n_quiet(20), 0, "a list of before says nothing");
        assert!(!listing.arrived(server(1), []) && !listing.arrived(server(2), []));
        assert!(listing.arrived(server(3), []), "the last one");
        assert_eq!(listing.shard_of(server(3)), 3);
    }
}
