//! `[discord]`, `[telegram]`, `[commands]`, prices and limits: what they come to, and what is said of mistakes.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_types::command::Command;
use cairn_types::ids::AgentId;
use cairn_types::people::access::{AccessRequest, AccessVerdict, ChatPlace, DirectPolicy, Respond};
use cairn_types::people::pairing::PairingStatus;
use rstest::rstest;
use secrecy::ExposeSecret;

use super::{error, fine};
use crate::{Config, FixedEnvironment, Loaded, NetworkKind};

const AGENTS: &str = "[[agents]]\nid = \"main\"\n[[agents]]\nid = \"helper\"\n";

fn network(kind: &str, lines: &str) -> String {
    format!("{AGENTS}[{kind}]\ntoken_env = \"TOKEN\"\n{lines}\n")
}

#[test]
fn a_network_that_no_table_names_is_not_used() {
    let config = fine(AGENTS).config;
    assert_eq!(config.bots().count(), 0);
}

#[test]
fn ids_are_numbers_or_texts_and_come_out_the_same() {
    let text = network(
        "telegram",
        "users = [7, \"8\"]\nchats = [-1001, \"-1002\"]\n[[telegram.places]]\nchat = -1001\nthread = \"5\"\n\
         agent = \"helper\"\nrespond = \"all\"",
    );
    let config = fine(&text).config;
    let policy = config.telegram[0].policy(&AgentId::from("main"));
    assert_eq!(policy.users.iter().collect::<Vec<_>>(), ["7", "8"]);
    assert_eq!(policy.chats.iter().collect::<Vec<_>>(), ["-1001", "-1002"]);
    assert_eq!((policy.direct, policy.respond), (DirectPolicy::Pairing, Respond::Mention));
    let place = ChatPlace::Group { server: None, chat: "-1001", thread: Some("5") };
    let approach = AccessRequest {
        user: "9",
        standing: PairingStatus::Stranger,
        standing_of_group: PairingStatus::Stranger,
        myself: false,
        bot: false,
        calls_me: false,
        place,
    };
    let expected = AccessVerdict::Serve { agent: AgentId::from("helper"), addressed: true };
    assert_eq!(policy.judge(&approach), expected);
}

#[rstest]
#[case::name("telegram", "users = [\"@ann\"]", "4:", "\"@ann\" is no id on telegram")]
#[case::negative("discord", "chats = [-5]", "4:", "\"-5\" is no id on discord")]
#[case::fraction("discord", "chats = [1.5]", "4:", "an id, as a number or as its digits in quotes")]
#[case::place("telegram", "[[telegram.places]]\nchat = \"club\"", "5:", "\"club\" is no id")]
#[case::nowhere("discord", "[[discord.places]]\nrespond = \"all\"", "4:", "names no place")]
#[case::topic("telegram", "[[telegram.places]]\nthread = 5", "5:", "without its chat")]
#[case::agent("discord", "agent = \"helpr\"", "4:", "did you mean `helper`?")]
#[case::place_agent(
    "discord",
    "[[discord.places]]\nchat = 1\nagent = \"bob\"",
    "6:",
    "there are: main, helper"
)]
#[case::servers("telegram", "servers = [1]", "4:", "unknown key `servers` in [telegram]")]
#[case::server("telegram", "[[telegram.places]]\nserver = 1\nchat = 2", "5:", "unknown key `server`")]
#[case::gateway("telegram", "gateway_url = \"ws://x\"", "4:", "unknown key `gateway_url`")]
#[case::shards("telegram", "shards = 2", "4:", "only Discord has it")]
#[case::no_shards("discord", "shards = 0", "4:", "`shards` = 0 is out of range")]
#[case::policy("discord", "direct = \"pair\"", "4:", "pairing")]
#[case::other_host(
    "discord",
    "api_url = \"http://a.example\"\ngateway_url = \"ws://b.example\"",
    "5:",
    "both must be on the same host"
)]
#[case::gateway_alone("discord", "gateway_url = \"wss://b.example\"", "4:", "`api_url` is not")]
#[case::files("discord", "cdn_url = \"cdn.example\"", "4:", "must begin with http:// or https://")]
#[case::files_of("telegram", "cdn_url = \"https://x\"", "4:", "unknown key `cdn_url`")]
#[case::scheme("discord", "api_url = \"a.example\"", "4:", "must begin with http:// or https://")]
#[case::path("discord", "api_url = \"https://a.example/api/v10\"", "4:", "must end before /api")]
#[case::account("telegram", "api_url = \"http://me:secret@a\"", "4:", "has an account in it")]
#[case::interval("discord", "draft_interval_ms = 1", "4:", "`draft_interval_ms` = 1 is out of range")]
#[case::two("discord", "token_file = \"x\"", "4:", "both token_env and token_file")]
fn a_mistake_in_a_network_is_named_with_its_place(
    #[case] kind: &str,
    #[case] lines: &str,
    #[case] place: &str,
    #[case] said: &str,
) {
    let text =
        network(kind, lines).replacen(AGENTS, "[[agents]]\nid = \"main\"\n[[agents]]\nid = \"helper\"\n", 1);
    let message = error(&text);
    // The table's own lines begin behind those of the agents.
    let line: usize = place.trim_end_matches(':').parse().unwrap();
    let place = format!(":{}:", line + 3);
    assert!(message.contains(&place) && message.contains(said), "{place} {message}");
    assert!(!message.contains("secret"), "{message}");
}

