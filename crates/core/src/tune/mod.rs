//! Which settings suit a conversation: its sizes are replayed against candidates, without any model.
//!
//! [`simulate`] drives the decisions that the runtime makes itself ([`Conversation`](crate::conversation::Conversation)
//! with its fold, the agent's context engine, commits) over entries that have a size and no words. What only a model
//! decides is as it was in that conversation ([`Runs`]), or else assumed: a summary is as large as it is asked to be, and a
//! run takes [`ASSUMED_RUN_MS`]. Each run is one call.

mod billing;
mod candidate;
mod retention;
mod script;
mod sim;

pub use billing::{Billing, Block, Caching, MAX_BREAKPOINTS, PrefixCache, Rates};
pub use candidate::{Choice, RETENTION_TOLERANCE, TuneCandidate, choose, presets};
pub use retention::HALF_LIFE_TOKENS;
pub use script::{ASSUMED_RUN_MS, ConversationSizes, Runs, ScriptEntry, ScriptTurn, TuneStep};
pub use sim::{SimError, TuneOutcome, simulate};

#[cfg(test)]
mod tests;
