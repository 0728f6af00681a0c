//! What a reload tells, and what holds after it.

use std::path::Path;
use std::sync::Arc;

use rstest::rstest;
use serde_json::json;

use super::*;
use cairn_config::{Config, FixedEnvironment, Loaded};

const FILE: &str = "\
[[models]]
id = \"one\"
base_url = \"http://127.0.0.1:1/v1\"
model = \"m\"

[[models]]
id = \"two\"
base_url = \"http://127.0.0.1:2/v1\"
model = \"m\"

[[agents]]
id = \"main\"
models = [\"one\"]

[[agents]]
id = \"other\"
models = [\"two\"]

[telegram]
token_env = \"TOKEN\"
users = [12]
";

fn loaded(text: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    let env = FixedEnvironment::new("/").with("TOKEN", "1:abc").with("OTHER", "1:def").with("KEY", "k");
    Config::load(Some(Path::new(&file)), &env).unwrap()
}

/// What differs when `from` is written as `to`: keys that change at once, keys that a restart changes.
fn differing(from: &str, to: &str) -> (Vec<String>, Vec<String>) {
    assert!(FILE.contains(from), "{from}");
    let (old, new) = (Arc::new(loaded(FILE)), loaded(&FILE.replacen(from, to, 1)));
    let merged = merged(&old, new.clone());
    let keys = |changes: Vec<KeyChange>| changes.into_iter().map(|change| change.key).collect();
    (keys(changes(&old, &merged)), keys(changes(&merged, &new)))
}

#[rstest]
#[case::nothing("[telegram]", "[telegram]", "", "")]
#[case::threshold(
    "[telegram]",
    "[defaults.compaction]\nbackground_threshold = 0.5\n\n[telegram]",
    "agents[main].compaction.background_threshold agents[other].compaction.background_threshold",
    ""
)]
#[case::window(
    "[telegram]",
    "[defaults]\ncontext_window = 50000\n\n[telegram]",
    "defaults.context_window",
    ""
)]
#[case::new_server("[telegram]", "[[mcp]]\nid = \"s\"\ncommand = \"x\"\n\n[telegram]", "mcp mcp[s]", "")]
#[case::retention("[telegram]", "[retention]\njournal_days = 9\n\n[telegram]", "retention.journal_days", "")]
#[case::chain("models = [\"one\"]", "models = [\"one\", \"two\"]", "agents[main].models", "")]
#[case::engine("models = [\"one\"]", "models = [\"one\"]\nengine = \"sliding\"", "", "agents[main].engine")]
#[case::default_engine(
    "[telegram]",
    "[defaults]\nengine = \"sliding\"\n\n[telegram]",
    "",
    "agents[main].engine agents[other].engine"
)]
#[case::model("http://127.0.0.1:1/v1", "http://127.0.0.1:3/v1", "models[one].base_url", "")]
#[case::key(
    "model = \"m\"",
    "model = \"m\"\napi_key_env = \"KEY\"",
    "models[one].api_key_env models[one].key",
    ""
)]
#[case::allow_list("users = [12]", "users = [12, 13]", "telegram.users", "")]
#[case::token("TOKEN", "OTHER", "", "telegram.token_env telegram.token")]
#[case::off("users = [12]", "users = [12]\nenabled = false", "", "telegram.enabled")]
#[case::second_bot(
    "[telegram]",
    "[[telegram]]\nname = \"b\"\ntoken_env = \"OTHER\"\n\n[[telegram]]",
    "",
    "telegram-b telegram-b.token"
)]
#[case::webhook(
    "users = [12]",
    "users = [12]\nwebhook_url = \"https://a.example\"",
    "",
    "telegram.webhook_url"
)]
#[case::level("[telegram]", "[log]\nlevel = \"debug\"\n\n[telegram]", "log.level", "")]
#[case::format("[telegram]", "[log]\nformat = \"json\"\n\n[telegram]", "", "log.format")]
#[case::queue(
    "[telegram]",
    "[limits]\nchannel_queue = 9\nadmitted_messages = 9\n\n[telegram]",
    "limits.channel_queue",
    "limits.admitted_messages"
)]
#[case::operators(
    "[telegram]",
    "[commands]\noperators = [\"telegram/12\"]\n\n[telegram]",
    "commands.operators",
    ""
)]
#[case::store("[telegram]", "[store]\nsegment_mib = 7\n\n[telegram]", "", "store.segment_mib")]
#[case::watched("[[models]]", "watch = true\n[[models]]", "watch", "")]
fn what_changes_at_once_and_what_does_not(
    #[case] from: &str,
    #[case] to: &str,
    #[case] live: &str,
    #[case] restart: &str,
) {
    let words = |keys: &str| keys.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(differing(from, to), (words(live), words(restart)));
}

#[test]
fn secrets_are_not_shown() {
    let changes = changes(&loaded(FILE), &loaded(&FILE.replacen("TOKEN", "OTHER", 1)));
    let token = changes.iter().find(|change| change.key == "telegram.token").unwrap();
    assert_eq!((&token.from, &token.to), (&json!("(hidden)"), &json!("(hidden)")));
    let shown = serde_json::to_string(&changes).unwrap();
    assert!(!shown.contains("1:abc") && !shown.contains("1:def"), "{shown}");
}

