//! The records of tools: `cairn tools`, `cairn mcp`.

use cairn_types::ids::ChannelId;
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use cairn_types::tool::mcp::status::{Inspection, ServerStatus};
use cairn_types::tool::mcp::{ServerPin, ServerSource};
use cairn_types::tool::{Effect, ToolUse};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRecord {
    pub agent: String,
    /// By the name that its model knows it by.
    pub tool: String,
    /// Where it comes from: `built-in`, `linked`, or the server's id.
    pub source: String,
    pub effect: Effect,
    pub description: String,
    /// The schema of its arguments.
    pub parameters: serde_json::Value,
}

/// A call of a tool that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUseRecord {
    /// Number of its journal record: pages go by it.
    pub n: u64,
    pub at: Timestamp,
    pub channel: ChannelId,
    /// The call; its fields stand beside these.
    #[serde(flatten)]
    pub used: ToolUse,
}

/// A call that waits for approval, or was just answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub channel: ChannelId,
    /// The answer; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    /// The request; its fields stand beside these.
    #[serde(flatten)]
    pub approval: Approval,
}

/// A server in `cairn mcp list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// How it is; its fields stand beside these.
    #[serde(flatten)]
    pub status: ServerStatus,
    pub source: ServerSource,
    pub version: Option<String>,
    pub tools: Vec<String>,
    pub agents: Vec<String>,
}

/// A server as it shows itself now, beside what was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    pub server: ServerRecord,
    pub approved: Option<ServerPin>,
    /// What it shows now; its fields stand beside these.
    #[serde(flatten)]
    pub inspection: Inspection,
    /// Hash of what an approval would pin: who approves sends it back.
    pub digest: String,
}
