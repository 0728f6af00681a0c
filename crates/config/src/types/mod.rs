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
mod ranking;
mod reaction;
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
pub(super) use network::{is_bridge_name, is_id, is_name};
pub use openai_api::{ApiKeyConfig, OpenAiApiConfig};
pub use ranking::{Embeddings, RerankConfig};
pub use reaction::reaction;
pub use schedules::ScheduleConfig;
pub use speak::SpeakConfig;
pub use tools::{FetchConfig, McpConfig, SearchConfig, SearchProvider};
pub use transcribe::TranscribeConfig;

/// The whole configuration. The first paragraph of a table's doc is its headline in the reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// Read changes of this file, and of the prompt files that it names, immediately, as by `cairn reload`. false: only
    /// on request.
    pub watch: bool,
    /// Defaults for all agents; [[agents]] takes the same keys
    pub defaults: AgentConfig,
    /// Models: one table each. The model `offline` is built in and always available
    pub models: Vec<ModelConfig>,
    /// Agents: one table each; the first is the default one. None: one agent `main` with the defaults
    ///
    /// Every key of [defaults] can be set here, and every key of [defaults.compaction] in [agents.compaction]. Each key
    /// overrides its default separately.
    pub agents: Vec<AgentConfig>,
    /// Tools: servers that speak the Model Context Protocol, `fetch` and `web_search`
    ///
    /// Cairn uses a server only after an operator has approved its command, version and tools (`cairn mcp approve ID`),
    /// and only for agents that name its tools. It starts when it is first needed. Changes in it are blocked until it
    /// is approved again.
    pub mcp: Vec<McpConfig>,
    pub fetch: FetchConfig,
    pub search: SearchConfig,
    /// Schedules: turns that start at set times, such as a summary each morning
    ///
    /// Each fires in its channel like a reminder set by an operator. Times missed while no daemon ran fire once, late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleConfig>,
    /// Discord: the bot. Without this table Discord is not used
    #[serde(skip_serializing_if = "is_empty")]
    pub discord: Bots,
    /// Telegram: the bot. Without this table Telegram is not used
    ///
    /// The keys are those of [discord]. The token comes from @BotFather. Group ids are negative.
    #[serde(skip_serializing_if = "is_empty")]
    pub telegram: Bots,
    /// Bridges: a table for each further chat network, connected by a program beside the daemon
    ///
    /// See `docs/src/bridges.md`. All other keys are those of [discord]. The name is the platform: in ids of channels and
    /// people (matrix/@ann:example.org), in status, log and metrics. The token is any long random text that the bridge
    /// also has. Ids are those of that network, in quotes.
    #[serde(skip_serializing_if = "is_empty")]
    pub bridges: Bots,
    /// Voice messages: a server that transcribes them
    ///
    /// The transcript becomes the message, even if it is not addressed to the bot. Without `model`, recordings are only
    /// named.
    pub transcribe: TranscribeConfig,
    /// Spoken answers: a server that speaks the answers to voice messages
    ///
    /// The recording follows the text of the answer. Without `model`, answers are only text.
    pub speak: SpeakConfig,
    /// Commands that people give in chats
    pub commands: CommandPermissions,
    /// Limits on input and on how long things take
    pub limits: Limits,
    /// The log
    pub log: Log,
    /// Metrics for Prometheus, and a page for browsers
    pub admin: AdminConfig,
    /// An endpoint for clients that speak OpenAI's API: its models are the agents; changes need a restart
    ///
    /// Open WebUI, SillyTavern, the `openai` package and others get conversations that do not overflow: `docs/src/openai-api.md`.
    #[serde(skip_serializing_if = "is_unused")]
    pub openai_api: OpenAiApiConfig,
    /// Where the state is: in a folder or in a database
    pub store: Store,
    /// Embeddings: searches also find entries by meaning; changes need a restart
    ///
    /// A model computes a vector of each entry, in the background. A small one in this process needs about 100 MB of memory, and
    /// 200 MB while it is loaded. A server receives the text of every entry, including private chats.
    pub embeddings: Embeddings,
    /// Reranking: a server compares the best 50 results of each search with the question; changes need a restart
    ///
    /// It receives the question, and up to 1,200 bytes of each result. Without `model` results keep their order.
    pub rerank: RerankConfig,
    /// Retention: compress or remove old data; one pass a day, 0: off
    ///
    /// `cairn store retain --dry-run` shows what a pass would do. For artifacts, see `artifact_days` and `artifact_mib`
    /// above.
    pub retention: RetentionSettings,
    /// The files of further languages that were read.
    #[serde(skip)]
    pub language_files: Vec<PathBuf>,
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
    /// error, warn, info, debug or trace; per module if needed: "info,cairn_store=debug". Libraries are not logged,
    /// because their logs contain message content. Above debug, no line contains text of people.
    pub level: String,
    /// "auto": text, in colours on a terminal; journal fields if stderr goes to systemd's journal. "text": without
    /// colours; "json": one object per line; "journald": journal fields, or JSON on stderr if the journal is
    /// unavailable.
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
    /// A numeric address and port that serve GET /metrics and GET /v1/health over TCP; these two have no password. 64
    /// connections are served at once, further ones wait. Each is for one request, and is closed if the request does
    /// not arrive within 5 seconds, or the client does not read the answer within 30 (with `page` within 10 minutes).
    /// Not set: both are only on the socket, and a page is at 127.0.0.1:9464. `deploy/` has alert rules and a
    /// dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"127.0.0.1:9464")]
    pub listen: Option<String>,
    /// Host names accepted at `listen`, besides its addresses and names without a dot. They keep web sites from
    /// reaching it under their own names: other names are refused with 421. With `page`, only these names are accepted,
    /// and the address itself, localhost with its port, and the host of `proxy`.
    #[schemars(example = ["bot.example.net"])]
    pub hosts: Vec<String>,
    /// Serve a page for browsers at `listen`, for everybody with a link from `cairn ui`.
    pub page: bool,
    /// The address where your reverse proxy serves the page with TLS. Without it, a page's `listen` must be a loopback
    /// address. With it, `listen` may be another address; use a firewall so that only the proxy reaches it. In a
    /// container, this can also be the published port: "http://127.0.0.1:9464", at the loopback address only.
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
    /// Size at which a journal segment is closed and the next one started, in MiB.
    #[schemars(range(min = 1, max = 4_096))]
    pub segment_mib: u64,
    /// Memory for sled's page cache, in MiB. Sled evicts late, so the cache can take a few MiB more. The search index
    /// caches another half of this.
    #[schemars(range(min = 1, max = 65_536))]
    pub cache_mib: u64,
    /// A PostgreSQL database (15 or later) that holds the journal and the artifacts; the state folder is then a copy of
    /// it. Run `cairn run` on several machines with the same url: one leads, the others are standbys, and one of them
    /// takes over when it dies. `?sslmode=verify-full` checks the server's certificate against the built-in root
    /// certificates, the ones that browsers trust, and not against the system's. With `&sslrootcert=/path` it uses the
    /// certificates in that file. `?sslmode=require` alone encrypts and does not check it. Not set: everything is in
    /// the state folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"postgres://cairn@db.example.net/cairn?sslmode=verify-full")]
    pub url: Option<String>,
    /// The password of the account in `url`, if it needs one: an environment variable or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"CAIRN_DATABASE_PASSWORD")]
    pub password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"database.password", extend("x-alternative" = true))]
    pub password_file: Option<PathBuf>,
    /// This machine's name among the nodes of the database. Not set: its host name.
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
        NetworkKind::ALL.into_iter().chain([NetworkKind::Bridge]).flat_map(|kind| {
            let bots = match kind {
                NetworkKind::Discord => &self.discord,
                NetworkKind::Telegram => &self.telegram,
                NetworkKind::Bridge => &self.bridges,
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
