//! Finds missed messages from the channel lists that servers send when a session starts, and counts what was caught up.

use std::collections::HashSet;
use std::time::Duration;

use cairn_types::ports::CaughtUp;
use jiff::Timestamp;
use parking_lot::Mutex;
use serenity::all::{ChannelId, GuildId};

use crate::discord::gateway::Shard;
use crate::discord::wire::{ChannelInfo, Server, id_at};

/// Longest wait for the lists of servers before catching up is reported: a server in trouble may send its list hours
/// later.
pub(super) const LIST_LIMIT: Duration = Duration::from_secs(10);

/// Channel types without messages of their own: category, forum, media channel.
const NO_CHAT: [u64; 3] = [4, 15, 16];

/// The last message is unknown, as in private chats.
pub(super) const UNTOLD: u64 = u64::MAX;

/// Why a channel is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::discord) struct Missed {
    /// Read from this id, whatever else is known.
    pub(super) after: Option<u64>,
    /// The id of the last message, or [`UNTOLD`].
    pub(super) last: u64,
    /// Where the bot has taken in nothing, messages before this id are not read.
    pub(super) since: u64,
}

impl Missed {
    /// Messages after `id` are missing.
    pub(super) fn after(id: u64) -> Self {
        Self { after: Some(id), last: UNTOLD, since: 0 }
    }

    /// A private chat, which is in no list.
    pub(super) fn untold() -> Self {
        Self { after: None, last: UNTOLD, since: 0 }
    }

    /// Combines two reasons to read a channel.
    pub(super) fn join(&mut self, other: Self) {
        self.after = [self.after, other.after].into_iter().flatten().min();
        self.last = self.last.max(other.last);
        self.since = self.since.max(other.since);
    }
}

/// The served channels and threads of a server with messages not older than `oldest`, and the number of the other
/// served ones.
pub(super) fn with_news(
    server: &Server,
    oldest: u64,
    is_served: impl Fn(&ChannelInfo) -> bool,
) -> (Vec<(ChannelId, Missed)>, u64) {
    let since = server.joined_at.map_or(0, id_at);
    let mut quiet = 0;
    let rooms = server.channels.iter().chain(&server.threads);
    let served = rooms.filter(|room| !NO_CHAT.contains(&room.kind) && is_served(room));
    let news = served.filter_map(|room| {
        let last = room.last_message_id.map_or(0, |last| last.get());
        quiet += u64::from(last < oldest);
        (last >= oldest).then_some((room.id, Missed { after: None, last, since }))
    });
    (news.collect(), quiet)
}

/// The result of checking a channel for missed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// Nothing new, or the channel is not served.
    Quiet,
    Unreadable,
    Read {
        messages: u64,
        deleted: u64,
    },
}

#[derive(Debug, Default)]
struct State {
    n_shards: u32,
    /// Shards that have started a session.
    begun: HashSet<u32>,
    /// Servers whose list has not arrived.
    awaited: HashSet<GuildId>,
    /// Channels still to check.
    open: u64,
    read: u64,
    quiet: u64,
    unread: u64,
    messages: u64,
    deleted: u64,
    /// Something happened that is not reported yet.
    is_news: bool,
}

/// The progress of catching up.
#[derive(Debug, Default)]
pub(in crate::discord) struct CatchUps(Mutex<State>);

impl CatchUps {
    /// A shard started a session with these servers. The first sessions of all shards count as one catch-up.
    pub(super) fn begin(&self, shard: Shard, servers: impl IntoIterator<Item = GuildId>) {
        let state = &mut *self.0.lock();
        if state.n_shards != shard.of || !state.begun.insert(shard.id) {
            let (n_shards, begun) = (shard.of, HashSet::from([shard.id]));
            let (awaited, open) = (std::mem::take(&mut state.awaited), state.open);
            *state = State { n_shards, begun, awaited, open, ..State::default() };
        }
        state.awaited.retain(|server| !shard.hears(Some(*server)));
        state.awaited.extend(servers);
        state.is_news = true;
    }

    /// A server sent its list, or will send none.
    pub(super) fn listed(&self, server: GuildId, quiet: u64) {
        let mut state = self.0.lock();
        state.awaited.remove(&server);
        state.quiet += quiet;
    }

    /// Stops waiting for the lists of a shard's servers.
    pub(super) fn give_up_lists(&self, shard: Shard) {
        self.0.lock().awaited.retain(|server| !shard.hears(Some(*server)));
    }

    pub(super) fn opened(&self) {
        let mut state = self.0.lock();
        state.open += 1;
        state.is_news = true;
    }

