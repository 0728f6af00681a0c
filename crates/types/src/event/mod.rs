//! The events of the journal: everything that ever changed a conversation or a memory.

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::ids::{
    ApprovalId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, ReminderId, Seq, SummaryId, TextId,
    TurnId,
};
use crate::memory::{MemoryKind, MemorySave, Quote};
use crate::message::{Artifact, Author, Entry, Part, Pending};
use crate::model::is_zero;
use crate::people::access::AccessPolicy;
use crate::reminder::Reminder;
use crate::tool::approval::{Approval, ApprovalOutcome};
use crate::tool::mcp::ServerPin;

mod compaction;
mod pruned;
mod turn;
pub mod visit;

pub use crate::message::SentFile;
pub use compaction::{
    Checkpoint, CompactionEvent, Run, RunEnd, RunOutcome, RunReport, RunRequest, RunWork, SummarySize,
    Trigger,
};
pub use pruned::{PruneCause, PruneForm, PrunedResult};
pub use turn::{ModelNews, TurnEnd, TurnEvent, TurnOutcome};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its running number, from 1, without gaps.
    pub n: u64,
    pub at: Timestamp,
    /// The channel it belongs to; none for events of the daemon or of memories typed by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    pub event: Event,
}

/// An event to append to the journal, which assigns its number.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    pub channel: Option<ChannelId>,
    /// When it happened, by the daemon's clock.
    pub at: Timestamp,
    pub event: Event,
}

/// A journal event. Variants are named in the past tense. Every variant of a family is a persisted shape, identified by its
/// `type` alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    Message(MessageEvent),
    Turn(TurnEvent),
    Compaction(CompactionEvent),
    Artifact(ArtifactEvent),
    Memory(MemoryEvent),
    Delivery(DeliveryEvent),
    Approval(ApprovalEvent),
    Reminder(ReminderEvent),
    Registry(RegistryEvent),
    Maintenance(MaintenanceEvent),
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let Some(kind) = fields.get("type").and_then(Value::as_str) else {
            return Err(D::Error::missing_field("type"));
        };
        let kind = kind.to_owned();
        Self::of_kind(&kind, Value::Object(fields)).map_err(D::Error::custom)
    }
}

impl Event {
    /// Deserializes an event whose `type` is already known.
    ///
    /// # Errors
    /// The fields do not fit that type.
    pub fn of_kind<'de, D: Deserializer<'de>>(kind: &str, fields: D) -> Result<Self, D::Error> {
        // The first word of a type tells its family. The three most frequent types are read directly: a family buffers all
        // fields until it knows the type.
        match kind.split('_').next().unwrap_or_default() {
            "accepted" if kind == "accepted" => {
                Pending::deserialize(fields).map(MessageEvent::Accepted).map(Self::Message)
            }
            "entry" if kind == "entry_added" => EntryAdded::deserialize(fields)
                .map(|added| Self::Turn(TurnEvent::EntryAdded { entry: added.entry })),
            "turn" if kind == "turn_ended" => {
                TurnEnd::deserialize(fields).map(TurnEvent::Ended).map(Self::Turn)
            }
            "message" | "command" => MessageEvent::deserialize(fields).map(Self::Message),
            "usage" if kind == "usage_reported" => TurnEvent::deserialize(fields).map(Self::Turn),
            "turn" | "entry" | "tool" | "model" | "history" | "generation" => {
                TurnEvent::deserialize(fields).map(Self::Turn)
            }
            "run" | "usage" | "emergency" | "stack" | "window" | "results" => {
                CompactionEvent::deserialize(fields).map(Self::Compaction)
            }
            "artifact" | "artifacts" => ArtifactEvent::deserialize(fields).map(Self::Artifact),
            "memory" | "memories" => MemoryEvent::deserialize(fields).map(Self::Memory),
            "outbox" => DeliveryEvent::deserialize(fields).map(Self::Delivery),
            "approval" => ApprovalEvent::deserialize(fields).map(Self::Approval),
            "reminder" => ReminderEvent::deserialize(fields).map(Self::Reminder),
            "access" | "ban" | "chat" | "pairing" | "privacy" | "server" => {
                RegistryEvent::deserialize(fields).map(Self::Registry)
            }
            _ => MaintenanceEvent::deserialize(fields).map(Self::Maintenance),
        }
    }
}

