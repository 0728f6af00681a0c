//! Checks of `[discord]`, `[telegram]` and `[[bridges]]`.

use std::net::IpAddr;

use cairn_types::people::access::DirectPolicy;

use super::{Check, below, key_path, known_names};
use crate::env::Environment;
use crate::given::is_person;
use crate::secrets::{key_file, looks_secret};
use crate::source::{Seg, Source};
use crate::types::{
    AgentConfig, Bot, Bots, Config, Network, NetworkKind, PlaceKeys, PlatformId, is_bridge_name, is_id,
    is_name, reaction,
};
use crate::url;

/// The path of a bot's table in the file.
pub(crate) fn bot_path(source: &Source<'_>, kind: NetworkKind, idx: usize) -> Vec<Seg> {
    let listed = key_path![kind.name(), idx];
    let is_listed = source.sets(&listed);
    if is_listed { listed.to_vec() } else { key_path![kind.name()].to_vec() }
}

/// Checks the tables of a network's bots and makes their paths absolute.
pub(crate) fn check_bots(
    check: &mut Check<'_, '_>,
    kind: NetworkKind,
    bots: Bots,
    agents: &[AgentConfig],
    env: &dyn Environment,
) -> Bots {
    check_names(check, kind, &bots);
    let mut idx = 0;
    bots.map(|bot| {
        let at = bot_path(check.source, kind, idx);
        idx += 1;
        check_bot(check, kind, &at, bot, agents, env)
    })
}

/// Checks that every bot of a network has a name of its own, since that names its platform.
fn check_names(check: &mut Check<'_, '_>, kind: NetworkKind, bots: &Bots) {
    let table = kind.name();
    for (idx, bot) in bots.iter().enumerate() {
        let at = bot_path(check.source, kind, idx);
        let number = idx + 1;
        let before = bots[..idx].iter().position(|other| other.name == bot.name).map(|first| first + 1);
        match (&bot.name, before) {
            (Some(name), _) if kind == NetworkKind::Bridge && is_name(name) && !is_bridge_name(name) => {
                let message = format!("`name` = \"{name}\" belongs to another platform");
                check.wrong(&below(&at, "name"), message, "name the bridge after its network, such as \"matrix\"");
            }
            (None, _) if kind == NetworkKind::Bridge => {
                let message = format!("number {number} of [[bridges]] has no `name`");
                check.wrong(&at, message, "name it after its network: name = \"matrix\"");
            }
            (Some(name), _) if !is_name(name) => {
                let message = format!("`name` = \"{name}\" is no name of a bot");
                let hint = "write 1 to 32 of the characters a-z 0-9 _ -, the first a letter or a digit";
                check.wrong(&below(&at, "name"), message, hint);
            }
            (Some(name), Some(first)) => check.wrong(
                &below(&at, "name"),
                format!("two bots of [[{table}]] have the name `{name}` (numbers {first} and {number})"),
                "give each its own name",
            ),
            (None, Some(first)) => check.wrong(
                &at,
                format!("numbers {first} and {number} of [[{table}]] have no `name`"),
                &format!("one bot may go without, which is the platform `{table}`: add name = \"work\" to the other"),
            ),
            (_, None) => {}
        }
    }
}

fn check_bot(
    check: &mut Check<'_, '_>,
    kind: NetworkKind,
    at: &[Seg],
    mut network: Network,
    agents: &[AgentConfig],
    env: &dyn Environment,
) -> Network {
    let table = Bot { kind, network: &network }.table();
    check_token(check, kind, at, &network);
    check_urls(check, kind, at, &mut network);
    check_webhook(check, at, &network);
    check_listen(check, at, &network);
    check_agent(check, at, network.agent.as_deref(), agents);
    for (key, text) in network.reactions() {
        if let Some(Err(hint)) = text.map(|text| reaction(kind, text)) {
            let message = format!("`{key}` is no reaction of {}", kind.name());
            check.wrong(&below(at, key), message, &hint);
        } else if kind == NetworkKind::Bridge && text.is_some() {
            check.warn(format!("{table}: `{key}` has no effect: bridges set no reactions"));
        }
    }
    for (key, ids) in [
        ("users", &network.users),
        ("servers", &network.servers),
        ("chats", &network.chats),
        ("members", &network.members),
    ] {
        check_ids(check, kind, &below(at, key), ids);
    }
    for (idx, place) in network.places.iter().enumerate() {
        let at: Vec<Seg> = below(at, "places").into_iter().chain([Seg::from(idx)]).collect();
        check_place(check, kind, &at, idx, place, agents);
    }
    warn_if_deaf(check, &table, &network);
    network.token_file = network.token_file.map(|file| key_file(&file, check.source.dir(), env));
    network
}

