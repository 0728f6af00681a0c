//! What the store keeps, and how it is queried.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::{DeliveryEvent, Event, Receipt, Record, SentFile};
use crate::ids::{ApprovalId, ChannelId, MemoryId, MessageId, OutboxId, Seq, TurnId};
use crate::memory::{Memory, MemoryKind, Scope};
use crate::message::Author;
use crate::people::said::SaidFilter;

/// The memories that were found for a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recall {
    /// Best first.
    pub memories: Vec<Memory>,
    /// How well each of them fits, in the order of `memories`.
    pub scores: Vec<f64>,
    /// The best memories that were left out, with how well they fit: at most [`NEAR_MAX`].
    pub near: Vec<(MemoryId, f64)>,
}

/// Most memories that are reported although they were left out.
pub const NEAR_MAX: usize = 5;

/// Why the store could not do a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full: intake pauses until there is room.
    #[error("the disk that holds {path} is full; make room, the daemon goes on by itself")]
    DiskFull { path: String },
    /// A file could not be read or written.
    #[error("{action} {path}: {message}")]
    Io { action: &'static str, path: String, message: String },
    /// Something in the state folder is damaged.
    #[error("{file}, line {line}: {message}; `cairn store verify --quarantine` goes on without it")]
    Damaged {
        file: String,
        /// The line, from 1.
        line: u64,
        message: String,
    },
    /// Another process owns the state folder.
    #[error("the state folder {path} is in use by another daemon (process {pid})")]
    InUse { path: String, pid: String },
    /// A view (sled or the search index) failed; the journal is intact.
    #[error("the view `{view}` failed: {message}; `cairn store rebuild` makes it again from the journal")]
    View { view: &'static str, message: String },
    /// A newer version of this program wrote the state folder: nothing in it was touched.
    #[error(
        "{path} has format {format}, written by cairn {written_by}; this cairn knows formats up to {known}"
    )]
    Newer {
        path: String,
        format: u32,
        written_by: String,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The database that holds the journal cannot be reached, or fails.
    #[error("the database: {message}")]
    Database { message: String },
    /// Another node that uses the database leads.
    #[error("the node {node} ({address}) leads; this one follows until that one stops")]
    Led { node: String, address: String },
    /// This node led, and another may lead now: nothing more is written.
    #[error("this node does not lead any more; nothing acknowledged is lost")]
    Fenced,
    /// The journal is not where it was looked for; the message says where it is, and what to do.
    #[error("{message}")]
    Elsewhere { message: String },
    #[error("the store is closed")]
    Closed,
    /// The caller stopped the work.
    #[error("stopped early; nothing was changed")]
    Stopped,
}

impl StoreError {
    /// Whether the error may pass, so that a retry after a pause is worthwhile.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Io { .. } | Self::Database { .. })
    }
}

/// What a channel knows of a message id.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// Never seen (or longer ago than ids are remembered).
    New,
    Open {
        /// Its turn as announced when it was accepted.
        turn: TurnId,
        fingerprint: String,
    },
    Ended {
        turn: TurnId,
        fingerprint: String,
        /// How it ended; a stored answer is read by its reply's `seq`.
        end: Box<crate::event::TurnEnd>,
    },
}

/// A row of the list of channels, from the views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub channel: ChannelId,
    /// When anything last happened in it.
    pub last_at: Timestamp,
    /// It has pending messages, an open turn or a run: it must be woken at start.
    pub unfinished: bool,
    /// The message that was last accepted or refused. What the platform has after it was missed.
    pub last_message: Option<MessageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HitKind {
    Entry,
    Summary,
    Memory,
}

/// One search result. Scripts rely on its shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The entry, or the first entry of a summary's or memory's range.
    pub seq: Option<Seq>,
    pub score: f64,
    pub at: Timestamp,
    pub author: Option<Author>,
    pub text: String,
    pub kind: HitKind,
    /// Id of the summary or memory; of an entry, its platform message id or its `seq`.
    pub id: String,
    /// Where it was said; of a memory, where it was learnt, unless an operator typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    /// The turn of an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Its text has none of the words searched for: it was found by the text around it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub near: bool,
    /// Where its text has words that were searched for: start and end in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The channel whose history is searched; none: all channels, and all memories whatever their scope.
    pub channel: Option<ChannelId>,
    /// Words, in any order; all are optional (OR), stop words do not count.
    pub text: String,
    pub kind: Option<HitKind>,
    /// Memories of a channel are found through these scopes alone; empty: no memories.
    pub scopes: Vec<Scope>,
    /// Only hits of that time and person. A hit without an author fits no person; a summary counts by its first entry, a
    /// memory by when it was made.
    pub said: SaidFilter,
    pub limit: usize,
    /// Wait a little, until everything journalled so far can be found. The command line does; the model's tools do not.
    pub settled: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryFilter {
    pub kind: Option<MemoryKind>,
    pub subject: Option<String>,
    /// Only those that match these words, best first.
    pub query: Option<String>,
    pub limit: usize,
}

