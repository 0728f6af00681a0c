//! The approvals of tool servers, folded from the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ServerPin;

/// What operators approved, by the servers' ids: a fold of the journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins(pub BTreeMap<String, ServerPin>);
