//! `[[mcp]]`: tool servers that speak the Model Context Protocol, and `[fetch]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cairn_core::tool::is_entry;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::agents::below;
use super::check::{Check, key_path};
use super::env::Environment;
use super::secrets::{key_file, read_words};
use super::source::Seg;
use super::types::AgentConfig;
use super::url;

/// Longest id of a server: it stands before the names of its tools.
const ID_MAX: usize = 24;

/// Headers that hold secrets: their values are not written into the file.
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];

/// `[[mcp]]`: a tool server, and how to run or reach it. Either `command` or `url`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpConfig {
    /// The name by which agents refer to it: `ID/TOOL`.
    pub id: String,
    /// The program of a server that is run as a child: a path, or a name that is looked for in the daemon's `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables; it gets no others, not even `PATH`.
    pub env: BTreeMap<String, String>,
    /// Its secret variables, each with the daemon's variable that holds the value.
    pub env_from_env: BTreeMap<String, String>,
    /// Its secret variables, each with the file that holds the value; a relative one is looked for among systemd's
    /// credentials first.
    pub env_from_file: BTreeMap<String, PathBuf>,
    /// Its working folder; unset: one of its own in the state folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Most memory for its data, in MiB; 0: no limit.
    pub memory_mib: u64,
    /// Most files that it may have open; 0: no limit.
    pub open_files: u64,
    /// Where a server listens that is reached by streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Secret headers, each with the daemon's variable that holds the value.
    pub headers_from_env: BTreeMap<String, String>,
    /// Secret headers, each with the file that holds the value.
    pub headers_from_file: BTreeMap<String, PathBuf>,
    /// Longest that one call may take, in seconds.
    pub timeout_secs: u64,
    /// Longest that its start may take, in seconds: until it has listed its tools.
    pub start_timeout_secs: u64,
    /// Largest message that is read from it, in MiB.
    pub max_message_mib: u64,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_from_env: BTreeMap::new(),
            env_from_file: BTreeMap::new(),
            cwd: None,
            memory_mib: 1024,
            open_files: 256,
            url: None,
            headers: BTreeMap::new(),
            headers_from_env: BTreeMap::new(),
            headers_from_file: BTreeMap::new(),
            timeout_secs: 60,
            start_timeout_secs: 30,
            max_message_mib: 16,
        }
    }
}

/// `[fetch]`: the built-in tool that reads texts from the web.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FetchConfig {
    /// Agents that list `fetch` among their tools may use it.
    pub enabled: bool,
    /// Hosts that it may ask: names, `*.` before a name for all below it, `*` for all; with a port where it is not 80 or 443.
    pub hosts: Vec<String>,
    /// Most that is read of a text, in KiB.
    pub max_kib: u64,
    /// Longest that it may take in all, in seconds.
    pub timeout_secs: u64,
    /// Most redirects that it follows.
    pub max_redirects: u32,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { enabled: false, hosts: Vec::new(), max_kib: 1024, timeout_secs: 20, max_redirects: 5 }
    }
}

/// The secret values of a server, by their names.
#[derive(Debug, Clone, Default)]
pub struct McpSecrets {
    /// Variables.
    pub env: BTreeMap<String, SecretString>,
    /// Headers.
    pub headers: BTreeMap<String, SecretString>,
}

/// Checks the servers, and finds their files.
pub(super) fn resolve(
    check: &mut Check<'_, '_>,
    servers: Vec<McpConfig>,
    env: &dyn Environment,
) -> Vec<McpConfig> {
    let mut out: Vec<McpConfig> = Vec::with_capacity(servers.len());
    for (idx, mut server) in servers.into_iter().enumerate() {
        let at = key_path!["mcp", idx];
        check_id(check, &at, &server, idx, &out);
        check_reach(check, &at, &server);
        check_names(check, &at, &server);
        let dir = check.source.dir();
        server.cwd = server.cwd.map(|cwd| dir.join(cwd).components().collect());
        for file in server.env_from_file.values_mut().chain(server.headers_from_file.values_mut()) {
            *file = key_file(file, dir, env);
        }
        for (key, value, low, high, unit) in [
            ("memory_mib", server.memory_mib, 0, 1 << 20, "MiB"),
            ("open_files", server.open_files, 0, 1 << 20, "files"),
            ("timeout_secs", server.timeout_secs, 1, 86_400, "seconds"),
            ("start_timeout_secs", server.start_timeout_secs, 1, 3_600, "seconds"),
            ("max_message_mib", server.max_message_mib, 1, 1_024, "MiB"),
        ] {
            check.within(&below(&at, key), value, low, high, unit);
        }
        out.push(server);
    }
    out
}

