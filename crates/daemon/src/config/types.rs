//! The configuration, resolved: every value is there, every path absolute. The docs of the fields are the reference;
//! `config/config.toml` says the same to users.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::engine::STANDARD;
use cairn_core::ids::AgentId;
use cairn_core::limits::Price;
use cairn_core::model::{ModelInfo, ToolDef};
use cairn_core::provenance::TrustSettings;
use cairn_core::retention::RetentionSettings;
use cairn_core::settings::{MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard};
use cairn_core::tier::CompactionSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin::AdminConfig;
use super::commands::Commands;
use super::limits::Limits;
use super::mcp::{FetchConfig, McpConfig};
use super::network::{Network, NetworkKind};

/// The id of the embedded model, which is always there.
pub const OFFLINE: &str = "offline";

/// Where OpenAI's own server is: the default `base_url`.
pub(super) const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Where Anthropic's own server is: the default `base_url` of `provider = "anthropic"`.
pub(super) const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1";

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// A change of the config file, or of a prompt that it names, is a reload.
    pub watch: bool,
    /// What agents fall back on.
    pub defaults: Defaults,
    /// Bounds of what is taken in and of how long things take.
    pub limits: Limits,
    /// The log.
    pub log: Log,
    /// What is served beside the socket.
    pub admin: AdminConfig,
    /// The state folder's files.
    pub store: Store,
    /// `[retention]`.
    pub retention: Retention,
    /// Models, in the order of the file; the embedded `offline` is always among them.
    pub models: Vec<ModelConfig>,
    /// Agents, in the order of the file; never empty. The first is the default one.
    pub agents: Vec<AgentConfig>,
    /// Tool servers, in the order of the file.
    pub mcp: Vec<McpConfig>,
    /// The tool `fetch`.
    pub fetch: FetchConfig,
    /// The bot on Discord.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discord: Option<Network>,
    /// The bot on Telegram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telegram: Option<Network>,
    /// Who may use which command in chats.
    pub commands: Commands,
}

/// `[defaults]`: what an agent gets that does not say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Defaults {
    /// Models, tried in order; none: offline.
    pub models: Vec<String>,
    /// The system prompt's template; none: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PathBuf>,
    /// The compaction prompt's template; none: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compactor_prompt: Option<PathBuf>,
    /// Time zone in which dates are shown to the model; an IANA name.
    pub timezone: String,
    /// Window in tokens where neither agent nor model sets one and the model's server lists none.
    pub context_window: u64,
    /// Most memories recalled into a window.
    pub recall_limit: usize,
    /// Most model calls of one turn.
    pub max_rounds: u32,
    /// Tools beside the built-in ones that its model may call: `SERVER/TOOL`, `SERVER/*`, `fetch`.
    pub tools: Vec<String>,
    /// Which memories its channels read.
    pub memory: MemorySettings,
    /// Whom it trusts, and who may say yes. Operators may in any case.
    pub trust: TrustSettings,
    /// The context engine.
    pub engine: String,
    /// Compaction.
    pub compaction: CompactionSettings,
    /// When a discovered window is too small.
    pub window_guard: WindowGuard,
    /// Pruning of results.
    pub pruning: PruningSettings,
    /// What becomes of large results.
    pub result_guard: ResultGuardSettings,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            prompt: None,
            compactor_prompt: None,
            timezone: "UTC".to_owned(),
            context_window: 128_000,
            recall_limit: 6,
            max_rounds: 32,
            tools: Vec::new(),
            memory: MemorySettings::default(),
            trust: TrustSettings::default(),
            engine: STANDARD.to_owned(),
            compaction: CompactionSettings::default(),
            window_guard: WindowGuard::default(),
            pruning: PruningSettings::default(),
            result_guard: ResultGuardSettings::default(),
        }
    }
}

/// An agent, with what it takes from `[defaults]` filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentConfig {
    /// Its name: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub id: AgentId,
    /// Models, tried in order; none: offline.
    pub models: Vec<String>,
    /// The system prompt's template; none: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PathBuf>,
    /// The compaction prompt's template; none: the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compactor_prompt: Option<PathBuf>,
    /// Time zone in which dates are shown to the model; an IANA name.
    pub timezone: String,
    /// Its own window in tokens, when it sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Most memories recalled into a window.
    pub recall_limit: usize,
    /// Most model calls of one turn.
    pub max_rounds: u32,
    /// Tools beside the built-in ones that its model may call: `SERVER/TOOL`, `SERVER/*`, `fetch`.
    pub tools: Vec<String>,
    /// Which memories its channels read.
    pub memory: MemorySettings,
    /// Whom it trusts, and who may say yes. Operators may in any case.
    pub trust: TrustSettings,
    /// The context engine.
    pub engine: String,
    /// Compaction.
    pub compaction: CompactionSettings,
    /// When a discovered window is too small.
    pub window_guard: WindowGuard,
    /// Pruning of results.
    pub pruning: PruningSettings,
    /// What becomes of large results.
    pub result_guard: ResultGuardSettings,
    /// The system prompt, rendered.
    #[serde(skip)]
    pub system_prompt: String,
    /// The compaction prompt, rendered.
    #[serde(skip)]
    pub compaction_prompt: String,
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
    /// OpenAI-compatible chat completions, at any `base_url`.
    Openai,
    /// Anthropic messages.
    Anthropic,
    /// The embedded model: no network, no key.
    Offline,
}

