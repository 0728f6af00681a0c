//! The daemon's configuration: found, read, checked and resolved before anything starts.
//!
//! [`Config::load`] does all of it. Whatever is wrong is a [`ConfigError`], which names file, line and column and says
//! what to do; what works but is probably not meant is a warning.

mod admin;
mod agents;
mod check;
mod commands;
mod env;
mod error;
mod file;
mod given;
mod guards;
mod keys;
mod limits;
mod live;
mod log;
mod lookup;
mod mcp;
mod models;
mod network;
mod overlay;
mod parse;
mod prompts;
mod schema;
mod secrets;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod types;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

pub use admin::AdminConfig;
use check::{Check, key_path};
pub use commands::Commands;
pub use env::{Environment, FixedEnvironment, ProcessEnvironment};
pub use error::{ConfigError, Place, Problem};
pub(crate) use given::{
    NoSecret, base_url_trouble, is_id_of_one, is_secret, secret_in_file, secret_in_variable, window_trouble,
};
pub use limits::Limits;
pub use live::Live;
pub use lookup::{
    SOCKET_PATH_MAX, StateDir, StateOrigin, check_socket, config_file, socket_to_bind, sockets_to_try,
    state_dir,
};
pub use mcp::{FetchConfig, McpConfig, McpSecrets};
pub use network::{Network, NetworkKind, PlaceKeys, PlatformId};
pub use schema::schema;
use source::Source;
pub use types::{
    AgentConfig, Config, Defaults, Log, LogFormat, ModelConfig, OFFLINE, Provider, Retention, Store,
};

/// A configuration with what belongs to it and is no part of it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The file that it comes from; `None`: built-in defaults.
    pub file: Option<PathBuf>,
    /// What works but is probably not meant: one sentence each, saying what to do.
    pub warnings: Vec<String>,
    keys: BTreeMap<String, SecretString>,
    tokens: BTreeMap<NetworkKind, Result<SecretString, Problem>>,
    mcp: BTreeMap<String, McpSecrets>,
}

impl Loaded {
    /// The key of a model, where one is configured and could be read.
    pub fn api_key(&self, model: &str) -> Option<&SecretString> {
        self.keys.get(model)
    }

    /// The token of a bot, where its network is used and the token could be read.
    pub fn token(&self, kind: NetworkKind) -> Option<&SecretString> {
        self.tokens.get(&kind)?.as_ref().ok()
    }

    /// The secrets of a tool server, as far as they could be read.
    pub fn mcp_secrets(&self, server: &str) -> McpSecrets {
        self.mcp.get(server).cloned().unwrap_or_default()
    }

