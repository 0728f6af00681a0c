//! What is configured of a model behind a server, whatever its wire format.

use std::time::Duration;

use cairn_types::wire::address::has_breakpoints;
use cairn_types::wire::format::{Wire, WireFormat};
use secrecy::SecretString;
use serde_json::{Map, Value};

/// How long to wait for a server. There is no limit for a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the request to the first byte of the answer. Without streaming that is the whole answer; with it, the
    /// reading of the prompt, which takes a small machine minutes. Also between two pieces of an answer that say
    /// something, when a server sends mere signs of life between them.
    pub first: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(300),
            idle: Duration::from_secs(60),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Its id in the configuration.
    pub id: String,
    /// The server's address up to and with `/v1`.
    pub base_url: String,
    pub model: String,
    /// The key; none is sent when there is none.
    pub api_key: Option<SecretString>,
    /// Its window in tokens, when set in the configuration.
    pub context_window: Option<u64>,
    /// Most tokens of an answer, when set in the configuration.
    pub max_output_tokens: Option<u64>,
    /// It takes pictures; otherwise they are only named.
    pub images: bool,
    /// It takes tools; otherwise calls of the past are told in words.
    pub tools: bool,
    /// Ask for the answer piece by piece. A server that refuses is asked for whole answers from then on.
    pub stream: bool,
    pub timeouts: Timeouts,
    /// How long the server is to keep what it has read in its cache, where the format lets one say so.
    pub cache_ttl: Duration,
    /// Whether the server takes breakpoints for its cache, where it is spoken to in a format of OpenAI's. None: as its address and
    /// the model's name say.
    pub cache_breakpoints: Option<bool>,
    /// Fields of each request beside those that we set, such as `temperature`; they take the place of none of ours.
    pub extra_body: Map<String, Value>,
    /// Headers of each request beside those that we set.
    pub extra_headers: Vec<(String, SecretString)>,
}

impl ServerOptions {
    /// A streaming model with tools, without pictures, without a key.
    pub fn new(id: impl Into<String>, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            context_window: None,
            max_output_tokens: None,
            images: false,
            tools: true,
            stream: true,
            timeouts: Timeouts::default(),
            cache_ttl: Duration::from_secs(300),
            cache_breakpoints: None,
            extra_body: Map::new(),
            extra_headers: Vec::new(),
        }
    }
}

impl ServerOptions {
    fn has_breakpoints(&self) -> bool {
        self.cache_breakpoints.unwrap_or_else(|| has_breakpoints(&self.base_url, &self.model))
    }

    /// All of a body that does not come from the request.
    pub(crate) fn wire(&self, format: WireFormat, limit_key: &str) -> Wire {
        Wire {
            format,
            model: self.model.clone(),
            images: self.images,
            tools: self.tools,
            stream: self.stream,
            limit_key: limit_key.to_owned(),
            cache_ttl_secs: self.cache_ttl.as_secs(),
            breakpoints: match format {
                WireFormat::Openai | WireFormat::Responses => self.has_breakpoints(),
                WireFormat::Anthropic => true,
                WireFormat::Offline => false,
            },
            extra: self.extra_body.clone(),
            remedies: Vec::new(),
        }
    }
}

/// Options by which no server can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModel {
    /// The address is none.
    #[error("model `{id}`: base_url = {base_url:?}: {reason}, such as \"http://127.0.0.1:8080/v1\"")]
    BaseUrl { id: String, base_url: String, reason: String },
    #[error(
        "model `{id}`: the key has a line break or another character that no header takes; check its file"
    )]
    ApiKey { id: String },
    #[error("model `{id}`: the header `{name}` has a name or a value that no header takes")]
    Header { id: String, name: String },
}
