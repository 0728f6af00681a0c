//! The tools of a channel's model: `memory_save`, `memory_search`, `history_search`, `history_read`.

use cairn_core::model::ToolDef;

/// The definitions of all built-in tools, for [`cairn_core::agent::AgentSettings::tools`].
pub fn builtin_tools() -> Vec<ToolDef> {
    Vec::new()
}
