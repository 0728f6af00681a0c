//! Checks of `[discord]` and `[telegram]`.

use cairn_core::access::DirectPolicy;
use cairn_core::command::CommandPermissions;

use super::{Check, below, key_path, known_names};
use crate::config::env::Environment;
use crate::config::given::is_person;
use crate::config::secrets::{key_file, looks_secret};
use crate::config::source::Seg;
use crate::config::types::{AgentConfig, Network, NetworkKind, PlaceKeys, PlatformId, is_id};
use crate::config::url;

/// Checks a network's table and makes its paths absolute.
pub(in crate::config) fn check_network(
    check: &mut Check<'_, '_>,
    kind: NetworkKind,
    written: Option<Network>,
    agents: &[AgentConfig],
    env: &dyn Environment,
) -> Option<Network> {
    let mut network = written?;
    check_token(check, kind, &network);
    check_urls(check, kind, &mut network);
    check_agent(check, &[Seg::from(kind.name())], network.agent.as_deref(), agents);
    for (key, ids) in [
        ("users", &network.users),
        ("servers", &network.servers),
        ("chats", &network.chats),
        ("members", &network.members),
    ] {
        check_ids(check, kind, &key_path![kind.name(), key], ids);
    }
    for (idx, place) in network.places.iter().enumerate() {
        check_place(check, kind, idx, place, agents);
    }
    warn_if_deaf(check, kind, &network);
    network.token_file = network.token_file.map(|file| key_file(&file, check.source.dir(), env));
    Some(network)
}

fn check_token(check: &mut Check<'_, '_>, kind: NetworkKind, network: &Network) {
    let name = kind.name();
    match (&network.token_env, &network.token_file) {
        (Some(_), Some(_)) => {
            let message = format!("[{name}] has both token_env and token_file");
            check.wrong(&key_path![name, "token_file"], message, "keep one of the two");
        }
        (None, None) if network.enabled => {
            let hint = format!(
                "name the variable or the file that holds the bot's token: token_env = \"{}_TOKEN\"",
                name.to_uppercase()
            );
            check.wrong(&key_path![name], format!("[{name}] has neither token_env nor token_file"), &hint);
        }
        _ => {}
    }
    if let Some(variable) = &network.token_env {
        check.variable(&key_path![name, "token_env"], "token_env", variable);
    }
    if network.token_file.as_ref().is_some_and(|file| looks_secret(&file.to_string_lossy())) {
        check.wrong(
            &key_path![name, "token_file"],
            "`token_file` holds the token itself",
            super::SECRETS_APART,
        );
    }
}

fn check_urls(check: &mut Check<'_, '_>, kind: NetworkKind, network: &mut Network) {
    let example = "such as api_url = \"http://127.0.0.1:8081\"";
    let at = key_path![kind.name(), "api_url"];
    if let Some(url) = &mut network.api_url {
        *url = url.trim_end_matches('/').to_owned();
        let (calls, too_long) = match kind {
            NetworkKind::Discord => ("/api", "must end before /api"),
            NetworkKind::Telegram => ("/bot", "must end before /bot"),
        };
        let path = url.splitn(4, '/').nth(3).map(|path| format!("/{path}/")).unwrap_or_default();
        let too_long = path.contains(&format!("{calls}/")).then(|| too_long.to_owned());
        if let Some(trouble) = url::trouble(url, &["http://", "https://"]).or(too_long) {
            check.wrong(&at, format!("`api_url` = \"{}\" {trouble}", url::shown(url)), example);
        }
    }
    if let Some(cdn) = &network.cdn_url
        && let Some(trouble) = url::trouble(cdn, &["http://", "https://"])
    {
        let message = format!("`cdn_url` = \"{}\" {trouble}", url::shown(cdn));
        check.wrong(
            &key_path![kind.name(), "cdn_url"],
            message,
            "such as cdn_url = \"http://127.0.0.1:8083\"",
        );
    }
    let at = key_path![kind.name(), "gateway_url"];
    let Some(gateway) = &network.gateway_url else { return };
    if let Some(trouble) = url::trouble(gateway, &["ws://", "wss://"]) {
        let message = format!("`gateway_url` = \"{}\" {trouble}", url::shown(gateway));
        check.wrong(&at, message, "such as gateway_url = \"ws://127.0.0.1:8082\"");
        return;
    }
    match &network.api_url {
        None => check.wrong(
            &at,
            "`gateway_url` is set and `api_url` is not: the token would go to two owners",
            "set api_url to the same host, too, or leave gateway_url out",
        ),
        Some(api) if url::host(api) != url::host(gateway) => {
            let message = format!(
                "`gateway_url` is on the host {}, `api_url` on {}: the token would go to both",
                url::host(gateway),
                url::host(api)
            );
            check.wrong(&at, message, "both must be on the same host");
        }
        Some(_) => {}
    }
}

