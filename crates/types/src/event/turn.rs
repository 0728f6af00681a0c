//! Turns as the journal records them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, MemoryId, MessageId, Seq, SeqRange, TurnId};
use crate::message::Entry;
use crate::model::Usage;
use crate::tool::ToolUse;
use crate::trace::CallTrace;
use crate::window_bounds::WindowBounds;

/// Events of a turn, from its messages to its end, and of the model that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// A turn took up pending messages, in this order, with consecutive numbers from `first_seq`.
    #[serde(rename = "turn_started")]
    Started { turn: TurnId, messages: Vec<MessageId>, first_seq: Seq },
    /// The open turn took up pending messages between two of its rounds, in this order, with consecutive numbers from
    /// `first_seq`.
    #[serde(rename = "turn_joined")]
    Joined { turn: TurnId, messages: Vec<MessageId>, first_seq: Seq },
    /// The model or a tool added an entry to the open turn.
    EntryAdded { entry: Entry },
    /// A model call ended, with or without success, and used these tokens.
    UsageReported {
        /// The model, by its id in the configuration.
        model: String,
        /// Our estimate for the whole request, before correction.
        estimated: u64,
        /// As the provider reported it; our own estimate if it reported nothing, or nothing that can be true.
        usage: Usage,
        /// A report of the provider that cannot be true and is not counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disbelieved: Option<Usage>,
        /// The provider did not report it, or not all of it, because the answer was cut short.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_estimate: bool,
        /// The model's window that was configured at that time, in tokens; 0: none. `None` in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_window: Option<u64>,
        /// The people (`PLATFORM/USER`) whose messages the call answers; empty in journals of earlier versions.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        caused_by: BTreeSet<String>,
        /// How the request can be rebuilt; `None` in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Box<CallTrace>>,
    },
    /// A tool call ended. Its result is an entry of its own.
    ToolUsed(ToolUse),
    /// Another model of the chain answers in this channel from here on.
    ModelChosen {
        /// The model, by its id in the configuration.
        model: String,
        reason: String,
    },
    /// A model's server revealed something about the model that the configuration does not say.
    ModelLearnt(ModelNews),
    /// A model's server refuses something in the older history. Requests to it leave out this range.
    HistoryWithheld {
        /// The model, by its id in the configuration.
        model: String,
        /// None: nothing is left out any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<SeqRange>,
    },
    #[serde(rename = "turn_ended")]
    Ended(TurnEnd),
    /// The last turn, which had ended without an answer, is open again because its message was sent again.
    #[serde(rename = "turn_reopened")]
    Reopened { turn: TurnId, messages: Vec<MessageId> },
    /// The daemon found the turn open when it started after an unclean stop.
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

/// What a model's server revealed about the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelNews {
    /// The model, by its id in the configuration.
    pub model: String,
    /// Its window in tokens, if the server named it, or as bounded by accepted and refused requests, or by what the server
    /// read of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// The window in tokens that was configured, or listed by the server, at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_of: Option<u64>,
    /// `true`: it refuses tools. `false`: the refusal is old, and it is offered tools again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tools: Option<bool>,
    /// Sizes of accepted and refused requests, if the server refused one without naming its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<WindowBounds>,
    /// The server silently cuts requests that are larger than its window.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The configured window has changed: the size learnt from reports and refusals is discarded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgets: bool,
}

impl TurnEvent {
    /// The first and the last number that it gives to entries; `None`: it gives none.
    pub fn numbers(&self) -> Option<(Seq, Seq)> {
        match self {
            Self::Started { messages, first_seq, .. } | Self::Joined { messages, first_seq, .. } => {
                let n = u64::try_from(messages.len()).ok().filter(|n| *n > 0)?;
                Some((*first_seq, Seq(first_seq.0 + n - 1)))
            }
            Self::EntryAdded { entry } => Some((entry.seq, entry.seq)),
            _ => None,
        }
    }
}

/// How a turn ended, with the data for answering a repeated request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub turn: TurnId,
    pub outcome: TurnOutcome,
    /// The model that answered, by its id in the configuration; for a turn without an answer, the one that was called last.
    pub model: Option<String>,
    /// Tokens of all model calls of the turn.
    pub usage: Usage,
    /// The memories that were in its window.
    pub recalled: Vec<MemoryId>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// Answered by the entry `reply`.
    Answered {
        reply: Seq,
    },
    /// A turn without an answer: messages that were not addressed to the bot.
    Unanswered,
    /// The model chose to say nothing, in a group. Its entry is in the history; nothing was posted for it.
    Silent,
    Failed {
        /// The code of a typed error.
        code: String,
        message: String,
    },
    Stopped,
    /// Given up because three unclean stops left it open.
    DeadLettered,
}
