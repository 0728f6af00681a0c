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
    /// Why.
    pub reason: String,
}

/// A server as it shows itself now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// What an approval would pin.
    pub pin: ServerPin,
    /// What has changed since it was approved; `None`: it is not approved.
    pub drift: Option<Drift>,
    /// Tools that are not in the pin.
    pub rejected: Vec<Rejected>,
    /// What is suspicious about its tools, rejected ones among them, by their names.
    pub suspicions: BTreeMap<String, Vec<Suspicion>>,
}

/// A tool of an approved server.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// The server's id.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    /// As models see it.
    pub def: ToolDef,
    /// What calling it does.
    pub effect: Effect,
}
