//! The wire formats of models' servers, and how a request is sent in one of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::TextId;

/// The remedy that reduces a request to its last message, as a last resort (see [`Wire::remedies`]).
pub const LAST_MESSAGE: &str = "last_message";

/// How requests to a model's server are written: everything in a body that does not come from the request itself.
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
    /// How long the server should cache what it has read, in seconds.
    pub cache_ttl_secs: u64,
    /// In OpenAI's formats: requests have breakpoints for the provider's cache. In Anthropic's, which always has some: there
    /// is one behind people's text, before the rounds of the turn; without this, as in earlier versions, there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub breakpoints: bool,
    /// Further fields, as configured.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// What requests leave out because the server refuses it.
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

/// How a request is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub wire: Wire,
    /// Hash of its body; none: nothing is sent.
    pub body: Option<TextId>,
}

/// A text that call traces refer to by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptText {
    pub id: TextId,
    pub text: Arc<str>,
}

impl KeptText {
    pub fn of(text: &str) -> Self {
        Self { id: TextId::of(text), text: text.into() }
    }
}