#[rstest]
#[case("[discord]\n", "[discord] has neither token_env nor token_file")]
#[case("[discord]\ntoken = \"x\"\n", "tokens are not written into this file")]
#[case("[commands]\noperators = [\"ann\"]\n", "PLATFORM/USER")]
#[case("[commands]\noperators = [\"telegram/@ann\"]\n", "PLATFORM/USER")]
#[case("[commands]\nnew = \"all\"\n", "everyone")]
#[case("[commands]\ndance = \"everyone\"\n", "unknown key `dance` in [commands]")]
fn other_mistakes_are_named_too(#[case] text: &str, #[case] said: &str) {
    let message = error(text);
    assert!(message.contains(said), "{message}");
}

/// Loads a config from a folder of its own.
fn load(dir: &Path, text: &str, env: &FixedEnvironment) -> Loaded {
    let file = dir.join("config.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(Some(&file), env).unwrap()
}

#[test]
fn a_token_comes_from_its_variable_or_file_and_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bot.token"), "file-canary\n").unwrap();
    let text = "[discord]\ntoken_env = \"TOKEN\"\n[telegram]\ntoken_file = \"bot.token\"\n";
    let loaded = load(dir.path(), text, &FixedEnvironment::new("/").with("TOKEN", "env-canary"));
    loaded.check_tokens().unwrap();
    let token = |platform| loaded.token(platform).map(ExposeSecret::expose_secret);
    assert_eq!(token("discord"), Some("env-canary"));
    assert_eq!(token("telegram"), Some("file-canary"));
    assert!(loaded.warnings.iter().any(|warning| warning.contains("chmod 600")), "{:?}", loaded.warnings);
    let all = format!("{}{loaded:?}{:?}", loaded.show(), loaded.warnings);
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn a_missing_token_is_an_error_that_names_its_key_unless_the_bot_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let env = FixedEnvironment::new("/");
    let loaded = load(dir.path(), "[telegram]\ntoken_env = \"NOPE\"\n", &env);
    let message = loaded.check_tokens().unwrap_err().to_string();
    assert!(message.contains("`token_env` of [telegram]: $NOPE is not set"), "{message}");
    assert!(message.contains("config.toml:2:"), "{message}");
    let loaded = load(dir.path(), "[telegram]\ntoken_file = \"nope\"\n", &env);
    let message = loaded.check_tokens().unwrap_err().to_string();
    assert!(message.contains("`token_file` of [telegram]: cannot read the token file"), "{message}");
    let loaded = load(dir.path(), "[telegram]\nenabled = false\ntoken_env = \"NOPE\"\n", &env);
    loaded.check_tokens().unwrap();
}

