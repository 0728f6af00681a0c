//! Traces of calls of models: what the journal keeps of each, so that its request can be made again later, byte for byte.
//!
//! A trace names what the journal has already: the conversation as it was after a record, the memories that were recalled.
//! What it has not yet (prompt, schemas of tools, parameters) is journalled once, by its hash, and named by that. No words
//! of people are in a trace, but for what a compaction's model said before it was asked again ([`RunCall::added`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{RunId, Seq, TextId};
use crate::model::{ChatMessage, is_zero};
use crate::wire::format::Wire;

/// What a trace says of a call that was stopped, or that nobody waited for any more.
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

/// What a call of a model was made of.
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
    /// No tool could be called any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_call: bool,
    /// From the request to the first word, or the first call of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// From the request to its end.
    pub total_ms: u64,
    /// It waited for a place before: its person had as many calls at work as one may.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// At the prices of that time; none: the model had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Why it has no whole answer: the code of an error, or [`CUT_SHORT`]. None: it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Calls before it that took nothing, since a server refused them or did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<FailedTry>,
    /// Of a compaction: what it was to summarise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<RunCall>,
}

/// Calls of a model that took nothing, all of one turn that failed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
    pub model: String,
    /// The code of the error.
    pub error: String,
    pub n: u64,
}

impl FailedTry {
    /// Notes one more.
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
    /// The call within the talk over one chunk, from 1: further ones answer the model's calls of tools, or correct it.
    pub round: u32,
    /// The entries that it reads; none of a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<(Seq, Seq)>,
    /// Tokens that the summary was to keep within; 0 in journals of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_tokens: u64,
    /// Tools were offered before and are not any more: the model went on calling them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_withdrawn: bool,
    /// Placeholders stood in the place of identifiers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// What the talk went on with since its call before: the model's words, and what it was answered. These words expire
    /// and are erased like others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ChatMessage>,
}

/// What many calls have in common: by hash what is long, and all parameters of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallFrame {
    /// The version of the program that made the requests.
    pub version: String,
    /// The system prompt.
    pub prompt: TextId,
    /// Of a compaction: what the operator wants summaries to attend to.
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
