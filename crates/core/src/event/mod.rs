//! The events of the journal: everything that ever changed a conversation or a memory.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::{Approval, ApprovalOutcome};
use crate::artifact::Artifact;
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

pub use run::{Checkpoint, Outcome, Run, RunEnd, RunOutcome, RunRequest, Trigger, Work};
pub use turn::{TurnEnd, TurnOutcome};

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its running number, from 1, without gaps.
    pub n: u64,
    /// When it was journalled.
    pub at: Timestamp,
    /// The channel it belongs to; none for events of the daemon or of memories typed by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    /// What happened.
    pub event: Event,
}

/// An event as it is handed to the journal, which gives it number and time.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRecord {
    /// The channel it belongs to.
    pub channel: Option<ChannelId>,
    /// When it happened, by the daemon's clock.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// What happened. Names are in the past tense; every variant is a persisted shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The daemon opened the journal.
    DaemonStarted {
        /// Its version.
        version: String,
    },
    /// The daemon stopped cleanly. A start without one before it is an unclean stop.
    DaemonStopped,
    /// A message was accepted.
    Accepted(Pending),
    /// Pending messages were taken up into a turn, in this order, with consecutive numbers from `first_seq`.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// The messages taken up.
        messages: Vec<MessageId>,
        /// The number of the first.
        first_seq: Seq,
    },
    /// The model or a tool added an entry to the open turn.
    EntryAdded {
        /// The entry.
        entry: Entry,
    },
    /// The provider reported what a request took.
    UsageReported {
        /// The model, by its id in the configuration.
        model: String,
        /// What we had estimated for the whole request, before correction.
        estimated: u64,
        /// What the provider said.
        usage: Usage,
    },
    /// The open turn ended.
    TurnEnded(TurnEnd),
    /// The daemon found the turn open at a start after an unclean stop.
    TurnInterrupted {
        /// The turn.
        turn: TurnId,
    },
    /// A run began: its range is sealed.
    RunStarted {
        /// The run.
        run: Run,
    },
    /// A run was asked for while another was under way, or is owed after an emergency.
    RunQueued {
        /// What is to be done.
        request: RunRequest,
    },
    /// An attempt of a run failed; the run goes on with the next attempt.
    RunAttemptFailed {
        /// The run.
        run: RunId,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Why.
        reason: String,
        /// When the next attempt may begin.
        retry_at: Timestamp,
    },
    /// A chunk of a long run is finished.
    RunCheckpointed {
        /// The run.
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
        /// Entries that left.
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
        /// Entries that left.
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// Old results of tools are sent shorter from here on. What is kept stays whole.
    ResultsPruned {
        /// Why.
        cause: PruneCause,
        /// The results, and how they are sent.
        results: Vec<PrunedResult>,
        /// Results that were looked at.
        scanned: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// A large result of a tool was stored outside of the window. Its file was durable before.
    ArtifactStored {
        /// The artifact.
        artifact: Artifact,
    },
    /// An artifact was read.
    ArtifactUsed {
        /// The artifact.
        id: ArtifactId,
    },
    /// Artifacts that nobody read for long are gone.
    ArtifactsExpired {
        /// The artifacts.
        ids: Vec<ArtifactId>,
    },
    /// Another model of the chain answers in this channel from here on.
    ModelChosen {
        /// The model, by its id in the configuration.
        model: String,
        /// Why.
        reason: String,
    },
    /// A model's server said something of the model that the configuration does not know.
    ModelLearnt {
        /// The model, by its id in the configuration.
        model: String,
        /// Its window in tokens, when it was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_tokens: Option<u64>,
        /// It takes no tools.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_tools: bool,
    },
    /// `/new`: everything so far is archived.
    GenerationStarted {
        /// The new generation.
        generation: Generation,
    },
    /// A memory was saved outside a run: by the model's tool or by a person.
    MemorySaved(MemorySave),
    /// A person corrected a memory.
    MemoryEdited {
        /// The memory.
        id: MemoryId,
        /// Its new text, when changed.
        text: Option<String>,
        /// Its new kind, when changed.
        kind: Option<MemoryKind>,
        /// Its new importance, when changed.
        importance: Option<f64>,
    },
    /// A person had a memory forgotten; its tombstone blocks automatic saves of the same.
    MemoryForgotten {
        /// The memory.
        id: MemoryId,
    },
    /// Memories were put into a window.
    MemoriesRecalled {
        /// Which.
        ids: Vec<MemoryId>,
        /// Their tokens in that window, before correction.
        tokens: u32,
    },
    /// Words are owed to a platform: a reply, or a note of the daemon about a turn.
    OutboxIntended {
        /// The delivery.
        id: OutboxId,
        /// The turn that it answers.
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
        /// The delivery.
        id: OutboxId,
        /// The part, from 0.
        part: u32,
    },
    /// A part of a delivery was certainly not sent, and will be tried again.
    OutboxPutOff {
        /// The delivery.
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        /// Why.
        reason: String,
    },
    /// A part of a delivery is there.
    OutboxSent {
        /// The delivery.
        id: OutboxId,
        /// The part, from 0.
        part: u32,
        /// Its id on the platform.
        message: MessageId,
    },
    /// A delivery ended.
    OutboxSettled {
        /// The delivery.
        id: OutboxId,
        /// How it ended.
        receipt: Receipt,
    },
    /// An operator has a delivery that did not succeed tried again, from its first part that is not there.
    OutboxRetried {
        /// The delivery.
        id: OutboxId,
    },
    /// An operator gave a delivery up.
    OutboxDropped {
        /// The delivery.
        id: OutboxId,
    },
    /// A person edited a message that no turn had taken up yet. (An edit of a later one is a message of its own.)
    MessageEdited {
        /// The message.
        message: MessageId,
        /// What it says now.
        parts: Vec<Part>,
        /// It is to be answered now.
        addressed: bool,
        /// Hash of author and parts as they are now.
        fingerprint: String,
        /// Estimated tokens as the window renders it, before correction.
        tokens: u32,
    },
    /// A person deleted a message. Its text leaves what is pending at once, and the window with the next compaction.
    MessageDeleted {
        /// The message.
        message: MessageId,
        /// The entries that it and its corrections became.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seqs: Vec<Seq>,
    },
    /// `/undo`: the last turn is archived.
    TurnUndone {
        /// The turn.
        turn: TurnId,
        /// Its first entry.
        from_seq: Seq,
        /// Its last entry.
        to_seq: Seq,
    },
    /// A command was taken from a chat: it is not run again when the platform delivers it again.
    CommandTaken {
        /// The id of the command's message or interaction.
        message: MessageId,
        /// The command's name.
        command: String,
        /// Who gave it.
        caller: Author,
    },
    /// A limit kept a message of a chat network out, with its words: it is not taken in either when the platform
    /// delivers it again.
    MessageRefused {
        /// The message.
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
        /// The stranger.
        user: Author,
        /// The chat in which the code was told.
        chat: String,
        /// The code.
        code: String,
    },
    /// An operator let a person in.
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
        /// The platform.
        platform: String,
        /// The id so far.
        from: String,
        /// The id from here on.
        to: String,
    },
    /// A call of a tool ended. Its result is an entry of its own.
    ToolUsed(ToolUse),
    /// A call waits for a person's yes.
    ApprovalAsked {
        /// What is asked.
        approval: Approval,
    },
    /// A request for a yes came to its end; a call that was granted is made after this is durable.
    ApprovalSettled {
        /// The request.
        id: ApprovalId,
        /// How.
        outcome: ApprovalOutcome,
        /// Who answered (`PLATFORM/USER`), when somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// An operator approved a server of tools as it was shown to them.
    ServerApproved {
        /// The server and its tools.
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
        /// What went.
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
        /// Why.
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
    /// A person was erased.
    Erasure,
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Receipt {
    /// It is there.
    Delivered {
        /// The platform's ids of the sent messages.
        messages: Vec<MessageId>,
    },
    /// It cannot be delivered.
    Dead {
        /// The platform's reason.
        reason: String,
    },
    /// Nobody knows whether a part of it is there: it is not sent again by itself.
    Unknown {
        /// The part, from 0.
        part: u32,
        /// What went wrong.
        reason: String,
    },
}
