//! What is shown of servers and of their tools.

use std::collections::BTreeMap;

use cairn_core::mcp::{Drift, ServerPin, Suspicion};
use cairn_core::model::ToolDef;
use cairn_core::tool::Effect;
use serde::{Deserialize, Serialize};

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
