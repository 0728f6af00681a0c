//! The rows of the views.

use std::collections::BTreeMap;

use cairn_core::conversation::Outline;
use cairn_types::event::{Record, Trigger};
use cairn_types::ids::{ArtifactId, ChannelId, Generation, MessageId, Seq, TurnId};
use cairn_types::memory::Memory;
use cairn_types::ports::{ChannelRow, OutboxItem};
use cairn_types::tool::ToolOutcome;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::open::Checkpoint;
use crate::journal::segment::Position;

/// Version of the rows; views of another version are made again.
pub(crate) const FORMAT: u32 = 14;

/// Stands in the place of a turn's id for what has none: a command, or a message that a limit refused.
pub(crate) const COMMAND: &str = "command";

/// In seconds.
pub(crate) const DAY: i64 = 24 * 60 * 60;

/// How far the journal is applied, with the number of rows of each table: written with every batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// Number of the last record applied.
    pub(crate) n: u64,
    /// Where that record is: segment, offset, length.
    pub(crate) at: (u64, u64, u32),
    /// Journal lines were quarantined: what they said is missing everywhere.
    #[serde(default)]
    pub(crate) quarantined: bool,
    /// Whether a daemon's last record is that of its stop; not known, when an earlier version applied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<bool>,
    /// The latest time at which anything happened in a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_at: Option<Timestamp>,
    /// Rows by the letter of their table.
    pub(crate) rows: BTreeMap<char, u64>,
    /// Bytes of all of them, with their keys.
    #[serde(default)]
    pub(crate) bytes: u64,
}

impl Meta {
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let (segment, offset, len) = self.at;
        Checkpoint { n: self.n, position: Position { segment, offset, len } }
    }

    /// Notes that a record has been applied.
    pub(crate) fn advance(&mut self, at: Checkpoint) {
        self.n = at.n;
        self.at = (at.position.segment, at.position.offset, at.position.len);
    }
}

/// Where a record of a channel is in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) n: u64,
    pub(crate) at: Position,
}

impl Offset {
    /// Where the record behind it stands.
    pub(crate) fn end(&self) -> Option<u64> {
        self.at.offset.checked_add(u64::from(self.at.len) + 1)
    }

    /// Whether that record stands right behind it.
    pub(crate) fn is_followed_by(&self, next: &Position) -> bool {
        self.at.segment == next.segment && self.end() == Some(next.offset)
    }
}

/// Where the words of an entry are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeqRow {
    pub(crate) seq: Seq,
    /// The record that has them: an accepted message, or an added entry.
    pub(crate) n: u64,
    /// For an accepted message and a lost entry: its turn. An added entry knows its own.
    pub(crate) taken: Option<(TurnId, Generation)>,
    /// The record that has the newest of them, when they were edited before a turn took them up.
    pub(crate) edited: Option<u64>,
    /// Its message was deleted: its words are shown to nobody.
    pub(crate) deleted: bool,
    pub(crate) expired: bool,
    /// The line that had them was quarantined.
    pub(crate) lost: bool,
    /// The artifact that is a copy of a message, of which the model saw head and tail.
    pub(crate) copy: Option<ArtifactId>,
    /// It was the last of its turn: the record of the turn's end.
    pub(crate) end: Option<u64>,
    /// The records of people's reactions to it, and of those that they took back.
    pub(crate) reactions: Vec<u64>,
}

impl SeqRow {
    /// An added entry, whose words are in that record.
    pub(crate) fn of(seq: Seq, n: u64) -> Self {
        Self {
            seq,
            n,
            taken: None,
            edited: None,
            deleted: false,
            expired: false,
            lost: false,
            copy: None,
            end: None,
            reactions: Vec::new(),
        }
    }
}

/// How a message stands. Its words, its turn and its fingerprint are in its records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MessageRow {
    pub(crate) id: MessageId,
    /// The record that brought it; of a command, the one that took it.
    pub(crate) n: u64,
    /// When that was by the channel's own time ([`ChannelState::clock`]).
    pub(crate) second: i64,
    /// The record of its last edit before a turn took it up.
    pub(crate) edited: Option<u64>,
    pub(crate) deleted: bool,
    /// The entry that it became when a turn took it up.
    pub(crate) seq: Option<Seq>,
    /// The record of its turn's end; of a command, the one that took it.
    pub(crate) end: Option<u64>,
}

impl MessageRow {
    /// A message or command that this record has brought.
    pub(crate) fn of(id: &MessageId, record: &Record, second: i64) -> Self {
        Self { id: id.clone(), n: record.n, second, edited: None, deleted: false, seq: None, end: None }
    }
}

