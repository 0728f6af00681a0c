//! The one function that makes a request from a conversation.

use super::{Assembled, Tail};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;

/// Why no request can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// Prompt and tools alone do not fit.
    #[error(
        "system prompt and tools take {needed} of {usable} usable tokens: no room for a conversation; raise context_window or shorten the prompt"
    )]
    NoRoom {
        /// What prompt and tools take, after correction.
        needed: u64,
        /// Window less output reserve.
        usable: u64,
    },
}

/// Assembles the request for the open turn. It always fits: when it would not, tool results of the open turn are
/// shortened, largest first, then the turn is reduced to its latest user message, cut in the middle if need be.
///
/// # Errors
/// System prompt and tools alone do not fit.
pub fn assemble(
    conversation: &Conversation,
    agent: &AgentSettings,
    tail: &Tail,
) -> Result<Assembled, AssembleError> {
    let _ = (conversation, agent, tail);
    todo!()
}
