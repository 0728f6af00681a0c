//! The records of a past turn, run or request: `cairn explain`.

use cairn_core::conversation::Conversation;
use cairn_core::trace::Gap;
use cairn_types::event::{RunOutcome, Trigger, TurnOutcome};
use cairn_types::ids::{ApprovalId, ChannelId, MemoryId, MessageId, RunId, Seq, SummaryId, TurnId};
use cairn_types::message::{Author, Finish};
use cairn_types::model::Usage;
use cairn_types::summary::{LookupTools, StackItem, marker_text};
use cairn_types::tool::ToolUse;
use cairn_types::trace::{CallFrame, CallTrace, FailedTry};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A turn: what was asked, recalled, called and answered, and what each part took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub channel: ChannelId,
    /// What people see as the name of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub turn: TurnId,
    /// The turn before it in the channel; `after`: the turn after it.
    pub before: Option<TurnId>,
    pub after: Option<TurnId>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `answered`, `unanswered`, `failed`, `stopped`, `dead_lettered`; `open` until it ends.
    pub outcome: String,
    /// Why there is no answer.
    pub failure: Option<String>,
    /// `/undo` took it back.
    pub undone: bool,
    /// Unclean stops that found it open.
    pub interruptions: u32,
    pub delivered_at: Option<Timestamp>,
    pub question: Vec<SaidRecord>,
    pub answer: Option<SaidRecord>,
    pub recalled: Vec<RecalledRecord>,
    /// The best memories that were left out.
    pub near: Vec<RecalledRecord>,
    /// What was quoted of entries that had left the window, best first.
    #[serde(default)]
    pub quotes: Vec<QuoteRecord>,
    /// The summaries and markers that replaced older entries at its first call, oldest first.
    pub stands: Vec<StandsRecord>,
    /// First and last of the entries that the first call showed unsummarised.
    pub entries: Option<(Seq, Seq)>,
    pub calls: Vec<CallRecord>,
    /// Calls of compactions that ended after it started and before the next turn did.
    pub beside: Vec<CallRecord>,
    pub tools: Vec<ToolCallRecord>,
    /// How its time was spent.
    pub times: Vec<StageRecord>,
    pub usage: Usage,
    /// At the prices of that time; `None`: no model had a price.
    pub cost: Option<f64>,
    /// The currency of the prices; empty if the configuration does not name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub currency: String,
    /// What is not known any more, and why.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaidRecord {
    pub seq: Seq,
    pub at: Timestamp,
    pub author: Option<Author>,
    pub message: Option<MessageId>,
    /// Why an answer ended, if the model did not end it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    pub text: String,
}

/// A part of an entry that was quoted at the end of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuoteRecord {
    pub seq: Seq,
    /// `None`: the entry is not there any more.
    pub at: Option<Timestamp>,
    /// `None`: the model said it.
    pub author: Option<Author>,
    /// How well the entry fits the question.
    pub score: f64,
    /// What is quoted, in the words that the entry has now.
    pub text: Option<String>,
}

/// A memory that was put into the window, or almost was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecalledRecord {
    pub id: MemoryId,
    /// Its text at that time; `None`: it was forgotten since.
    pub text: Option<String>,
    pub kind: Option<String>,
    pub subject: Option<String>,
    pub created_at: Option<Timestamp>,
    /// How well it fits the question; `None` in journals of earlier versions.
    pub score: Option<f64>,
    /// Words of the question by which it was found.
    pub words: Vec<String>,
    /// Its text has changed since.
    pub changed: bool,
}

/// A summary, or the marker that an emergency or another engine put in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandsRecord {
    /// `None`: a marker, for messages that no summary covers yet.
    pub id: Option<SummaryId>,
    pub level: u32,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    pub tokens: u32,
    pub made_by: Option<String>,
    pub provisional: bool,
    /// Its first line that is neither empty nor a heading.
    pub line: String,
}

/// A model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// From 1.
    pub call: usize,
    pub model: String,
    /// Why this model answered; `None`: it is the first of the chain.
    pub why: Option<String>,
    pub ended_at: Timestamp,
    /// Our own estimate of the request, before correction.
    pub estimated: u64,
    pub usage: Usage,
    /// The provider did not report it, or not all.
    pub is_estimate: bool,
    /// Share of the request that came from the provider's cache.
    pub cached_share: f64,
    /// Tools that it called.
    pub tools: usize,
    /// Why its answer ended, if the model did not end it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Failed calls before it.
    pub tried: Vec<FailedTry>,
    pub trace: Option<CallTrace>,
    /// The prompt, tools and parameters of its request.
    pub frame: Option<CallFrame>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    pub tool: String,
    pub outcome: String,
    pub error: Option<String>,
    pub arguments: serde_json::Value,
    pub duration_ms: u64,
    pub bytes: u64,
    pub approval: Option<ApprovalId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub part: String,
    pub ms: u64,
}

