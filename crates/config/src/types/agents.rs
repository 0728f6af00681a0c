//! `[defaults]`, `[[agents]]` and `[[models]]`: the keys, resolved. What an agent leaves out it takes from `[defaults]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_core::engine::STANDARD;
use cairn_core::limits::Price;
use cairn_core::settings::{
    CompactionSettings, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use cairn_core::trust::TrustSettings;
use cairn_types::ids::AgentId;
use cairn_types::model::ModelInfo;
use cairn_types::texts::{ENGLISH, Languages};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The id of the embedded model, which is always there.
pub const OFFLINE: &str = "offline";

/// Where OpenAI's own server is: the default `base_url`.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Where Anthropic's own server is: the default `base_url` of `provider = "anthropic"`.
pub const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1";

/// Smallest window that is taken, in tokens: below it not even the prompt fits.
pub(crate) const WINDOW_MIN: u64 = 512;
/// Largest window that is taken, in tokens.
pub(crate) const WINDOW_MAX: u64 = 100_000_000;

/// The window in tokens where nothing else names one.
pub(crate) const WINDOW: u64 = 128_000;

/// An agent, or what agents fall back on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentConfig {
    /// Its name, which is part of its channels' names: 1 to 64 of A-Z a-z 0-9 . _ -
    #[serde(skip_serializing_if = "has_no_id")]
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub id: AgentId,
    /// Window in tokens, request and answer together. The smaller of the agent's and the model's setting applies. If
    /// neither is set, Cairn uses the size that the model's server lists, else this default. If nobody sets or lists a
    /// size, a model on this machine or in a private network starts with 8,192 tokens, and gets more as its server
    /// accepts more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = WINDOW_MIN, max = WINDOW_MAX))]
    pub context_window: Option<u64>,
    /// Model ids, in order: if one is overloaded, rate-limited, down or too small, the next one answers. Empty: the
    /// built-in offline model.
    pub models: Vec<String>,
    /// The system prompt: a file with a minijinja template, rendered when the configuration is read. It may use {{
    /// agent }} and {{ timezone }}. Not set: the built-in prompt, from prompts/en/*.md.j2 in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"prompts/en/agent.md.j2")]
    pub prompt: Option<PathBuf>,
    /// The system prompt itself, as a template, instead of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"You are {{ agent }}, a gardener. Answer briefly.", extend("x-alternative" = true))]
    pub prompt_text: Option<String>,
    /// The prompt of compaction runs: a template file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"prompts/en/compactor.md.j2")]
    pub compactor_prompt: Option<PathBuf>,
    /// The language of the bot's own texts in chats: answers to commands, notices, approval questions. "en", "de", "fr", "es",
    /// "pt", "it", "pl", "ru", "uk", "zh", "ja", or the tag of a file TAG.toml in the folder prompts/texts beside this file, with
    /// the keys of prompts/texts/en.toml in the source code. "pt-BR" uses "pt" if it has no file of its own. The language of
    /// answers is up to the model and its prompt.
    pub language: String,
    /// The time zone of dates shown to the model: an IANA name.
    pub timezone: String,
    /// Maximum number of matching memories that are added to a request. 0: none, but the model can still search for
    /// them.
    #[schemars(range(max = 100))]
    pub recall_limit: usize,
    /// Maximum tokens of earlier messages that have left the window and are quoted verbatim at its end because they
    /// match the question: at most three entries of that conversation. 0: none.
    #[schemars(range(max = 4_000))]
    pub quote_tokens: u32,
    /// Maximum model calls per turn: the first one, and one after each round of tool calls. 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub max_rounds: u32,
    /// Messages that a person sends during their own turn's tool calls join the turn in its next round. false: they
    /// wait for the next turn. Only on chat networks; on the local platform each message is its own turn.
    pub mid_turn_messages: bool,
    /// Additional tools that the model may call: "SERVER/TOOL" or "SERVER/*" of a server in [[mcp]], "fetch",
    /// "web_search".
    pub tools: Vec<String>,
    /// The context engine, which selects what the model sees. "standard": summaries in levels, written in the
    /// background. "sliding": from the background tier on, the oldest turns are dropped whole, without a summary and
    /// without a model call. In both cases all text stays in the history, where the agent can search it. Changing it
    /// needs a restart.
    #[schemars(extend("enum" = cairn_core::engine::names()))]
    pub engine: String,
    pub memory: MemorySettings,
    pub trust: TrustSettings,
    pub compaction: CompactionSettings,
    pub window_guard: WindowGuard,
    pub pruning: PruningSettings,
    pub result_guard: ResultGuardSettings,
    /// The system prompt, rendered.
    #[serde(skip)]
    pub system_prompt: String,
    /// The compaction prompt, rendered.
    #[serde(skip)]
    pub compaction_prompt: String,
    /// The texts of `language`, and of the languages of places.
    #[serde(skip)]
    pub languages: Languages,
}

