//! Traces of calls of models: what the journal keeps of each, so that its request can be made again later, byte for byte.
//!
//! A trace names what the journal has already: the conversation as it was after a record, the memories that were recalled.
//! What it has not yet (prompt, schemas of tools, parameters) is journalled once, by its hash, and named by that. No words
//! of people are in a trace, but for what a compaction's model said before it was asked again ([`RunCall::added`]).

mod of_run;
mod rebuild;
mod story;
#[cfg(test)]
mod tests;
mod which;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::agent::AgentSettings;
use crate::ids::{RunId, Seq, TextId};
use crate::model::{ChatMessage, is_zero};
use crate::tool_defs::ToolDefs;

pub use of_run::{RunStory, is_of_run, run_story};
pub use rebuild::{Gap, Inputs, Rebuilt, rebuild};
pub use story::{Stage, Story, StoryCall, Told, story};
pub use which::{TurnRecords, WhichTurn};

/// What a trace says of a call that was stopped, or that nobody waited for any more.
pub const CUT_SHORT: &str = "cut_short";

/// The remedy of a wire by which a request has the last message alone, as a last resort ([`Wire::remedies`]).
pub const LAST_MESSAGE: &str = "last_message";

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

/// How a model's server is spoken to: all of a body that does not come from the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    pub format: WireFormat,
    /// The model, as its server knows it.
    pub model: String,
    pub images: bool,
    pub tools: bool,
    pub stream: bool,
    /// The field that bounds the answer, where formats have several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit_key: String,
    /// How long the server is to keep what it has read, in seconds.
    pub cache_ttl_secs: u64,
    /// OpenAI's chat completions have breakpoints for its cache. Anthropic's messages always have some; without this, as
    /// before it, there is none behind people's words in front of a turn's rounds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub breakpoints: bool,
    /// Further fields, as configured.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// What requests do without, since the server refuses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireFormat {
    /// Chat completions.
    Openai,
    /// OpenAI's Responses API.
    Responses,
    Anthropic,
    /// The embedded model: nothing is sent.
    Offline,
}

impl WireFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Offline => "offline",
        }
    }
}

/// A request on its way: how it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub wire: Wire,
    /// Hash of its body; none: nothing is sent.
    pub body: Option<TextId>,
}

/// A text that traces name by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptText {
    pub id: TextId,
    pub text: Arc<str>,
}

impl KeptText {
    pub(crate) fn of(text: &str) -> Self {
        Self { id: TextId::of(text), text: text.into() }
    }
}

impl CallFrame {
    /// The frame of a request by those settings, with all texts that it names and itself; and its id.
    pub fn of(
        settings: &AgentSettings,
        prompt: &str,
        instructions: Option<&str>,
        tools: &ToolDefs,
        wire: Wire,
    ) -> (Vec<KeptText>, TextId) {
        let prompt = KeptText::of(prompt);
        let instructions = instructions.map(KeptText::of);
        let tools = (!tools.is_empty()).then(|| tools.kept().clone());
        let frame = Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            prompt: prompt.id.clone(),
            instructions: instructions.as_ref().map(|instructions| instructions.id.clone()),
            tools: tools.as_ref().map(|tools| tools.id.clone()),
            engine: settings.engine.clone(),
            timezone: settings.timezone.clone(),
            window_tokens: settings.window.window_tokens,
            reserve_tokens: settings.window.output_reserve_tokens,
            wire,
        };
        let frame = KeptText::of(&serde_json::to_string(&frame).unwrap_or_default());
        let id = frame.id.clone();
        (std::iter::once(prompt).chain(instructions).chain(tools).chain([frame]).collect(), id)
    }
}