    /// A channel is being checked. If the check panics, the channel counts as unreadable.
    pub(super) fn look(&self) -> Looking<'_> {
        Looking { catch_ups: self, looked: Looked::Unreadable }
    }

    /// Whether channels are still to be checked.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().open > 0
    }

    fn looked(&self, looked: Looked) {
        let state = &mut *self.0.lock();
        state.open = state.open.saturating_sub(1);
        match looked {
            Looked::Quiet => state.quiet += 1,
            Looked::Unreadable => state.unread += 1,
            Looked::Read { messages, deleted } => {
                state.read += 1;
                state.messages += messages;
                state.deleted += deleted;
            }
        }
    }

    /// The result, once everything is checked and it was not reported yet.
    pub(super) fn done(&self, at: Timestamp) -> Option<CaughtUp> {
        let mut state = self.0.lock();
        let is_done = state.open == 0 && state.awaited.is_empty();
        if !is_done || !std::mem::take(&mut state.is_news) {
            return None;
        }
        let State { read, quiet, unread, messages, deleted, .. } = *state;
        Some(CaughtUp { at, read, quiet, unread, messages, deleted })
    }
}

/// A check in progress; dropping it records the result.
pub(super) struct Looking<'a> {
    catch_ups: &'a CatchUps,
    looked: Looked,
}

impl Looking<'_> {
    pub(super) fn done(mut self, looked: Looked) {
        self.looked = looked;
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.catch_ups.looked(self.looked);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> u64 {
        id_at(text.parse().expect("is a time"))
    }

    #[test]
    fn channels_and_threads_are_looked_at_where_something_was_said_that_is_not_too_old() {
        let (old, new) = (at("2026-02-09T00:00:00Z").to_string(), at("2026-02-11T00:00:00Z").to_string());
        let room = |id: u64, kind: u64, last: &str| json!({"id": id.to_string(), "type": kind, "last_message_id": last});
        let server: Server = serde_json::from_value(json!({
            "id": "1", "joined_at": "2026-01-01T00:00:00.000000+00:00",
            "channels": [room(20, 0, &new), room(21, 0, &new), room(22, 0, &old), room(23, 15, &new), {"id": "24"}],
            "threads": [{"id": "30", "type": 11, "parent_id": "20", "last_message_id": new}],
        }))
        .expect("is a server");
        let oldest = at("2026-02-10T00:00:00Z");
        let (news, quiet) = with_news(&server, oldest, |room| room.id.get() != 21);
        let ids: Vec<u64> = news.iter().map(|(channel, _)| channel.get()).collect();
        assert_eq!((ids, quiet), (vec![20, 30], 2));
        let expected =
            Missed { after: None, last: at("2026-02-11T00:00:00Z"), since: at("2026-01-01T00:00:00Z") };
        assert_eq!(news[0].1, expected);
    }

    #[test]
    fn two_reasons_to_read_a_channel_are_one_that_leaves_nothing_out() {
        let mut missed = Missed { after: None, last: 50, since: 7 };
        missed.join(Missed { after: None, last: 60, since: 0 });
        assert_eq!(missed, Missed { after: None, last: 60, since: 7 });
        missed.join(Missed::after(40));
        missed.join(Missed::after(45));
        assert_eq!(missed, Missed { after: Some(40), last: UNTOLD, since: 7 });
    }

    #[test]
    fn what_was_done_is_told_once_when_all_is_done() {
        let (ups, now) = (CatchUps::default(), Timestamp::UNIX_EPOCH);
        ups.begin(Shard { id: 0, of: 1 }, [GuildId::new(1), GuildId::new(2)]);
        ups.opened();
        ups.listed(GuildId::new(1), 5);
        ups.opened();
        ups.looked(Looked::Read { messages: 3, deleted: 1 });
        ups.looked(Looked::Quiet);
        assert_eq!(ups.done(now), None, "a list is awaited");
        ups.give_up_lists(Shard { id: 0, of: 1 });
        let done = CaughtUp { at: now, read: 1, quiet: 6, unread: 0, messages: 3, deleted: 1 };
        assert_eq!((ups.done(now), ups.done(now)), (Some(done), None));
        ups.opened();
        ups.looked(Looked::Unreadable);
        assert_eq!(ups.done(now), Some(CaughtUp { unread: 1, ..done }), "of the session as a whole");
    }

    #[test]
    fn a_channel_whose_handling_breaks_is_not_open_any_more() {
        let ups = CatchUps::default();
        ups.begin(Shard { id: 0, of: 1 }, []);
        ups.opened();
        let looking = ups.look();
        assert!(ups.is_open());
        drop(looking);
        assert!(!ups.is_open());
        assert_eq!(ups.done(Timestamp::UNIX_EPOCH).map(|done| done.unread), Some(1));
    }

    #[test]
    fn the_first_sessions_of_all_shards_are_one_catching_up_and_a_further_one_begins_again() {
        let (ups, now) = (CatchUps::default(), Timestamp::UNIX_EPOCH);
        let server = |shard: u32| GuildId::new(u64::from(shard) << 22 | 1);
        let begin = |id| ups.begin(Shard { id, of: 2 }, [server(id)]);
        begin(0);
        begin(1);
        ups.listed(server(0), 3);
        ups.give_up_lists(Shard { id: 0, of: 2 });
        assert_eq!(ups.done(now), None, "the list of the other shard is awaited");
        ups.listed(server(1), 4);
        assert_eq!(ups.done(now).map(|done| done.quiet), Some(7));
        begin(1);
        ups.listed(server(1), 5);
        assert_eq!(ups.done(now).map(|done| done.quiet), Some(5));
    }
}
