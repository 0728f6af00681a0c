//! Notices: what the house tells whoever watches (`GET /v1/events`, the progress bar of a replay).

use cairn_core::approval::{Approval, ApprovalOutcome};
use cairn_core::event::{RunOutcome, TurnOutcome};
use cairn_core::ids::{ApprovalId, ChannelId, MessageId, RunId, TurnId};
use cairn_core::model::Usage;
use cairn_core::tier::Tier;
use cairn_core::tool::ToolOutcome;
use serde::Serialize;

/// Something happened in a channel. Told after it is durable; a watcher that is too slow misses some.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notice {
    /// Messages were taken up into a turn.
    TurnStarted {
        /// The channel.
        channel: ChannelId,
        /// The turn.
        turn: TurnId,
        /// The messages.
        messages: Vec<MessageId>,
    },
    /// A turn ended.
    TurnEnded {
        /// The channel.
        channel: ChannelId,
        /// The turn.
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
        /// The tier after it.
        tier: Tier,
        /// From its start to its end.
        duration_ms: u64,
    },
    /// A tool is called.
    ToolStarted {
        /// The channel.
        channel: ChannelId,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// A call of a tool ended, or was not made.
    ToolEnded {
        /// The channel.
        channel: ChannelId,
        /// The turn.
        turn: TurnId,
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// How.
        outcome: ToolOutcome,
        /// From the call to its end.
        duration_ms: u64,
    },
    /// A call waits for a person's yes.
    ApprovalAsked {
        /// The channel.
        channel: ChannelId,
        /// What is asked.
        approval: Approval,
    },
    /// A request for a yes came to its end.
    ApprovalSettled {
        /// The channel.
        channel: ChannelId,
        /// The request.
        approval: ApprovalId,
        /// How.
        outcome: ApprovalOutcome,
    },
    /// The channel is in another tier than before.
    #[serde(rename = "tier")]
    TierChanged {
        /// The channel.
        channel: ChannelId,
        /// The tier before.
        from: Tier,
        /// The tier now.
        to: Tier,
        /// Tokens of the window, after correction.
        tokens: u64,
        /// `tokens` of what is usable.
        usage_ratio: f64,
    },
    /// A compaction run began.
    RunStarted {
        /// The channel.
        channel: ChannelId,
        /// The run.
        run: RunId,
        /// What made it start.
        trigger: &'static str,
        /// The tier at that moment.
        tier: Tier,
        /// First entry of its range.
        from_seq: u64,
        /// Last entry of its range.
        to_seq: u64,
        /// Entries in its range.
        messages: u64,
        /// Window tokens when it began, after correction.
        tokens_before: u64,
    },
    /// A compaction run ended.
    RunEnded {
        /// The channel.
        channel: ChannelId,
        /// The run.
        run: RunId,
        /// What made it start.
        trigger: &'static str,
        /// How it ended.
        outcome: RunOutcome,
        /// Why, for people.
        reason: Option<String>,
        /// Who wrote the summary, when committed.
        made_by: Option<String>,
        /// Entries in its range.
        messages: u64,
        /// Memories committed with it.
        memories: u64,
        /// Window tokens when it began, after correction.
        tokens_before: u64,
        /// Window tokens after it, after correction.
        tokens_after: u64,
        /// How long it took.
        duration_ms: u64,
    },
    /// Old results of tools are sent shorter from here on.
    Pruned {
        /// The channel.
        channel: ChannelId,
        /// Why.
        cause: &'static str,
        /// Results that are.
        results: u64,
        /// Results that were looked at.
        scanned: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// The oldest turns left the window of an agent whose context engine has no summaries.
    WindowSlid {
        /// The channel.
        channel: ChannelId,
        /// Entries that left.
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
    /// The oldest part left the window at once.
    Emergency {
        /// The channel.
        channel: ChannelId,
        /// Entries that left.
        messages: u64,
        /// Window tokens before, after correction.
        tokens_before: u64,
        /// Window tokens after, after correction.
        tokens_after: u64,
    },
}

impl Notice {
    /// The name of the server-sent event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnEnded { .. } => "turn_ended",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolEnded { .. } => "tool_ended",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::ApprovalSettled { .. } => "approval_settled",
            Self::TierChanged { .. } => "tier",
            Self::RunStarted { .. } => "run_started",
            Self::RunEnded { .. } => "run_ended",
            Self::Pruned { .. } => "pruned",
            Self::WindowSlid { .. } => "window_slid",
            Self::Emergency { .. } => "emergency",
        }
    }

    /// The channel it is about.
    pub fn channel(&self) -> &ChannelId {
        match self {
            Self::TurnStarted { channel, .. }
            | Self::TurnEnded { channel, .. }
            | Self::ToolStarted { channel, .. }
            | Self::ToolEnded { channel, .. }
            | Self::ApprovalAsked { channel, .. }
            | Self::ApprovalSettled { channel, .. }
            | Self::TierChanged { channel, .. }
            | Self::RunStarted { channel, .. }
            | Self::RunEnded { channel, .. }
            | Self::Pruned { channel, .. }
            | Self::WindowSlid { channel, .. }
            | Self::Emergency { channel, .. } => channel,
        }
    }
}
