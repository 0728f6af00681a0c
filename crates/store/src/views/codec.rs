//! Keys and values of the views: big-endian keys under a table's letter, values behind their checksum.

use std::io::{Read as _, Write as _};

use cairn_core::spend::{SpendKey, SpendPurpose};
use cairn_types::ids::{AgentId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, Seq, TextId};
use cairn_types::memory::{Reach, Scope};
use cairn_types::ports::StoreError;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most entries or summaries of a block. A block is written again with each item that it gets, and sled reads and evicts
/// 8 to 16 of them at once: full ones take one to two KB.
const BLOCK: usize = 128;

/// Most vectors of a block: some 6 KB.
pub(crate) const VECTORS: u64 = 16;

/// The first number of the block that a number is in. Numbers begin with 1.
pub(crate) fn first_of_block(number: u64) -> u64 {
    let block = BLOCK as u64;
    number.saturating_sub(1) / block * block + 1
}

/// The tables of the views. All share one sled tree, so that one batch changes them together with the position up
/// to which the journal is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Memory = b'm' as isize,
    MemoryKey = b'k' as isize,
    /// agent, person, memory id → nothing: what they said of themselves in chats with others.
    Own = b'w' as isize,
    Fingerprint = b'f' as isize,
    /// fingerprint of a forgotten memory → nothing.
    Tombstone = b't' as isize,
    /// agent, scope → words of forgotten memories, by which they are known in other words.
    Forgotten = b'F' as isize,
    Sighting = b'g' as isize,
    /// channel, ordinal of the first → a block of which records have summaries.
    Summary = b's' as isize,
    Snapshot = b'h' as isize,
    Channel = b'c' as isize,
    /// channel → nothing: something is unfinished there.
    Unfinished = b'n' as isize,
    /// platform, channel → nothing: it is a person's private chat with the bot.
    Private = b'P' as isize,
    /// channel, n of the first → a block of offsets of records in the journal.
    Event = b'e' as isize,
    /// channel, seq of the first → a block of where entries' words are.
    Seq = b'q' as isize,
    /// channel, person → what is known of their messages there.
    Speaker = b'A' as isize,
    /// channel, the least message id → a block of how messages stand.
    Message = b'i' as isize,
    /// channel, outbox id → delivery owed.
    Outbox = b'o' as isize,
    /// channel, n → channel and outbox id of a delivery that is neither dead nor unknown.
    Owed = b'O' as isize,
    /// n → channel and outbox id: the order of deliveries.
    OutboxOrder = b'p' as isize,
    /// The one row of how many deliveries there are, by state.
    OutboxCounts = b'x' as isize,
    /// The one row of pairings and chats that moved.
    PairingStore = b'r' as isize,
    Usage = b'u' as isize,
    /// day, channel, person, purpose, model → what calls took.
    Spend = b'b' as isize,
    /// n → channel, tool and outcome of a call.
    Call = b'l' as isize,
    /// time of creation, memory id → agent, scope and id: the order of lists.
    MemoryOrder = b'd' as isize,
    /// memory id → a block of the records that made and changed it.
    Trail = b'T' as isize,
    /// memory id → a block of the ends of turns that it was recalled in.
    Use = b'U' as isize,
    /// agent, scope or person, time of creation, memory id → nothing: the newest memories of a scope, and of what a person said
    /// of themselves.
    Recent = b'N' as isize,
    /// agent → how many memories it has.
    MemoryCount = b'y' as isize,
    /// channel, artifact id → artifact that has not expired.
    Artifact = b'v' as isize,
    /// channel, artifact id → artifact that has expired.
    ExpiredArtifact = b'j' as isize,
    /// hash → a text that traces of calls name.
    Text = b'a' as isize,
    /// channel → its reminders, by their ids.
    Reminder = b'R' as isize,
    /// time, channel → the channel: when the first of its reminders is due.
    Due = b'D' as isize,
    /// channel, seq of the first → a block of vectors of entries.
    Vector = b'V' as isize,
    /// The one row of which model made them, and how far it is.
    VectorState = b'W' as isize,
}