fn has_no_id(id: &AgentId) -> bool {
    id.as_str().is_empty()
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            id: AgentId::new(""),
            context_window: Some(WINDOW),
            models: Vec::new(),
            prompt: None,
            prompt_text: None,
            compactor_prompt: None,
            language: ENGLISH.to_owned(),
            timezone: "UTC".to_owned(),
            recall_limit: 6,
            quote_tokens: 300,
            max_rounds: 32,
            mid_turn_messages: true,
            tools: Vec::new(),
            engine: STANDARD.to_owned(),
            memory: MemorySettings::default(),
            trust: TrustSettings::default(),
            compaction: CompactionSettings::default(),
            window_guard: WindowGuard::default(),
            pruning: PruningSettings::default(),
            result_guard: ResultGuardSettings::default(),
            system_prompt: String::new(),
            compaction_prompt: String::new(),
            languages: Languages::default(),
        }
    }
}

impl AgentConfig {
    /// The id of the model that answers first: the first of its list, or the embedded one.
    pub fn model(&self) -> &str {
        self.models.first().map_or(OFFLINE, String::as_str)
    }

    /// The ids of its models, in the order in which they are tried; never empty.
    pub fn chain(&self) -> Vec<&str> {
        match self.models.as_slice() {
            [] => vec![OFFLINE],
            models => models.iter().map(String::as_str).collect(),
        }
    }
}

/// Which wire format a model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// OpenAI's APIs ([`Api`]), at any `base_url`.
    Openai,
    /// Anthropic messages.
    Anthropic,
    /// The built-in model: no network, no key.
    Offline,
}

/// Which API of OpenAI's a model is asked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// The Responses API.
    Responses,
    /// Chat completions.
    Chat,
}

