//! The request of a run: its prompt, its transcript, its one tool.

use std::sync::Arc;

use crate::agent::AgentSettings;
use crate::event::Run;
use crate::message::Entry;
use crate::model::{ChatRequest, ToolDef};
use crate::summary::Summary;

/// The request for a run's model: transcript as data, names escaped, tool mechanics left out. `entries` for runs
/// over entries, `sources` for a merge; `channel` of the conversation.
pub fn compaction_request(
    channel: &crate::ids::ChannelId,
    agent: &AgentSettings,
    run: &Run,
    entries: Arc<[Arc<Entry>]>,
    sources: Arc<[Summary]>,
) -> ChatRequest {
    let _ = (channel, agent, run, entries, sources);
    todo!()
}

/// The tool by which a run (and a channel's model) saves memories.
pub fn memory_save_tool() -> ToolDef {
    todo!()
}