#[test]
fn a_bot_that_nobody_can_reach_is_a_warning() {
    let loaded = fine("[discord]\ntoken_env = \"T\"\ndirect = \"off\"\n");
    assert!(
        loaded.warnings.iter().any(|warning| warning.contains("nobody can talk")),
        "{:?}",
        loaded.warnings
    );
    let loaded = fine("[discord]\ntoken_env = \"T\"\ndirect = \"off\"\nservers = [5]\n");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn operators_may_use_what_others_may_not() {
    let commands = fine("[commands]\noperators = [\"discord/5\"]\nstatus = \"operators\"\n").config.commands;
    assert!(commands.allows(&Command::New, "discord/6", true));
    assert!(!commands.allows(&Command::New, "discord/6", false));
    assert!(commands.allows(&Command::New, "discord/5", false));
    assert!(!commands.allows(&Command::Status, "discord/6", true));
    assert!(!commands.allows(&Command::Status, "telegram/5", true));
}

#[test]
fn a_cap_without_prices_is_a_warning() {
    let loaded = fine("[limits]\nspend_per_day = 2.0\n");
    assert!(loaded.warnings.iter().any(|warning| warning.contains("no model has a price")));
    let model = "[[models]]\nid = \"m\"\nmodel = \"x\"\ninput_price = 0.4\n[[agents]]\nid = \"a\"\nmodels = [\"m\"]\n";
    let loaded = fine(&format!("{model}[limits]\nspend_per_day = 2.0\n"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(loaded.config.prices()["m"].input, 0.4);
}

#[rstest]
#[case("token_env", "123456789:AAverysecret_verysecret_verysecret-1234")]
#[case("token_file", "123456789:AAverysecret_verysecret_verysecret-1234")]
#[case("token_env", "MTEyMjMzNDQ1NTY2Nzc4ODk5.GverYs.verysecret_verysecret_verysecret_1234")]
#[case("token_file", "MTEyMjMzNDQ1NTY2Nzc4ODk5.GverYs.verysecret_verysecret_verysecret_1234")]
fn a_token_that_stands_in_the_file_is_refused_and_never_repeated(#[case] key: &str, #[case] token: &str) {
    let message = error(&format!("[discord]\n{key} = \"{token}\"\n"));
    assert!(message.contains(&format!("`{key}`")), "{message}");
    assert!(!message.contains("verysecret"), "{message}");
}

/// Two bots on Discord, one of them without a name, and one on Telegram that has one.
const BOTS: &str = "[[discord]]\ntoken_env = \"A\"\n[[discord]]\nname = \"work\"\ntoken_env = \"B\"\nusers = [5]\n\
                    [[discord.places]]\nchat = 7\n[telegram]\nname = \"club\"\ntoken_env = \"C\"\n";

#[test]
fn each_bot_is_a_platform_of_its_own() {
    let loaded = fine(&format!("{AGENTS}{BOTS}"));
    let platforms: Vec<_> = loaded.config.bots().map(|bot| bot.platform()).collect();
    assert_eq!(platforms, ["discord", "discord-work", "telegram-club"]);
    let work = loaded.config.bot("discord-work").unwrap();
    assert_eq!((work.network.users.len(), work.network.places.len()), (1, 1), "its own keys");
    assert_eq!(fine(&loaded.show()).config, loaded.config, "what is shown is a file");
    assert!(loaded.config.bot("telegram").is_none());
}

#[test]
fn people_of_a_bot_that_there_is_not_are_a_warning() {
    let lists = |bot: &str| {
        format!("{BOTS}[commands]\noperators = [\"{bot}/5\"]\n[defaults.trust]\napprovers = [\"{bot}/6\"]\n")
    };
    assert!(fine(&lists("discord-work")).warnings.is_empty());
    let warnings = fine(&lists("discord-wrok")).warnings;
    assert!(
        warnings.iter().all(|one| one.contains("no bot `discord-wrok`")) && warnings.len() == 2,
        "{warnings:?}"
    );
}

#[rstest]
#[case::first("discord", Some(NetworkKind::Discord))]
#[case::named("telegram-club_2", Some(NetworkKind::Telegram))]
#[case::without_a_name("discord-", None)]
#[case::upper_case("discord-Work", None)]
#[case::begins_like_one("discordwork", None)]
#[case::local("local", None)]
fn a_platform_tells_its_network(#[case] platform: &str, #[case] network: Option<NetworkKind>) {
    assert_eq!(NetworkKind::of_platform(platform), network);
}

#[rstest]
#[case::no_name(
    "[[discord]]\ntoken_env = \"A\"\n[[discord]]\ntoken_env = \"B\"\n",
    ":3:",
    "numbers 1 and 2 of [[discord]] have no `name`"
)]
#[case::same(
    "[[telegram]]\nname = \"a\"\ntoken_env = \"A\"\n[[telegram]]\nname = \"a\"\ntoken_env = \"B\"\n",
    ":5:",
    "two bots of [[telegram]] have the name `a`"
)]
#[case::bad_name(
    "[discord]\nname = \"My Bot\"\ntoken_env = \"A\"\n",
    ":2:",
    "`name` = \"My Bot\" is no name of a bot"
)]
#[case::its_own_line(
    "[[discord]]\ntoken_env = \"A\"\n[[discord]]\nname = \"b\"\ntoken_env = \"B\"\nusers = [\"@x\"]\n",
    ":6:",
    "no id on discord"
)]
#[case::no_token(
    "[[discord]]\ntoken_env = \"A\"\n[[discord]]\nname = \"b\"\n",
    ":3:",
    "[discord] `b` has neither"
)]
#[case::unknown(
    "[[discord]]\ntoken_env = \"A\"\nwebhook_url = \"https://a.example\"\n",
    ":3:",
    "only Telegram has it"
)]
#[case::operator("[commands]\noperators = [\"discord-b/@x\"]\n", ":2:", "names nobody")]
fn a_mistake_among_several_bots_is_named_with_its_place(
    #[case] text: &str,
    #[case] place: &str,
    #[case] said: &str,
) {
    let message = error(text);
    assert!(message.contains(place) && message.contains(said), "{message}");
}

