//! How tool results are treated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the results of a tool are treated when they arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultClass {
    #[default]
    Auto,
    /// All but the smallest become artifacts (browsers).
    AlwaysOffload,
    /// The newest stays whole while it leaves room; it becomes a reference when pruned (file readers).
    KeepRecent,
}
