//! The events of the journal: everything that ever changed a conversation or a memory.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{ChannelId, Generation, MemoryId, MessageId, OutboxId, RunId, Seq, SummaryId, TurnId};
use crate::memory::{MemoryKind, MemorySave};
use crate::message::{Entry, Pending};
use crate::model::Usage;
use crate::summary::{Marker, Summary};
use crate::tier::Tier;

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
    /// A run ended. When it was committed, this one record carries the summary and its memories.
    RunEnded(RunEnd),
    /// The oldest part left the window at once.
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
    /// The stack was over its share: its oldest items gave way to one leading marker.
    StackRetired {
        /// The marker that now leads the stack; it stands for all items within its range.
        marker: Marker,
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
    /// A reply is owed to a platform.
    OutboxIntended {
        /// The delivery.
        id: OutboxId,
        /// The turn that it answers.
        turn: TurnId,
        /// The entry that is the reply.
        seq: Seq,
    },
    /// A delivery reached its platform, or never will.
    OutboxSettled {
        /// The delivery.
        id: OutboxId,
        /// How it ended.
        receipt: Receipt,
    },
    /// `store verify --quarantine` set journal lines aside.
    LinesQuarantined {
        /// Numbers of the first and last line set aside.
        from_n: u64,
        /// See `from_n`.
        to_n: u64,
    },
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
}

/// How a turn ended, with what a repeated request is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn.
    pub turn: TurnId,
    /// How.
    pub outcome: TurnOutcome,
    /// The model that answered, by its id in the configuration.
    pub model: Option<String>,
    /// Tokens of all model calls of the turn.
    pub usage: Usage,
    /// The memories that were in its window.
    pub recalled: Vec<MemoryId>,
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// Answered by the entry `reply`.
    Answered {
        /// The entry.
        reply: Seq,
    },
    /// A turn without an answer: messages that were not addressed to the bot.
    Unanswered,
    /// Failed, and the user was told.
    Failed {
        /// Typed error.
        code: String,
        /// For people.
        message: String,
    },
    /// Cancelled by a command.
    Stopped,
    /// Given up after three unclean stops with it open.
    DeadLettered,
}

/// What made a run start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A tier was reached.
    Threshold,
    /// Somebody asked.
    Manual,
    /// A level of the stack is over its fan-out.
    Merge,
    /// An emergency left a range without a summary.
    Emergency,
}

impl Trigger {
    /// The trigger's name in records and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Manual => "manual",
            Self::Merge => "merge",
            Self::Emergency => "emergency",
        }
    }
}

/// What a run works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// Entries of the live history, sealed for the run.
    Sealed,
    /// Entries that left the window under a truncated marker.
    Truncated,
    /// Adjacent summaries of one level.
    Merge {
        /// The summaries, oldest first.
        sources: Vec<SummaryId>,
        /// Their level.
        level: u32,
    },
}

/// One background compaction run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// What made it start.
    pub trigger: Trigger,
    /// The tier at that moment.
    pub tier: Tier,
    /// What it works on.
    pub work: Work,
    /// First entry of its range.
    pub from_seq: Seq,
    /// Last entry of its range.
    pub to_seq: Seq,
    /// Entries in its range.
    pub messages: u64,
    /// What a person asked the summary to attend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// The attempt under way, from 1.
    pub attempt: u32,
    /// The attempt may not begin before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
}

/// A run that waits for the one under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// What asks for it.
    pub trigger: Trigger,
    /// What a person asked the summary to attend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The run.
    pub run: RunId,
    /// What made it start.
    pub trigger: Trigger,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why, for people.
    pub reason: Option<String>,
    /// The summary, when committed.
    pub summary: Option<Summary>,
    /// The memories, when committed.
    pub memories: Vec<MemorySave>,
    /// Entries in its range.
    pub messages: u64,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// Window tokens after it, after correction.
    pub tokens_after: u64,
    /// The oldest entry that is still in the window as itself.
    pub first_kept_seq: Option<Seq>,
    /// How long it took.
    pub duration_ms: u64,
}

/// The end of a run as `cairn context` lists it: without the texts. The shape is the contract's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// What made it start.
    pub trigger: Trigger,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Why, for people.
    pub reason: Option<String>,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// Window tokens after it, after correction.
    pub tokens_after: u64,
    /// Entries in its range.
    pub messages: u64,
    /// The oldest entry that is still in the window as itself.
    pub first_kept_seq: Option<Seq>,
    /// How long it took.
    pub duration_ms: u64,
    /// How many memories it saved.
    pub memories: u64,
}

impl RunEnd {
    /// The end without the texts.
    pub fn to_outcome(&self) -> Outcome {
        Outcome {
            run: self.run.clone(),
            trigger: self.trigger,
            outcome: self.outcome,
            reason: self.reason.clone(),
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            messages: self.messages,
            first_kept_seq: self.first_kept_seq,
            duration_ms: self.duration_ms,
            memories: self.memories.len() as u64,
        }
    }
}

/// The typed outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The summary stands in the stack.
    Committed,
    /// What it made was not fit to be used.
    Rejected,
    /// It could not be made.
    Failed,
    /// Its range has been dealt with otherwise.
    Superseded,
    /// Stopped by a person or by `/new`.
    Cancelled,
}

impl RunOutcome {
    /// The outcome's name in records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }
}
