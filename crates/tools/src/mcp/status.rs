//! How servers are, what they offer, and what goes wrong with them.

use std::collections::BTreeMap;

use cairn_types::tool::Effect;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::mcp::{Drift, ServerPin, Suspicion};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Not started: nothing needed it yet.
    Idle,
    Starting,
    Running,
    /// It failed; it is started again when it is next needed, after a pause.
    Failed,
    /// It has failed for a minute or longer, and nothing has gone well since.
    Failing,
    Stopped,
}

impl ServerState {
    /// Its name in records and for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Failing => "failing",
            Self::Stopped => "stopped",
        }
    }
}

/// A server in `cairn mcp list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its id in the configuration.
    pub server: String,
    pub state: ServerState,
    pub approved: bool,
    /// What has changed since, as far as is known: it is looked at when the server is started.
    pub drift: Option<Drift>,
    pub reason: Option<String>,
    pub retry_at: Option<Timestamp>,
    pub failures: u32,
    /// Its process, when it is a child.
    pub pid: Option<u32>,
    pub calls: u32,
    /// The last lines that it wrote to its standard error.
    pub stderr: Vec<String>,
}

/// A tool that cannot be offered, whatever an operator approves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its name as the server gives it, shortened; without one: its place in the list.
    pub tool: String,
    pub reason: String,
}

/// A server as it shows itself now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    pub pin: ServerPin,
    /// What has changed since it was approved; `None`: it is not approved.
    pub drift: Option<Drift>,
    pub rejected: Vec<Rejected>,
    /// What is suspicious about its tools, rejected ones among them, by their names.
    pub suspicions: BTreeMap<String, Vec<Suspicion>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    pub server: String,
    pub tool: String,
    pub def: ToolDef,
    pub effect: Effect,
}

/// Why a server did not do what was asked. The words are for operators and models alike: they hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The configuration has no such server.
    #[error("no server `{0}` is configured; add it to [[mcp]]")]
    Unknown(String),
    /// It is not approved, or has changed since.
    #[error("{reason}; an operator can look at it with `cairn mcp show {server}` and approve it")]
    Blocked { server: String, reason: String },
    /// It cannot be started or reached.
    #[error("the server `{server}` does not start: {reason}")]
    Start { server: String, reason: String },
    /// It failed of late, and is skipped for a while.
    #[error("the server `{server}` is down ({reason}); it is tried again in {retry_secs} s")]
    Down {
        server: String,
        reason: String,
        /// Seconds until it is tried again.
        retry_secs: u64,
    },
    /// It broke off, or broke the protocol, while it was asked.
    #[error("the server `{server}` failed: {reason}")]
    Broken { server: String, reason: String },
    #[error("the server `{server}` did not answer within {secs} s")]
    TimedOut {
        server: String,
        /// Seconds.
        secs: u64,
    },
    /// It answered with an error.
    #[error("{0}")]
    Refused(String),
}