fn check_token(check: &mut Check<'_, '_>, kind: NetworkKind, at: &[Seg], network: &Network) {
    let bot = Bot { kind, network };
    let table = bot.table();
    match (&network.token_env, &network.token_file) {
        (Some(_), Some(_)) => {
            let message = format!("{table} has both token_env and token_file");
            check.wrong(&below(at, "token_file"), message, "keep one of the two");
        }
        (None, None) if network.enabled => {
            let hint = format!(
                "name the variable or the file that holds the bot's token: token_env = \"{}_TOKEN\"",
                bot.platform().to_uppercase().replace('-', "_")
            );
            check.wrong(at, format!("{table} has neither token_env nor token_file"), &hint);
        }
        _ => {}
    }
    if let Some(variable) = &network.token_env {
        check.variable(&below(at, "token_env"), "token_env", variable);
    }
    if network.token_file.as_ref().is_some_and(|file| looks_secret(&file.to_string_lossy())) {
        check.wrong(&below(at, "token_file"), "`token_file` holds the token itself", super::SECRETS_APART);
    }
}

fn check_urls(check: &mut Check<'_, '_>, kind: NetworkKind, table: &[Seg], network: &mut Network) {
    let example = "such as api_url = \"http://127.0.0.1:8081\"";
    let at = below(table, "api_url");
    if let Some(url) = &mut network.api_url {
        *url = url.trim_end_matches('/').to_owned();
        let (calls, too_long) = match kind {
            NetworkKind::Discord => ("/api", "must end before /api"),
            NetworkKind::Telegram => ("/bot", "must end before /bot"),
            // A key that they do not have.
            NetworkKind::Bridge => return,
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
        check.wrong(&below(table, "cdn_url"), message, "such as cdn_url = \"http://127.0.0.1:8083\"");
    }
    let at = below(table, "gateway_url");
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

/// Checks where a bridge may connect.
fn check_listen(check: &mut Check<'_, '_>, table: &[Seg], network: &Network) {
    let Some(listen) = &network.listen else { return };
    match network.bridge_address() {
        Some(address) if address.port() != 0 => {
            if !address.ip().is_loopback() {
                check.warn(format!(
                    "`listen` = \"{listen}\" of a bridge can be reached from other machines, without TLS: its token and all \
                     messages can be read on the way; put a proxy with TLS in front"
                ));
            }
        }
        Some(_) | None => check.wrong(
            &below(table, "listen"),
            format!("`listen` = \"{listen}\" is not an address with a port"),
            "write numbers, such as \"127.0.0.1:9466\" or \"[::1]:9466\"",
        ),
    }
}

/// The ports that Telegram sends updates to.
const WEBHOOK_PORTS: [&str; 4] = ["443", "80", "88", "8443"];

fn check_webhook(check: &mut Check<'_, '_>, table: &[Seg], network: &Network) {
    let Some(webhook) = &network.webhook_url else {
        if network.webhook_listen.is_some() {
            let message = "`webhook_listen` is set and `webhook_url` is not";
            check.wrong(&below(table, "webhook_listen"), message, "set webhook_url, too, or leave both out");
        }
        return;
    };
    let example = "such as webhook_url = \"https://bot.example.net/telegram\"";
    // A Bot API server of one's own may send anywhere.
    let is_own = network.api_url.is_some();
    let trouble =
        url::trouble(webhook, &["https://"]).or_else(|| webhook_trouble(webhook, is_own).map(str::to_owned));
    if let Some(trouble) = trouble {
        let message = format!("`webhook_url` = \"{}\" {trouble}", url::shown(webhook));
        check.wrong(&below(table, "webhook_url"), message, example);
    }
    let Some(listen) = &network.webhook_listen else { return };
    match network.webhook_address() {
        Some(address) if address.port() != 0 => {
            if !address.ip().is_loopback() {
                check.warn(format!(
                    "`webhook_listen` = \"{listen}\" can be reached from other machines, without TLS: let a firewall see \
                     to it that only your proxy or balancer does"
                ));
            }
        }
        Some(_) | None => check.wrong(
            &below(table, "webhook_listen"),
            format!("`webhook_listen` = \"{listen}\" is not an address with a port"),
            "write numbers, such as \"127.0.0.1:9465\" or \"[::1]:9465\"",
        ),
    }
}

/// What is wrong with a webhook's address for Telegram. `is_own`: a Bot API server of one's own sends there.
fn webhook_trouble(webhook: &str, is_own: bool) -> Option<&'static str> {
    let path = url_path(webhook);
    let fits = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    let host = url::host(webhook);
    let port = authority(webhook).rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    let is_public = host.contains('.') && host.parse::<IpAddr>().ok().is_none_or(is_public);
    match port {
        _ if !path.chars().all(fits) => Some("has other characters than A-Z a-z 0-9 / - . _ ~ in its path"),
        // Two different addresses would have the same path.
        _ if path.split('/').any(|step| [".", ".."].contains(&step)) => Some("has `.` or `..` in its path"),
        _ if !is_own && !is_public => Some("is no address that Telegram can reach"),
        Some(port) if !is_own && !WEBHOOK_PORTS.contains(&port) => {
            Some("has a port that Telegram does not send to; it takes 443, 80, 88 and 8443")
        }
        _ => None,
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified()),
        // Telegram sends only over IPv4.
        IpAddr::V6(_) => false,
    }
}