impl Table {
    /// The letter that its keys begin with.
    pub(crate) fn letter(self) -> u8 {
        self as u8
    }
}

/// A key made of a table's letter and parts that end with a zero byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) Vec<u8>);

impl Key {
    fn new(table: Table, parts: &[&str]) -> Self {
        let mut key = vec![table.letter()];
        for part in parts {
            key.extend_from_slice(part.as_bytes());
            key.push(0);
        }
        Self(key)
    }

    pub(crate) fn number(mut self, n: u64) -> Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    /// All keys of a table begin with it.
    pub(crate) fn table(table: Table) -> Self {
        Self::new(table, &[])
    }

    /// All memories of a scope begin with it.
    pub(crate) fn scope(agent: &AgentId, scope: &Scope) -> Self {
        Self::new(Table::Memory, &[agent.as_str(), &scope.to_string()])
    }

    /// All memories of an agent begin with it.
    pub(crate) fn agent(agent: &AgentId) -> Self {
        Self::new(Table::Memory, &[agent.as_str()])
    }

    pub(crate) fn memory(agent: &AgentId, scope: &Scope, id: &MemoryId) -> Self {
        Self::new(Table::Memory, &[agent.as_str(), &scope.to_string(), id.as_str()])
    }

    /// The place of a memory in the order of lists.
    pub(crate) fn memory_order(created_at: Timestamp, id: &MemoryId) -> Self {
        Self::table(Table::MemoryOrder).made_at(created_at, id)
    }

    /// All keys of the memories of a scope, or of what a person said of themselves, begin with it, in the order in which they
    /// were made. `None`: [`Table::MemoryOrder`] has the order of all.
    pub(crate) fn recents(agent: &AgentId, reach: &Reach) -> Option<Self> {
        match reach {
            Reach::Scope(scope) => Some(Self::new(Table::Recent, &["s", agent.as_str(), &scope.to_string()])),
            Reach::Own(person) => Some(Self::new(Table::Recent, &["o", agent.as_str(), person])),
            Reach::All => None,
        }
    }

    /// A place in the order of memories: by time, then by id.
    pub(crate) fn made_at(self, created_at: Timestamp, id: &MemoryId) -> Self {
        self.at(created_at, id.as_str())
    }

    /// A place in an order of time.
    fn at(self, at: Timestamp, id: &str) -> Self {
        let nanos = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
        // With the sign turned round, bytes are in the order of time.
        let mut key = self.number(nanos.cast_unsigned() ^ (1 << 63));
        key.0.extend_from_slice(id.as_bytes());
        key
    }

    pub(crate) fn reminders(channel: &ChannelId) -> Self {
        Self::new(Table::Reminder, &[channel.as_str()])
    }

    pub(crate) fn due(at: Timestamp, channel: &ChannelId) -> Self {
        Self::table(Table::Due).at(at, channel.as_str())
    }

    /// The time that a key of [`Table::Due`] begins with.
    pub(crate) fn due_at(key: &[u8]) -> Option<Timestamp> {
        let (nanos, _) = key.get(1..)?.split_first_chunk::<8>()?;
        let nanos = (u64::from_be_bytes(*nanos) ^ (1 << 63)).cast_signed();
        Timestamp::from_nanosecond(nanos.into()).ok()
    }

    pub(crate) fn memory_count(agent: &AgentId) -> Self {
        Self::new(Table::MemoryCount, &[agent.as_str()])
    }

    pub(crate) fn memory_key(id: &MemoryId) -> Self {
        Self::new(Table::MemoryKey, &[id.as_str()])
    }

    /// All keys of what a person said of themselves begin with it.
    pub(crate) fn owns(agent: &AgentId, person: &str) -> Self {
        Self::new(Table::Own, &[agent.as_str(), person])
    }

    /// Something that a person said of themselves.
    pub(crate) fn own(agent: &AgentId, person: &str, id: &MemoryId) -> Self {
        Self::new(Table::Own, &[agent.as_str(), person, id.as_str()])
    }

    pub(crate) fn fingerprint(fingerprint: &str) -> Self {
        Self::new(Table::Fingerprint, &[fingerprint])
    }

