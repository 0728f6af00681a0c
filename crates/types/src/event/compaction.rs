//! Compaction runs as the journal knows them: what starts one, what it works on, how it ends.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::{PruneCause, PrunedResult};
use crate::ids::{RunId, Seq, SummaryId};
use crate::memory::{DraftMemory, MemorySave};
use crate::model::Usage;
use crate::summary::{Marker, Summary};
use crate::tier::Tier;
use crate::trace::CallTrace;

/// What makes room in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompactionEvent {
    /// A run began: its range is sealed.
    RunStarted { run: Run },
    /// A run was asked for while another was under way, or is owed after an emergency.
    RunQueued { request: RunRequest },
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
    /// Tokens were used beside a turn: by a run.
    UsageSpent {
        /// The model, by its id in the configuration.
        model: String,
        /// What the provider said; where it said nothing, our estimate.
        usage: Usage,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_estimate: bool,
        /// What the call was made of; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Box<CallTrace>>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    Threshold,
    Manual,
    /// A level of the stack is over its fan-out.
    Merge,
    /// An emergency left a range without a summary.
    Emergency,
    /// The live history has too many messages.
    Messages,
    /// A summary was made without a model, which is to be made again.
    Provisional,
}

impl Trigger {
    /// Nobody waits for such a run, and nothing is lost while it fails: it never stands in the way of others.
    pub fn is_deferrable(self) -> bool {
        matches!(self, Self::Merge | Self::Provisional)
    }

    /// The trigger's name in records and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Manual => "manual",
            Self::Merge => "merge",
            Self::Emergency => "emergency",
            Self::Messages => "messages",
            Self::Provisional => "provisional",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum RunWork {
    /// Entries of the live history, sealed for the run.
    Sealed,
    /// Entries that left the window before a model had summarised them: a marker or a provisional summary stands for them.
    Truncated,
    /// Adjacent summaries of one level.
    Merge {
        /// The summaries, oldest first.
        sources: Vec<SummaryId>,
        level: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub trigger: Trigger,
    pub tier: Tier,
    pub work: RunWork,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    /// What a person asked the summary to attend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    pub started_at: Timestamp,
    /// The attempt under way, from 1.
    pub attempt: u32,
    /// The attempt may not begin before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// What is done of it: a retry, a restart or a crash goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// It was asked for in the chat, which is told how it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The summary that it makes again from its entries, as a person wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<SummaryId>,
    /// What its calls of models took so far, by model. Of the fold alone: no record of its start has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

impl Run {
    /// Where no model can make it, a digest takes its place. Else it ends as failed: what is there stays, and is no worse.
    pub fn takes_digest(&self) -> bool {
        !self.trigger.is_deferrable() && self.replaces.is_none()
    }
}

/// What the finished chunks of a long run have come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub chunks: u32,
    pub to_seq: Seq,
    pub text: String,
    pub made_by: String,
    pub memories: Vec<DraftMemory>,
    /// Messages that no model was shown for their size: their digests are added at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Seq>,
}

/// A run that waits for the one under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    pub trigger: Trigger,
    /// What a person asked the summary to attend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// It was asked for in the chat, which is told how it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    pub run: RunId,
    pub trigger: Trigger,
    pub outcome: RunOutcome,
    pub reason: Option<String>,
    pub summary: Option<Summary>,
    pub memories: Vec<MemorySave>,
    pub messages: u64,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// Window tokens after it, after correction.
    pub tokens_after: u64,
    /// The oldest entry that is still in the window as itself.
    pub first_kept_seq: Option<Seq>,
    pub duration_ms: u64,
    /// After it a range still waits for a model: `Conversation::owes_run` of the core says which.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owes_run: bool,
    /// How many attempts it took; 0 in journals of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// What its calls of models took, by model; empty in journals of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

/// The end of a run as `cairn context` lists it: without the texts. The shape is the contract's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    pub run: RunId,
    pub trigger: Trigger,
    pub outcome: RunOutcome,
    pub reason: Option<String>,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// Window tokens after it, after correction.
    pub tokens_after: u64,
    pub messages: u64,
    /// The oldest entry that is still in the window as itself.
    pub first_kept_seq: Option<Seq>,
    pub duration_ms: u64,
    pub memories: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_size: Option<SummarySize>,
    /// When it ended; none of one that ended under an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many attempts it took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// What its calls of models took, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Size of a committed summary, and of what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarySize {
    /// Tokens of the summary in the window.
    pub tokens: u32,
    /// Tokens of the entries or summaries that it took the place of.
    pub source_tokens: u64,
    pub merge: bool,
}

impl RunEnd {
    pub fn to_outcome(&self) -> RunReport {
        RunReport {
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
            summary_size: None,
            ended_at: None,
            attempts: self.attempts,
            spent: self.spent.clone(),
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
