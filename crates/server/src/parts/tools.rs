//! All tools that agents may call at the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{BadTool, all_tools};
use cairn_core::builtin_tools::effect_of_builtin;
use cairn_tools::fetch::{BadFetch, Fetch, FetchSettings};
use cairn_tools::mcp::{Reach, ServerSettings, Servers, Surroundings};
use cairn_tools::search::{BadSearch, Found, Search, SearchSettings, Service};
use cairn_types::ports::{Clock, Tool, Toolset};
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::mcp::pins::Pins;
use cairn_types::tool::{Effect, SERVER_SEPARATOR, is_entry, is_granted, server_of};
use secrecy::SecretString;

use crate::parts::OWN_BINARY;
use cairn_config::{
    AgentConfig, Config, Environment as _, FetchConfig, Loaded, McpConfig, ProcessEnvironment, SearchProvider,
};

/// The name of the tool that reads web pages.
const FETCH: &str = "fetch";

/// The name of the tool that searches the web.
const WEB_SEARCH: &str = "web_search";

/// Pause before a failed server is restarted; doubles with each further failure.
const RESTART_BASE: Duration = Duration::from_secs(1);

const RESTART_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
pub enum BadTools {
    /// A tool that is linked into this binary.
    #[error(transparent)]
    Linked(#[from] BadTool),
    /// `fetch`.
    #[error("[fetch]: {0}")]
    Fetch(#[from] BadFetch),
    /// `web_search`.
    #[error("[search]: {0}")]
    Search(#[from] BadSearch),
}

/// All tools: built-in, linked, `fetch`, and those of tool servers.
pub struct ToolRegistry {
    /// Built-in and linked tools, which all agents have.
    common: Vec<ToolDef>,
    linked: Vec<Arc<dyn Tool>>,
    fetch: Option<Arc<dyn Tool>>,
    search: Option<Arc<dyn Tool>>,
    servers: Servers,
    /// The state folder, which has the working folders of servers.
    state: PathBuf,
}

impl ToolRegistry {
    /// The tools of a configuration, and those linked into this binary. Nothing is started.
    ///
    /// # Errors
    /// A linked tool, or `fetch`, cannot be offered.
    pub fn new(
        loaded: &Loaded,
        state: &Path,
        pins: Pins,
        linked: Vec<Arc<dyn Tool>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadTools> {
        let common = all_tools(&linked)?;
        let servers: Vec<_> =
            loaded.config.mcp.iter().map(|server| settings(loaded, server, state)).collect();
        let found = Arc::new(Found::default());
        let search = match search_settings(loaded) {
            Some(settings) => Some(Arc::new(Search::new(settings, found.clone())?) as Arc<dyn Tool>),
            None => None,
        };
        let fetch = &loaded.config.fetch;
        let fetch = match fetch.enabled {
            true => {
                let fetch = Fetch::new(fetch_settings(fetch))?;
                let fetch = if search.is_some() { fetch.with_found(found) } else { fetch };
                Some(Arc::new(fetch) as Arc<dyn Tool>)
            }
            false => None,
        };
        let servers = Servers::new(servers, pins, around(clock));
        Ok(Self { common, linked, fetch, search, servers, state: state.to_owned() })
    }

    /// Adds the servers of a configuration that are not there yet. Nothing is started.
    pub fn add_servers(&self, loaded: &Loaded, pins: Pins) {
        let all = loaded.config.mcp.iter().map(|server| settings(loaded, server, &self.state));
        self.servers.add(all.collect(), pins);
    }

    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// A warning for each entry of `classes` and `always_allow` that names no tool approved at the moment.
    pub fn unmatched(&self, config: &Config) -> BTreeSet<String> {
        let approved = |server: &str| {
            let pin = self.servers.pin(server)?;
            Some(pin.tools.into_iter().map(|tool| tool.name).collect())
        };
        let known = KnownTools::new(config, &self.linked, approved);
        // Linked tools were already checked in `new`.
        known.map_or_else(|_bad_tool| BTreeSet::new(), |known| known.unmatched(&config.agents))
    }

    /// The tools of an agent's model, always in the same order, so that its prompt stays the same.
    pub fn defs(&self, agent: &AgentConfig) -> Vec<ToolDef> {
        self.listed(agent).into_iter().map(|(def, _, _)| def).collect()
    }

    /// The tools of an agent's model, each with its source and effect.
    pub fn listed(&self, agent: &AgentConfig) -> Vec<(ToolDef, String, Effect)> {
        let mut out: Vec<_> = self
            .common
            .iter()
            .map(|def| match self.linked.get(&def.name) {
                Some(tool) => (def.clone(), "linked".to_owned(), tool.effect()),
                None => (def.clone(), "built-in".to_owned(), effect_of_builtin(&def.name)),
            })
            .collect();
        for (name, tool) in [(FETCH, &self.fetch), (WEB_SEARCH, &self.search)] {
            if let Some(tool) = tool.as_ref().filter(|_| is_granted(&agent.tools, name)) {
                out.push((tool.def(), "built-in".to_owned(), tool.effect()));
            }
        }
        let offered = self.servers.offered();
        let mut offered: Vec<_> = offered
            .into_iter()
            .filter(|offered| is_granted(&agent.tools, &offered.def.name))
            .map(|offered| (offered.def, offered.server, offered.effect))
            .collect();
        offered.sort_by(|(a, _, _), (b, _, _)| a.name.cmp(&b.name));
        out.extend(offered);
        out
    }
}

/// All known tools, to find entries in agents' lists that name none.
#[derive(Debug)]
pub struct KnownTools {
    own: BTreeSet<String>,
    /// The approved tools of each server; `None`: there are none, or they are unknown.
    servers: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl KnownTools {
    /// The tools of a configuration. `approved`: the approved tools of a server, by its id.
    ///
    /// # Errors
    /// A linked tool cannot be offered.
    pub fn new(
        config: &Config,
        linked: &[Arc<dyn Tool>],
        approved: impl Fn(&str) -> Option<BTreeSet<String>>,
    ) -> Result<Self, BadTool> {
        let mut own: BTreeSet<_> = all_tools(linked)?.into_iter().map(|def| def.name).collect();
        own.extend(config.fetch.enabled.then(|| FETCH.to_owned()));
        own.extend(config.search.provider.map(|_| WEB_SEARCH.to_owned()));
        let servers = config.mcp.iter().map(|server| (server.id.clone(), approved(&server.id))).collect();
        Ok(Self { own, servers })
    }

    /// A warning for each entry of `classes` and `always_allow` that names no tool. Entries for servers with unknown
    /// tools are skipped.
    pub fn unmatched(&self, agents: &[AgentConfig]) -> BTreeSet<String> {
        let told = |(key, entry): (&str, &String)| match self.find(entry) {
            Match::Missing(why) => {
                Some(format!("`{key}` names \"{entry}\", but {why}; the entry has no effect"))
            }
            Match::Exists | Match::Unknown => None,
        };
        agents.iter().flat_map(entries).filter_map(told).collect()
    }

    /// Whether an entry may name a tool of a server whose tools are unknown.
    pub fn is_open(&self, agents: &[AgentConfig]) -> bool {
        agents.iter().flat_map(entries).any(|(_, entry)| matches!(self.find(entry), Match::Unknown))
    }

    fn find(&self, entry: &str) -> Match {
        if entry == "*" || self.own.contains(entry) || !is_entry(entry) {
            // Invalid entries were reported with the configuration.
            return Match::Exists;
        }
        let Some(server) = server_of(entry) else {
            let has = |tools: &Option<BTreeSet<String>>| tools.as_ref().map(|tools| tools.contains(entry));
            let answers: Vec<_> = self.servers.values().map(has).collect();
            return match answers {
                answers if answers.contains(&Some(true)) => Match::Exists,
                answers if answers.contains(&None) => Match::Unknown,
                _ => Match::Missing("there is no tool of that name".to_owned()),
            };
        };
        let tool = entry[server.len()..].trim_start_matches('/');
        let tool = tool.strip_prefix(SERVER_SEPARATOR).unwrap_or(tool);
        match self.servers.get(server) {
            None if entry.contains('/') => Match::Exists,
            None => Match::Missing(format!("there is no server `{server}` in [[mcp]]")),
            Some(_) if tool == "*" => Match::Exists,
            Some(None) => Match::Unknown,
            Some(Some(tools)) if tools.contains(tool) => Match::Exists,
            Some(Some(_)) => Match::Missing(format!("no tool `{tool}` of `{server}` is approved")),
        }
    }
}

enum Match {
    Exists,
    Unknown,
    /// The reason.
    Missing(String),
}

/// The entries of an agent's `classes` and `always_allow`, with their keys. Entries of `tools` are checked with the
/// configuration.
fn entries(agent: &AgentConfig) -> impl Iterator<Item = (&str, &String)> {
    let classes = agent.result_guard.classes.keys().map(|entry| ("classes", entry));
    classes.chain(agent.trust.always_allow.iter().map(|entry| ("always_allow", entry)))
}

impl Toolset for ToolRegistry {
    fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        if name == FETCH {
            return self.fetch.clone();
        }
        if name == WEB_SEARCH {
            return self.search.clone();
        }
        self.linked.get(name).or_else(|| self.servers.get(name))
    }

    fn why_not(&self, name: &str) -> Option<String> {
        let (server, tool) = name.split_once(SERVER_SEPARATOR)?;
        self.servers.source(server)?;
        Some(match self.servers.pin(server) {
            None => format!(
                "the server `{server}` is not approved; an operator can approve it: `cairn mcp approve {server}`"
            ),
            Some(pin) if pin.tool(tool).is_none() => format!(
                "the server `{server}` has no such tool, or it is not approved; an operator can check: `cairn mcp show {server}`"
            ),
            Some(_) => "this agent may not use it; an operator can add it to the agent's `tools`".to_owned(),
        })
    }
}

/// What servers need from this process.
fn around(clock: Arc<dyn Clock>) -> Surroundings {
    let launcher = Some(OWN_BINARY.into());
    Surroundings { clock, path: ProcessEnvironment.var("PATH"), launcher }
}

fn fetch_settings(fetch: &FetchConfig) -> FetchSettings {
    FetchSettings {
        hosts: fetch.hosts.clone(),
        max_bytes: (fetch.max_kib as usize) << 10,
        timeout: Duration::from_secs(fetch.timeout_secs),
        max_redirects: fetch.max_redirects as usize,
        user_agent: format!("cairn/{}", env!("CARGO_PKG_VERSION")),
    }
}

/// The settings of `web_search`; none: it is off.
pub fn search_settings(loaded: &Loaded) -> Option<SearchSettings> {
    let search = &loaded.config.search;
    let service = match search.provider? {
        SearchProvider::Searxng => Service::Searxng,
        SearchProvider::Brave => Service::Brave,
        SearchProvider::Tavily => Service::Tavily,
    };
    Some(SearchSettings {
        service,
        base_url: search.url().to_owned(),
        key: loaded.service_key("search").cloned(),
        results: search.results as usize,
        timeout: Duration::from_secs(search.timeout_secs),
    })
}

/// The settings of a server, with its secrets. `state`: the state folder, which contains its working folder.
fn settings(loaded: &Loaded, server: &McpConfig, state: &Path) -> ServerSettings {
    let secrets = loaded.mcp_secrets(&server.id);
    let struck_out = secrets.env.values().chain(secrets.headers.values()).cloned().collect();
    let with = |plain: &BTreeMap<String, String>, secret: BTreeMap<String, SecretString>| {
        let plain = plain.iter().map(|(name, value)| (name.clone(), SecretString::from(value.clone())));
        plain.chain(secret).collect::<BTreeMap<_, _>>()
    };
    let reach = match (&server.command, &server.url) {
        (None, Some(url)) => {
            Reach::Http { url: url.clone(), headers: with(&server.headers, secrets.headers) }
        }
        (command, _) => Reach::Stdio {
            command: command.clone().unwrap_or_default(),
            args: server.args.clone(),
            env: with(&server.env, secrets.env),
            cwd: server.cwd.clone().unwrap_or_else(|| state.join("mcp").join(&server.id)),
            own_cwd: server.cwd.is_some(),
            memory_mib: server.memory_mib,
            open_files: server.open_files,
        },
    };
    ServerSettings {
        id: server.id.clone(),
        reach,
        secrets: struck_out,
        start_timeout: Duration::from_secs(server.start_timeout_secs),
        call_timeout: Duration::from_secs(server.timeout_secs),
        message_bytes_max: (server.max_message_mib as usize) << 20,
        sends_files: server.send_files,
        restart_base: RESTART_BASE,
        restart_max: RESTART_MAX,
    }
}
