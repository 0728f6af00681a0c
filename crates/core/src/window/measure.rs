//! The measure of the window, region by region.

use super::Gauge;
use crate::agent::AgentSettings;
use crate::conversation::Conversation;

/// Measures the window as the next request would have it.
pub fn measure(conversation: &Conversation, agent: &AgentSettings) -> Gauge {
    let _ = (conversation, agent);
    todo!()
}
