//! Which run is due.

use jiff::Timestamp;

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::{Event, Run};

/// What the compactor should do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing.
    Idle,
    /// Nothing before that time (back-off after failures).
    WaitUntil(Timestamp),
    /// Propose this run to the channel.
    Start(Run),
}

/// The run that is due, if any. Order: none while one is under way; queued manual runs; a truncated marker's owed
/// run; the tier; a merge. Back-off after failures delays all but manual runs.
pub fn next_run(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision {
    let _ = (conversation, agent, now);
    todo!()
}

/// What a person's request for a compaction leads to: `RunStarted`, or `RunQueued` behind the one under way;
/// `None` when there is nothing to compact (all is within the reserved tail).
pub fn request_manual(
    conversation: &Conversation,
    agent: &AgentSettings,
    instruction: Option<String>,
    now: Timestamp,
) -> Option<Event> {
    let _ = (conversation, agent, instruction, now);
    todo!()
}