impl MemoryFilter {
    /// Whether a memory is of that kind and about that subject; not whether words match.
    pub fn fits(&self, memory: &Memory) -> bool {
        self.kind.is_none_or(|kind| memory.kind == kind)
            && self.subject.as_ref().is_none_or(|subject| memory.subject.as_ref() == Some(subject))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DeliveryState {
    Owed,
    Dead {
        reason: String,
    },
    /// It is unknown whether its next part arrived.
    Unknown {
        reason: String,
    },
}

/// How many deliveries are not confirmed, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxCounts {
    pub owed: u64,
    /// The platform rejected them.
    pub dead: u64,
    pub unknown: u64,
}

impl OutboxCounts {
    /// The count of deliveries in such a state.
    pub fn of(&mut self, state: &DeliveryState) -> &mut u64 {
        match state {
            DeliveryState::Owed => &mut self.owed,
            DeliveryState::Dead { .. } => &mut self.dead,
            DeliveryState::Unknown { .. } => &mut self.unknown,
        }
    }
}

/// A delivery that a platform has not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxItem {
    pub id: OutboxId,
    pub channel: ChannelId,
    pub turn: TurnId,
    /// The reply's entry; for a note, the newest entry that it is about.
    pub seq: Seq,
    pub at: Timestamp,
    /// The text of a note, which is not an entry; `None` for a reply.
    pub note: Option<String>,
    /// The approval that the note asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The message that the first part answers.
    pub reply_to: Option<MessageId>,
    /// The message that shows a draft. The first part replaces it by an edit.
    pub edits: Option<MessageId>,
    pub sent: Vec<MessageId>,
    /// When the next part was first attempted; `None`: it was not, or its result is known.
    pub attempted_at: Option<Timestamp>,
    pub state: DeliveryState,
    /// Files that are sent after the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SentFile>,
}

impl OutboxItem {
    /// The delivery that a record of the channel announces; `None` for other events, and for drafts.
    pub fn intended(channel: &ChannelId, record: &Record) -> Option<Self> {
        let Event::Delivery(DeliveryEvent::Intended {
            id,
            turn,
            seq,
            note,
            approval,
            reply_to,
            edits,
            draft: false,
            files,
        }) = &record.event
        else {
            return None;
        };
        Some(Self {
            id: id.clone(),
            channel: channel.clone(),
            turn: turn.clone(),
            seq: *seq,
            at: record.at,
            note: note.clone(),
            approval: approval.clone(),
            reply_to: reply_to.clone(),
            edits: edits.clone(),
            sent: Vec::new(),
            attempted_at: None,
            state: DeliveryState::Owed,
            files: files.clone(),
        })
    }

    /// The delivery that an event of the outbox is about.
    pub fn named_by(event: &Event) -> Option<&OutboxId> {
        match event {
            Event::Delivery(
                DeliveryEvent::Intended { id, .. }
                | DeliveryEvent::Attempted { id, .. }
                | DeliveryEvent::PutOff { id, .. }
                | DeliveryEvent::Sent { id, .. }
                | DeliveryEvent::Settled { id, .. }
                | DeliveryEvent::Retried { id }
                | DeliveryEvent::Dropped { id },
            ) => Some(id),
            _ => None,
        }
    }

    /// Folds in a later record of its channel; records of other deliveries change nothing. `false`: it was delivered or
    /// dropped, and is no longer listed.
    pub fn apply(&mut self, record: &Record) -> bool {
        if Self::named_by(&record.event) != Some(&self.id) {
            return true;
        }
        match &record.event {
            Event::Delivery(DeliveryEvent::Attempted { .. }) => {
                self.attempted_at.get_or_insert(record.at);
            }
            Event::Delivery(DeliveryEvent::PutOff { .. }) => self.attempted_at = None,
            // A receipt is journalled twice if a channel failed after journalling it and before noting that.
            Event::Delivery(DeliveryEvent::Sent { part, message, .. }) => {
                self.attempted_at = None;
                if *part as usize == self.sent.len() {
                    self.sent.push(message.clone());
                }
            }
            Event::Delivery(DeliveryEvent::Settled { receipt, .. }) => match receipt {
                Receipt::Delivered { .. } => return false,
                Receipt::Dead { reason } => self.state = DeliveryState::Dead { reason: reason.clone() },
                Receipt::Unknown { reason, .. } => {
                    self.state = DeliveryState::Unknown { reason: reason.clone() };
                }
            },
            Event::Delivery(DeliveryEvent::Retried { .. }) => {
                self.state = DeliveryState::Owed;
                self.attempted_at = None;
            }
            Event::Delivery(DeliveryEvent::Dropped { .. }) => return false,
            _ => {}
        }
        true
    }

    pub fn is_owed(&self) -> bool {
        self.state == DeliveryState::Owed
    }
}

/// Which lines of an artifact to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// First line, from 1.
    pub from: u64,
    /// Bytes of that line to skip; within a character: up to its end.
    pub offset: u64,
    pub count: u64,
    /// Most bytes.
    pub max_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactLines {
    /// The lines, joined by line breaks, without one after the last.
    pub text: String,
    pub lines: u64,
    /// Bytes of the first line that were skipped.
    pub offset: u64,
    /// Bytes left out at the end of the only line, if it did not fit into the requested bytes; else 0.
    pub cut_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_that_is_journalled_twice_counts_once() {
        let channel: ChannelId = "main/net/group".parse().unwrap();
        let id = OutboxId::from("d1");
        let record = |event| Record {
            n: 1,
            at: Timestamp::UNIX_EPOCH,
            channel: Some(channel.clone()),
            event: Event::Delivery(event),
        };
        let (turn, seq) = (TurnId::from("t1"), Seq(2));
        let intended = DeliveryEvent::Intended {
            id: id.clone(),
            turn,
            seq,
            note: None,
            approval: None,
            reply_to: None,
            edits: None,
            draft: false,
            files: Vec::new(),
        };
        let mut item = OutboxItem::intended(&channel, &record(intended)).unwrap();
        let sent = |part: u32| {
            let message = MessageId::from(format!("m{part}"));
            record(DeliveryEvent::Sent { id: id.clone(), part, message })
        };
        for (part, expected) in [(0, 1), (0, 1), (1, 2), (0, 2), (1, 2)] {
            assert!(item.apply(&sent(part)));
            assert_eq!(item.sent.len(), expected, "after part {part}");
        }
    }
}
