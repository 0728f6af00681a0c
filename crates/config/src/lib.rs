//! The daemon's configuration: found, read, checked and resolved before anything starts.
//!
//! [`Config::load`] does all of it. Everything wrong is a [`ConfigError`], which names file, line and column and says what to
//! do; what works but is probably not meant is a warning.

mod check;
pub mod clock;
mod env;
mod error;
mod given;
mod hints;
mod live;
mod lookup;
mod origins;
mod prompts;
mod redact;
mod schema;
mod secrets;
mod source;
#[cfg(test)]
mod tests;
mod types;
mod url;
pub mod what_if;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use check::{Check, key_path};
pub use env::{Environment, FixedEnvironment, ProcessEnvironment};
pub use error::{ConfigError, FilePosition, Problem};
pub use given::{
    NoSecret, base_url_trouble, is_id_of_one, is_person, secret_in_file, secret_in_variable, window_of,
};
pub use live::Live;
pub use lookup::chat_history;
pub use lookup::{
    SOCKET_PATH_MAX, StateDir, StateOrigin, check_socket, config_file, socket_to_bind, sockets_to_try,
    state_dir,
};
use origins::Origins;
pub use origins::{KeyInForce, Origin};
pub use redact::shown_text;
use schema::Findings;
pub use schema::schema;
pub use schema::{nearest, range_trouble};
pub use secrets::McpSecrets;
pub use secrets::{is_secret, names_variable, without_secrets};
use source::{Seg, Source};
pub use types::{
    ANTHROPIC_URL, AdminConfig, AgentConfig, Api, ApiKeyConfig, Bot, Bots, Config, Embeddings, FetchConfig,
    Limits, Log, LogFormat, McpConfig, ModelConfig, Network, NetworkKind, OFFLINE, OPENAI_URL,
    OpenAiApiConfig, PlaceKeys, PlatformId, Provider, RerankConfig, ScheduleConfig, SearchConfig,
    SearchProvider, SpeakConfig, Store, TranscribeConfig, reaction,
};

/// A configuration, with its file, warnings and secrets.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// The file that it comes from; `None`: built-in defaults.
    pub file: Option<PathBuf>,
    /// What works but is probably not meant: one sentence each, saying what to do.
    pub warnings: Vec<String>,
    origins: Origins,
    keys: BTreeMap<String, SecretString>,
    /// Secret headers of models.
    headers: BTreeMap<String, BTreeMap<String, SecretString>>,
    /// By platform.
    tokens: BTreeMap<String, Result<SecretString, Problem>>,
    /// Of clients of the OpenAI-compatible endpoint, by name.
    client_keys: BTreeMap<String, Result<SecretString, Problem>>,
    mcp: BTreeMap<String, McpSecrets>,
    /// Of services that have a table of their own, such as [transcribe], by that.
    service_keys: BTreeMap<&'static str, SecretString>,
    /// The password of the account in the database's url.
    password: Option<Result<SecretString, Problem>>,
}

/// The database that holds the journal.
#[derive(Debug, Clone)]
pub struct Database {
    /// With the password.
    pub url: SecretString,
    /// This machine's name among those that share it.
    pub node: String,
    /// Where other nodes reach it: its host name, else the node's name.
    pub host: String,
}

impl Loaded {
    /// The key of a model, if one is configured and could be read.
    pub fn api_key(&self, model: &str) -> Option<&SecretString> {
        self.keys.get(model)
    }

    /// The key of the service of a table such as `transcribe`, if one is configured and could be read.
    pub fn service_key(&self, table: &str) -> Option<&SecretString> {
        self.service_keys.get(table)
    }

    /// The additional headers of a model's requests, including those from variables.
    pub fn headers(&self, model: &ModelConfig) -> Vec<(String, SecretString)> {
        let plain = model.extra_headers.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        let secret = self.headers.get(&model.id).cloned().unwrap_or_default();
        plain.chain(secret).collect()
    }

    /// The token of a bot, if its network is used and the token could be read.
    pub fn token(&self, platform: &str) -> Option<&SecretString> {
        self.tokens.get(platform)?.as_ref().ok()
    }

    /// Why the token of a bot could not be read.
    pub fn token_problem(&self, platform: &str) -> Option<&Problem> {
        self.tokens.get(platform)?.as_ref().err()
    }

