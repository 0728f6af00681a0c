//! The tables of a config file, resolved: every value is there, every path absolute.
//!
//! A key is stated here alone. The doc of a field is its text in `config/config.toml` and in the schema; one without a doc
//! shares that of the field above it. `Default` is its default, `example` what stands where there is none, `range` and
//! `extend` what is taken. `x-alternative` marks a key that excludes the one above it.

#![expect(
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links,
    rustdoc::bare_urls,
    reason = "docs of fields are the text of config/config.toml: [admin] is a table there"
)]

mod agents;
mod limits;
mod network;
mod openai_api;
mod schedules;
mod speak;
mod tools;
mod transcribe;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use cairn_core::agent::{AgentSettings, WindowSize, WindowSource};
use cairn_core::limits::Price;
use cairn_core::retention::RetentionSettings;
use cairn_core::trust::TrustSettings;
use cairn_types::command::CommandPermissions;
use cairn_types::ids::AgentId;
use cairn_types::tool::defs::ToolDefs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use agents::{ANTHROPIC_URL, OPENAI_URL};
pub use agents::{AgentConfig, Api, ModelConfig, OFFLINE, Provider};
pub(super) use agents::{WINDOW, WINDOW_MAX, WINDOW_MIN};
pub use limits::Limits;
pub use network::{Bot, Bots, Network, NetworkKind, PlaceKeys, PlatformId};
pub(super) use network::{is_id, is_name};
pub use openai_api::{ApiKeyConfig, OpenAiApiConfig};
pub use schedules::ScheduleConfig;
pub use speak::SpeakConfig;
pub use tools::{FetchConfig, McpConfig, SearchConfig, SearchProvider};
pub use transcribe::TranscribeConfig;

/// The whole configuration. The first paragraph of a table's doc is its headline in the reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// A change of this file, or of a prompt that it names, is read at once, as by `cairn reload`. False: when it is asked
    /// for.
    pub watch: bool,
    /// What every agent gets that does not say otherwise; the same keys may stand in [[agents]]
    pub defaults: AgentConfig,
    /// Models: one table each. `offline` is embedded and always there
    pub models: Vec<ModelConfig>,
    /// Agents: one table each; the first is the default one. None: one agent `main` with the defaults
    ///
    /// Any key of [defaults] may stand here, and any of [defaults.compaction] in [agents.compaction]: each key by itself
    /// takes the place of the default.
    pub agents: Vec<AgentConfig>,
    /// Tools: servers that speak the Model Context Protocol, `fetch` and `web_search`
    ///
    /// A server is used once an operator has approved it as it shows itself (`cairn mcp approve ID`), by agents that name its
    /// tools. It starts when it is first needed. What changes of it is blocked until it is approved again.
    pub mcp: Vec<McpConfig>,
    pub fetch: FetchConfig,
    pub search: SearchConfig,
    /// Schedules: turns that an agent starts by itself, such as a summary each morning
    ///
    /// Each fires in its channel like a reminder that an operator has set. What was missed while no daemon ran fires once,
    /// late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleConfig>,
    /// Discord: the bot there. Without this table Discord is not used
    #[serde(skip_serializing_if = "is_empty")]
    pub discord: Bots,
    /// Telegram: the bot there. Without this table Telegram is not used
    ///
    /// All keys mean what they mean in [discord]. The token is the one that @BotFather gives. Ids of groups are negative.
    #[serde(skip_serializing_if = "is_empty")]
    pub telegram: Bots,
    /// Voice messages: a server that turns them into words
    ///
    /// The words are the message, also of those that are not addressed to the bot. Without `model` recordings are only named.
    pub transcribe: TranscribeConfig,
    /// Answers by voice: a server that speaks the answers to voice messages
    ///
    /// The recording follows the text of the answer. Without `model` answers are text alone.
    pub speak: SpeakConfig,
    /// Commands that people give in chats
    pub commands: CommandPermissions,
    /// Bounds of what is taken in and of how long things take
    pub limits: Limits,
    /// The log
    pub log: Log,
    /// Figures for Prometheus, and a page for browsers
    pub admin: AdminConfig,
    /// An endpoint for clients that speak OpenAI's API: their agents are its models; a restart applies changes
    ///
    /// Open WebUI, SillyTavern, the `openai` package and others get conversations that do not overflow: `docs/src/openai-api.md`.
    #[serde(skip_serializing_if = "is_unused")]
    pub openai_api: OpenAiApiConfig,
    /// Where the state is: in files of the state folder, or in a database
    pub store: Store,
    /// Embeddings: searches find entries that mean what is asked, whatever their words; a restart applies changes
    ///
    /// A small model in this process makes a vector of each entry, in the background. It needs about 100 MB of memory, and 200 MB while it is loaded.
    pub embeddings: Embeddings,
    /// Retention: what of an old state is kept smaller, or not at all; one pass a day, 0: off
    ///
    /// `cairn store retain --dry-run` says what it would come to. Artifacts have `artifact_days` and `artifact_mib`, above.
    pub retention: RetentionSettings,
    /// The files of further languages that were read.
    #[serde(skip)]
    pub language_files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// The folder of a BERT-like sentence-transformers model such as all-MiniLM-L6-v2: config.json, vocab.txt (uncased),
    /// model.safetensors (F32). Relative to this file. Not set: searches go by words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/var/lib/cairn-models/all-MiniLM-L6-v2")]
    pub folder: Option<PathBuf>,
}

