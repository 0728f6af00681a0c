//! `[discord]`, `[telegram]`, `[commands]`, prices and limits: what they come to, and what is said of mistakes.

use std::path::Path;

use cairn_core::access::{AccessRequest, AccessVerdict, ChatPlace, DirectPolicy, Respond};
use cairn_core::command::Command;
use cairn_core::ids::AgentId;
use cairn_core::pairing_store::PairingStatus;
use rstest::rstest;
use secrecy::ExposeSecret;

use super::{error, fine};
use crate::config::{Config, FixedEnvironment, Loaded, NetworkKind};

const AGENTS: &str = "[[agents]]\nid = \"main\"\n[[agents]]\nid = \"helper\"\n";

fn network(kind: &str, lines: &str) -> String {
    format!("{AGENTS}[{kind}]\ntoken_env = \"TOKEN\"\n{lines}\n")
}

#[test]
fn a_network_that_no_table_names_is_not_used() {
    let config = fine(AGENTS).config;
    assert_eq!((config.discord, config.telegram), (None, None));
}

#[test]
fn ids_are_numbers_or_texts_and_come_out_the_same() {
    let text = network(
        "telegram",
        "users = [7, \"8\"]\nchats = [-1001, \"-1002\"]\n[[telegram.places]]\nchat = -1001\nthread = \"5\"\n\
         agent = \"helper\"\nrespond = \"all\"",
    );
    let config = fine(&text).config;
    let policy = config.telegram.unwrap().policy(&AgentId::from("main"));
    assert_eq!(policy.users.iter().collect::<Vec<_>>(), ["7", "8"]);
    assert_eq!(policy.chats.iter().collect::<Vec<_>>(), ["-1001", "-1002"]);
    assert_eq!((policy.direct, policy.respond), (DirectPolicy::Pairing, Respond::Mention));
    let place = ChatPlace::Group { server: None, chat: "-1001", thread: Some("5") };
    let approach = AccessRequest {
        user: "9",
        standing: PairingStatus::Stranger,
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
    let token = |kind| loaded.token(kind).map(ExposeSecret::expose_secret);
    assert_eq!(token(NetworkKind::Discord), Some("env-canary"));
    assert_eq!(token(NetworkKind::Telegram), Some("file-canary"));
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
