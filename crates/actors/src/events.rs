//! What the runtime tells those who watch it: `GET /v1/events`, the progress bar of a replay.

use cairn_types::event::{RunOutcome, TurnOutcome};
use cairn_types::ids::{ApprovalId, ChannelId, MessageId, RunId, TurnId};
use cairn_types::model::Usage;
use cairn_types::tier::Tier;
use cairn_types::tool::ToolOutcome;
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use jiff::Timestamp;
use serde::Serialize;

/// Something happened in a channel. Told after it is durable; a watcher that is too slow misses some.
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
    /// Messages were taken up into a turn.
    TurnStarted {
        turn: TurnId,
        messages: Vec<MessageId>,
    },
    TurnEnded {
        turn: TurnId,
        /// How; its fields stand beside these.
        #[serde(flatten)]
        outcome: TurnOutcome,
        /// Tokens of all its model calls, as the provider reported them.
        usage: Usage,
        /// Tokens of the window after it, after correction.
        tokens: u64,
        /// `tokens` of what is usable.
        usage_ratio: f64,
        tier: Tier,
        duration_ms: u64,
    },
    ToolStarted {
        call: String,
        tool: String,
    },
    /// A call of a tool ended, or was not made.
    ToolEnded {
        turn: TurnId,
        call: String,
        tool: String,
        outcome: ToolOutcome,
        duration_ms: u64,
    },
    /// A call waits for an approval.
    ApprovalAsked {
        approval: Approval,
    },
    /// A request for an approval came to its end.
    ApprovalSettled {
        approval: ApprovalId,
        outcome: ApprovalOutcome,
    },
    /// The channel is in another tier than before.
    #[serde(rename = "tier")]
    TierChanged {
        from: Tier,
        to: Tier,
        /// Tokens of the window, after correction.
        tokens: u64,
        /// `tokens` of what is usable.
        usage_ratio: f64,
    },
    RunStarted {
        run: RunId,
        trigger: &'static str,
        tier: Tier,
        from_seq: u64,
        to_seq: u64,
        messages: u64,
        /// Window tokens when it began, after correction.
        tokens_before: u64,
    },
    RunEnded {
        run: RunId,
        trigger: &'static str,
        outcome: RunOutcome,
        reason: Option<String>,
        /// Who wrote the summary, when committed.
        made_by: Option<String>,
        messages: u64,
        memories: u64,
        /// Window tokens when it began, after correction.
        tokens_before: u64,
        /// Window tokens after it, after correction.
        tokens_after: u64,
        duration_ms: u64,
    },
    /// Old results of tools are sent shorter from here on.
    Pruned {
        cause: &'static str,
        results: u64,
        scanned: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// The oldest turns left the window of an agent whose context engine has no summaries.
    WindowSlid {
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// The oldest part left the window at once.
    Emergency {
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
}

impl RuntimeEvent {
    /// The name of the server-sent event.
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