/// The fields of [`TurnEvent::EntryAdded`].
#[derive(Deserialize)]
struct EntryAdded {
    entry: Entry,
}

/// Messages that people sent, their edits and deletions, reactions, and commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageEvent {
    Accepted(Pending),
    /// A person edited a message that no turn had taken up yet. (An edit of a message that a turn has taken up is a message
    /// of its own.)
    #[serde(rename = "message_edited")]
    Edited {
        message: MessageId,
        parts: Vec<Part>,
        addressed: bool,
        /// Hash of author and parts as they are now.
        fingerprint: String,
        /// Estimated tokens as the window renders it, before correction.
        tokens: u32,
    },
    /// A person deleted a message. Its text is removed from the pending messages and from the window immediately.
    #[serde(rename = "message_deleted")]
    Deleted {
        message: MessageId,
        /// The entries that it and its corrections became.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seqs: Vec<Seq>,
    },
    /// A command was accepted from a chat. It is not run again if the platform delivers it again.
    CommandTaken {
        /// The id of the command's message or interaction.
        message: MessageId,
        command: String,
        caller: Author,
    },
    /// A limit rejected a message from a chat network. Its text is not kept, and it stays rejected if the platform delivers
    /// it again.
    #[serde(rename = "message_refused")]
    Refused {
        message: MessageId,
    },
    /// A person reacted to a message of the bot, or took a reaction back that the model has not been shown yet.
    #[serde(rename = "message_reacted")]
    Reacted {
        /// The bot's message.
        message: MessageId,
        /// The answer that it shows.
        seq: Seq,
        by: Author,
        /// An emoji, or the name of a custom one between colons.
        emoji: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        removed: bool,
    },
    /// The program through which a person talks sent another system message than before. It holds until the next one.
    #[serde(rename = "message_system_set")]
    SystemSet {
        author: Author,
        /// Empty: there is none any more, unless it has tokens; then it has expired.
        text: String,
        /// Estimated tokens, before correction.
        tokens: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ArtifactEvent {
    /// A large tool result was stored outside of the window. Its file was already durable.
    #[serde(rename = "artifact_stored")]
    Stored { artifact: Artifact },
    #[serde(rename = "artifact_used")]
    Used { id: ArtifactId },
    /// Artifacts that nobody read for a long time were removed.
    #[serde(rename = "artifacts_expired")]
    Expired {
        ids: Vec<ArtifactId>,
        /// Their files were missing or damaged, and `cairn store verify --quarantine` gave them up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
    },
}

impl ArtifactEvent {
    /// The artifacts that it is about.
    pub fn ids(&self) -> &[ArtifactId] {
        match self {
            Self::Stored { artifact } => std::slice::from_ref(&artifact.id),
            Self::Used { id } => std::slice::from_ref(id),
            Self::Expired { ids, .. } => ids,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "most of these events are saves")]
pub enum MemoryEvent {
    /// A memory was saved outside a run: by the model's tool or by a person.
    #[serde(rename = "memory_saved")]
    Saved(MemorySave),
    #[serde(rename = "memory_edited")]
    Edited {
        id: MemoryId,
        text: Option<String>,
        kind: Option<MemoryKind>,
        /// Its new importance, when changed.
        importance: Option<f64>,
    },
    /// A memory was deleted. Its tombstone blocks automatic saves of an equal memory.
    #[serde(rename = "memory_forgotten")]
    Forgotten {
        id: MemoryId,
        /// A person wished it: the tombstone also blocks automatic saves that say nearly the same.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wished: bool,
    },
    /// Memories were put into a window.
    #[serde(rename = "memories_recalled")]
    Recalled {
        ids: Vec<MemoryId>,
        /// Their tokens in that window, before correction.
        tokens: u32,
        /// How well each of them fits the question, in the order of `ids`; empty in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scores: Vec<f64>,
        /// The best memories that were left out, each with how well it fits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        near: Vec<(MemoryId, f64)>,
        /// What was quoted of entries that had left the window, best first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        quotes: Vec<Quote>,
    },
}

/// Deliveries to a chat network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeliveryEvent {
    /// A delivery is due: a reply, or a note of the daemon about a turn.
    #[serde(rename = "outbox_intended")]
    Intended {
        id: OutboxId,
        turn: TurnId,
        /// The reply's entry; for a note, the newest entry that it is about.
        seq: Seq,
        /// The text of a note, which is not an entry; `None` for a reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The message that the first part answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<MessageId>,
        /// The message that shows a draft of this text. The first part replaces the draft by an edit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edits: Option<MessageId>,
        /// The approval that the text asks for. The platform shows controls to approve and to deny it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        /// The text is a draft, shown while the turn runs. A draft that was not sent is not listed as owed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        draft: bool,
        /// Files that are sent after the text, in this order. A short text is the caption of the first part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<SentFile>,
    },
    /// A part of a delivery is about to be sent. Until the delivery's next event it is unknown whether the part arrived.
    #[serde(rename = "outbox_attempted")]
    Attempted {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
    },
    /// A part of a delivery was certainly not sent, and is sent again later.
    #[serde(rename = "outbox_put_off")]
    PutOff {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        reason: String,
    },
    #[serde(rename = "outbox_sent")]
    Sent {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        message: MessageId,
    },
    #[serde(rename = "outbox_settled")]
    Settled { id: OutboxId, receipt: Receipt },
    /// An operator retries an unsuccessful delivery, from the first part that was not sent.
    #[serde(rename = "outbox_retried")]
    Retried { id: OutboxId },
    #[serde(rename = "outbox_dropped")]
    Dropped { id: OutboxId },
}

impl DeliveryEvent {
    pub fn id(&self) -> &OutboxId {
        match self {
            Self::Intended { id, .. }
            | Self::Attempted { id, .. }
            | Self::PutOff { id, .. }
            | Self::Sent { id, .. }
            | Self::Settled { id, .. }
            | Self::Retried { id }
            | Self::Dropped { id } => id,
        }
    }

    pub fn id_mut(&mut self) -> &mut OutboxId {
        match self {
            Self::Intended { id, .. }
            | Self::Attempted { id, .. }
            | Self::PutOff { id, .. }
            | Self::Sent { id, .. }
            | Self::Settled { id, .. }
            | Self::Retried { id }
            | Self::Dropped { id } => id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ApprovalEvent {
    /// A tool call waits for approval.
    #[serde(rename = "approval_asked")]
    Asked { approval: Approval },
    /// An approval request was settled. A call that was granted runs once this is durable.
    #[serde(rename = "approval_settled")]
    Settled {
        id: ApprovalId,
        outcome: ApprovalOutcome,
        /// Who answered (`PLATFORM/USER`), when somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// Reminders of a channel. One that fires is an accepted message: see [`Pending::reminder`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReminderEvent {
    /// A reminder was set, or one of the same id was replaced.
    #[serde(rename = "reminder_set")]
    Set(Reminder),
    #[serde(rename = "reminder_cancelled")]
    Cancelled {
        id: ReminderId,
        /// Who cancelled it (`PLATFORM/USER`), when somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// Who may talk to the bot, under which name, and which tool servers are approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RegistryEvent {
    /// A stranger wrote to the bot and was sent a pairing code.
    PairingRequested {
        user: Author,
        /// The chat that the code was sent to.
        chat: String,
        code: String,
    },
    PairingApproved {
        /// Stable id on the platform, `PLATFORM/USER`.
        user: String,
    },
    /// An operator revoked a pairing, or refused it.
    PairingRevoked {
        /// Stable id on the platform, `PLATFORM/USER`.
        user: String,
    },
    /// An operator banned a person: the bot ignores them everywhere.
    BanSet {
        /// `PLATFORM/USER`.
        user: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// None: until it is lifted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The operator, `PLATFORM/USER`.
        by: String,
    },
    /// An operator lifted a ban.
    BanLifted {
        /// `PLATFORM/USER`.
        user: String,
    },
    /// From here on nothing is learnt from what a person says, or from what is said in a chat; or it is again.
    PrivacySet {
        /// `PLATFORM/USER`: who said so, of themselves if no chat is named.
        user: String,
        /// The chat, by its id on that platform.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chat: Option<String>,
        on: bool,
    },
    /// A platform's access policy from here on, as configured. It is journalled when it changes: messages sent under an
    /// earlier policy are judged by that policy if they are read later.
    AccessSet { platform: String, access: AccessPolicy },
    /// A platform gave a chat another id. Its conversations continue under the old one.
    ChatMigrated { platform: String, from: String, to: String },
    /// An operator approved a tool server as it was shown to them.
    ServerApproved { pin: ServerPin },
    /// An operator revoked the approval of a tool server.
    ServerRevoked {
        /// Its id in the configuration.
        server: String,
    },
}

/// Starts and stops of the daemon, kept texts, and changes of the journal itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MaintenanceEvent {
    DaemonStarted {
        version: String,
    },
    /// A text that call traces refer to by its hash: a prompt, tool schemas, parameters. Each text is journalled once.
    TextKept {
        id: TextId,
        text: String,
    },
    /// The daemon stopped cleanly. A start without one before it is an unclean stop.
    DaemonStopped,
    /// A person was erased from the journal. The record does not identify them.
    PersonErased {
        /// The id that replaces theirs, such as `PLATFORM/erased-1`.
        pseudonym: String,
        figures: ErasureFigures,
    },
    /// The text of old records has expired. It is not shown any more and is removed from the journal.
    WordsExpired {
        /// The channel of the records.
        channel: ChannelId,
        /// The entries, as ranges with both ends included, in order.
        entries: Vec<(Seq, Seq)>,
        /// Expired summaries that are no longer in the window.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        summaries: Vec<SummaryId>,
    },
    /// Replaces records that were removed from the journal, so that record numbers have no gaps.
    RecordsRemoved {
        /// Number of the first record that it replaces, which is its own number.
        from_n: u64,
        /// Number of the last record that it replaces.
        to_n: u64,
        by: Removal,
    },
    /// `cairn store verify --quarantine` set journal lines aside, or recorded that they are lost.
    LinesQuarantined {
        /// Number of the first line that it replaces.
        from_n: u64,
        /// Number of the last line that it replaces.
        to_n: u64,
        /// Set if lines at the end of the journal were lost: the first entry number that the channel had not used yet.
        /// Missing entries with smaller numbers are shown as lost, and their numbers are not reused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_seq: Option<Seq>,
    },
}

/// Counts of what an erasure removed or changed, or would do so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErasureFigures {
    /// Messages of the person whose text is removed.
    pub entries: u64,
    /// Messages among `entries` whose text had already expired.
    #[serde(skip_serializing_if = "is_zero")]
    pub expired: u64,
    /// Answers, calls and results of turns that they took part in.
    pub answers: u64,
    pub memories: u64,
    /// Other people's memories that stay, with the person's name removed.
    #[serde(skip_serializing_if = "is_zero")]
    pub memories_cleaned: u64,
    pub summaries: u64,
    pub artifacts: u64,
    /// Other people's records, with the person's name removed.
    pub mentions: u64,
    /// Private conversations that are removed as a whole.
    pub conversations: u64,
    pub seconds: f64,
}

/// Why records were taken out of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    Erasure,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Receipt {
    Delivered {
        /// The platform's ids of the sent messages.
        messages: Vec<MessageId>,
    },
    Dead {
        reason: String,
    },
    /// It is unknown whether a part arrived. The part is not resent automatically.
    Unknown {
        /// The part, from 0.
        part: u32,
        reason: String,
    },
}
