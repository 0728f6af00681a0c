//! Memories: what is kept beyond its conversation. Kinds, scopes, merging, and who said them.

mod grounds;
mod identity;
mod origin;
mod person;
mod scope;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ChannelId, MemoryId, Seq, SummaryId};
use crate::message::Author;

pub use grounds::SpokenWords;
pub use identity::{Fingerprint, MemoryChange, merge, mint_id};
pub use origin::{LikelySource, likely_sources};
pub use person::{Trust, credit, speaker_of, subject_of};
pub use scope::{BadScope, Reach, Scope, Share};

/// Length of a date such as `2026-03-01`.
const DATE_LEN: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Fact,
    Preference,
    Decision,
    Observation,
    Identity,
    /// What happened, or will, and when.
    Event,
    Goal,
    Todo,
}

impl MemoryKind {
    /// All kinds, in the order of the contract.
    pub const ALL: [Self; 8] = [
        Self::Fact,
        Self::Preference,
        Self::Decision,
        Self::Observation,
        Self::Identity,
        Self::Event,
        Self::Goal,
        Self::Todo,
    ];

    /// The kind's name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Preference => "preference",
            Self::Decision => "decision",
            Self::Observation => "observation",
            Self::Identity => "identity",
            Self::Event => "event",
            Self::Goal => "goal",
            Self::Todo => "todo",
        }
    }
}

impl std::str::FromStr for MemoryKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("`{text}` is not a kind of memory; the kinds are {}", names.join(", "))
        })
    }
}

/// [`Source::model`] of a memory that an operator typed.
pub const TYPED: &str = "operator";

/// [`Source::model`] of a memory that somebody other than an operator typed in a chat.
pub const TYPED_BY_MEMBER: &str = "member";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The channel, unless an operator typed it.
    pub channel: Option<ChannelId>,
    /// First entry of the range it came from.
    pub from_seq: Option<Seq>,
    pub to_seq: Option<Seq>,
    /// The summary whose run extracted it.
    pub summary: Option<SummaryId>,
    /// The model that wrote it; [`TYPED`] or [`TYPED_BY_MEMBER`] if a person typed it.
    pub model: String,
    /// The person who typed it, or who certainly said it about themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// When it was said, if that was before it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_at: Option<Timestamp>,
    /// The person who most likely told it, of somebody or something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_by: Option<Author>,
}

impl Source {
    /// Whether a person typed it: an operator, or somebody in a chat.
    pub fn is_typed(&self) -> bool {
        self.model == TYPED || self.is_of_member()
    }

    /// Whether somebody other than an operator typed it.
    pub fn is_of_member(&self) -> bool {
        self.model == TYPED_BY_MEMBER
    }
}

/// A memory as the store keeps it and `--json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    pub id: MemoryId,
    pub agent: AgentId,
    pub scope: Scope,
    pub kind: MemoryKind,
    /// The memory itself, one sentence or two.
    pub text: String,
    /// Whom or what it is about: an author id or a name.
    pub subject: Option<String>,
    /// 0 to 1.
    pub importance: f64,
    /// How many distinct places of the history it was found in.
    pub sightings: u32,
    pub source: Source,
    pub created_at: Timestamp,
    /// When its text, kind, subject or importance last changed.
    pub updated_at: Timestamp,
    /// When it was last put into a window.
    pub recalled_at: Option<Timestamp>,
    /// How often it was put into a window.
    pub uses: u32,
    /// The memory that took its place. Its own text held until then.
    pub superseded_by: Option<MemoryId>,
    /// Until when it held, where another took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Memory {
    /// Marks that another memory took its place.
    pub fn supersede(&mut self, by: &MemoryId, until: Timestamp, at: Timestamp) {
        (self.superseded_by, self.until, self.updated_at) = (Some(by.clone()), Some(until), at);
    }

    /// The day of an event that lay ahead when it was said: the last of the dates in its text, each written as `2026-03-01`.
    pub fn day(&self) -> Option<Date> {
        if self.kind != MemoryKind::Event {
            return None;
        }
        let said = self.said_at().to_zoned_datetime(TimeZone::UTC).date();
        let is_digit = |idx: usize| self.text.as_bytes().get(idx).is_some_and(u8::is_ascii_digit);
        let is_alone = |from: usize| (from == 0 || !is_digit(from - 1)) && !is_digit(from + DATE_LEN);
        let dates = (0..self.text.len()).filter(|from| is_alone(*from) && is_digit(*from));
        let dates = dates.filter_map(|from| self.text.get(from..from + DATE_LEN)?.parse::<Date>().ok());
        dates.max().filter(|day| *day >= said)
    }

    /// When it was said; if that is unknown, when it was saved.
    pub fn said_at(&self) -> Timestamp {
        self.source.said_at.unwrap_or(self.created_at)
    }
}

/// A memory to be saved: the payload of journal events. Saving it twice changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemorySave {
    pub agent: AgentId,
    pub scope: Scope,
    pub kind: MemoryKind,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// 0 to 1.
    pub importance: f64,
    pub source: Source,
    /// Key of the sighting: channel, summary or turn, ordinal. The same key twice counts once.
    pub sighting: String,
    /// A person explicitly asked to save it. This lifts a tombstone, which an automatic save does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explicit: bool,
    #[serde(default, skip_serializing_if = "Replaces::is_nothing")]
    pub replaces: Replaces,
}

/// The memories that do not hold any more since another one is saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaces {
    pub ids: Vec<MemoryId>,
    /// Since when the new one holds; `None`: since it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
}

impl Replaces {
    pub fn is_nothing(&self) -> bool {
        self.ids.is_empty() && self.from.is_none()
    }
}

/// A memory as a run or a tool call proposes it, before scope and source are filled in by the channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DraftMemory {
    pub kind: MemoryKind,
    pub text: String,
    pub subject: Option<String>,
    /// 0 to 1.
    pub importance: f64,
    /// The person who certainly said it about themselves: see [`speaker_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// When it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_at: Option<Timestamp>,
    /// The person who most likely told it, of somebody or something else: see [`credit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_by: Option<Author>,
    #[serde(default, skip_serializing_if = "Replaces::is_nothing")]
    pub replaces: Replaces,
}

/// A part of an entry that was quoted at the end of a window. It has no words: they are read where the entry is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    pub seq: Seq,
    /// The bytes of the entry's text that are quoted.
    pub from: usize,
    pub to: usize,
    /// How well the entry fits the question; comparable within one turn.
    pub score: f64,
}