/// A compaction run: what started it, what it read and called, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunExplanation {
    pub channel: ChannelId,
    /// What people see as the name of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_name: Option<String>,
    pub run: RunId,
    pub trigger: Trigger,
    /// First of the entries that it was to summarise, or that the summaries it was to merge cover; `to_seq`: the last.
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    /// For a merge: its source summaries.
    pub sources: Vec<SummaryId>,
    pub instruction: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `None` until it ends.
    pub outcome: Option<RunOutcome>,
    pub reason: Option<String>,
    pub summary: Option<SummaryId>,
    /// Memories that it saved.
    pub memories: u64,
    pub tokens_before: u64,
    pub tokens_after: Option<u64>,
    /// Finished chunks of a long run.
    pub chunks: u64,
    pub failed: Vec<FailedAttempt>,
    pub calls: Vec<CallRecord>,
    pub usage: Usage,
    /// At the prices of that time; `None`: no model had a price.
    pub cost: Option<f64>,
    /// The currency of the prices; empty if the configuration does not name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub currency: String,
    /// What is not known any more, and why.
    pub missing: Vec<String>,
}

/// A failed attempt of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub at: Timestamp,
    pub attempt: u32,
    pub reason: String,
}

/// What a call was made for, as a field `turn` or `run` with its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOf {
    Turn(TurnId),
    Run(RunId),
}

impl std::fmt::Display for CallOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turn(turn) => turn.fmt(f),
            Self::Run(run) => run.fmt(f),
        }
    }
}

/// The rebuilt request of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptRecord {
    pub channel: ChannelId,
    #[serde(flatten)]
    pub of: CallOf,
    /// From 1.
    pub call: usize,
    /// Calls of the turn, or of the run.
    pub calls: usize,
    pub model: String,
    /// The body is the one that was sent, byte for byte, as its hash proves.
    pub exact: bool,
    /// Why the body is not exact, for people.
    pub why_not: Vec<String>,
    /// What could not be rebuilt, for programs.
    pub gaps: Vec<Gap>,
    /// The body of the request.
    pub body: String,
    /// The body, part by part.
    pub regions: Vec<RegionRecord>,
}

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RegionRecord {
    /// `parameters`, `tools`, `system`, `guide`, `summary`, `marker`, `user`, `assistant`, `tool`, `context`.
    pub kind: String,
    /// The summary's id, or the call of a tool's result.
    pub id: Option<String>,
    pub text: String,
}

/// How a request differs from another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptDiff {
    pub channel: ChannelId,
    pub turn: TurnId,
    pub call: usize,
    /// The turn and call that it is compared with; `None`: there is none before it.
    pub against: Option<(TurnId, usize)>,
    /// Both requests are exact. If not, some differences may come only from that.
    pub exact: bool,
    pub why_not: Vec<String>,
    /// Regions in order. Unchanged ones have no lines.
    pub regions: Vec<RegionDiff>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionDiff {
    pub kind: String,
    pub id: Option<String>,
    pub change: Change,
    pub lines: Vec<LineDiff>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Same,
    Added,
    Removed,
    Changed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineDiff {
    pub change: Change,
    pub text: String,
}

/// The outcome's name, and why there is no answer.
pub fn turn_outcome(outcome: Option<&TurnOutcome>) -> (&'static str, Option<String>) {
    match outcome {
        None => ("open", None),
        Some(TurnOutcome::Answered { .. }) => ("answered", None),
        Some(TurnOutcome::Unanswered) => ("unanswered", None),
        Some(TurnOutcome::Silent) => ("silent", None),
        Some(TurnOutcome::Failed { code, message }) => ("failed", Some(format!("{code}: {message}"))),
        Some(TurnOutcome::Stopped) => ("stopped", None),
        Some(TurnOutcome::DeadLettered) => ("dead_lettered", None),
    }
}

impl ToolCallRecord {
    pub fn of(used: &ToolUse) -> Self {
        Self {
            tool: used.tool.clone(),
            outcome: used.outcome.name().to_owned(),
            error: used.error.clone(),
            arguments: used.arguments.clone(),
            duration_ms: used.duration_ms,
            bytes: used.bytes,
            approval: used.approval.clone(),
        }
    }
}

/// The summaries and markers that replace older entries of a conversation, oldest first.
pub fn stands(conversation: &Conversation) -> Vec<StandsRecord> {
    let items = conversation.stack.items().iter();
    items.map(|item| StandsRecord::of(item, conversation)).collect()
}

impl StandsRecord {
    fn of(item: &StackItem, conversation: &Conversation) -> Self {
        let (from_seq, to_seq) = item.range();
        let (tokens, messages) = (item.tokens(), conversation.count(from_seq, to_seq));
        match item {
            StackItem::Summary(summary) => Self {
                id: Some(summary.id.clone()),
                level: summary.level,
                from_seq,
                to_seq,
                messages,
                tokens,
                made_by: Some(summary.made_by.clone()),
                provisional: summary.provisional,
                line: first_line(&summary.text),
            },
            StackItem::Marker(marker) => Self {
                id: None,
                level: 0,
                from_seq,
                to_seq,
                messages,
                tokens,
                made_by: None,
                provisional: false,
                line: first_line(&marker_text(marker, LookupTools { reads: false, searches: false })),
            },
        }
    }
}

/// The first line that is neither empty nor a heading.
fn first_line(text: &str) -> String {
    let says = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let line = text.lines().map(str::trim).find(says).unwrap_or_default();
    line.trim_start_matches(['-', '*', ' ']).to_owned()
}
