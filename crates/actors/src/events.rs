//! Events for watchers: `GET /v1/events`, the progress bar of a replay.

use cairn_types::event::{RunOutcome, TurnOutcome};
use cairn_types::ids::{ApprovalId, ChannelId, MessageId, RunId, TurnId};
use cairn_types::model::Usage;
use cairn_types::tier::Tier;
use cairn_types::tool::ToolOutcome;
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use jiff::Timestamp;
use serde::Serialize;

/// An event in a channel, sent after it is durable. A watcher that is too slow misses some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuntimeEvent {
    pub at: Timestamp,
    pub channel: ChannelId,
    #[serde(flatten)]
    pub kind: RuntimeEventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RuntimeEventKind {
    /// A turn took up messages.
    TurnStarted {
        turn: TurnId,
        messages: Vec<MessageId>,
    },
    TurnEnded {
        turn: TurnId,
        /// The outcome; its fields are on the same level as these.
        #[serde(flatten)]
        outcome: TurnOutcome,
        /// Tokens of all its model calls, as the provider reported them.
        usage: Usage,
        /// Window tokens after the turn, corrected.
        tokens: u64,
        /// `tokens` divided by the usable tokens.
        usage_ratio: f64,
        tier: Tier,
        duration_ms: u64,
    },
    ToolStarted {
        call: String,
        tool: String,
    },
    /// A tool call ended, or was refused.
    ToolEnded {
        turn: TurnId,
        call: String,
        tool: String,
        outcome: ToolOutcome,
        duration_ms: u64,
    },
    /// A tool call waits for an approval.
    ApprovalAsked {
        approval: Approval,
    },
    /// A request for approval was answered, or expired.
    ApprovalSettled {
        approval: ApprovalId,
        outcome: ApprovalOutcome,
    },
    /// The channel's tier changed.
    #[serde(rename = "tier")]
    TierChanged {
        from: Tier,
        to: Tier,
        /// Window tokens, corrected.
        tokens: u64,
        /// `tokens` divided by the usable tokens.
        usage_ratio: f64,
    },
    RunStarted {
        run: RunId,
        trigger: &'static str,
        tier: Tier,
        from_seq: u64,
        to_seq: u64,
        messages: u64,
        /// Window tokens when the run started, corrected.
        tokens_before: u64,
    },
    RunEnded {
        run: RunId,
        trigger: &'static str,
        outcome: RunOutcome,
        reason: Option<String>,
        /// The model that wrote the summary, if it was committed.
        made_by: Option<String>,
        messages: u64,
        memories: u64,
        /// Window tokens when the run started, corrected.
        tokens_before: u64,
        /// Window tokens when the run ended, corrected.
        tokens_after: u64,
        duration_ms: u64,
    },
    /// Old tool results are sent shorter from now on.
    Pruned {
        cause: &'static str,
        results: u64,
        scanned: u64,
        /// Window tokens before, corrected.
        tokens_before: u64,
        /// Window tokens after, corrected.
        tokens_after: u64,
    },
    /// The oldest turns left the window of an agent whose context engine has no summaries.
    WindowSlid {
        messages: u64,
        /// Window tokens before, corrected.
        tokens_before: u64,
        /// Window tokens after, corrected.
        tokens_after: u64,
    },
    /// An emergency dropped the oldest part of the window at once.
    Emergency {
        messages: u64,
        /// Window tokens before, corrected.
        tokens_before: u64,
        /// Window tokens after, corrected.
        tokens_after: u64,
    },
}

impl RuntimeEvent {
    /// The name of the server-sent event, as clients see it.
    pub fn name(&self) -> &'static str {
        match self.kind {
            RuntimeEventKind::TurnStarted { .. } => "turn_started",
            RuntimeEventKind::TurnEnded { .. } => "turn_ended",
            RuntimeEventKind::ToolStarted { .. } => "tool_started",
            RuntimeEventKind::ToolEnded { .. } => "tool_ended",
            RuntimeEventKind::ApprovalAsked { .. } => "approval_asked",
            RuntimeEventKind::ApprovalSettled { .. } => "approval_settled",
            RuntimeEventKind::TierChanged { .. } => "tier",
            RuntimeEventKind::RunStarted { .. } => "run_started",
            RuntimeEventKind::RunEnded { .. } => "run_ended",
            RuntimeEventKind::Pruned { .. } => "pruned",
            RuntimeEventKind::WindowSlid { .. } => "window_slid",
            RuntimeEventKind::Emergency { .. } => "emergency",
        }
    }
}