#[rstest]
#[case::body(
    "[[models]]\nid = \"three\"\nbase_url = \"http://127.0.0.1:3/v1\"\nmodel = \"m\"\n\
     extra_body = { auth = { key = \"secr3t-one\" } }",
    "models[three].extra_body.auth.key",
    ""
)]
#[case::header(
    "[[models]]\nid = \"three\"\nbase_url = \"http://127.0.0.1:3/v1\"\nmodel = \"m\"\n\
     extra_headers = { X-Team = \"Bearer secr3t-one\" }",
    "models[three].extra_headers.X-Team",
    ""
)]
#[case::variable(
    "[[mcp]]\nid = \"s\"\ncommand = \"x\"\nenv = { DB_PASSWORD = \"secr3t-one\" }",
    "",
    "mcp[s].env.DB_PASSWORD"
)]
#[case::argument(
    "[[mcp]]\nid = \"s\"\ncommand = \"x\"\nargs = [\"--token\", \"secr3t-one\"]",
    "",
    "mcp[s].args"
)]
fn what_is_hidden_is_listed_when_it_changes_and_stays_hidden(
    #[case] table: &str,
    #[case] live: &str,
    #[case] restart: &str,
) {
    let read = |secret: &str| loaded(&format!("{}\n\n{FILE}", table.replace("secr3t-one", secret)));
    let (old, new) = (Arc::new(read("secr3t-one")), read("secr3t-two"));
    let merged = merged(&old, new.clone());
    let changed = [changes(&old, &merged), changes(&merged, &new)];
    let keys = |changes: &Vec<KeyChange>| changes.iter().map(|change| &*change.key).collect::<String>();
    assert_eq!(changed.each_ref().map(keys), [live, restart]);
    let hidden = json!("(hidden)");
    let all = changed.concat();
    assert!(all.iter().all(|change| change.from == hidden && change.to == hidden), "{all:?}");
}

#[test]
fn a_secret_that_was_written_anew_into_its_file_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let text = format!(
        "[store]\nurl = \"postgres://cairn@h/d\"\npassword_file = \"{0}\"\n\n\
         [[mcp]]\nid = \"s\"\ncommand = \"x\"\nenv_from_file = {{ A = \"{0}\" }}\n\n{FILE}",
        file.display()
    );
    let read = |secret: &str| {
        std::fs::write(&file, secret).unwrap();
        loaded(&text)
    };
    let (old, new) = (read("secr3t-one"), read("secr3t-two"));
    let changes = changes(&old, &new);
    let keys: Vec<&str> = changes.iter().map(|change| &*change.key).collect();
    assert_eq!(keys, ["mcp[s].env.A", "store.password"]);
    assert!(!format!("{changes:?}").contains("secr3t"), "{changes:?}");
}

#[test]
fn what_holds_is_the_new_file_except_what_only_a_restart_changes() {
    let old = Arc::new(loaded(FILE));
    // Another first agent, `main` gone with its model, another token, no network, other sizes.
    let new = "[[models]]\nid = \"two\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n\n\
               [[agents]]\nid = \"other\"\nmodels = [\"two\"]\nengine = \"sliding\"\nmax_rounds = 3\n\n\
               [store]\nsegment_mib = 7\n\n[log]\nlevel = \"debug\"\nformat = \"json\"\n";
    let new = loaded(new);
    let merged = merged(&old, new.clone());
    let (config, before) = (&merged.config, &old.config);
    assert_eq!(config.default_agent(), before.default_agent());
    assert_eq!(config.agent("main"), before.agent("main"));
    assert_eq!(config.model("one"), before.model("one"));
    let other = config.agent("other").unwrap();
    assert_eq!((&*other.engine, other.max_rounds), ("standard", 3));
    assert_eq!(config.model("two"), new.config.model("two"));
    assert_eq!((&config.store, &config.telegram), (&before.store, &before.telegram));
    assert_eq!((&*config.log.level, config.log.format), ("debug", before.log.format));
    assert!(merged.token("telegram").is_some());
    let keys = |changes: Vec<KeyChange>| changes.into_iter().map(|change| change.key).collect::<Vec<_>>();
    let changed = ["agents[other].max_rounds", "log.level", "models[two].base_url"];
    assert_eq!(keys(changes(&old, &merged)), changed);
    let left = [
        "agents",
        "agents[main]",
        "agents[other].engine",
        "log.format",
        "models[one]",
        "store.segment_mib",
        "telegram",
    ];
    assert_eq!(keys(changes(&merged, &new)), left);
}

#[test]
fn a_model_that_an_agent_has_for_its_compactions_alone_stays_with_the_agent() {
    let with_model = "models = [\"one\"]\n\n[agents.compaction]\nmodel = \"two\"";
    let old = Arc::new(loaded(&FILE.replacen("models = [\"one\"]", with_model, 1)));
    let new = loaded(
        "[[models]]\nid = \"one\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\n\
         [[agents]]\nid = \"new\"\nmodels = [\"one\"]\n",
    );
    let merged = merged(&old, new);
    assert_eq!(merged.config.agent("main"), old.config.agent("main"));
    assert_eq!(merged.config.model("two"), old.config.model("two"));
}