    /// The database that holds the journal; `None`: the journal is in the state folder.
    ///
    /// # Errors
    /// Its password is named and cannot be read, or this machine has no name.
    pub fn database(&self) -> Result<Option<Database>, ConfigError> {
        let Some(url) = &self.config.store.url else { return Ok(None) };
        let host = host_name().or_else(|| self.config.store.node.clone()).ok_or_else(|| {
            Problem::new("this machine tells no host name").hint("name it by `node` of [store]")
        })?;
        let node = self.config.store.node.clone().unwrap_or_else(|| host.clone());
        let password = self.password.clone().transpose().map_err(|problem| vec![problem]);
        let password = password.map_err(|problems| ConfigError { problems })?;
        Ok(Some(Database { url: secrets::with_password(url, password.as_ref()), node, host }))
    }

    /// The password of the database's account, if one is named and could be read.
    pub fn password(&self) -> Option<&SecretString> {
        self.password.as_ref()?.as_ref().ok()
    }

    /// The secrets of a tool server, as far as they could be read.
    pub fn mcp_secrets(&self, server: &str) -> McpSecrets {
        self.mcp.get(server).cloned().unwrap_or_default()
    }

    /// The key of a client of the OpenAI-compatible endpoint, by its name.
    pub fn client_key(&self, name: &str) -> Option<&SecretString> {
        self.client_keys.get(name)?.as_ref().ok()
    }