/// What the list of channels shows, and what is under way there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelState {
    pub(crate) last_at: Timestamp,
    /// Number of the record that says so.
    pub(crate) last_n: u64,
    pub(crate) next_seq: Seq,
    /// The generation under way.
    pub(crate) generation: Generation,
    pub(crate) pending: u64,
    /// A message that is pending, or was when others were that still are, is meant for the bot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) awaited: bool,
    pub(crate) messages: u64,
    /// The channel's own time, which ids of messages grow old by: seconds since 1970 that stand still while the machine's
    /// clock goes back, and take no step longer than a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<i64>,
    /// The block of message ids in which old ones were looked for last, by its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) looked_at: Option<MessageId>,
    /// The first record of the last block of offsets; 0: there is none yet.
    #[serde(default)]
    pub(crate) places: u64,
    /// The open turn and the messages it took up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<(TurnId, Vec<MessageId>)>,
    pub(crate) run: bool,
    /// What asked for the runs that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) queued: Vec<Trigger>,
    pub(crate) owed: u64,
    /// A range waits for a model to summarise it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) owes_run: bool,
    /// The message that was taken in or refused last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_message: Option<MessageId>,
    /// What lists show of its conversation, as long as no later record has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outline: Option<Outline>,
}

impl ChannelState {
    /// A channel in which nothing has happened yet.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            last_at: at,
            last_n: 0,
            next_seq: Seq(1),
            generation: Generation::default(),
            pending: 0,
            awaited: false,
            messages: 0,
            clock: None,
            looked_at: None,
            places: 0,
            open: None,
            run: false,
            queued: Vec::new(),
            owed: 0,
            owes_run: false,
            last_message: None,
            outline: None,
        }
    }

    /// The time of a record of it has come.
    pub(crate) fn go_on_to(&mut self, at: Timestamp) {
        let passed = at.as_second() - self.last_at.as_second();
        self.clock = Some(self.now() + passed.clamp(0, DAY));
        self.last_at = at;
    }

    /// By its own time.
    pub(crate) fn now(&self) -> i64 {
        self.clock.unwrap_or(self.last_at.as_second())
    }

    /// What lists show of its conversation, if that was kept since its last record.
    pub(crate) fn current_outline(&self) -> Option<&Outline> {
        self.outline.as_ref().filter(|outline| outline.n >= self.last_n)
    }

    /// Whether the channel is woken at a start. What people said to each other waits until somebody talks to the bot.
    pub(crate) fn is_due(&self) -> bool {
        self.awaited || self.has_work()
    }

    fn has_work(&self) -> bool {
        self.open.is_some() || self.run || !self.queued.is_empty() || self.owed > 0 || self.owes_run
    }

    /// The line of the list of channels.
    pub(crate) fn row(&self, channel: ChannelId) -> ChannelRow {
        let unfinished = self.pending > 0 || self.has_work();
        ChannelRow { channel, last_at: self.last_at, unfinished, last_message: self.last_message.clone() }
    }
}

/// The record that has a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SummaryRow {
    /// That of the run that made it.
    pub(crate) ordinal: u64,
    pub(crate) n: u64,
}

/// A memory with what its identity needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryRow {
    pub(crate) memory: Memory,
    /// The record and the place in it that created it: the order of lists.
    pub(crate) made: (u64, u32),
    pub(crate) first: String,
    pub(crate) now: String,
}

/// A call of a tool, as far as a query for it asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRow {
    pub(crate) channel: ChannelId,
    pub(crate) tool: String,
    pub(crate) outcome: ToolOutcome,
}

/// A delivery owed, with the record that said so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutboxRow {
    pub(crate) item: OutboxItem,
    pub(crate) n: u64,
}

/// What is known of somebody's messages in a channel. Messages of all sessions count, also those that wait, were deleted or have
/// expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    pub messages: u64,
    pub first: Timestamp,
    pub last: Timestamp,
    /// Their names there, oldest first: the last 64.
    pub names: Vec<String>,
}

/// Names that are kept of a speaker.
const NAMES_KEPT: usize = 64;

impl Speaker {
    /// Somebody who has said nothing yet.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self { messages: 0, first: at, last: at, names: Vec::new() }
    }

    pub(crate) fn said(&mut self, at: Timestamp, name: &str) {
        self.messages += 1;
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
        if self.names.iter().all(|known| known != name) {
            self.names.push(name.to_owned());
            self.names.drain(..self.names.len().saturating_sub(NAMES_KEPT));
        }
    }
}
