//! Checks of `[[mcp]]` and `[fetch]`, and of the tools and people that agents name.

use std::path::Path;

use cairn_types::ids::{LOCAL_PLATFORM, OPENAI_PLATFORM};
use cairn_types::tool::is_entry;

use super::{Check, IdRule, below, key_path};
use crate::env::Environment;
use crate::secrets::{expanded, key_file};
use crate::source::Seg;
use crate::types::{AgentConfig, Config, FetchConfig, McpConfig, NetworkKind, SearchConfig};
use crate::url;

/// A server's id is put before the names of its tools.
const IDS: IdRule =
    IdRule { table: "mcp", one: "a server", many: "servers", example: "files", longest: 24, signs: "-" };

/// Headers that hold secrets: their values are not written into the file.
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];

/// Checks the servers, and makes their paths absolute.
pub(crate) fn check_servers(
    check: &mut Check<'_, '_>,
    servers: Vec<McpConfig>,
    env: &dyn Environment,
) -> Vec<McpConfig> {
    let mut out: Vec<McpConfig> = Vec::with_capacity(servers.len());
    for (idx, mut server) in servers.into_iter().enumerate() {
        let at = key_path!["mcp", idx];
        let ids: Vec<&str> = out.iter().chain([&server]).map(|server| server.id.as_str()).collect();
        check.id(&IDS, &ids);
        check_reach(check, &at, &server);
        check_names(check, &at, &server);
        let dir = check.source.dir();
        server.cwd = server.cwd.map(|cwd| dir.join(expanded(&cwd, env)).components().collect());
        // A command without a folder is looked for in the PATH.
        if let Some(command) = server.command.as_mut().filter(|command| command.starts_with("~/")) {
            *command = expanded(Path::new(command), env).display().to_string();
        }
        for file in server.env_from_file.values_mut().chain(server.headers_from_file.values_mut()) {
            *file = key_file(file, dir, env);
        }
        out.push(server);
    }
    out
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
        (Some(command), None) => {
            let mut words = command.split_whitespace();
            // The path of a program may have spaces in it.
            if let (Some(program), Some(_)) = (words.next(), words.clone().next())
                && !program.contains('/')
            {
                let arguments: Vec<String> = words.map(|word| format!("{word:?}")).collect();
                check.wrong(
                    &below(at, "command"),
                    format!("`command` of the server `{id}` has arguments in it, which belong in `args`"),
                    &format!("such as command = {program:?} and args = [{}]", arguments.join(", ")),
                );
            }
        }
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
    for (table, variables) in
        [("env_from_env", &server.env_from_env), ("headers_from_env", &server.headers_from_env)]
    {
        for (name, variable) in variables {
            check.variable(&below(&below(at, table), name), &format!("{table}.{name}"), variable);
        }
    }
    let looks_secret = |name: &&String| {
        let name = name.to_uppercase();
        ["TOKEN", "SECRET", "PASSWORD", "API_KEY"].iter().any(|part| name.contains(part))
    };
    for name in server.env.keys().filter(looks_secret) {
        check.warn(format!(
            "server `{id}`: `{name}` looks like a secret; name where it is in `env_from_env` or `env_from_file`"
        ));
    }
}

/// Checks `[search]`, and finds its key file.
pub(crate) fn check_search(check: &mut Check<'_, '_>, search: &mut SearchConfig, env: &dyn Environment) {
    let Some(provider) = search.provider else { return };
    let at = |key: &str| key_path!["search", key];
    match search.url() {
        "" => check.wrong(&at("provider"), "SearXNG has no `base_url`", "add the address of your server"),
        url => {
            if let Some(why) = url::trouble(url, &["http://", "https://"]) {
                check.wrong(
                    &at("base_url"),
                    format!("`base_url` {why}"),
                    "such as \"http://127.0.0.1:8888\"",
                );
            }
        }
    }
    if provider.needs_key() && search.api_key_env.is_none() && search.api_key_file.is_none() {
        check.warn("[search] names no key, and its service takes no search without one".to_owned());
    }
    check.key("[search]", &key_path!["search"], search.api_key_env.as_deref(), &mut search.api_key_file, env);
}

pub(crate) fn check_fetch(check: &mut Check<'_, '_>, fetch: &FetchConfig, search: &SearchConfig) {
    if fetch.enabled && fetch.hosts.is_empty() && search.provider.is_none() {
        check.warn("[fetch] is enabled and may ask no host; name some in `hosts`".to_owned());
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
pub(crate) fn check_tools(check: &mut Check<'_, '_>, config: &Config) {
    for (idx, agent) in config.agents.iter().enumerate() {
        check_agent(check, &key_path!["agents", idx], agent, config);
    }
}

fn check_agent(check: &mut Check<'_, '_>, at: &[Seg], agent: &AgentConfig, config: &Config) {
    let Config { mcp: servers, fetch, search, .. } = config;
    let id = &agent.id;
    for tool in &agent.tools {
        let path = check.set_at(at, &["tools"]);
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
                    check.warn(format!("agent `{id}` names `fetch`, which is off; set enabled in [fetch]"));
                }
            }
            None if tool == "web_search" => {
                if search.provider.is_none() {
                    check.warn(format!(
                        "agent `{id}` names `web_search`, which is off; set provider in [search]"
                    ));
                }
            }
            None => {
                let message = format!("agent `{id}` names the tool `{tool}`, which there is not");
                let hint = "tools of a server are written \"SERVER/TOOL\" or \"SERVER/*\"; besides there are \"fetch\" and \"web_search\"";
                check.wrong(&path, message, hint);
            }
        }
    }
    check_trust(check, at, agent, config);
    // Entries that name nothing are only a warning, since files of earlier versions have them.
    for entry in agent.result_guard.classes.keys() {
        if let Some((message, hint)) = wrong_entry("classes", entry, servers) {
            check.warn(format!("{message}; {hint}"));
        }
    }
}

fn check_trust(check: &mut Check<'_, '_>, at: &[Seg], agent: &AgentConfig, config: &Config) {
    let servers = &config.mcp;
    let (id, trust) = (&agent.id, &agent.trust);
    for (key, people) in [("trusted", &trust.trusted), ("approvers", &trust.approvers)] {
        for person in people {
            let is_person = person.split_once('/').is_some_and(|(platform, user)| {
                ([LOCAL_PLATFORM, OPENAI_PLATFORM].contains(&platform)
                    || NetworkKind::of_platform(platform).is_some()
                    || config.bot(platform).is_some())
                    && !user.is_empty()
            });
            if !is_person {
                let message = format!("agent `{id}`: `{key}` has \"{person}\", which names nobody");
                check.wrong(
                    &check.set_at(at, &["trust", key]),
                    message,
                    "write PLATFORM/USER, such as \"telegram/12345\", or \"local/*\"",
                );
            }
        }
    }
    for entry in &trust.always_allow {
        if let Some((message, hint)) = wrong_entry("always_allow", entry, servers) {
            let path = check.set_at(at, &["trust", "always_allow"]);
            check.wrong(&path, format!("agent `{id}`: {message}"), hint);
        }
    }
}

/// Why an entry of a list can name no tool, as far as the file shows, and a hint.
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
