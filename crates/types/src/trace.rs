//! Traces of model calls: what the journal keeps of each, so that its request can be rebuilt later, byte for byte.
//!
//! A trace refers to what is already in the journal: the conversation after a given record, and the recalled memories. What
//! is not (prompt, tool schemas, parameters) is journalled once under its hash. A trace has no text of people, except what a
//! compaction's model said before it was asked again ([`RunCall::added`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{RunId, Seq, TextId};
use crate::model::{ChatMessage, is_zero};
use crate::wire::format::Wire;

/// [`CallTrace::failure`] of a call that was stopped, or that nobody waited for any more.
pub const CUT_SHORT: &str = "cut_short";

/// Hex digits of a hash that go into an id.
const ID_DIGITS: usize = 32;

impl TextId {
    /// The id of a text: the first half of its SHA-256.
    pub fn of(text: &str) -> Self {
        let hash = Sha256::digest(text);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::new(&hex[..ID_DIGITS])
    }
}

/// What a model call's request was made of, and how the call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTrace {
    /// The request shows the conversation as it was after that record.
    pub at_n: u64,
    /// When it was assembled: the time in its clock line.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub asked_at: Timestamp,
    /// The [`CallFrame`], as JSON.
    pub frame: TextId,
    /// Hash of the body as it was sent; none for the embedded model, and where the call ended before it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<TextId>,
    /// The model could not call tools any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_call: bool,
    /// From the request to the first text or tool call, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// From the request to its end, in milliseconds.
    pub total_ms: u64,
    /// Milliseconds that it waited before, because its person already had as many running calls as allowed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// The cost at the prices of that time; `None`: the model had no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Why it has no whole answer: the code of an error, or [`CUT_SHORT`]. `None`: the answer is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Earlier calls that used no tokens, because a server refused them or did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<FailedTry>,
    /// For a compaction: what it was to summarise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<RunCall>,
}

/// Calls of a model within one turn that used no tokens and failed with the same error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
    pub model: String,
    /// The code of the error.
    pub error: String,
    pub n: u64,
}

impl FailedTry {
    /// Counts one more failed call.
    pub fn note(tries: &mut Vec<Self>, model: &str, error: &str) {
        match tries.iter_mut().find(|known| known.model == model && known.error == error) {
            Some(known) => known.n += 1,
            None => tries.push(Self { model: model.to_owned(), error: error.to_owned(), n: 1 }),
        }
    }
}

/// The place of a call in its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCall {
    pub run: RunId,
    /// The number of the call within the exchange over one chunk, from 1. Later calls answer the model's tool calls, or
    /// correct it.
    pub round: u32,
    /// First and last of the entries that it reads; `None` for a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<(Seq, Seq)>,
    /// Tokens that the summary was to keep within; 0 in journals of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_tokens: u64,
    /// Tools are not offered any more, because the model kept calling them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_withdrawn: bool,
    /// Identifiers were replaced by placeholders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// Messages of the exchange since the previous call: the model's, and the answers to it. Their text expires and is erased
    /// like other text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ChatMessage>,
}

/// What many calls have in common: long texts by their hash, and all parameters of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallFrame {
    /// The version of the program that made the requests.
    pub version: String,
    /// The system prompt.
    pub prompt: TextId,
    /// For a compaction: the operator's instructions for summaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<TextId>,
    /// The tools, as a JSON list; none: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<TextId>,
    pub engine: String,
    pub timezone: String,
    pub window_tokens: u64,
    /// Tokens of the window that are kept for the answer.
    pub reserve_tokens: u64,
    pub wire: Wire,
}
