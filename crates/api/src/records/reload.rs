//! What a reload changed: `cairn reload`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A key with another value than before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyChange {
    /// The key, with the ids of what it belongs to: `agents[main].compaction.background_threshold`.
    pub key: String,
    /// What it was; null: it was not there.
    pub from: Value,
    /// What it is; null: it is not there. Secrets and prompts are not shown.
    pub to: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    pub changed: Vec<KeyChange>,
    /// What the file says and only a restart brings about.
    pub needs_restart: Vec<KeyChange>,
    /// What works but is probably not meant.
    pub warnings: Vec<String>,
}