    pub(crate) fn tombstone(fingerprint: &str) -> Self {
        Self::new(Table::Tombstone, &[fingerprint])
    }

    pub(crate) fn forgotten(agent: &AgentId, scope: &Scope) -> Self {
        Self::new(Table::Forgotten, &[agent.as_str(), &scope.to_string()])
    }

    /// What made and changed a memory, or where it was recalled.
    pub(crate) fn trail(table: Table, id: &MemoryId) -> Self {
        Self::new(table, &[id.as_str()])
    }

    /// All sightings of a memory begin with it.
    pub(crate) fn sightings(id: &MemoryId) -> Self {
        Self::new(Table::Sighting, &[id.as_str()])
    }

    pub(crate) fn sighting(id: &MemoryId, sighting: &str) -> Self {
        Self::new(Table::Sighting, &[id.as_str(), sighting])
    }

    /// The block that has the summary with that ordinal.
    pub(crate) fn summary(channel: &ChannelId, ordinal: u64) -> Self {
        Self::new(Table::Summary, &[channel.as_str()]).number(first_of_block(ordinal))
    }

    /// All blocks of a channel's summaries begin with it.
    pub(crate) fn summaries(channel: &ChannelId) -> Self {
        Self::new(Table::Summary, &[channel.as_str()])
    }

    pub(crate) fn snapshot(channel: &ChannelId) -> Self {
        Self::new(Table::Snapshot, &[channel.as_str()])
    }

    pub(crate) fn channel(channel: &ChannelId) -> Self {
        Self::new(Table::Channel, &[channel.as_str()])
    }

    /// That a channel has something unfinished.
    pub(crate) fn unfinished(channel: &ChannelId) -> Self {
        Self::new(Table::Unfinished, &[channel.as_str()])
    }

    /// All private chats of a platform begin with it.
    pub(crate) fn privates(platform: &str) -> Self {
        Self::new(Table::Private, &[platform])
    }

    pub(crate) fn private(channel: &ChannelId) -> Self {
        Self::new(Table::Private, &[channel.platform(), channel.as_str()])
    }

    /// The block of offsets that begins with that record.
    pub(crate) fn event(channel: &ChannelId, n: u64) -> Self {
        Self::new(Table::Event, &[channel.as_str()]).number(n)
    }

    /// The block that has that entry.
    pub(crate) fn seq(channel: &ChannelId, seq: Seq) -> Self {
        Self::new(Table::Seq, &[channel.as_str()]).number(first_of_block(seq.0))
    }

    /// The block that has the vector of that entry.
    pub(crate) fn vector(channel: &ChannelId, seq: Seq) -> Self {
        Self::vectors(channel).number(seq.0.saturating_sub(1) / VECTORS * VECTORS + 1)
    }

    /// All vectors of a channel begin with it.
    pub(crate) fn vectors(channel: &ChannelId) -> Self {
        Self::new(Table::Vector, &[channel.as_str()])
    }

    /// The block of message ids that begins there.
    pub(crate) fn message(channel: &ChannelId, message: &MessageId) -> Self {
        Self::new(Table::Message, &[channel.as_str(), message.as_str()])
    }

    /// All messages of a channel begin with it.
    pub(crate) fn messages(channel: &ChannelId) -> Self {
        Self::new(Table::Message, &[channel.as_str()])
    }

    /// All who have spoken in a channel begin with it.
    pub(crate) fn speakers(channel: &ChannelId) -> Self {
        Self::new(Table::Speaker, &[channel.as_str()])
    }

    pub(crate) fn speaker(channel: &ChannelId, person: &str) -> Self {
        Self::new(Table::Speaker, &[channel.as_str(), person])
    }

    pub(crate) fn text(id: &TextId) -> Self {
        Self::new(Table::Text, &[id.as_str()])
    }

    /// A call of a tool, by its record's number.
    pub(crate) fn call(n: u64) -> Self {
        Self::table(Table::Call).number(n)
    }

    /// The place of a delivery in their order.
    pub(crate) fn outbox_order(n: u64) -> Self {
        Self::table(Table::OutboxOrder).number(n)
    }