    /// Checks that every bot has its token, and that the keys of clients are there. Only the daemon needs them.
    ///
    /// # Errors
    /// Tokens or keys are named and cannot be read.
    pub fn check_tokens(&self) -> Result<(), ConfigError> {
        let all = self.tokens.values().chain(self.client_keys.values());
        let problems: Vec<_> = all.filter_map(|token| token.clone().err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// The resolved configuration as TOML, with its source. It is a valid config file, unless a secret was written where none
    /// belongs, which is left out.
    pub fn show(&self) -> String {
        let source = match &self.file {
            Some(file) => format!("# resolved from {}\n", file.display()),
            None => "# built-in defaults; no config file was found\n".to_owned(),
        };
        let texts = toml::to_string_pretty(&self.config)
            .and_then(|text| Ok((text, toml::to_string_pretty(&redact::shown(&self.config))?)));
        match texts {
            Ok((text, shown)) => {
                let shown = without_secrets(&shown);
                let note = if shown == text { "" } else { "# what looks like a secret is left out: …\n" };
                format!("{source}{note}\n{shown}")
            }
            Err(error) => format!("{source}# the configuration cannot be written as TOML: {error}\n"),
        }
    }

    /// The resolved configuration as JSON, with secrets left out as in [`Self::show`].
    pub fn to_json(&self) -> serde_json::Value {
        // Everything in it was read from a file or is a default: it can be written.
        let mut whole = serde_json::to_value(redact::shown(&self.config)).unwrap_or_default();
        secrets::hide(&mut whole);
        whole
    }

    /// This configuration with the secrets of another one: bots' tokens, servers' secrets, the database's password, and keys
    /// and headers of models that this one lacks.
    pub fn with_secrets_of(mut self, other: &Self) -> Self {
        for (model, key) in &other.keys {
            if self.config.model(model).is_none() {
                self.keys.insert(model.clone(), key.clone());
            }
        }
        for (model, headers) in &other.headers {
            if self.config.model(model).is_none() {
                self.headers.insert(model.clone(), headers.clone());
            }
        }
        self.tokens.clone_from(&other.tokens);
        self.client_keys.clone_from(&other.client_keys);
        self.mcp.extend(other.mcp.clone());
        self.password.clone_from(&other.password);
        self.service_keys.clone_from(&other.service_keys);
        self
    }
}

impl Config {
    /// Finds the config file, or uses the built-in defaults, and resolves it. `flag`: the file that `--config` names.
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

    /// The built-in defaults, whatever files there are.
    ///
    /// # Errors
    /// None that a user could fix.
    pub fn built_in(env: &dyn Environment) -> Result<Loaded, ConfigError> {
        from_text(Path::new("built-in defaults"), "", env)
    }

    /// Resolves the text of a file that is not written yet.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn of_text(file: &Path, text: &str, env: &dyn Environment) -> Result<Loaded, ConfigError> {
        from_text(file, text, env)
    }

    /// Resolves a config file like [`Config::load`], but returns its problems beside the configuration as far as it can be
    /// resolved. Nothing may be started from one that has problems.
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
    // Some editors start a file with a byte order mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Resolves the text of a config file.
fn from_text(file: &Path, text: &str, env: &dyn Environment) -> Result<Loaded, ConfigError> {
    let (loaded, problems) = examined(file, text, env)?;
    if problems.is_empty() { Ok(loaded) } else { Err(ConfigError { problems }) }
}

/// Resolves the text of a config file as far as possible. Returns its problems, too.
fn examined(file: &Path, text: &str, env: &dyn Environment) -> Result<(Loaded, Vec<Problem>), ConfigError> {
    let source = Source::parse(file, text)?;
    let (mut config, out_of_range) = written(&source, text, env)?;
    let mut check = Check::new(&source);
    check.problems = out_of_range;
    config.models = check::check_models(&mut check, config.models, env);
    check::check_agents(&mut check, &mut config);
    for (kind, bots) in [
        (NetworkKind::Discord, &mut config.discord),
        (NetworkKind::Telegram, &mut config.telegram),
        (NetworkKind::Bridge, &mut config.bridges),
    ] {
        *bots = check::check_bots(&mut check, kind, std::mem::take(bots), &config.agents, env);
    }
    check::check_languages(&mut check, &mut config);
    check::check_webhooks(&mut check, &config.telegram);
    config.mcp = check::check_servers(&mut check, config.mcp, env);
    check::check_search(&mut check, &mut config.search, env);
    check::check_fetch(&mut check, &config.fetch, &config.search);
    check::check_services(&mut check, &mut config, env);
    check::check_schedules(&mut check, &config);
    check::check_tools(&mut check, &config);
    check::check_operators(&mut check, &config);
    check::check_limits(&mut check, &config.limits);
    if config.limits.spend_per_day > 0.0 {
        check::check_prices(&mut check, &config.agents, &config.models);
    }
    check::check_log(&mut check, &config.log);
    check::check_admin(&mut check, &config.admin);
    config.openai_api =
        check::check_openai_api(&mut check, std::mem::take(&mut config.openai_api), &config, env);
    check::check_store(&mut check, &mut config, env);
    let Check { mut problems, mut warnings, .. } = check;
    problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
    let Keys { keys, headers, service_keys } = read_keys(&source, &config, env, &mut warnings, &mut problems);
    let tokens = read_tokens(&source, &config, env, &mut warnings);
    let client_keys = read_client_keys(&source, &config.openai_api, env, &mut warnings);
    let password = read_password(&source, &config.store, env).map(|password| {
        password.map(|(password, warning)| {
            warnings.extend(warning.map(|text| format!("[store]: {text}")));
            password
        })
    });
    let secrets =
        |server: &McpConfig| (server.id.clone(), secrets::read_mcp_secrets(server, env, &mut warnings));
    let mcp = config.mcp.iter().map(secrets).collect();
    let warnings = warnings.iter().map(|warning| without_secrets(warning)).collect();
    let origins = Origins::of(&source);
    Ok((
        Loaded {
            config,
            file: None,
            warnings,
            origins,
            keys,
            headers,
            tokens,
            client_keys,
            mcp,
            service_keys,
            password,
        },
        problems,
    ))
}

/// The configuration as written, with `[defaults]` filled in for agents, and the numbers that are out of their ranges.
fn written(
    source: &Source<'_>,
    text: &str,
    env: &dyn Environment,
) -> Result<(Config, Vec<Problem>), ConfigError> {
    let file: toml::Table = toml::from_str(text).map_err(|error| source.type_problem(&error))?;
    let Findings { mut unknown, out_of_range } = Findings::of(source, &file);
    let mut config = match toml::from_str::<Config>(text) {
        Ok(config) if unknown.is_empty() => config,
        Ok(_) => return Err(ConfigError { problems: unknown }),
        Err(error) => {
            unknown.push(source.type_problem(&error));
            return Err(ConfigError { problems: unknown });
        }
    };
    let table = |value: Option<&toml::Value>| value.and_then(toml::Value::as_table).cloned();
    let mut shared = table(file.get("defaults")).unwrap_or_default();
    shared.remove("context_window");
    let agents = file.get("agents").and_then(toml::Value::as_array).filter(|agents| !agents.is_empty());
    let main = || vec![toml::Table::from_iter([("id".to_owned(), "main".into())])];
    let agents =
        agents.map_or_else(main, |agents| agents.iter().filter_map(|agent| table(Some(agent))).collect());
    config.agents = Vec::with_capacity(agents.len());
    for own in agents {
        let has_window = own.contains_key("context_window");
        let mut base = shared.clone();
        // An agent's own prompt replaces that of [defaults], however each is given.
        if own.contains_key("prompt") || own.contains_key("prompt_text") {
            base.retain(|key, _| key != "prompt" && key != "prompt_text");
        }
        let agent: Result<AgentConfig, _> = laid_over(base, own).try_into();
        let mut agent = agent.map_err(|error| source.type_problem(&error))?;
        if !has_window {
            agent.context_window = None;
        }
        config.agents.push(agent);
    }
    for agent in config.agents.iter_mut().chain([&mut config.defaults]) {
        for prompt in [&mut agent.prompt, &mut agent.compactor_prompt].into_iter().flatten() {
            *prompt = source.dir().join(secrets::expanded(prompt, env)).components().collect();
        }
    }
    if let Some(folder) = &mut config.embeddings.folder {
        *folder = source.dir().join(secrets::expanded(folder, env)).components().collect();
    }
    Ok((config, out_of_range))
}

/// Lays an agent's keys over those of `[defaults]`, key by key, within their tables, too.
fn laid_over(mut base: toml::Table, own: toml::Table) -> toml::Table {
    for (key, value) in own {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(own)) => base.extend(own),
            (_, value) => drop(base.insert(key, value)),
        }
    }
    base
}

