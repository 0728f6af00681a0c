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
    /// The name by which models know the tool.
    pub tool: String,
    /// Where it comes from: `built-in`, `linked`, or the server's id.
    pub source: String,
    pub effect: Effect,
    pub description: String,
    /// The schema of its arguments.
    pub parameters: serde_json::Value,
}

/// A finished tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUseRecord {
    /// Number of its journal record, by which pages continue.
    pub n: u64,
    pub at: Timestamp,
    pub channel: ChannelId,
    /// The call; its fields are in this same object.
    #[serde(flatten)]
    pub used: ToolUse,
}

/// A tool call that waits for approval, or was just answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub channel: ChannelId,
    /// The answer; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    /// The request; its fields are in this same object.
    #[serde(flatten)]
    pub approval: Approval,
}

/// A server in `cairn mcp list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// Its status; the fields are in this same object.
    #[serde(flatten)]
    pub status: ServerStatus,
    pub source: ServerSource,
    pub version: Option<String>,
    pub tools: Vec<String>,
    pub agents: Vec<String>,
}

/// A server as it shows itself now, with what was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    pub server: ServerRecord,
    pub approved: Option<ServerPin>,
    /// What it shows now; the fields are in this same object.
    #[serde(flatten)]
    pub inspection: Inspection,
    /// Hash of what an approval would pin. The request to approve must name it.
    pub digest: String,
}
