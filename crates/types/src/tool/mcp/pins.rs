//! The approvals of tool servers, folded from the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ServerPin;

/// The approved servers, by their ids. Folded from the journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins(pub BTreeMap<String, ServerPin>);
