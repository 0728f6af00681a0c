//! The events of the journal: everything that ever changed a conversation or a memory.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::{Approval, ApprovalOutcome};
use crate::artifact::Artifact;
use crate::chain::Bounds;
use crate::erasure::Figures;
use crate::ids::{
    ApprovalId, ArtifactId, ChannelId, Generation, MemoryId, MessageId, OutboxId, RunId, Seq, SummaryId,
    TurnId,
};
use crate::mcp::ServerPin;
use crate::memory::{MemoryKind, MemorySave};
use crate::message::{Author, Entry, Part, Pending};
use crate::model::Usage;
use crate::prune::{PruneCause, PrunedResult};
use crate::summary::Marker;
use crate::tool::ToolUse;

mod run;
mod turn;

pub use run::{Checkpoint, Outcome, Run, RunEnd, RunOutcome, RunRequest, SummarySize, Trigger, Work};
pub use turn::{TurnEnd, TurnOutcome};

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

/// What happened. Names are in the past tense; every variant is a persisted shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    DaemonStarted {
        version: String,
    },
    /// The daemon stopped cleanly. A start without one before it is an unclean stop.
    DaemonStopped,
    Accepted(Pending),
    /// Pending messages were taken up into a turn, in this order, with consecutive numbers from `first_seq`.
    TurnStarted {
        turn: TurnId,
        messages: Vec<MessageId>,
        first_seq: Seq,
    },
    /// The model or a tool added an entry to the open turn.
    EntryAdded {
        entry: Entry,
    },
    /// The provider reported what a request took.
    UsageReported {
        /// The model, by its id in the configuration.
        model: String,
        /// What we had estimated for the whole request, before correction.
        estimated: u64,
        /// What the provider said, or our own estimate where that cannot be true.
        usage: Usage,
        /// What the provider said that cannot be true: it counts for nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disbelieved: Option<Usage>,
    },
    TurnEnded(TurnEnd),
    /// The last turn, which had ended without an answer, is open again: its message was sent again.
    TurnReopened {
        turn: TurnId,
        messages: Vec<MessageId>,
    },
    /// The daemon found the turn open at a start after an unclean stop.
    TurnInterrupted {
        turn: TurnId,
    },
    /// A run began: its range is sealed.
    RunStarted {
        run: Run,
    },
    /// A run was asked for while another was under way, or is owed after an emergency.
    RunQueued {
        request: RunRequest,
    },
    /// An attempt of a run failed; the run goes on with the next attempt.
    RunAttemptFailed {
        run: RunId,
        /// The attempt that failed, from 1.
        attempt: u32,
        reason: String,
        /// When the next attempt may begin.
        retry_at: Timestamp,
    },
    /// A chunk of a long run is finished.
    RunCheckpointed {
        run: RunId,
        /// What its chunks have come to so far.
        checkpoint: Checkpoint,
    },
    /// A run ended. When it was committed, this one record carries the summary and its memories.
    RunEnded(RunEnd),
    /// The oldest turns left the window at once.
    EmergencyApplied {
        /// The marker that now stands for it; adjacent truncated markers are already joined into it.
        marker: Marker,
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// In journals of earlier versions: the stack was over its share, and its oldest items gave way to one leading marker.
    StackRetired {
        /// The marker that now leads the stack; it stands for all items within its range.
        marker: Marker,
    },
    /// A context engine without summaries dropped the oldest turns.
    WindowSlid {
        /// The marker that now leads the stack; it stands for everything older.
        marker: Marker,
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// Old results of tools are sent shorter from here on. What is kept stays whole.
    ResultsPruned {
        cause: PruneCause,
        /// The results, and how they are sent.
        results: Vec<PrunedResult>,
        scanned: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// A large result of a tool was stored outside of the window. Its file was durable before.
    ArtifactStored {
        artifact: Artifact,
    },
    ArtifactUsed {
        id: ArtifactId,
    },
    /// Artifacts that nobody read for long are gone.
    ArtifactsExpired {
        ids: Vec<ArtifactId>,
    },
    /// Another model of the chain answers in this channel from here on.
    ModelChosen {
        /// The model, by its id in the configuration.
        model: String,
        reason: String,
    },
    /// A model's server said something of the model that the configuration does not know.
    ModelLearnt {
        /// The model, by its id in the configuration.
        model: String,
        /// Its window in tokens, when it was named, or bounded by what was taken and refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_tokens: Option<u64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_tools: bool,
        /// What it has taken and refused, where it refused a request without naming its window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bounds: Option<Bounds>,
    },
    /// `/new`: everything so far is archived.
    GenerationStarted {
        /// The new generation.
        generation: Generation,
    },
    /// A memory was saved outside a run: by the model's tool or by a person.
    MemorySaved(MemorySave),
    MemoryEdited {
        id: MemoryId,
        text: Option<String>,
        kind: Option<MemoryKind>,
        /// Its new importance, when changed.
        importance: Option<f64>,
    },
    /// A person had a memory forgotten; its tombstone blocks automatic saves of the same.
    MemoryForgotten {
        id: MemoryId,
    },
    /// Memories were put into a window.
    MemoriesRecalled {
        ids: Vec<MemoryId>,
        /// Their tokens in that window, before correction.
        tokens: u32,
    },
    /// Words are owed to a platform: a reply, or a note of the daemon about a turn.
    OutboxIntended {
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
    OutboxAttempted {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
    },
    /// A part of a delivery was certainly not sent, and will be tried again.
    OutboxPutOff {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        reason: String,
    },
    OutboxSent {
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        message: MessageId,
    },
    OutboxSettled {
        id: OutboxId,
        receipt: Receipt,
    },
    /// An operator has a delivery that did not succeed tried again, from its first part that is not there.
    OutboxRetried {
        id: OutboxId,
    },
    OutboxDropped {
        id: OutboxId,
    },
    /// A person edited a message that no turn had taken up yet. (An edit of a later one is a message of its own.)
    MessageEdited {
        message: MessageId,
        parts: Vec<Part>,
        addressed: bool,
        /// Hash of author and parts as they are now.
        fingerprint: String,
        /// Estimated tokens as the window renders it, before correction.
        tokens: u32,
    },
    /// A person deleted a message. Its text leaves what is pending at once, and the window with the next compaction.
    MessageDeleted {
        message: MessageId,
        /// The entries that it and its corrections became.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seqs: Vec<Seq>,
    },
    /// `/undo`: the last turn is archived.
    TurnUndone {
        turn: TurnId,
        from_seq: Seq,
        to_seq: Seq,
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
    MessageRefused {
        message: MessageId,
    },
    /// Tokens were used beside a turn: by a run.
    UsageSpent {
        /// The model, by its id in the configuration.
        model: String,
        /// What the provider said; where it said nothing, our estimate.
        usage: Usage,
    },
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
    /// A platform gave a chat another id: its conversations go on under the old one.
    ChatMigrated {
        platform: String,
        from: String,
        to: String,
    },
    /// A call of a tool ended. Its result is an entry of its own.
    ToolUsed(ToolUse),
    /// A call waits for a person's yes.
    ApprovalAsked {
        approval: Approval,
    },
    /// A request for a yes came to its end; a call that was granted is made after this is durable.
    ApprovalSettled {
        id: ApprovalId,
        outcome: ApprovalOutcome,
        /// Who answered (`PLATFORM/USER`), when somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// An operator approved a tool server as it was shown to them.
    ServerApproved {
        pin: ServerPin,
    },
    /// An operator took the approval of a server back.
    ServerRevoked {
        /// Its id in the configuration.
        server: String,
    },
    /// A person was erased from the journal. Who it was stands nowhere.
    PersonErased {
        /// What stands in the place of their id, `PLATFORM/erased-1`.
        pseudonym: String,
        figures: Figures,
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
