//! The shape of a config file. Keys that an agent may leave to `[defaults]` are optional here.

use std::path::PathBuf;

use cairn_core::settings::HardClear;
use schemars::JsonSchema;
use serde::Deserialize;

use super::admin::AdminConfig;
use super::commands::Commands;
use super::keys::{fields_of, nearest};
use super::limits::Limits;
use super::mcp::{FetchConfig, McpConfig};
use super::network::{Network, NetworkKind, PlaceKeys};
use super::overlay::{CompactionKeys, MemoryKeys, PruningKeys, ResultGuardKeys, TrustKeys, WindowGuardKeys};
use super::source::Seg;
use super::types::{Log, ModelConfig, Retention, Store};

/// A config file as written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct FileConfig {
    pub(super) watch: bool,
    pub(super) defaults: AgentKeys,
    pub(super) models: Vec<ModelConfig>,
    pub(super) agents: Vec<AgentKeys>,
    pub(super) mcp: Vec<McpConfig>,
    pub(super) fetch: FetchConfig,
    pub(super) discord: Option<Network>,
    pub(super) telegram: Option<Network>,
    pub(super) commands: Commands,
    pub(super) limits: Limits,
    pub(super) log: Log,
    pub(super) admin: AdminConfig,
    pub(super) store: Store,
    #[schemars(schema_with = "super::schema::retention")]
    pub(super) retention: Retention,
}

/// `[defaults]`, and the same keys (with `id`) in `[[agents]]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct AgentKeys {
    pub(super) id: Option<String>,
    pub(super) models: Option<Vec<String>>,
    pub(super) prompt: Option<PathBuf>,
    pub(super) compactor_prompt: Option<PathBuf>,
    pub(super) timezone: Option<String>,
    pub(super) context_window: Option<u64>,
    pub(super) recall_limit: Option<usize>,
    pub(super) max_rounds: Option<u32>,
    pub(super) tools: Option<Vec<String>>,
    pub(super) memory: MemoryKeys,
    pub(super) trust: TrustKeys,
    pub(super) engine: Option<String>,
    pub(super) compaction: CompactionKeys,
    pub(super) window_guard: WindowGuardKeys,
    pub(super) pruning: PruningKeys,
    pub(super) result_guard: ResultGuardKeys,
}

/// A table of the file: how it is written, and its known keys.
pub(super) struct Table {
    /// As a user writes it, such as `[agents.compaction]`.
    pub(super) name: &'static str,
    /// The keys on the way to it, without indices.
    pub(super) path: &'static [&'static str],
    /// Its keys.
    pub(super) keys: Vec<&'static str>,
}

/// All tables of the file with their known keys.
pub(super) fn tables() -> Vec<Table> {
    let agents = fields_of::<AgentKeys>();
    let without_id: Vec<_> = agents.iter().copied().filter(|key| *key != "id").collect();
    let compaction = fields_of::<CompactionKeys>().to_vec();
    let window_guard = fields_of::<WindowGuardKeys>().to_vec();
    let pruning = fields_of::<PruningKeys>().to_vec();
    let hard_clear = fields_of::<HardClear>().to_vec();
    let result_guard = fields_of::<ResultGuardKeys>().to_vec();
    let memory = fields_of::<MemoryKeys>().to_vec();
    let trust = fields_of::<TrustKeys>().to_vec();
    let table = |name, path, keys| Table { name, path, keys };
    let own = |kind: NetworkKind, keys: &'static [&'static str]| -> Vec<&'static str> {
        let foreign = |key: &&str| kind.foreign_keys().contains(key);
        keys.iter().copied().filter(|key| !foreign(key)).collect()
    };
    let network = fields_of::<Network>();
    let place = fields_of::<PlaceKeys>();
    let without_server: Vec<_> = place.iter().copied().filter(|key| *key != "server").collect();
    vec![
        table("the top level", &[], fields_of::<FileConfig>().to_vec()),
        table("[defaults]", &["defaults"], without_id),
        table("[defaults.compaction]", &["defaults", "compaction"], compaction.clone()),
        table("[[models]]", &["models"], fields_of::<ModelConfig>().to_vec()),
        table("[[agents]]", &["agents"], agents.to_vec()),
        table("[agents.compaction]", &["agents", "compaction"], compaction),
        table("[defaults.window_guard]", &["defaults", "window_guard"], window_guard.clone()),
        table("[agents.window_guard]", &["agents", "window_guard"], window_guard),
        table("[defaults.pruning]", &["defaults", "pruning"], pruning.clone()),
        table("[agents.pruning]", &["agents", "pruning"], pruning),
        table("[defaults.pruning.hard_clear]", &["defaults", "pruning", "hard_clear"], hard_clear.clone()),
        table("[agents.pruning.hard_clear]", &["agents", "pruning", "hard_clear"], hard_clear),
        table("[defaults.result_guard]", &["defaults", "result_guard"], result_guard.clone()),
        table("[agents.result_guard]", &["agents", "result_guard"], result_guard),
        table("[defaults.memory]", &["defaults", "memory"], memory.clone()),
        table("[agents.memory]", &["agents", "memory"], memory),
        table("[defaults.trust]", &["defaults", "trust"], trust.clone()),
        table("[agents.trust]", &["agents", "trust"], trust),
        table("[[mcp]]", &["mcp"], fields_of::<McpConfig>().to_vec()),
        table("[fetch]", &["fetch"], fields_of::<FetchConfig>().to_vec()),
        table("[discord]", &["discord"], own(NetworkKind::Discord, network)),
        table("[[discord.places]]", &["discord", "places"], place.to_vec()),
        table("[telegram]", &["telegram"], own(NetworkKind::Telegram, network)),
        table("[[telegram.places]]", &["telegram", "places"], without_server),
        table("[commands]", &["commands"], fields_of::<Commands>().to_vec()),
        table("[limits]", &["limits"], fields_of::<Limits>().to_vec()),
        table("[log]", &["log"], fields_of::<Log>().to_vec()),
        table("[admin]", &["admin"], fields_of::<AdminConfig>().to_vec()),
        table("[store]", &["store"], fields_of::<Store>().to_vec()),
        table("[retention]", &["retention"], fields_of::<Retention>().to_vec()),
    ]
}

/// What to say about an unknown key: the message and the remedy.
pub(super) fn unknown_key(path: &[Seg]) -> (String, String) {
    let names: Vec<&str> = path
        .iter()
        .filter_map(|seg| match seg {
            Seg::Key(key) => Some(key.as_str()),
            Seg::Index(_) => None,
        })
        .collect();
    let (key, parents) = names.split_last().map_or(("", &[][..]), |(key, parents)| (*key, parents));
    let tables = tables();
    let here = tables.iter().find(|table| table.path == parents);
    let message = match here {
        Some(table) => format!("unknown key `{key}` in {}", table.name),
        None => format!("unknown key `{}`", names.join(".")),
    };
    let hint = if key == "api_key" {
        "keys are not written into this file: name a variable by `api_key_env` or a file by `api_key_file`"
            .to_owned()
    } else if key == "token" {
        "tokens are not written into this file: name a variable by `token_env` or a file by `token_file`"
            .to_owned()
    } else if let Some(near) = here.and_then(|table| nearest(key, &table.keys)) {
        format!("did you mean `{near}`?")
    } else if let Some(table) = tables.iter().find(|table| table.keys.contains(&key)) {
        format!("`{key}` belongs in {}", table.name)
    } else {
        let keys = here.map_or_else(String::new, |table| table.keys.join(", "));
        format!("known keys here: {keys}")
    };
    (message, hint)
}
