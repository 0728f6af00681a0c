//! What the result of a run is worth.

use jiff::Timestamp;

use super::{Draft, Next};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::{Event, Run, RunOutcome};
use crate::ids::RunId;

/// Why a draft is not fit to be a summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no words.
    #[error("the summary is empty")]
    Empty,
    /// It is as long as what it stands for, or longer.
    #[error("the summary has {summary} tokens, its source {source_tokens}")]
    Grown {
        /// Tokens of the summary.
        summary: u64,
        /// Tokens of its source.
        source_tokens: u64,
    },
    /// The model was cut off.
    #[error("the summary was cut off")]
    Truncated,
    /// It is not a summary: a tool call written as text, a refusal, a bare code fence.
    #[error("the summary is malformed: {0}")]
    Malformed(&'static str),
}

/// Checks a draft against its source (estimated tokens, before correction).
///
/// # Errors
/// Why it is not fit.
pub fn check(draft: &Draft, source_tokens: u64) -> Result<(), Rejection> {
    let _ = (draft, source_tokens);
    todo!()
}

/// The end of a run with a checked draft: committed, or superseded when its range has a summary already or is of
/// an older generation. Never an error: a late result of a run that is no longer under way yields `None`.
/// `direct_with`: see [`crate::memory::Scope::learnt_in`].
pub fn commit(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &RunId,
    draft: Draft,
    direct_with: Option<&str>,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let _ = (conversation, agent, run, draft, direct_with, now);
    todo!()
}

/// A failed attempt: the event to journal and what comes next.
pub fn fail_attempt(
    run: &Run,
    agent: &AgentSettings,
    reason: &str,
    retry_after_ms: Option<u64>,
    now: Timestamp,
) -> (Event, Next) {
    let _ = (run, agent, reason, retry_after_ms, now);
    todo!()
}

/// Ends the run under way without a commit; what is still sealed is live again.
pub fn give_up(
    conversation: &Conversation,
    agent: &AgentSettings,
    outcome: RunOutcome,
    reason: &str,
    now: Timestamp,
) -> Option<Event> {
    let _ = (conversation, agent, outcome, reason, now);
    todo!()
}

/// `give_up` with the outcome for a run whose range has been dealt with otherwise.
pub fn supersede(
    conversation: &Conversation,
    agent: &AgentSettings,
    reason: &str,
    now: Timestamp,
) -> Option<Event> {
    give_up(conversation, agent, RunOutcome::Superseded, reason, now)
}