    /// Checks that every bot has its token. Only the daemon needs them: commands get by without.
    ///
    /// # Errors
    /// The tokens that are named and cannot be read.
    pub fn check_tokens(&self) -> Result<(), ConfigError> {
        let problems: Vec<_> = self.tokens.values().filter_map(|token| token.clone().err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// The resolved configuration as TOML, itself a valid config file, with its source named. No secrets.
    pub fn show(&self) -> String {
        show::show(&self.config, self.file.as_deref())
    }
}

impl Loaded {
    /// The same with the tokens and the servers' secrets of another one, and its keys for models that this one lacks.
    pub(crate) fn with_secrets_of(mut self, other: &Self) -> Self {
        for (model, key) in &other.keys {
            if self.config.model(model).is_none() {
                self.keys.insert(model.clone(), key.clone());
            }
        }
        self.tokens.clone_from(&other.tokens);
        self.mcp.clone_from(&other.mcp);
        self
    }
}

impl Config {
    /// Finds the config file, or takes the built-in defaults, and resolves it. `flag`: the file that `--config` names.
    ///
    /// # Errors
    /// Everything that is wrong with the file, its prompts included.
    pub fn load(flag: Option<&Path>, env: &dyn Environment) -> Result<Loaded, ConfigError> {
        let Some(file) = config_file(flag, env) else {
            return from_text(Path::new("built-in defaults"), "", env);
        };
        let text = read(&file)?;
        let loaded = from_text(&file, &text, env)?;
        Ok(Loaded { file: Some(file), ..loaded })
    }
}

impl Config {
    /// The built-in defaults, whatever files there are.
    ///
    /// # Errors
    /// None that a user could mend.
    pub fn built_in(env: &dyn Environment) -> Result<Loaded, ConfigError> {
        from_text(Path::new("built-in defaults"), "", env)
    }

    /// The text of a file that is not written yet.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn of_text(file: &Path, text: &str, env: &dyn Environment) -> Result<Loaded, ConfigError> {
        from_text(file, text, env)
    }

    /// As [`Config::load`], for whoever wants to know what else is right where something is wrong: the configuration as far
    /// as it can be resolved, and what is wrong with it. Nothing may be started from one that has problems.
    ///
    /// # Errors
    /// The file cannot be read, or its tables and keys cannot be made out.
    pub fn examine(
        flag: Option<&Path>,
        env: &dyn Environment,
    ) -> Result<(Loaded, Vec<Problem>), ConfigError> {
        let Some(file) = config_file(flag, env) else {
            return examined(Path::new("built-in defaults"), "", env);
        };
        let (loaded, problems) = examined(&file, &read(&file)?, env)?;
        Ok((Loaded { file: Some(file), ..loaded }, problems))
    }
}

fn read(file: &Path) -> Result<String, Problem> {
    let shown = file.display();
    let bytes = std::fs::read(file).map_err(|error| {
        let problem = Problem::new(format!("cannot read the config file {shown}: {error}"));
        match error.kind() {
            std::io::ErrorKind::IsADirectory => problem.hint("name the file in it: config.toml"),
            std::io::ErrorKind::NotFound => problem
                .hint("correct the path, or leave it out: without a config file the built-in defaults hold"),
            std::io::ErrorKind::PermissionDenied => problem.hint("let the user that runs cairn read it"),
            _ => problem,
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good =
            String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
        let place = source::place(file, &good, good.len()..good.len());
        Problem::new("the config file is not UTF-8 from here on").at(Some(place)).hint("save it as UTF-8")
    })?;
    // Some editors put a byte order mark first.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Resolves the text of a config file.
fn from_text(file: &Path, text: &str, env: &dyn Environment) -> Result<Loaded, ConfigError> {
    let (loaded, problems) = examined(file, text, env)?;
    if problems.is_empty() { Ok(loaded) } else { Err(ConfigError { problems }) }
}

/// Resolves the text of a config file as far as it goes, and says what is wrong with it.
fn examined(file: &Path, text: &str, env: &dyn Environment) -> Result<(Loaded, Vec<Problem>), ConfigError> {
    let source = Source::parse(file, text)?;
    let written = parse::parse(&source, text).map_err(|problems| ConfigError { problems })?;
    let mut check = Check::new(&source);
    let defaults = agents::defaults(&mut check, &written.defaults);
    let models = models::resolve(&mut check, written.models, env);
    let agents = agents::resolve(&mut check, &written.agents, &defaults, &models);
    let discord = network::resolve(&mut check, NetworkKind::Discord, written.discord, &agents, env);
    let telegram = network::resolve(&mut check, NetworkKind::Telegram, written.telegram, &agents, env);
    let mcp = mcp::resolve(&mut check, written.mcp, env);
    mcp::check_fetch(&mut check, &written.fetch);
    for (idx, agent) in agents.iter().enumerate() {
        mcp::check_agent(&mut check, &key_path!["agents", idx], agent, &mcp, &written.fetch);
    }
    commands::check(&mut check, &written.commands);
    check_limits(&mut check, &written.limits);
    if written.limits.spend_per_day > 0.0 {
        guards::warn_of_prices(&mut check, &agents, &models);
    }
    log::check(&mut check, &written.log);
    admin::check(&mut check, &written.admin);
    check_store(&mut check, &written.store);
    check_retention(&mut check, &written.retention);
    let mut problems = check.problems;
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
    let mut warnings = check.warnings;
    let mut keys = BTreeMap::new();
    for model in &models {
        if let Some(key) = secrets::read_key(model, env, &mut warnings) {
            keys.insert(model.id.clone(), key);
        }
    }
    let mut tokens = BTreeMap::new();
    for (kind, network) in [(NetworkKind::Discord, &discord), (NetworkKind::Telegram, &telegram)] {
        if let Some(token) = network.as_ref().and_then(|network| read_token(&source, kind, network, env)) {
            let token = token.map(|(token, warning)| {
                warnings.extend(warning.map(|text| format!("[{}]: {text}", kind.name())));
                token
            });
            tokens.insert(kind, token);
        }
    }
    let secrets = |server: &McpConfig| (server.id.clone(), mcp::read_secrets(server, env, &mut warnings));
    let mcp_secrets = mcp.iter().map(secrets).collect();
    let config = Config {
        watch: written.watch,
        defaults,
        models,
        agents,
        mcp,
        fetch: written.fetch,
        discord,
        telegram,
        commands: written.commands,
        limits: written.limits,
        log: written.log,
        admin: written.admin,
        store: written.store,
        retention: written.retention,
    };
    Ok((Loaded { config, file: None, warnings, keys, tokens, mcp: mcp_secrets }, problems))
}

/// Reads the token of a bot that is used.
fn read_token(
    source: &Source<'_>,
    kind: NetworkKind,
    network: &Network,
    env: &dyn Environment,
) -> Option<Result<(SecretString, Option<String>), Problem>> {
    if !network.enabled {
        return None;
    }
    let key = if network.token_env.is_some() { "token_env" } else { "token_file" };
    let named = secrets::Named {
        what: "token",
        env_key: "token_env",
        env: &network.token_env,
        file: &network.token_file,
    };
    Some(named.read(env)?.map_err(|why| {
        Problem::new(format!("`{key}` of [{}]: {why}", kind.name()))
            .at(source.value_place(&key_path![kind.name(), key]))
            .hint("the network's own page for bots shows the token; `enabled = false` leaves the bot out")
    }))
}

fn check_limits(check: &mut Check<'_, '_>, limits: &Limits) {
    let rows = [
        ("max_message_bytes", limits.max_message_bytes as u64, 1, 64 << 20, "bytes"),
        ("admitted_messages", limits.admitted_messages as u64, 1, 1_000_000, "messages"),
        ("channel_queue", limits.channel_queue as u64, 1, 1_000_000, "messages"),
        ("idle_secs", limits.idle_secs, 1, 31_536_000, "seconds"),
        ("turn_timeout_secs", limits.turn_timeout_secs, 1, 86_400, "seconds"),
        ("model_attempts", u64::from(limits.model_attempts), 1, 100, "calls"),
        ("tool_timeout_secs", limits.tool_timeout_secs, 1, 86_400, "seconds"),
        ("shutdown_secs", limits.shutdown_secs, 0, 3_600, "seconds"),
        ("unaddressed_queue", limits.unaddressed_queue as u64, 1, 10_000, "messages"),
        ("model_down_tell_secs", limits.model_down_tell_secs, 1, 3_600, "seconds"),
        ("model_down_pause_max_secs", limits.model_down_pause_max_secs, 1, 86_400, "seconds"),
        ("model_cool_down_secs", limits.model_cool_down_secs, 0, 86_400, "seconds"),
        ("model_limited_secs", limits.model_limited_secs, 0, 86_400, "seconds"),
        ("model_cool_down_max_secs", limits.model_cool_down_max_secs, 0, 86_400, "seconds"),
    ];
    for (key, value, low, high, unit) in rows {
        check.within(&key_path!["limits", key], value, low, high, unit);
    }
    for (key, pause) in [
        ("model_cool_down_secs", limits.model_cool_down_secs),
        ("model_limited_secs", limits.model_limited_secs),
    ] {
        let at = key_path!["limits", key];
        let most = limits.model_cool_down_max_secs;
        if pause > most
            && (check.source.sets(&at) || check.source.sets(&key_path!["limits", "model_cool_down_max_secs"]))
        {
            let message = format!("`{key}` = {pause} is above model_cool_down_max_secs = {most}");
            check.wrong(
                &at,
                message,
                "it is the pause after the first failure, and grows: lower it, or raise the other",
            );
        }
    }
    check.money(&key_path!["limits", "spend_per_day"], limits.spend_per_day);
}

fn check_retention(check: &mut Check<'_, '_>, retention: &Retention) {
    let day = |key: &str, days: u32, check: &mut Check<'_, '_>| {
        check.within(&key_path!["retention", key], u64::from(days), 0, 36_500, "days");
    };
    day("compress_days", retention.compress_days, check);
    day("journal_days", retention.journal_days, check);
    day("memory_days", retention.memory_days, check);
    check.within(&key_path!["retention", "journal_mib"], retention.journal_mib, 0, 16 * 1024 * 1024, "MiB");
    check.within(&key_path!["retention", "memory_max"], retention.memory_max, 0, 1_000_000, "memories");
    if !(0.0..=1.0).contains(&retention.memory_importance) {
        let path = key_path!["retention", "memory_importance"];
        check.wrong(&path, "`memory_importance` is no importance", "write a number from 0 to 1, such as 0.5");
    }
}

fn check_store(check: &mut Check<'_, '_>, store: &Store) {
    check.within(&key_path!["store", "segment_mib"], store.segment_mib, 1, 4096, "MiB");
    check.within(&key_path!["store", "cache_mib"], store.cache_mib, 1, 65_536, "MiB");
}