/// Reads the tokens of the bots that are used.
fn read_tokens(
    source: &Source<'_>,
    config: &Config,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, Result<SecretString, Problem>> {
    let mut tokens = BTreeMap::<String, Result<SecretString, Problem>>::new();
    for kind in NetworkKind::ALL.into_iter().chain([NetworkKind::Bridge]) {
        for (idx, bot) in config.bots().filter(|bot| bot.kind == kind).enumerate() {
            let at = check::bot_path(source, kind, idx);
            let Some(token) = read_token(source, &at, bot, env) else { continue };
            let token = token.and_then(|(token, warning)| {
                let is_same = |known: &Result<SecretString, _>| {
                    known.as_ref().is_ok_and(|known| known.expose_secret() == token.expose_secret())
                };
                let of_network = |platform: &str| config.bot(platform).is_some_and(|bot| bot.kind == kind);
                let same = tokens.iter().find(|(platform, known)| of_network(platform) && is_same(known));
                if let Some((other, _)) = same {
                    return Err(Problem::new(format!("{} has the token of the bot `{other}`", bot.table()))
                        .at(source.key_place(&at))
                        .hint(
                            "each bot has a token of its own: make one more on the network's page for bots",
                        ));
                }
                warnings.extend(warning.map(|text| format!("{}: {text}", bot.table())));
                Ok(token)
            });
            tokens.insert(bot.platform(), token);
        }
    }
    tokens
}

/// Reads the keys of clients of the OpenAI-compatible endpoint, if it is configured.
fn read_client_keys(
    source: &Source<'_>,
    api: &OpenAiApiConfig,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, Result<SecretString, Problem>> {
    let mut keys = BTreeMap::<String, Result<SecretString, Problem>>::new();
    for (idx, key) in api.keys.iter().enumerate().filter(|_| api.listen.is_some()) {
        let named = secrets::SecretSource {
            what: "key",
            env_key: "key_env",
            variable: key.key_env.as_deref(),
            file: key.key_file.as_deref(),
            is_word: true,
        };
        let field = if key.key_env.is_some() { "key_env" } else { "key_file" };
        let problem = |why: String| {
            let at = key_path!["openai_api", "keys", idx, field];
            Problem::new(format!("`{field}` of the key `{}` of [openai_api]: {why}", key.name))
                .at(source.value_place(&at))
                .hint("`head -c 32 /dev/urandom | base64` makes a key")
        };
        let Some(read) = named.read(env) else { continue };
        let read = read.map_err(|why| problem(why.to_string())).and_then(|(secret, warning)| {
            warnings.extend(warning.map(|text| format!("[openai_api]: {text}")));
            let is_same = |known: &Result<SecretString, _>| {
                known.as_ref().is_ok_and(|known| known.expose_secret() == secret.expose_secret())
            };
            if secret.expose_secret().len() < CLIENT_KEY_MIN {
                return Err(problem(format!("it has fewer than {CLIENT_KEY_MIN} characters")));
            }
            match keys.iter().find(|(_, known)| is_same(known)) {
                Some((other, _)) => Err(problem(format!("it is the same as that of `{other}`"))),
                None => Ok(secret),
            }
        });
        keys.insert(key.name.clone(), read);
    }
    keys
}

/// Shortest key of a client, in bytes.
const CLIENT_KEY_MIN: usize = 16;

/// Keys and secret headers of servers that are asked with them.
struct Keys {
    /// By model.
    keys: BTreeMap<String, SecretString>,
    headers: BTreeMap<String, BTreeMap<String, SecretString>>,
    service_keys: BTreeMap<&'static str, SecretString>,
}

fn read_keys(
    source: &Source<'_>,
    config: &Config,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
    problems: &mut Vec<Problem>,
) -> Keys {
    let (mut keys, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for (idx, model) in config.models.iter().enumerate() {
        let named = (model.api_key_env.as_deref(), model.api_key_file.as_deref());
        match secrets::read_key(&format!("model `{}`", model.id), named, env, warnings) {
            Ok(key) => keys.extend(key.map(|key| (model.id.clone(), key))),
            Err(why) => {
                let (of, at) = (format!("the model `{}`", model.id), key_path!["models", idx]);
                problems.push(bad_key(source, &of, &at, named.0.is_some(), &why));
            }
        }
        headers.insert(model.id.clone(), secrets::read_headers(model, env, warnings));
    }
    /// A table, whether it is used, and where its key is.
    macro_rules! service {
        ($table:ident, $used:ident) => {{
            let of = &config.$table;
            (stringify!($table), of.$used.is_some(), (of.api_key_env.as_deref(), of.api_key_file.as_deref()))
        }};
    }
    let services = [
        service!(transcribe, model),
        service!(speak, model),
        service!(embeddings, model),
        service!(rerank, model),
        service!(search, provider),
    ];
    let mut service_keys = BTreeMap::new();
    for (table, _, named) in services.into_iter().filter(|(_, is_used, _)| *is_used) {
        match secrets::read_key(&format!("[{table}]"), named, env, warnings) {
            Ok(key) => service_keys.extend(key.map(|key| (table, key))),
            Err(why) => {
                let of = format!("[{table}]");
                problems.push(bad_key(source, &of, &key_path![table], named.0.is_some(), &why));
            }
        }
    }
    Keys { keys, headers, service_keys }
}

/// The problem of a key that cannot be sent in a header. `at`: its table.
fn bad_key(source: &Source<'_>, of: &str, at: &[Seg], is_variable: bool, why: &str) -> Problem {
    let key = if is_variable { "api_key_env" } else { "api_key_file" };
    let path: Vec<Seg> = at.iter().cloned().chain([Seg::from(key)]).collect();
    Problem::new(format!("`{key}` of {of}: {why}"))
        .at(source.value_place(&path))
        .hint("copy the key anew from the provider's page")
}

/// Reads the token of a bot that is used. `at`: its table.
fn read_token(
    source: &Source<'_>,
    at: &[Seg],
    bot: Bot<'_>,
    env: &dyn Environment,
) -> Option<Result<(SecretString, Option<String>), Problem>> {
    let network = bot.network;
    if !network.enabled {
        return None;
    }
    let key = if network.token_env.is_some() { "token_env" } else { "token_file" };
    let named = secrets::SecretSource {
        what: "token",
        env_key: "token_env",
        variable: network.token_env.as_deref(),
        file: network.token_file.as_deref(),
        is_word: true,
    };
    Some(named.read(env)?.map_err(|why| {
        Problem::new(format!("`{key}` of {}: {why}", bot.table()))
            .at(source.value_place(&check::below(at, key)))
            .hint("the network's own page for bots shows the token; `enabled = false` leaves the bot out")
    }))
}

fn read_password(
    source: &Source<'_>,
    store: &Store,
    env: &dyn Environment,
) -> Option<Result<(SecretString, Option<String>), Problem>> {
    let key = if store.password_env.is_some() { "password_env" } else { "password_file" };
    let named = secrets::SecretSource {
        what: "password",
        env_key: "password_env",
        variable: store.password_env.as_deref(),
        file: store.password_file.as_deref(),
        is_word: false,
    };
    Some(named.read(env)?.map_err(|why| {
        Problem::new(format!("`{key}` of [store]: {why}"))
            .at(source.value_place(&key_path!["store", key]))
            .hint("it is the password of the account in `url`")
    }))
}

/// The name of this machine, as Linux has it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
