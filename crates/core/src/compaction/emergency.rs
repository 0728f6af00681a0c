//! The emergency: the oldest half leaves the window at once.

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::Event;

/// The emergency that is due, repeated until usage is under the threshold or only the open turn is left: whole
/// turns, the sealed part first. `None` when usage is below the threshold or nothing can leave.
pub fn emergency(conversation: &Conversation, agent: &AgentSettings) -> Option<Event> {
    let _ = (conversation, agent);
    todo!()
}
