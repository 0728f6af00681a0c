//! The events of the journal: everything that ever changed a conversation or a memory.

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::ids::{
    ApprovalId, ArtifactId, ChannelId, MemoryId, MessageId, OutboxId, Seq, SummaryId, TextId, TurnId,
};
use crate::memory::{MemoryKind, MemorySave};
use crate::message::{Artifact, Author, Entry, Part, Pending};
use crate::model::is_zero;
use crate::people::access::AccessPolicy;
use crate::tool::approval::{Approval, ApprovalOutcome};
use crate::tool::mcp::ServerPin;

mod compaction;
mod pruned;
mod turn;
pub mod visit;

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

/// An event as it is handed to the journal, which gives it number and time.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    pub channel: Option<ChannelId>,
    /// When it happened, by the daemon's clock.
    pub at: Timestamp,
    pub event: Event,
}

/// What happened. Names are in the past tense; every variant of a family is a persisted shape, told by its `type` alone.
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
    /// Reads an event whose type is known already.
    ///
    /// # Errors
    /// It is none of that type.
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
            "access" | "ban" | "chat" | "pairing" | "server" => {
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

/// What people sent: messages, their edits and deletions, commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageEvent {
    Accepted(Pending),
    /// A person edited a message that no turn had taken up yet. (An edit of a later one is a message of its own.)
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
    /// A person deleted a message. Its text leaves what is pending at once, and the window with the next compaction.
    #[serde(rename = "message_deleted")]
    Deleted {
        message: MessageId,
        /// The entries that it and its corrections became.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seqs: Vec<Seq>,
    },
    /// A command was taken from a chat: it is not run again when the platform delivers it again.
    CommandTaken {
        /// The id of the command's message or interaction.
        message: MessageId,
        command: String,
        caller: Author,
    },
    /// A limit kept a message of a chat network out, with its words: it is not taken in either when the platform
    /// delivers it again.
    #[serde(rename = "message_refused")]
    Refused {
        message: MessageId,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ArtifactEvent {
    /// A large result of a tool was stored outside of the window. Its file was durable before.
    #[serde(rename = "artifact_stored")]
    Stored { artifact: Artifact },
    #[serde(rename = "artifact_used")]
    Used { id: ArtifactId },
    /// Artifacts that nobody read for long are gone.
    #[serde(rename = "artifacts_expired")]
    Expired {
        ids: Vec<ArtifactId>,
        /// Their files were missing or damaged, and somebody went on without them.
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
    /// A person had a memory forgotten; its tombstone blocks automatic saves of the same.
    #[serde(rename = "memory_forgotten")]
    Forgotten { id: MemoryId },
    /// Memories were put into a window.
    #[serde(rename = "memories_recalled")]
    Recalled {
        ids: Vec<MemoryId>,
        /// Their tokens in that window, before correction.
        tokens: u32,
        /// How well they fit the question, in the same order; empty in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scores: Vec<f64>,
        /// The best of those that were left out, with how well they fit.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        near: Vec<(MemoryId, f64)>,
    },
}

/// Words on their way to a chat network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeliveryEvent {
    /// Words are owed to a platform: a reply, or a note of the daemon about a turn.
    #[serde(rename = "outbox_intended")]
    Intended {
        id: OutboxId,
        turn: TurnId,
        /// The entry that is the reply; of a note, the newest entry it is about.
        seq: Seq,
        /// The words of a note, which is no entry; none for a reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The message that the first part answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<MessageId>,
        /// The message that shows a draft of these words: the first part takes its place by an edit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edits: Option<MessageId>,
        /// The words ask for this approval: the platform shows ways to say yes and no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        /// The words are a draft, shown while the turn goes on; its delivery is never owed by itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        draft: bool,
    },
    /// A part of a delivery is about to be sent: from here until the next event of it, its fate is unknown.
    #[serde(rename = "outbox_attempted")]
    Attempted {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
    },
    /// A part of a delivery was certainly not sent, and will be tried again.
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
    /// An operator has a delivery that did not succeed tried again, from its first part that is not there.
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
    /// A call waits for a person's yes.
    #[serde(rename = "approval_asked")]
    Asked { approval: Approval },
    /// A request for a yes came to its end; a call that was granted is made after this is durable.
    #[serde(rename = "approval_settled")]
    Settled {
        id: ApprovalId,
        outcome: ApprovalOutcome,
        /// Who answered (`PLATFORM/USER`), when somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// Who may talk to the bot, under which name, and which tool servers are approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RegistryEvent {
    /// A stranger wrote to the bot and was told a code.
    PairingRequested {
        user: Author,
        /// The chat in which the code was told.
        chat: String,
        code: String,
    },
    PairingApproved {
        /// Stable id on the platform, `PLATFORM/USER`.
        user: String,
    },
    /// An operator took the permission back, or refused it.
    PairingRevoked {
        /// Stable id on the platform, `PLATFORM/USER`.
        user: String,
    },
    /// An operator banned a person: they are heard nowhere.
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
    /// Who is heard where on a platform from here on, as the configuration says. Journalled when it is another than before:
    /// what was said under other rules is judged by those when it is read again.
    AccessSet { platform: String, access: AccessPolicy },
    /// A platform gave a chat another id: its conversations go on under the old one.
    ChatMigrated { platform: String, from: String, to: String },
    /// An operator approved a tool server as it was shown to them.
    ServerApproved { pin: ServerPin },
    /// An operator took the approval of a server back.
    ServerRevoked {
        /// Its id in the configuration.
        server: String,
    },
}

/// The daemon itself, and what was taken out of its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MaintenanceEvent {
    DaemonStarted {
        version: String,
    },
    /// A text that traces of calls name by its hash: a prompt, the schemas of tools, parameters. Journalled once.
    TextKept {
        id: TextId,
        text: String,
    },
    /// The daemon stopped cleanly. A start without one before it is an unclean stop.
    DaemonStopped,
    /// A person was erased from the journal. Who it was stands nowhere.
    PersonErased {
        /// What stands in the place of their id, `PLATFORM/erased-1`.
        pseudonym: String,
        figures: ErasureFigures,
    },
    /// Words of old records have expired: they are shown to nobody from here on, and taken out of the journal.
    WordsExpired {
        /// The channel that they were said in.
        channel: ChannelId,
        /// The entries, as ranges with both ends included, in order.
        entries: Vec<(Seq, Seq)>,
        /// Summaries that stand in the window no more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        summaries: Vec<SummaryId>,
    },
    /// Stands in the place of records that were taken out of the journal, so that numbers stay whole.
    RecordsRemoved {
        /// Numbers of the first and last record that it stands for; its own is the first.
        from_n: u64,
        /// See `from_n`.
        to_n: u64,
        by: Removal,
    },
    /// `store verify --quarantine` set journal lines aside, or said that they are lost.
    LinesQuarantined {
        /// Numbers of the first and last line that it stands for.
        from_n: u64,
        /// See `from_n`.
        to_n: u64,
        /// Lines at the end of the journal were lost: the first number of an entry that the record's channel had not given
        /// then. Those before it say that they are lost, and are not given again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_seq: Option<Seq>,
    },
}

/// What an erasure did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErasureFigures {
    /// Messages of theirs whose words are gone.
    pub entries: u64,
    /// Those among them whose words had expired before.
    #[serde(skip_serializing_if = "is_zero")]
    pub expired: u64,
    /// Answers, calls and results of turns that they took part in.
    pub answers: u64,
    pub memories: u64,
    /// Memories of others that stay, and out of which their name was taken.
    #[serde(skip_serializing_if = "is_zero")]
    pub memories_cleaned: u64,
    pub summaries: u64,
    pub artifacts: u64,
    /// Records of others out of which their name was taken.
    pub mentions: u64,
    /// Private conversations that are gone as a whole.
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
    /// Nobody knows whether a part of it is there: it is not sent again by itself.
    Unknown {
        /// The part, from 0.
        part: u32,
        reason: String,
    },
}