#[test]
fn one_token_serves_one_bot() {
    let dir = tempfile::tempdir().unwrap();
    let env = FixedEnvironment::new("/").with("A", "canary").with("B", "canary").with("C", "other");
    let loaded = load(dir.path(), BOTS, &env);
    let message = loaded.check_tokens().unwrap_err().to_string();
    assert!(message.contains("[discord] `work` has the token of the bot `discord`"), "{message}");
    assert!(!message.contains("canary"), "{message}");
    assert_eq!(loaded.token("discord-work").map(ExposeSecret::expose_secret), None);
    assert_eq!(loaded.token("telegram-club").map(ExposeSecret::expose_secret), Some("other"));
}

#[rstest]
#[case::plain("webhook_url = \"http://bot.example.org/x\"", "must begin with https://")]
#[case::query("webhook_url = \"https://bot.example.org/x?y\"", "`?` or `#`")]
#[case::port("webhook_url = \"https://bot.example.org:444/x\"", "443, 80, 88 and 8443")]
#[case::own_machine("webhook_url = \"https://localhost/x\"", "no address that Telegram can reach")]
#[case::private("webhook_url = \"https://192.168.0.7/x\"", "no address that Telegram can reach")]
#[case::path("webhook_url = \"https://bot.example.org/{x}\"", "in its path")]
#[case::steps("webhook_url = \"https://bot.example.org/b/../a\"", "`..` in its path")]
#[case::alone("webhook_listen = \"127.0.0.1:9465\"", "`webhook_url` is not")]
#[case::listen(
    "webhook_url = \"https://bot.example.org\"\nwebhook_listen = \"localhost:1\"",
    "not an address with a port"
)]
#[case::no_port(
    "webhook_url = \"https://bot.example.org\"\nwebhook_listen = \"127.0.0.1:0\"",
    "not an address with a port"
)]
fn a_webhook_that_telegram_could_not_reach_is_refused(#[case] lines: &str, #[case] said: &str) {
    let message = error(&network("telegram", lines));
    assert!(message.contains(said), "{message}");
}