fn check_id(check: &mut Check<'_, '_>, at: &[Seg], server: &McpConfig, idx: usize, before: &[McpConfig]) {
    let at = below(at, "id");
    let id = &server.id;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if id.is_empty() {
        check.wrong(&at, format!("number {} of [[mcp]] has no `id`", idx + 1), "add one: id = \"files\"");
    } else if id.len() > ID_MAX || !id.bytes().all(fits) {
        let message = format!("`id` = \"{id}\" is no name of a server");
        check.wrong(&at, message, "write 1 to 24 of the characters A-Z a-z 0-9 -");
    } else if let Some(first) = before.iter().position(|other| other.id == *id) {
        let message = format!("two servers have the id `{id}` (numbers {} and {})", first + 1, idx + 1);
        check.wrong(&at, message, "give each its own id");
    }
}

fn check_reach(check: &mut Check<'_, '_>, at: &[Seg], server: &McpConfig) {
    let id = &server.id;
    match (&server.command, &server.url) {
        (None, None) => check.wrong(
            &below(at, "id"),
            format!("the server `{id}` has neither `command` nor `url`"),
            "write the program that it is, or where it listens",
        ),
        (Some(_), Some(_)) => check.wrong(
            &below(at, "url"),
            format!("the server `{id}` has both `command` and `url`"),
            "keep one of the two",
        ),
        (Some(command), None) if command.trim().is_empty() => {
            check.wrong(&below(at, "command"), "`command` is empty".to_owned(), "write a program");
        }
        (Some(_), None) => {}
        (None, Some(address)) => {
            if let Some(trouble) = url::trouble(address, &["http://", "https://"]) {
                let message = format!("`url` = \"{}\" {trouble}", url::shown(address));
                check.wrong(&below(at, "url"), message, "such as url = \"https://tools.example/mcp\"");
            }
        }
    }
}

fn check_names(check: &mut Check<'_, '_>, at: &[Seg], server: &McpConfig) {
    let id = &server.id;
    for name in server.headers.keys().filter(|name| SECRET_HEADERS.contains(&&*name.to_lowercase())) {
        check.wrong(
            &below(&below(at, "headers"), name),
            format!("`{name}` of the server `{id}` is a secret, and secrets are not written into this file"),
            "name its variable in `headers_from_env` or its file in `headers_from_file`",
        );
    }
    let looks_secret = |name: &&String| {
        let name = name.to_uppercase();
        ["TOKEN", "SECRET", "PASSWORD", "API_KEY"].iter().any(|part| name.contains(part))
    };
    for name in server.env.keys().filter(looks_secret) {
        check.warnings.push(format!(
            "server `{id}`: `{name}` looks like a secret; name where it is in `env_from_env` or `env_from_file`"
        ));
    }
}

/// Checks `[fetch]`.
pub(super) fn check_fetch(check: &mut Check<'_, '_>, fetch: &FetchConfig) {
    for (key, value, low, high, unit) in [
        ("max_kib", fetch.max_kib, 1, 1 << 16, "KiB"),
        ("timeout_secs", fetch.timeout_secs, 1, 600, "seconds"),
        ("max_redirects", u64::from(fetch.max_redirects), 0, 20, "redirects"),
    ] {
        check.within(&key_path!["fetch", key], value, low, high, unit);
    }
    if fetch.enabled && fetch.hosts.is_empty() {
        check.warnings.push("[fetch] is enabled and may ask no host; name some in `hosts`".to_owned());
    }
    for (idx, host) in fetch.hosts.iter().enumerate() {
        let bare = host.strip_prefix("*.").unwrap_or(host);
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
        if host != "*" && (bare.is_empty() || !bare.bytes().all(fits)) {
            let message = format!("`hosts` has \"{host}\", which is no name of a host");
            check.wrong(
                &key_path!["fetch", "hosts", idx],
                message,
                "such as \"docs.rs\" or \"*.example.org\"",
            );
        }
    }
}

