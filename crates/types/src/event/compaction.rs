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

/// Events that make room in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompactionEvent {
    /// A run began: its range is sealed.
    RunStarted { run: Run },
    /// A run was requested while another one was active, or is due after an emergency.
    RunQueued { request: RunRequest },
    /// An attempt of a run failed; the run continues with the next attempt.
    RunAttemptFailed {
        run: RunId,
        /// The attempt that failed, from 1.
        attempt: u32,
        reason: String,
        /// When the next attempt may start.
        retry_at: Timestamp,
    },
    /// A chunk of a long run is finished.
    RunCheckpointed {
        run: RunId,
        /// The result of its chunks so far.
        checkpoint: Checkpoint,
    },
    /// A run ended. When it was committed, this one record carries the summary and its memories.
    RunEnded(RunEnd),
    /// The oldest turns were dropped from the window immediately.
    EmergencyApplied {
        /// The marker that replaces them. Adjacent truncated markers are already joined into it.
        marker: Marker,
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// Only in journals of earlier versions: the stack exceeded its share, and one leading marker replaced its oldest items.
    StackRetired {
        /// The marker that now leads the stack. It covers all items within its range.
        marker: Marker,
    },
    /// A context engine without summaries dropped the oldest turns.
    WindowSlid {
        /// The marker that now leads the stack. It covers everything older.
        marker: Marker,
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// Old tool results are sent shortened from here on. The stored results stay whole.
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
    /// A compaction run used tokens, outside of any turn.
    UsageSpent {
        /// The model, by its id in the configuration.
        model: String,
        /// As the provider reported it; our estimate if it reported nothing.
        usage: Usage,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_estimate: bool,
        /// How the request can be rebuilt; `None` in journals of earlier versions.
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
    /// A summary was made without a model and must be replaced.
    Provisional,
}

impl Trigger {
    /// Whether the run never blocks others, because nobody waits for it and nothing is lost while it fails.
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
    /// Entries that left the window before a model had summarised them. A marker or a provisional summary covers them.
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
    /// What a person asked the summary to focus on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    pub started_at: Timestamp,
    /// The attempt under way, from 1.
    pub attempt: u32,
    /// The earliest start of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Window tokens when it began, after correction.
    pub tokens_before: u64,
    /// The finished part. The run resumes from there after a retry, a restart or a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// It was requested in the chat, and the chat is told how it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The summary that a person asked to have rebuilt from its entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<SummaryId>,
    /// Tokens of its model calls so far, by model. It is set only when the journal is folded: no `RunStarted` record has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

impl Run {
    /// Whether a digest replaces the summary if no model can write it. Otherwise the run ends as failed, and the window stays
    /// as it is.
    pub fn takes_digest(&self) -> bool {
        !self.trigger.is_deferrable() && self.replaces.is_none()
    }
}

/// The result of the finished chunks of a long run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub chunks: u32,
    pub to_seq: Seq,
    pub text: String,
    pub made_by: String,
    pub memories: Vec<DraftMemory>,
    /// Messages that were too large to be shown to a model. Their digests are added at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Seq>,
}

/// A run that waits until the active one ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    pub trigger: Trigger,
    /// What a person asked the summary to focus on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// It was requested in the chat, and the chat is told how it ends.
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
    /// The oldest entry in the window that no summary or marker replaces.
    pub first_kept_seq: Option<Seq>,
    pub duration_ms: u64,
    /// Whether a range still waits to be summarised by a model after the run: see `Conversation::owes_run` of the core.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owes_run: bool,
    /// How many attempts it took; 0 in journals of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Tokens of its model calls, by model; empty in journals of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

/// The end of a run as `cairn context` lists it, without the texts. Scripts rely on its shape.
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
    /// The oldest entry in the window that no summary or marker replaces.
    pub first_kept_seq: Option<Seq>,
    pub duration_ms: u64,
    pub memories: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_size: Option<SummarySize>,
    /// When it ended; `None` if it ended under an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many attempts it took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Tokens of its model calls, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent: BTreeMap<String, Usage>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Size of a committed summary, and of what it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarySize {
    /// Tokens of the summary in the window.
    pub tokens: u32,
    /// Tokens of the entries or summaries that it replaced.
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

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The summary is in the stack.
    Committed,
    /// The summary that it made was unusable.
    Rejected,
    Failed,
    /// Its range no longer needed it, or changed meanwhile.
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