#[test]
fn webhooks_are_served_at_paths_of_their_own() {
    let bots = |second: &str| {
        let bot = |name: &str, url: &str| {
            format!("[[telegram]]\nname = \"{name}\"\ntoken_env = \"{name}\"\nwebhook_url = \"{url}\"\n")
                .replace("token_env = \"", "token_env = \"T")
        };
        bot("a", "https://bot.example.org/a") + &bot("b", second)
    };
    let loaded = fine(&bots("https://bot.example.org:8443/b"));
    let addresses: BTreeSet<_> =
        loaded.config.bots().filter_map(|bot| bot.network.webhook_address()).collect();
    assert_eq!(addresses.into_iter().collect::<Vec<_>>(), ["127.0.0.1:9465".parse().unwrap()]);
    let message = error(&bots("https://other.example.org/a"));
    assert!(message.contains("two bots have their webhook at 127.0.0.1:9465/a"), "{message}");
    fine(&(bots("https://other.example.org/a") + "enabled = false\n"));
    let loaded = fine(&network(
        "telegram",
        "webhook_url = \"https://bot.example.org\"\nwebhook_listen = \"0.0.0.0:80\"",
    ));
    assert!(loaded.warnings.iter().any(|one| one.contains("without TLS")), "{:?}", loaded.warnings);
}

/// A bridge with a free name and ids of its network.
const BRIDGE: &str = "[[bridges]]\nname = \"matrix\"\ntoken_env = \"M\"\nusers = [\"@ann:example.org\"]\n\
                      chats = [\"!room:example.org\"]\nlisten = \"127.0.0.1:9466\"\n[[bridges.places]]\n\
                      chat = \"!other:example.org\"\nrespond = \"all\"\n";

#[test]
fn a_bridge_is_the_platform_of_its_name() {
    let people = "[commands]\noperators = [\"matrix/@ann:example.org\"]\n[defaults.trust]\napprovers = [\"matrix/@bob:x\"]\n";
    let loaded = fine(&format!("{AGENTS}{BRIDGE}{people}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let bot = loaded.config.bot("matrix").unwrap();
    assert_eq!((bot.kind, bot.platform()), (NetworkKind::Bridge, "matrix".to_owned()));
    assert_eq!(bot.network.bridge_address(), Some("127.0.0.1:9466".parse().unwrap()));
    assert_eq!(fine(&loaded.show()).config, loaded.config, "what is shown is a file");
    let policy = bot.network.policy(&AgentId::new("main"));
    assert!(policy.users.contains("@ann:example.org") && policy.direct == DirectPolicy::Pairing);
}

#[rstest]
#[case::no_name("[[bridges]]\ntoken_env = \"A\"\n", "number 1 of [[bridges]] has no `name`")]
#[case::bad_name("[[bridges]]\nname = \"My Net\"\ntoken_env = \"A\"\n", "is no name of a bot")]
#[case::local("[[bridges]]\nname = \"local\"\ntoken_env = \"A\"\n", "belongs to another platform")]
#[case::discord("[[bridges]]\nname = \"discord-2\"\ntoken_env = \"A\"\n", "belongs to another platform")]
#[case::twice(
    "[[bridges]]\nname = \"irc\"\ntoken_env = \"A\"\n[[bridges]]\nname = \"irc\"\ntoken_env = \"B\"\n",
    "two bots of [[bridges]] have the name `irc`"
)]
#[case::no_token("[[bridges]]\nname = \"irc\"\n", "[bridges] `irc` has neither")]
#[case::id("[[bridges]]\nname = \"irc\"\ntoken_env = \"A\"\nusers = [\"a b\"]\n", "no id on a bridge")]
#[case::listen(
    "[[bridges]]\nname = \"irc\"\ntoken_env = \"A\"\nlisten = \"nowhere\"\n",
    "not an address with a port"
)]
#[case::shards("[[bridges]]\nname = \"irc\"\ntoken_env = \"A\"\nshards = 2\n", "only Discord has it")]
#[case::listen_elsewhere(
    "[discord]\ntoken_env = \"A\"\nlisten = \"127.0.0.1:9466\"\n",
    "unknown key `listen`"
)]
#[case::operator("[commands]\noperators = [\"matrix/@x:y\"]\n", "names nobody")]
#[case::approver("[defaults.trust]\napprovers = [\"matrix/@x:y\"]\n", "names nobody")]
fn a_mistake_in_a_bridge_is_told(#[case] text: &str, #[case] said: &str) {
    let message = error(text);
    assert!(message.contains(said), "{message}");
}