/// `[[models]]`: a model and how to reach it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelConfig {
    /// The name by which agents refer to it.
    pub id: String,
    /// Its wire format.
    pub provider: Provider,
    /// Where its server is, up to and with the version, without a slash at the end. OpenAI's own by default, for
    /// the format of Anthropic that one's; empty for the embedded model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The name by which its server knows it.
    pub model: String,
    /// The environment variable that holds the key. Neither this nor `api_key_file`: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The file that holds the key; a relative one is looked for among systemd's credentials first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// Its window in tokens; unset: what its server lists, else `[defaults]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Most tokens of an answer, kept free in the window; unset: the smaller of 32,000 and a quarter of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// It takes pictures.
    pub images: bool,
    /// It takes tools.
    pub tools: bool,
    /// Its answers are streamed.
    pub stream: bool,
    /// Seconds from a request to the first byte of its answer after which it counts as failed.
    pub first_timeout_secs: u64,
    /// Seconds between two pieces of an answer after which it counts as failed.
    pub idle_timeout_secs: u64,
    /// What a million tokens of a request cost, in any currency; unset: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// What they cost when its server had them in its cache; unset: as much as others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_price: Option<f64>,
    /// What they cost when its server writes them into its cache; unset: as much as others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_price: Option<f64>,
    /// Seconds after a request for which its server keeps the request's beginning in its cache.
    pub cache_ttl_secs: u64,
    /// What a million tokens of an answer cost; unset: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            provider: Provider::Openai,
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
            cache_ttl_secs: 300,
            output_price: None,
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

    /// What it costs; nothing, where no price is set.
    pub fn price(&self) -> Price {
        Price {
            input: self.input_price.unwrap_or_default(),
            cached_input: self.cached_price.unwrap_or_default(),
            cache_write: self.cache_write_price,
            output: self.output_price.unwrap_or_default(),
        }
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

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, with colours; fields of the journal under systemd; else text without colours.
    #[default]
    Auto,
    /// Text without colours.
    Text,
    /// One JSON object a line.
    Json,
    /// Fields of systemd's journal; JSON on stderr where it cannot be reached.
    Journald,
}

/// `[log]`: the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug` or `trace`; by module where wanted, as in `info,cairn_store=debug`. Libraries are
    /// not logged: they log what they carry.
    pub level: String,
    /// How lines are written.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

/// `[store]`: the state folder's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Store {
    /// Size at which a journal segment is closed and the next begun, in MiB.
    pub segment_mib: u64,
    /// Most memory that sled's page cache takes, in MiB.
    pub cache_mib: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { segment_mib: 64, cache_mib: 8 }
    }
}

/// `[retention]`; see [`RetentionSettings`].
pub type Retention = RetentionSettings;

impl Config {
    /// The agent that is meant when none is named: the first of the file.
    pub fn default_agent(&self) -> AgentId {
        self.agents.first().map_or_else(|| AgentId::new("main"), |agent| agent.id.clone())
    }

    /// An agent by its name.
    pub fn agent(&self, id: &str) -> Option<&AgentConfig> {
        self.agents.iter().find(|agent| agent.id.as_str() == id)
    }

    /// The table of a chat network, if the file has it.
    pub fn network(&self, kind: NetworkKind) -> Option<&Network> {
        match kind {
            NetworkKind::Discord => self.discord.as_ref(),
            NetworkKind::Telegram => self.telegram.as_ref(),
        }
    }

    /// A model by its id.
    pub fn model(&self, id: &str) -> Option<&ModelConfig> {
        self.models.iter().find(|model| model.id == id)
    }

    /// Whom an agent trusts, and who may say yes for it: its approvers and the operators.
    fn trust(&self, agent: &AgentConfig) -> TrustSettings {
        let mut trust = agent.trust.clone();
        trust.approvers.extend(self.commands.operators.iter().cloned());
        trust
    }

    /// The prices of the models that have one.
    pub fn prices(&self) -> BTreeMap<String, Price> {
        let priced = self.models.iter().filter(|model| model.price() != Price::default());
        priced.map(|model| (model.id.clone(), model.price())).collect()
    }

    /// An agent's settings on a model of its chain, as decisions need them. `server_window`: the window that the model's server lists;
    /// `tools`: what the agent's model may call (left out when the model takes no tools).
    pub fn settings(
        &self,
        agent: &AgentConfig,
        model: &str,
        server_window: Option<u64>,
        tools: Vec<ToolDef>,
    ) -> AgentSettings {
        let id = model;
        let model = self.model(id);
        AgentSettings {
            id: agent.id.clone(),
            system_prompt: agent.system_prompt.clone(),
            compactor_prompt: agent.compaction_prompt.clone(),
            window: WindowSize::resolve(
                agent.context_window,
                model.and_then(|model| model.context_window),
                server_window,
                self.defaults.context_window,
                model.and_then(|model| model.max_output_tokens),
            ),
            compaction: agent.compaction.clone(),
            pruning: agent.pruning.clone(),
            result_guard: agent.result_guard.clone(),
            window_guard: agent.window_guard,
            engine: agent.engine.clone(),
            model: id.to_owned(),
            cache_ttl_secs: model.map_or(300, |model| model.cache_ttl_secs),
            tools: if model.is_none_or(|model| model.tools) { tools } else { Vec::new() },
            recall_limit: agent.recall_limit,
            memory: agent.memory,
            trust: self.trust(agent),
            max_rounds: agent.max_rounds,
            timezone: agent.timezone.clone(),
        }
    }
}
