//! The end of a turn as the journal knows it.

use serde::{Deserialize, Serialize};

use crate::ids::{MemoryId, Seq, TurnId};
use crate::model::Usage;

/// How a turn ended, with what a repeated request is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub turn: TurnId,
    pub outcome: TurnOutcome,
    /// The model that answered, by its id in the configuration.
    pub model: Option<String>,
    /// Tokens of all model calls of the turn.
    pub usage: Usage,
    /// The memories that were in its window.
    pub recalled: Vec<MemoryId>,
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// Answered by the entry `reply`.
    Answered {
        reply: Seq,
    },
    /// A turn without an answer: messages that were not addressed to the bot.
    Unanswered,
    Failed {
        /// Typed error.
        code: String,
        message: String,
    },
    Stopped,
    /// Given up after three unclean stops with it open.
    DeadLettered,
}