fn is_unused(api: &OpenAiApiConfig) -> bool {
    *api == OpenAiApiConfig::default()
}

fn is_empty(bots: &Bots) -> bool {
    bots.is_empty()
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Log {
    /// error, warn, info, debug or trace; by module where wanted: "info,cairn_store=debug". Libraries are not logged: they
    /// log what they carry. Above debug no line holds what people say.
    pub level: String,
    /// "auto": text, in colours on a terminal; fields of the journal where stderr leads there, as under systemd. "text":
    /// without colours; "json": one object a line; "journald": fields of the journal, JSON on stderr where it cannot be
    /// reached.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::default() }
    }
}

/// Where the page is unless configured.
const PAGE_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AdminConfig {
    /// An address and a port, in numbers, at which GET /metrics and GET /v1/health are served over TCP; there is no
    /// password for these two. 64 connections are served at once, further ones wait; each is for one request, and is closed
    /// when that is not there within 5 seconds, or its answer not read within 30 (with `page` within 10 minutes). Not set:
    /// both are on the socket alone, and a page is at 127.0.0.1:9464. `deploy/` has alert rules and a dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"127.0.0.1:9464")]
    pub listen: Option<String>,
    /// Names under which `listen` may be asked, beside its addresses and names without a dot: a page in a browser must not
    /// reach it under a name of its own. Other names are refused with 421. With `page` only these are left beside the
    /// address itself, localhost with its port, and the host of `proxy`.
    #[schemars(example = ["bot.example.net"])]
    pub hosts: Vec<String>,
    /// A page for browsers at `listen`, for whoever has a link that `cairn ui` prints.
    pub page: bool,
    /// Where a reverse proxy of yours, with TLS, serves the page. Only with it may `listen` of a page be other than this
    /// machine's loopback address; let a firewall see to it that the proxy alone reaches it then. In a container it may
    /// also be where its port is published: "http://127.0.0.1:9464", at the loopback address alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://cairn.example.net")]
    pub proxy: Option<String>,
}

impl AdminConfig {
    /// Where to listen, if anywhere.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listen {
            Some(listen) => listen.trim().parse().ok(),
            None => self.page.then_some(PAGE_ADDRESS),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Store {
    /// Size at which a journal segment is closed and the next begun, in MiB.
    #[schemars(range(min = 1, max = 4_096))]
    pub segment_mib: u64,
    /// Memory for sled's page cache, in MiB. Sled evicts late: the cache can take some MiB more. Half as much as this is
    /// taken for what the search index has at hand of each channel.
    #[schemars(range(min = 1, max = 65_536))]
    pub cache_mib: u64,
    /// A PostgreSQL database (15 or later) that holds the journal and the artifacts; the state folder is a copy of it then.
    /// `cairn run` on several machines with the same url: one leads and the others stand by, and one of them takes over
    /// when it dies. `?sslmode=verify-full` checks the server's certificate by the root certificates that browsers trust,
    /// which are built in; not by those of the system. With `&sslrootcert=/path` it checks by those of a file.
    /// `?sslmode=require` alone encrypts and does not check it. Not set: the state folder holds everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"postgres://cairn@db.example.net/cairn?sslmode=verify-full")]
    pub url: Option<String>,
    /// The variable or the file that holds the password of the account in `url`, where it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"CAIRN_DATABASE_PASSWORD")]
    pub password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"database.password", extend("x-alternative" = true))]
    pub password_file: Option<PathBuf>,
    /// The name of this machine among those that share the database. Not set: its host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"north")]
    pub node: Option<String>,
}

