//! Turns as the journal knows them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, MemoryId, MessageId, Seq, SeqRange, TurnId};
use crate::message::Entry;
use crate::model::Usage;
use crate::tool::ToolUse;
use crate::trace::CallTrace;
use crate::window_bounds::WindowBounds;

/// A turn, from the messages that it takes up to its end; the model that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// Pending messages were taken up into a turn, in this order, with consecutive numbers from `first_seq`.
    #[serde(rename = "turn_started")]
    Started { turn: TurnId, messages: Vec<MessageId>, first_seq: Seq },
    /// The model or a tool added an entry to the open turn.
    EntryAdded { entry: Entry },
    /// A call of the model ended, in whichever way, and took this.
    UsageReported {
        /// The model, by its id in the configuration.
        model: String,
        /// What we had estimated for the whole request, before correction.
        estimated: u64,
        /// What the provider said, or our own estimate where it said nothing, or nothing that can be true.
        usage: Usage,
        /// What the provider said that cannot be true: it counts for nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disbelieved: Option<Usage>,
        /// The provider has not reported it, or not all of it: the answer was cut short.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_estimate: bool,
        /// What the configuration set as the model's window then; 0: nothing. None in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_window: Option<u64>,
        /// Whose messages the call was to answer (`PLATFORM/USER`); empty in journals of earlier versions.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        caused_by: BTreeSet<String>,
        /// What it was made of; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Box<CallTrace>>,
    },
    /// A call of a tool ended. Its result is an entry of its own.
    ToolUsed(ToolUse),
    /// Another model of the chain answers in this channel from here on.
    ModelChosen {
        /// The model, by its id in the configuration.
        model: String,
        reason: String,
    },
    /// A model's server said or showed something of the model that the configuration does not know.
    ModelLearnt(ModelNews),
    /// A model's server refuses something of the older history: that range is left out of requests to it.
    HistoryWithheld {
        /// The model, by its id in the configuration.
        model: String,
        /// None: nothing is left out any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<SeqRange>,
    },
    #[serde(rename = "turn_ended")]
    Ended(TurnEnd),
    /// The last turn, which had ended without an answer, is open again: its message was sent again.
    #[serde(rename = "turn_reopened")]
    Reopened { turn: TurnId, messages: Vec<MessageId> },
    /// The daemon found the turn open at a start after an unclean stop.
    #[serde(rename = "turn_interrupted")]
    Interrupted { turn: TurnId },
    /// `/undo`: the last turn is archived.
    #[serde(rename = "turn_undone")]
    Undone { turn: TurnId, from_seq: Seq, to_seq: Seq },
    /// `/new`: everything so far is archived.
    #[serde(rename = "generation_started")]
    SessionStarted {
        /// The new generation.
        generation: Generation,
    },
}

/// What was learnt of a model from its server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelNews {
    /// The model, by its id in the configuration.
    pub model: String,
    /// Its window in tokens, when it was named, or bounded by what was taken and refused, or by what was read whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// What the configuration or the server's list said of it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_of: Option<u64>,
    /// It refuses tools; `false`: that was a while ago, and they are offered to it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tools: Option<bool>,
    /// What it has taken and refused, where it refused a request without naming its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<WindowBounds>,
    /// The server cuts requests that are larger than its window, and does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The configuration sets another window than before: what reports and refusals taught of its size counts no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgets: bool,
}

/// How a turn ended, with what a repeated request is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub turn: TurnId,
    pub outcome: TurnOutcome,
    /// The model that answered, by its id in the configuration; of a turn without an answer, the one that was called last.
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
