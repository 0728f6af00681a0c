//! Sessions and connections of the gateway: what was dispatched, what is still to go out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::{Value, json};

/// Intents that events belong to, as Discord numbers their bits.
pub(crate) mod intent {
    pub(crate) const GUILDS: u64 = 1;
    pub(crate) const GUILD_MEMBERS: u64 = 1 << 1;
    pub(crate) const GUILD_PRESENCES: u64 = 1 << 8;
    pub(crate) const GUILD_MESSAGES: u64 = 1 << 9;
    pub(crate) const GUILD_MESSAGE_REACTIONS: u64 = 1 << 10;
    pub(crate) const DIRECT_MESSAGES: u64 = 1 << 12;
    pub(crate) const DIRECT_MESSAGE_REACTIONS: u64 = 1 << 13;
    pub(crate) const MESSAGE_CONTENT: u64 = 1 << 15;
    pub(crate) const ALL: u64 = 0x3f_ffff | 1 << 24 | 1 << 25;
}

/// One of the connections among which servers are divided: its number, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) id: u64,
    pub(crate) of: u64,
}

impl Shard {
    /// Whether it hears of a server; of what is in none the first one hears.
    pub(crate) fn hears(self, server: Option<u64>) -> bool {
        server.map_or(0, |server| (server >> 22) % self.of) == self.id
    }
}

/// Something that happened, for whoever listens.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    /// The intent it belongs to; 0: it comes without.
    pub(crate) intent: u64,
    pub(crate) data: Value,
    /// Its words are for bots with the intent for message content.
    pub(crate) guarded: bool,
}

impl Event {
    fn server(&self) -> Option<u64> {
        let key = if matches!(self.name, "GUILD_CREATE" | "GUILD_DELETE") { "id" } else { "guild_id" };
        self.data[key].as_str()?.parse().ok()
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shard: Shard,
    pub(crate) intents: u64,
    pub(crate) seq: u64,
    log: Vec<(u64, String)>,
}

impl Session {
    pub(crate) fn new(shard: Shard, intents: u64) -> Self {
        Self { shard, intents, seq: 0, log: Vec::new() }
    }

    pub(crate) fn push(&mut self, name: &str, data: Value) {
        self.seq += 1;
        let text = json!({"op": 0, "t": name, "s": self.seq, "d": data}).to_string();
        self.log.push((self.seq, text));
    }

    fn offer(&mut self, event: &Event) {
        let is_heard = event.intent == 0 || self.intents & event.intent != 0;
        if !is_heard || !self.shard.hears(event.server()) {
            return;
        }
        let mut data = event.data.clone();
        if event.guarded && self.intents & intent::MESSAGE_CONTENT == 0 {
            crate::discord::shapes::without_content(&mut data);
        }
        self.push(event.name, data);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Close(u16),
    Drop,
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) session: Option<String>,
    /// Payloads that belong to no session.
    pub(crate) outbox: VecDeque<String>,
    /// The dispatches up to this number are out.
    pub(crate) upto: u64,
    pub(crate) end: Option<End>,
    /// Nothing goes out any more, though the connection is there.
    pub(crate) frozen: bool,
}

/// What is to go out on a connection.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) texts: Vec<String>,
    pub(crate) end: Option<End>,
}

#[derive(Debug, Default)]
pub(crate) struct Gateway {
    pub(crate) sessions: BTreeMap<String, Session>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// Which shards identified, and when.
    pub(crate) identified: Vec<(Shard, Instant)>,
    pub(crate) resumed: usize,
    pub(crate) heartbeats: usize,
    pub(crate) n_connections: u64,
    n_sessions: u64,
}

impl Gateway {
    pub(crate) fn open(&mut self) -> u64 {
        self.n_connections += 1;
        self.connections.insert(self.n_connections, Connection::default());
        self.n_connections
    }

    /// Sends an event to all sessions that listen for its like, connected or not.
    pub(crate) fn dispatch(&mut self, event: &Event) {
        self.sessions.values_mut().for_each(|session| session.offer(event));
    }

    /// A new session on a connection. Those of its shard without a connection are given up.
    pub(crate) fn begin(&mut self, connection: u64, shard: Shard, intents: u64) -> (String, &mut Session) {
        let connected: Vec<String> =
            self.connections.values().filter_map(|one| one.session.clone()).collect();
        self.sessions.retain(|id, session| session.shard != shard || connected.contains(id));
        self.n_sessions += 1;
        let id = format!("{:032x}", 0xfeed_u64 << 16 | self.n_sessions);
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.session = Some(id.clone());
            connection.upto = 0;
        }
        let session = self.sessions.entry(id.clone()).or_insert_with(|| Session::new(shard, intents));
        (id, session)
    }

    /// Takes what is to go out on a connection.
    pub(crate) fn due(&mut self, id: u64) -> Due {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Due { texts: Vec::new(), end: Some(End::Drop) };
        };
        let mut due = Due { texts: Vec::new(), end: connection.end };
        // Nothing more goes out on a connection that ends.
        if connection.frozen || connection.end.is_some() {
            return due;
        }
        due.texts.extend(connection.outbox.drain(..));
        let session = connection.session.as_ref().and_then(|id| self.sessions.get(id));
        if let Some(session) = session {
            let from = session.log.partition_point(|(seq, _)| *seq <= connection.upto);
            due.texts.extend(session.log[from..].iter().map(|(_, text)| text.clone()));
            connection.upto = session.seq;
        }
        due
    }

    /// Sends a payload on a connection.
    pub(crate) fn tell(&mut self, id: u64, payload: &Value) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.outbox.push_back(payload.to_string());
        }
    }

    /// Connections with a session, that are not frozen and not ending.
    pub(crate) fn live(&self) -> Vec<u64> {
        let live = |one: &Connection| one.session.is_some() && !one.frozen && one.end.is_none();
        self.connections.iter().filter(|(_, one)| live(one)).map(|(id, _)| *id).collect()
    }
}