impl Default for Store {
    fn default() -> Self {
        Self { segment_mib: 64, cache_mib: 8, url: None, password_env: None, password_file: None, node: None }
    }
}

impl Config {
    /// The agent that is meant when none is named: the first of the file.
    pub fn default_agent(&self) -> AgentId {
        self.agents.first().map_or_else(|| AgentId::new("main"), |agent| agent.id.clone())
    }

    /// The window in tokens of an agent that sets none, on a model that neither sets nor lists one.
    pub fn default_window(&self) -> u64 {
        self.defaults.context_window.unwrap_or(WINDOW)
    }

    /// Nothing is known of that model's window unless its server lists one, and the server is nearby: it is assumed to be small.
    pub fn assumes_window(&self, model: &ModelConfig) -> bool {
        self.default_window() == WINDOW && model.is_nearby()
    }

    pub fn agent(&self, id: &str) -> Option<&AgentConfig> {
        self.agents.iter().find(|agent| agent.id.as_str() == id)
    }

    /// The bots of all chat networks.
    pub fn bots(&self) -> impl Iterator<Item = Bot<'_>> {
        NetworkKind::ALL.into_iter().flat_map(|kind| {
            let bots = match kind {
                NetworkKind::Discord => &self.discord,
                NetworkKind::Telegram => &self.telegram,
            };
            bots.iter().map(move |network| Bot { kind, network })
        })
    }

    pub fn bot(&self, platform: &str) -> Option<Bot<'_>> {
        self.bots().find(|bot| bot.platform() == platform)
    }

    pub fn model(&self, id: &str) -> Option<&ModelConfig> {
        self.models.iter().find(|model| model.id == id)
    }

    /// Whom an agent trusts, and who may approve for it: its approvers and the operators.
    fn trust(&self, agent: &AgentConfig) -> TrustSettings {
        let mut trust = agent.trust.clone();
        trust.approvers.extend(self.commands.operators.iter().cloned());
        trust.operators = self.commands.operators.iter().cloned().collect();
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
        tools: impl Into<ToolDefs>,
    ) -> AgentSettings {
        let id = model;
        let model = self.model(id);
        let max_output_tokens = model.and_then(|model| model.max_output_tokens);
        let size = WindowSize::resolve(
            agent.context_window,
            model.and_then(|model| model.context_window),
            server_window,
            self.default_window(),
            max_output_tokens,
        );
        let is_assumed =
            size.source == WindowSource::Defaults && model.is_some_and(|model| self.assumes_window(model));
        let settings = AgentSettings {
            id: agent.id.clone(),
            system_prompt: agent.system_prompt.clone(),
            compactor_prompt: agent.compaction_prompt.clone(),
            window: size,
            growth: None,
            compaction: agent.compaction.clone(),
            pruning: agent.pruning.clone(),
            result_guard: agent.result_guard.clone(),
            window_guard: agent.window_guard,
            engine: agent.engine.clone(),
            model: id.to_owned(),
            cache_ttl_secs: model.map_or(300, |model| model.cache_ttl_secs),
            tools: if model.is_none_or(|model| model.tools) { tools.into() } else { ToolDefs::default() },
            recall_limit: agent.recall_limit,
            quote_tokens: agent.quote_tokens,
            memory: agent.memory,
            trust: self.trust(agent),
            max_rounds: agent.max_rounds,
            mid_turn_messages: agent.mid_turn_messages,
            timezone: agent.timezone.clone(),
            languages: agent.languages.clone(),
        };
        if is_assumed { settings.assuming(max_output_tokens) } else { settings }
    }
}