/// A model and how to reach it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelConfig {
    /// Its name in the configuration: 1 to 64 of A-Z a-z 0-9 . _ -
    #[schemars(example = &"main", regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub id: String,
    /// "openai": OpenAI, and any server with its chat completions API (OpenRouter, Ollama, llama.cpp, vLLM);
    /// "anthropic": Anthropic messages, with prompt cache breakpoints; "offline": the built-in model.
    pub provider: Provider,
    /// With provider = "openai", the API to use: "responses" or "chat" (chat completions). OpenAI's models from GPT-5.6
    /// on combine tools and reasoning only in the Responses API. If the server lacks it, chat completions are used. Not
    /// set: "responses" for OpenAI's own server, "chat" for every other `base_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"responses")]
    pub api: Option<Api>,
    /// The server's address, up to and including the version. Not set: OpenAI's, or with provider = "anthropic"
    /// https://api.anthropic.com/v1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The model's name on its server. Required.
    #[schemars(example = &"gpt-6-luna")]
    pub model: String,
    /// The API key: an environment variable, or a file (a bare name is looked up among systemd's credentials). Set at
    /// most one; without either, no key is sent. Never write the key itself into this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// The model's window in tokens. Not set: the size that its server lists, else the one in [defaults].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = WINDOW_MIN, max = WINDOW_MAX), example = 32_000)]
    pub context_window: Option<u64>,
    /// Maximum tokens of an answer; this part of the window is reserved for it. Not set: 32000 or a quarter of the
    /// window, whichever is smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = WINDOW_MAX), example = 1024)]
    pub max_output_tokens: Option<u64>,
    /// Whether the model accepts pictures, accepts tools, and streams its answers. If a server refuses to stream, Cairn
    /// requests whole answers automatically. A model without tools sees past tool calls as text.
    pub images: bool,
    pub tools: bool,
    pub stream: bool,
    /// Seconds without the first byte of an answer, and between two pieces of it, after which a request has failed. (A
    /// small machine takes minutes to read a long prompt.)
    #[schemars(range(min = 1, max = 3_600))]
    pub first_timeout_secs: u64,
    #[schemars(range(min = 1, max = 3_600))]
    pub idle_timeout_secs: u64,
    /// Price of a million tokens, in any currency: of requests, of requests that the server had in its cache, of
    /// requests that it writes into its cache (both default to the price of requests), of answers. `spend_per_day` in
    /// [limits], `/status` and `cairn tune` use them. Not set: free. If the server's token counts cannot be true (far
    /// from Cairn's estimate, or more than the answer's limit), the estimate is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000), example = 0.10)]
    pub input_price: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000), example = 0.01)]
    pub cached_price: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000), example = 0.125)]
    pub cache_write_price: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000), example = 0.50)]
    pub output_price: Option<f64>,
    /// Seconds for which the server caches the beginning of a request. With provider = "anthropic", a value
    /// above 300 asks for its one-hour cache, which costs more to write.
    #[schemars(range(max = 86_400))]
    pub cache_ttl_secs: u64,
    /// Mark in requests the part that the server should cache, which OpenAI's models from GPT-5.6 on need. Not set:
    /// enabled for such model names on OpenAI's own server and on Azure. Set it for a deployment with its own name, or
    /// a gateway. Always enabled with provider = "anthropic". If a server refuses it, Cairn repeats the request without
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = true)]
    pub cache_breakpoints: Option<bool>,
    /// Sampling settings, passed on unchanged. Not set: the server's defaults. Reasoning models refuse some of them:
    /// these keys and extra_body are then left out for a day, and the log names the key. `reasoning_effort` is a value
    /// that the server knows; with provider = "anthropic", write extra_body = { output_config = { effort = "medium" } }
    /// instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2), example = 0.7)]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1), example = 0.9)]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"low")]
    pub reasoning_effort: Option<String>,
    /// Additional fields of each request, for example server-specific ones. It cannot contain fields that Cairn sets
    /// itself: the model, messages, tools, streaming, the answer's limit.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(example = json!({ "top_k": 40, "seed": 7 }))]
    pub extra_body: Map<String, Value>,
    /// Additional headers of each request. For secret ones, give the environment variable that has the value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Title": "Cairn" }))]
    pub extra_headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Gateway-Token": "GATEWAY_TOKEN" }))]
    pub extra_headers_from_env: BTreeMap<String, String>,
    /// Words per second of the built-in model, only with provider = "offline"; 0: the whole answer at once.
    #[schemars(range(max = 1_000))]
    pub words_per_second: u32,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            provider: Provider::Openai,
            api: None,
            base_url: OPENAI_URL.to_owned(),
            model: String::new(),
            api_key_env: None,
            api_key_file: None,
            context_window: None,
            max_output_tokens: None,
            images: false,
            tools: true,
            stream: true,
            first_timeout_secs: 300,
            idle_timeout_secs: 60,
            input_price: None,
            cached_price: None,
            cache_write_price: None,
            output_price: None,
            cache_ttl_secs: 300,
            cache_breakpoints: None,
            temperature: None,
            top_p: None,
            reasoning_effort: None,
            extra_body: Map::new(),
            extra_headers: BTreeMap::new(),
            extra_headers_from_env: BTreeMap::new(),
            words_per_second: 0,
        }
    }
}

impl ModelConfig {
    /// The embedded model.
    pub fn offline() -> Self {
        Self {
            id: OFFLINE.to_owned(),
            provider: Provider::Offline,
            base_url: String::new(),
            model: OFFLINE.to_owned(),
            ..Self::default()
        }
    }

    /// Its server is on this machine or in a private network.
    pub fn is_nearby(&self) -> bool {
        self.provider != Provider::Offline && cairn_types::wire::address::is_nearby(&self.base_url)
    }

    /// The API that a model of provider = "openai" is asked over.
    pub fn api(&self) -> Api {
        let own = if self.base_url == OPENAI_URL { Api::Responses } else { Api::Chat };
        self.api.unwrap_or(own)
    }

    /// What it costs; nothing, where no price is set.
    pub fn price(&self) -> Price {
        Price {
            input: self.input_price.unwrap_or_default(),
            cached_input: self.cached_price.unwrap_or_default(),
            cache_write: self.cache_write_price,
            output: self.output_price.unwrap_or_default(),
        }
    }

    /// The fields of a request that are set for it.
    pub fn request_fields(&self) -> Map<String, Value> {
        let mut fields = self.extra_body.clone();
        let number = |number: f64| Value::from(number);
        let sampling = [
            ("temperature", self.temperature.map(number)),
            ("top_p", self.top_p.map(number)),
            ("reasoning_effort", self.reasoning_effort.clone().map(Value::from)),
        ];
        let set = sampling.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        fields.extend(set);
        fields
    }

    /// What the rest of the runtime knows of it.
    pub fn info(&self) -> ModelInfo {
        ModelInfo {
            id: self.id.clone(),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            images: self.images,
            tools: self.tools,
        }
    }
}
