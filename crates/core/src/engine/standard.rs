//! The standard engine: summaries in a levelled stack, made by runs in the background; the emergency.

use jiff::Timestamp;

use super::{ContextEngine, EngineInfo, MakeRoom, STANDARD};
use crate::agent::AgentSettings;
use crate::compaction::{Decision, next_run, relieve, relieve_on_overflow};
use crate::conversation::Conversation;
use crate::event::Event;

/// The standard engine. All it knows is in the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standard;

impl ContextEngine for Standard {
    fn info(&self) -> EngineInfo {
        let (name, version) = ("levelled summaries in the background", "1");
        EngineInfo { id: STANDARD, name, version, owns_compaction: false }
    }

    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        now: Timestamp,
    ) -> Vec<Event> {
        match cause {
            MakeRoom::Tier => relieve(conversation, agent, now),
            MakeRoom::Overflow => relieve_on_overflow(conversation, agent, now),
            // A run is asked for instead.
            MakeRoom::Manual => Vec::new(),
        }
    }

    fn after_turn(&self, conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision {
        next_run(conversation, agent, now)
    }
}