fn authority(url: &str) -> &str {
    url.split('/').nth(2).unwrap_or_default()
}

fn url_path(url: &str) -> String {
    url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_else(|| "/".to_owned())
}

/// Checks that every webhook has a path of its own at its address.
pub(crate) fn check_webhooks(check: &mut Check<'_, '_>, bots: &Bots) {
    let place = |bot: &Network| {
        let url = bot.webhook_url.as_deref().filter(|_| bot.enabled)?;
        Some((bot.webhook_address()?, url_path(url)))
    };
    for (idx, bot) in bots.iter().enumerate() {
        let Some(own) = place(bot) else { continue };
        if bots[..idx].iter().any(|other| place(other).as_ref() == Some(&own)) {
            let (address, path) = own;
            let at = below(&bot_path(check.source, NetworkKind::Telegram, idx), "webhook_url");
            check.wrong(
                &at,
                format!("two bots have their webhook at {address}{path}"),
                "give each `webhook_url` a path of its own",
            );
        }
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
        NetworkKind::Bridge => {
            "write it as the bridge does, in quotes: up to 255 bytes without white space and `/`"
        }
    };
    let place = if kind == NetworkKind::Bridge { "a bridge" } else { kind.name() };
    check.wrong(path, format!("\"{id}\" is no id on {place}"), hint);
}

fn check_place(
    check: &mut Check<'_, '_>,
    kind: NetworkKind,
    at: &[Seg],
    idx: usize,
    place: &PlaceKeys,
    agents: &[AgentConfig],
) {
    let below = |key: &str| below(at, key);
    for (key, id) in [("server", &place.server), ("chat", &place.chat), ("thread", &place.thread)] {
        if let Some(id) = id.as_ref().filter(|id| !is_id(id.as_str(), kind)) {
            wrong_id(check, kind, &below(key), id.as_str());
        }
    }
    check_ids(check, kind, &below("members"), place.members.as_deref().unwrap_or_default());
    check_agent(check, at, place.agent.as_deref(), agents);
    if place.server.is_none() && place.chat.is_none() && place.thread.is_none() {
        let message = format!("number {} of [[{}.places]] names no place", idx + 1, kind.name());
        check.wrong(at, message, "name a chat, or one of its threads");
    }
    if place.thread.is_some() && place.chat.is_none() && kind == NetworkKind::Telegram {
        let message = format!("number {} of [[telegram.places]] names a topic without its chat", idx + 1);
        check.wrong(&below("thread"), message, "topics are numbered in each chat again: name the chat, too");
    }
}

/// Warns if nobody can talk to the bot, which works but is probably not meant.
fn warn_if_deaf(check: &mut Check<'_, '_>, table: &str, network: &Network) {
    let private = match network.direct {
        DirectPolicy::Pairing | DirectPolicy::Open => true,
        DirectPolicy::Allowlist => !network.users.is_empty(),
        DirectPolicy::Off => false,
    };
    let groups = !(network.servers.is_empty() && network.chats.is_empty() && network.places.is_empty());
    if network.enabled && !private && !groups {
        check.warn(format!(
            "{table}: nobody can talk to the bot: `direct` lets nobody in and no chat is named; set `users` or `chats`"
        ));
    }
}

/// Checks that operators are written as `PLATFORM/USER`. Warns of people on lists whose platform names a bot that does not
/// exist.
pub(crate) fn check_operators(check: &mut Check<'_, '_>, config: &Config) {
    let operators = &config.commands.operators;
    for (idx, operator) in operators.iter().enumerate() {
        let platform = operator.split('/').next().unwrap_or_default();
        let is_known = NetworkKind::of_platform(platform).is_some() || config.bot(platform).is_some();
        if !(is_person(operator) && is_known) {
            check.wrong(
                &key_path!["commands", "operators", idx],
                format!("\"{operator}\" names nobody"),
                "write PLATFORM/USER with the person's id there, such as \"telegram/123456789\"",
            );
        }
    }
    let on_lists =
        config.agents.iter().flat_map(|agent| agent.trust.trusted.iter().chain(&agent.trust.approvers));
    for person in operators.iter().chain(on_lists) {
        let platform = person.split('/').next().unwrap_or_default();
        let is_named = NetworkKind::of_platform(platform).is_some_and(|kind| kind.name() != platform);
        if is_named && config.bot(platform).is_none() {
            check.warn(format!("\"{person}\" names nobody: there is no bot `{platform}`; correct its name"));
        }
    }
}