fn check_agent(check: &mut Check<'_, '_>, table: &[Seg], agent: Option<&str>, agents: &[AgentConfig]) {
    let Some(agent) = agent else { return };
    let known: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    if !known.contains(&agent) {
        let message = format!("`agent` = \"{agent}\" is not in [[agents]]");
        check.wrong(&below(table, "agent"), message, &known_names(agent, &known, "agents"));
    }
}

fn check_ids(check: &mut Check<'_, '_>, kind: NetworkKind, list: &[Seg], ids: &[PlatformId]) {
    for (idx, id) in ids.iter().enumerate().filter(|(_, id)| !is_id(id.as_str(), kind)) {
        let path: Vec<Seg> = list.iter().cloned().chain([Seg::from(idx)]).collect();
        wrong_id(check, kind, &path, id.as_str());
    }
}

fn wrong_id(check: &mut Check<'_, '_>, kind: NetworkKind, path: &[Seg], id: &str) {
    let hint = match kind {
        NetworkKind::Discord => {
            "ids are numbers such as 1122334455667788990: in Discord switch on the developer mode, then right-click \
             and copy the id"
        }
        NetworkKind::Telegram => {
            "ids are numbers, those of groups negative, such as -1001234567890, never @names: the log of `cairn run` \
             names the ids of chats that are not on a list"
        }
    };
    check.wrong(path, format!("\"{id}\" is no id on {}", kind.name()), hint);
}

fn check_place(
    check: &mut Check<'_, '_>,
    kind: NetworkKind,
    idx: usize,
    place: &PlaceKeys,
    agents: &[AgentConfig],
) {
    let at = key_path![kind.name(), "places", idx];
    let below = |key: &str| below(&at, key);
    for (key, id) in [("server", &place.server), ("chat", &place.chat), ("thread", &place.thread)] {
        if let Some(id) = id.as_ref().filter(|id| !is_id(id.as_str(), kind)) {
            wrong_id(check, kind, &below(key), id.as_str());
        }
    }
    check_ids(check, kind, &below("members"), place.members.as_deref().unwrap_or_default());
    check_agent(check, &at, place.agent.as_deref(), agents);
    if place.server.is_none() && place.chat.is_none() && place.thread.is_none() {
        let message = format!("number {} of [[{}.places]] names no place", idx + 1, kind.name());
        check.wrong(&at, message, "name a chat, or one of its threads");
    }
    if place.thread.is_some() && place.chat.is_none() && kind == NetworkKind::Telegram {
        let message = format!("number {} of [[telegram.places]] names a topic without its chat", idx + 1);
        check.wrong(&below("thread"), message, "topics are numbered in each chat again: name the chat, too");
    }
}

/// Nobody can reach the bot: that works, and is probably not meant.
fn warn_if_deaf(check: &mut Check<'_, '_>, kind: NetworkKind, network: &Network) {
    let private = match network.direct {
        DirectPolicy::Pairing | DirectPolicy::Open => true,
        DirectPolicy::Allowlist => !network.users.is_empty(),
        DirectPolicy::Off => false,
    };
    let groups = !(network.servers.is_empty() && network.chats.is_empty() && network.places.is_empty());
    if network.enabled && !private && !groups {
        check.warn(format!(
            "[{}]: nobody can talk to the bot: `direct` lets nobody in and no chat is named; set `users` or `chats`",
            kind.name()
        ));
    }
}

/// Checks the names of the operators: `PLATFORM/USER`.
pub(in crate::config) fn check_operators(check: &mut Check<'_, '_>, commands: &CommandPermissions) {
    for (idx, operator) in commands.operators.iter().enumerate() {
        if !is_person(operator) {
            check.wrong(
                &key_path!["commands", "operators", idx],
                format!("\"{operator}\" names nobody"),
                "write PLATFORM/USER with the person's id there, such as \"telegram/123456789\"",
            );
        }
    }
}
