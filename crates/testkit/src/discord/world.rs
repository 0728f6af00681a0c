//! What the fake Discord holds: people, servers, channels, messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::clock::wall_time;

/// The bot's user id, which is its application's, too.
pub const BOT_ID: u64 = 700_000_000_000_000_001;

/// Discord's epoch: the first second of 2015, in milliseconds.
const EPOCH_MS: i64 = 1_420_070_400_000;

/// The id that a moment has at least.
pub(super) fn id_at(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond() - EPOCH_MS).unwrap_or_default() << 22
}

pub(super) fn time_of(id: u64) -> Timestamp {
    let millis = i64::try_from(id >> 22).unwrap_or_default() + EPOCH_MS;
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Ids of named things lie so close together.
const NAMED: u64 = 1_000_000_000_000_000;

/// A number that a name always has, below 10^15.
pub(super) fn id_of(name: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) % NAMED
}

#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) bot: bool,
}

/// Kinds of channels, as Discord numbers them.
pub(super) mod kind {
    pub(crate) const TEXT: u64 = 0;
    pub(crate) const DM: u64 = 1;
    pub(crate) const THREAD: u64 = 11;
    pub(crate) const FORUM: u64 = 15;
}

/// What the bot may do in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Full,
    /// It sees the channel and may not write.
    ReadOnly,
    /// It sees what is said from now on, and not what was said before.
    NoHistory,
    Hidden,
    /// The person of this private chat has blocked it.
    Blocked,
}

#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) id: u64,
    pub(super) kind: u64,
    pub(super) guild: Option<u64>,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) recipient: Option<u64>,
    pub(super) access: Access,
    pub(super) messages: BTreeMap<u64, Message>,
    /// The newest message that was deleted.
    pub(super) deleted_last: Option<u64>,
    pub(super) acts: Vec<Act>,
}

/// What the bot did in a channel, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Typing,
    Sent(u64),
    Edited(u64),
    Deleted(u64),
}

#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
    pub(super) size: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) channel: u64,
    pub(super) author: u64,
    pub(super) webhook: bool,
    pub(super) content: String,
    pub(super) kind: u64,
    pub(super) edited: Option<Timestamp>,
    pub(super) reply_to: Option<u64>,
    pub(super) files: Vec<File>,
    pub(super) embeds: Vec<Value>,
    pub(super) components: Vec<Value>,
    pub(super) flags: u64,
    pub(super) nonce: Option<Value>,
    pub(super) mentions: Vec<u64>,
    pub(super) everyone: bool,
}

/// A file that the bot attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub name: String,
    /// The text for people who cannot see it.
    pub description: Option<String>,
    pub content_type: String,
    pub bytes: Vec<u8>,
}

/// A message of the bot, as people in the channel see it, and what came with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub id: u64,
    pub channel: u64,
    pub content: String,
    /// All its wordings, the first one first.
    pub wordings: Vec<String>,
    pub nonce: Option<String>,
    /// How often it was sent again with the same nonce, and not shown again.
    pub repeats: usize,
    /// The words of such a repeat, when they are others: they are shown only after an edit.
    pub unshown: Option<String>,
    pub reply_to: Option<u64>,
    pub allowed_mentions: Value,
    pub flags: u64,
    pub embeds: Vec<Value>,
    /// The buttons under it now: what they say and what they carry.
    pub buttons: Vec<(String, String)>,
    pub files: Vec<String>,
    /// The same files with their bytes.
    pub uploads: Vec<Upload>,
    /// Whom it made a sound for: user ids, `everyone`, roles as `&ID`.
    pub pinged: Vec<String>,
    pub deleted: bool,
    pub at: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct Nonce {
    pub(super) message: u64,
    pub(super) channel: u64,
    pub(super) at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) users: BTreeMap<u64, User>,
    pub(super) guilds: BTreeMap<u64, String>,
    pub(super) channels: BTreeMap<u64, Channel>,
    /// Registered commands, as they were given, with their ids.
    pub(super) commands: Vec<Value>,
    pub(super) sent: Vec<Sent>,
    /// The bot's reactions to messages by channel and message, in order: what was added, and what taken away.
    pub(super) reactions: BTreeMap<(u64, u64), Vec<(String, bool)>>,
    pub(super) nonces: BTreeMap<String, Nonce>,
    /// How often each file was fetched.
    pub(super) fetches: BTreeMap<u64, usize>,
    last_id: u64,
}

impl World {
    /// An id that no other thing has, later than all before.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id = (self.last_id + 1).max(id_at(wall_time()));
        self.last_id
    }

    /// An id of a moment in the past, which no message of a channel has.
    pub(super) fn past_id(&mut self, channel: u64, age: Duration) -> u64 {
        let age = SignedDuration::try_from(age).unwrap_or_default();
        let mut id = id_at(wall_time().checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH));
        let newest = self.channels.get(&channel).and_then(|channel| channel.messages.keys().next_back());
        if let Some(newest) = newest {
            id = id.max(newest + 1);
        }
        id
    }

    /// The user of a name; made on first use.
    pub(super) fn user(&mut self, name: &str) -> u64 {
        if let Some(user) = self.users.values().find(|user| user.name == name) {
            return user.id;
        }
        let id = 800_000_000_000_000_000 + id_of(name);
        self.users.insert(id, User { id, name: name.to_owned(), bot: false });
        id
    }

    pub(super) fn channel(&mut self, id: u64) -> &mut Channel {
        self.channels.get_mut(&id).unwrap_or_else(|| panic!("there is no channel {id}"))
    }

    pub(super) fn message(&self, channel: u64, id: u64) -> Option<&Message> {
        self.channels.get(&channel)?.messages.get(&id)
    }

    pub(super) fn add_channel(&mut self, id: u64, kind: u64, guild: Option<u64>, name: &str) {
        let channel = Channel {
            id,
            kind,
            guild,
            parent: None,
            name: name.to_owned(),
            recipient: None,
            access: Access::Full,
            messages: BTreeMap::new(),
            deleted_last: None,
            acts: Vec::new(),
        };
        self.channels.insert(id, channel);
    }

    /// The private chat with a user; made on first use.
    pub(super) fn dm(&mut self, user: u64) -> u64 {
        let found = self.channels.values().find(|channel| channel.recipient == Some(user));
        if let Some(channel) = found {
            return channel.id;
        }
        let id = 900_000_000_000_000_000 + user % NAMED;
        self.add_channel(id, kind::DM, None, "");
        self.channel(id).recipient = Some(user);
        id
    }
}