/// Checks the tools and the people that agents name.
pub(super) fn check_agent(
    check: &mut Check<'_, '_>,
    at: &[Seg],
    agent: &AgentConfig,
    servers: &[McpConfig],
    fetch: &FetchConfig,
) {
    let id = &agent.id;
    for tool in &agent.tools {
        let path = place(check, at, "tools");
        match tool.split_once('/') {
            Some((server, _)) if !servers.iter().any(|known| known.id == server) => {
                let message =
                    format!("agent `{id}` names tools of the server `{server}`, which is not in [[mcp]]");
                check.wrong(&path, message, "correct the name, or add the server");
            }
            Some((_, "")) => {
                check.wrong(&path, format!("agent `{id}`: `{tool}` names no tool"), "such as \"files/*\"");
            }
            Some(_) => {}
            None if tool == "fetch" => {
                if !fetch.enabled {
                    check
                        .warnings
                        .push(format!("agent `{id}` names `fetch`, which is off; set enabled in [fetch]"));
                }
            }
            None => {
                let message = format!("agent `{id}` names the tool `{tool}`, which there is not");
                let hint = "tools of a server are written \"SERVER/TOOL\" or \"SERVER/*\"; besides there is \"fetch\"";
                check.wrong(&path, message, hint);
            }
        }
    }
    check_trust(check, at, agent, servers);
    // Files of earlier versions have entries that name nothing.
    for entry in agent.result_guard.classes.keys() {
        if let Some((message, hint)) = wrong_entry("classes", entry, servers) {
            let warning = format!("{message}; {hint}");
            if !check.warnings.contains(&warning) {
                check.warnings.push(warning);
            }
        }
    }
}

/// The key of an agent's table, or of `[defaults]` where it is set there.
fn place(check: &Check<'_, '_>, at: &[Seg], key: &str) -> Vec<Seg> {
    let mut paths = [at.to_vec(), key_path!["defaults"].to_vec()].into_iter().map(|table| below(&table, key));
    paths.find(|path| check.source.sets(path)).unwrap_or_else(|| below(at, key))
}

fn check_trust(check: &mut Check<'_, '_>, at: &[Seg], agent: &AgentConfig, servers: &[McpConfig]) {
    let (id, trust) = (&agent.id, &agent.trust);
    let path = place(check, at, "trust");
    for (key, people) in [("trusted", &trust.trusted), ("approvers", &trust.approvers)] {
        for person in people {
            let is_person = person.split_once('/').is_some_and(|(platform, user)| {
                ["local", "discord", "telegram"].contains(&platform) && !user.is_empty()
            });
            if !is_person {
                let message = format!("agent `{id}`: `{key}` has \"{person}\", which names nobody");
                check.wrong(
                    &below(&path, key),
                    message,
                    "write PLATFORM/USER, such as \"telegram/12345\", or \"local/*\"",
                );
            }
        }
    }
    check.within(&below(&path, "approval_secs"), trust.approval_secs, 10, 86_400, "seconds");
    for entry in &trust.always_allow {
        if let Some((message, hint)) = wrong_entry("always_allow", entry, servers) {
            check.wrong(&below(&path, "always_allow"), format!("agent `{id}`: {message}"), hint);
        }
    }
}

/// Why an entry of a list can name no tool, as far as the file tells, and what to do.
fn wrong_entry(key: &str, entry: &str, servers: &[McpConfig]) -> Option<(String, &'static str)> {
    if !is_entry(entry) {
        let hint = "write a tool's name, \"SERVER/TOOL\", \"SERVER/*\" or \"*\"";
        return Some((format!("`{key}` has \"{entry}\", which names no tool"), hint));
    }
    let (server, _) = entry.split_once('/')?;
    (!servers.iter().any(|known| known.id == server)).then(|| {
        let message = format!("`{key}` names tools of the server `{server}`, which is not in [[mcp]]");
        (message, "correct the name, or add the server")
    })
}

/// Reads the secrets of a server. One that should be there and is not is a warning: the server is run without it.
pub(super) fn read_secrets(
    server: &McpConfig,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> McpSecrets {
    let mut read =
        |what: &str, from_env: &BTreeMap<String, String>, from_file: &BTreeMap<String, PathBuf>| {
            let mut out = BTreeMap::new();
            let named = from_env.iter().map(|(name, variable)| (name, Some(variable), None));
            let filed = from_file.iter().map(|(name, file)| (name, None, Some(file)));
            for (name, variable, file) in named.chain(filed) {
                let mut warn =
                    |text: String| warnings.push(format!("server `{}`: {what} `{name}`: {text}", server.id));
                match read_words(what, variable, file, env) {
                    Ok((value, warning)) => {
                        warning.into_iter().for_each(warn);
                        out.insert(name.clone(), value);
                    }
                    Err(why) => warn(format!("{why}; it is left out")),
                }
            }
            out
        };
    McpSecrets {
        env: read("the variable", &server.env_from_env, &server.env_from_file),
        headers: read("the header", &server.headers_from_env, &server.headers_from_file),
    }
}