    /// All artifacts of a channel in one of their tables begin with it.
    pub(crate) fn artifacts(table: Table, channel: &ChannelId) -> Self {
        Self::new(table, &[channel.as_str()])
    }

    pub(crate) fn artifact(table: Table, channel: &ChannelId, id: &ArtifactId) -> Self {
        Self::new(table, &[channel.as_str(), id.as_str()])
    }

    /// All rows of what was spent from a day on come after it.
    pub(crate) fn spend_day(day: Date) -> Self {
        Self::new(Table::Spend, &[&day.to_string()])
    }

    pub(crate) fn spend(key: &SpendKey) -> Self {
        let day = key.day.to_string();
        let channel = key.channel.as_ref().map_or("", ChannelId::as_str);
        Self::new(Table::Spend, &[&day, channel, &key.person, key.purpose.name(), &key.model])
    }

    /// All deliveries that are owed to a channel begin with it.
    pub(crate) fn owed_to(channel: &ChannelId) -> Self {
        Self::new(Table::Owed, &[channel.as_str()])
    }

    pub(crate) fn outbox(channel: &ChannelId, id: &OutboxId) -> Self {
        Self::new(Table::Outbox, &[channel.as_str(), id.as_str()])
    }
}

/// What a key of [`Table::Spend`] says.
pub(crate) fn spend_key(key: &[u8]) -> Option<SpendKey> {
    let mut parts = std::str::from_utf8(key.get(1..)?).ok()?.split('\0');
    let mut part = || parts.next();
    let day = part()?.parse().ok()?;
    let channel = Some(part()?).filter(|channel| !channel.is_empty()).map(str::parse).transpose().ok()?;
    let (person, purpose, model) = (part()?.to_owned(), SpendPurpose::of_name(part()?)?, part()?.to_owned());
    Some(SpendKey { day, channel, person, purpose, model })
}

/// The number that a key ends with.
pub(crate) fn trailing_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// A value with the checksum of itself and its key before it.
pub(crate) fn seal(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(payload.len() + 4);
    value.extend_from_slice(&checksum(key, payload).to_le_bytes());
    value.extend_from_slice(payload);
    value
}

/// The payload of a value, when its checksum is right.
pub(crate) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (crc, payload) = value.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*crc) == checksum(key, payload)).then_some(payload)
}

fn checksum(key: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), payload)
}

pub(crate) fn encode(row: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(row).map_err(|error| view_error(error.to_string()))
}

pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(payload).map_err(|error| view_error(format!("a row cannot be read: {error}")))
}

/// Writes a row compressed: for what is large and written seldom.
pub(crate) fn encode_small(row: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut small = DeflateEncoder::new(Vec::new(), Compression::fast());
    small
        .write_all(&encode(row)?)
        .and_then(|()| small.finish())
        .map_err(|error| view_error(error.to_string()))
}

pub(crate) fn decode_small<T: DeserializeOwned>(payload: &[u8]) -> Result<T, StoreError> {
    let mut row = Vec::new();
    let read = DeflateDecoder::new(payload).read_to_end(&mut row);
    read.map_err(|error| view_error(format!("a row cannot be read: {error}")))?;
    decode(&row)
}

/// The name of these views in errors.
pub(crate) const SLED: &str = "sled";

pub(crate) fn view_error(message: impl Into<String>) -> StoreError {
    StoreError::View { view: SLED, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_row_comes_back_as_it_was_and_a_spoiled_one_not_at_all() {
        let row = vec!["the same words again and again"; 50];
        let small = encode_small(&row).unwrap();
        assert!(small.len() * 10 < encode(&row).unwrap().len());
        assert_eq!(decode_small::<Vec<String>>(&small).unwrap(), row);
        for spoiled in [&small[..small.len() / 2], b"", b"words"] {
            assert!(decode_small::<Vec<String>>(spoiled).is_err());
        }
    }

    #[test]
    fn numbers_stand_in_blocks() {
        for (seq, first) in [(0, 1), (1, 1), (128, 1), (129, 129), (256, 129), (257, 257)] {
            assert_eq!(first_of_block(seq), first, "{seq}");
        }
    }
}
