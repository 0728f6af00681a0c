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
    /// Its name, which channels carry: 1 to 64 of A-Z a-z 0-9 . _ -
    #[serde(skip_serializing_if = "has_no_id")]
    #[schemars(with = "String", regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub id: AgentId,
    /// Window in tokens, request and answer together. The window in force is the smallest of those set on the agent and on
    /// its model; where neither sets one, what the model's server lists; else this. Where nobody sets or lists one, a model on
    /// this machine or in a private network starts with 8,192 tokens and gets more as its server proves that it takes more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = WINDOW_MIN, max = WINDOW_MAX))]
    pub context_window: Option<u64>,
    /// Models by their ids, tried in order: where one is overloaded, limited, down or too small, the next answers. Empty: the
    /// embedded offline model.
    pub models: Vec<String>,
    /// The system prompt: a file with a minijinja template, rendered when the configuration is read. It
    /// may use {{ agent }} and {{ timezone }}. Not set: the built-in ones, which are prompts/en/*.md.j2 of the sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"prompts/en/agent.md.j2")]
    pub prompt: Option<PathBuf>,
    /// The system prompt itself, as such a template, in place of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"You are {{ agent }}, a gardener. Answer briefly.", extend("x-alternative" = true))]
    pub prompt_text: Option<String>,
    /// The prompt of compaction runs: a file with such a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"prompts/en/compactor.md.j2")]
    pub compactor_prompt: Option<PathBuf>,
    /// The language of what the bot itself says in chats: answers to commands, notices, questions for approval. "en", "de",
    /// "fr", "es", "pt", "it", "pl", "ru", "uk", "zh", "ja", or the tag of a file TAG.toml in the folder prompts/texts beside this
    /// one, whose keys are those of prompts/texts/en.toml of the sources. "pt-BR" takes "pt" where there is no file of its own.
    /// The language of answers is up to the model and its prompt.
    pub language: String,
    /// Time zone in which dates are shown to the model: an IANA name.
    pub timezone: String,
    /// Most memories put into a window because they fit the question. 0: none, the model can still search for them.
    #[schemars(range(max = 100))]
    pub recall_limit: usize,
    /// Most tokens of what was said before and has left the window, that are quoted word for word at its end because they fit the
    /// question: of three entries of that conversation at most. 0: none.
    #[schemars(range(max = 4_000))]
    pub quote_tokens: u32,
    /// Most model calls of one turn: the first and one after each round of tool calls. 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub max_rounds: u32,
    /// Messages that a person sends while the agent calls tools for them are given to the model in the next round of the same
    /// turn. False: they wait for the next turn. Chat networks only; on the local platform each message is its own turn.
    pub mid_turn_messages: bool,
    /// Tools beside the built-in ones that the model may call: "SERVER/TOOL" or "SERVER/*" of a server in [[mcp]], "fetch",
    /// "web_search".
    pub tools: Vec<String>,
    /// The context engine: what decides what the model gets to see. "standard": levelled summaries, made in the background.
    /// "sliding": from the background tier on the oldest turns leave, whole and without a summary; no model is called for
    /// it. Either way every word stays in the history, where the agent finds it by searching. It may be changed at any
    /// start.
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
    /// The embedded model: no network, no key.
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
    /// The name by which agents refer to it: 1 to 64 of A-Z a-z 0-9 . _ -
    #[schemars(example = &"main", regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub id: String,
    /// "openai": OpenAI, and any server of chat completions (OpenRouter, Ollama, llama.cpp, vLLM); "anthropic": Anthropic
    /// messages, with breakpoints for its prompt cache; "offline": the embedded model.
    pub provider: Provider,
    /// With provider = "openai", the API that is used: "responses" or "chat" (chat completions). OpenAI's models from GPT-5.6
    /// on combine tools and reasoning in the Responses API only. A server without it is asked over chat completions. Not
    /// set: "responses" for OpenAI's own server, "chat" for every other `base_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"responses")]
    pub api: Option<Api>,
    /// The server's address, up to and with the version. Not set: OpenAI's, or with provider = "anthropic"
    /// https://api.anthropic.com/v1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The name by which the server knows the model. Required.
    #[schemars(example = &"gpt-6-luna")]
    pub model: String,
    /// The key: an environment variable that holds it, or a file (found among systemd's credentials by its bare name). At
    /// most one of the two; neither: no key is sent. The key itself never stands in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// The model's window in tokens. Not set: what its server lists, else the one of [defaults].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = WINDOW_MIN, max = WINDOW_MAX), example = 32_000)]
    pub context_window: Option<u64>,
    /// Most tokens of an answer; this much of the window is kept free for it. Not set: the smaller of 32000 and a quarter of
    /// the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = WINDOW_MAX), example = 1024)]
    pub max_output_tokens: Option<u64>,
    /// The model takes pictures; it takes tools; its answers are streamed. A server that refuses to stream is asked for whole
    /// answers by itself; a model that takes no tools is told of calls of the past in words.
    pub images: bool,
    pub tools: bool,
    pub stream: bool,
    /// A request counts as failed after so many seconds without the first byte of its answer (reading a long prompt takes a
    /// small machine minutes), or between two pieces of it.
    #[schemars(range(min = 1, max = 3_600))]
    pub first_timeout_secs: u64,
    #[schemars(range(min = 1, max = 3_600))]
    pub idle_timeout_secs: u64,
    /// What a million tokens cost, in any currency: of requests, of requests that the server had in its cache (not set: as
    /// much as others), of requests that it writes into its cache (not set: as much as others), of answers. `spend_per_day`
    /// of [limits], `/status` and `cairn tune` count by them. Not set: nothing. What a server reports counts only where it
    /// can be true: far beside our own estimate, or over what the answer was allowed, the estimate counts.
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
    /// Seconds after a request for which the server keeps its beginning in its cache. With provider = "anthropic" more than
    /// 300 asks for its cache of an hour, which costs more to write.
    #[schemars(range(max = 86_400))]
    pub cache_ttl_secs: u64,
    /// Requests mark what the server's cache is to hold, as OpenAI's models from GPT-5.6 on need it. Not set: they do where the
    /// server is OpenAI's own or Azure's and the model is named so; set it for a deployment with a name of its own, or a
    /// gateway. With provider = "anthropic" they always do. A server that refuses it is asked without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = true)]
    pub cache_breakpoints: Option<bool>,
    /// How the model chooses its words, passed on as it is. Not set: as the server does by itself. Models that reason refuse
    /// some of it: these keys and extra_body are then left out for a day, and the log names the key. `reasoning_effort` is a word that the server knows; with provider =
    /// "anthropic" it is written as extra_body = { output_config = { effort = "medium" } }.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2), example = 0.7)]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1), example = 0.9)]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"low")]
    pub reasoning_effort: Option<String>,
    /// Further fields of each request, such as those of one server alone. What Cairn sets itself cannot stand here: the
    /// model, messages, tools, streaming, the limit of the answer.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(example = json!({ "top_k": 40, "seed": 7 }))]
    pub extra_body: Map<String, Value>,
    /// Further headers of each request. Secret ones are named with the daemon's variable that holds the value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Title": "Cairn" }))]
    pub extra_headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Gateway-Token": "GATEWAY_TOKEN" }))]
    pub extra_headers_from_env: BTreeMap<String, String>,
    /// How quickly the embedded model speaks, with provider = "offline" alone; 0: it says everything at once.
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
