//! What a reload changed: `cairn reload`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A key with another value than before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyChange {
    /// The key, with the ids of its tables: `agents[main].compaction.background_threshold`.
    pub key: String,
    /// The previous value; null: the key was not set.
    pub from: Value,
    /// The new value; null: the key is not set. Secrets and prompts are not shown.
    pub to: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    pub changed: Vec<KeyChange>,
    /// Changes in the file that need a restart.
    pub needs_restart: Vec<KeyChange>,
    /// What works but is probably not meant.
    pub warnings: Vec<String>,
}
