//! The state of tool servers, and what they offer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Drift, ServerPin, Suspicion};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Not started: nothing needed it yet.
    Idle,
    Starting,
    Running,
    /// It failed; it is started again when it is next needed, after a pause.
    Failed,
    /// It has failed for a minute or longer, without a success since.
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
    /// What has changed since the approval, as far as is known. It is checked when the server is started.
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
