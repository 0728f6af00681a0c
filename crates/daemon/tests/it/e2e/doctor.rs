//! `cairn doctor` on good and on broken set-ups, against the fakes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::free_address;
use cairn_testkit::home::{Home, Run};
use cairn_testkit::model::{Answer, Count, FakeModel, Kind, Seen, text_of, tool_names};
use cairn_testkit::telegram::FakeTelegram;
use serde_json::Value;

use crate::e2e::as_a_stranger;
use crate::home;

/// Secrets have this in them; nothing that is printed may.
const CANARY: &str = "sk-canary-0123456789";

/// A house with a model and both bots, all of them fakes.
struct Setup {
    home: Home,
    model: FakeModel,
    discord: FakeDiscord,
    telegram: FakeTelegram,
    group: i64,
}

impl Setup {
    async fn new() -> Self {
        Self::with(FakeModel::builder().advertise(64_000).start().await, FakeDiscord::start().await).await
    }

    async fn with(model: FakeModel, discord: FakeDiscord) -> Self {
        let home = home();
        let telegram = FakeTelegram::start().await;
        discord.guild(100);
        discord.channel(100, 101);
        let group = telegram.group("Hut");
        let setup = Self { home, model, discord, telegram, group };
        setup.home.secret("model.key", CANARY);
        setup.home.secret("discord.token", setup.discord.token());
        setup.home.secret("telegram.token", setup.telegram.token());
        setup.home.file("agent.md.j2", "You are {{ agent }}.");
        setup.home.config(&setup.config());
        setup
    }

    fn config(&self) -> String {
        format!(
            "[[models]]\nid = \"fake\"\nbase_url = \"{}\"\nmodel = \"fake\"\napi_key_file = \"model.key\"\n\
             context_window = 32000\nmax_output_tokens = 1024\n\n\
             [[agents]]\nid = \"main\"\nmodels = [\"fake\"]\nprompt = \"agent.md.j2\"\n\n\
             [discord]\ntoken_file = \"discord.token\"\napi_url = \"{}\"\nservers = [100]\nchats = [101]\n\n\
             [telegram]\ntoken_file = \"telegram.token\"\napi_url = \"{}\"\nchats = [{}]\n",
            self.model.base_url(),
            self.discord.api_url(),
            self.telegram.api_url(),
            self.group,
        )
    }

    /// Changes the configuration.
    fn change(&self, from: &str, to: &str) {
        let text = self.config();
        assert!(text.contains(from), "`{from}` is not in {text}");
        self.home.config(&text.replace(from, to));
    }

    /// What the doctor says; never a secret.
    fn asked(&self, args: &[&str]) -> Run {
        let run = self.home.cairn(&[&["doctor"], args].concat());
        for secret in [CANARY, self.discord.token(), self.telegram.token()] {
            assert!(
                !run.stdout.contains(secret) && !run.stderr.contains(secret),
                "a secret is told: {run:?}"
            );
        }
        run
    }

    fn findings(&self, code: i32) -> Vec<Value> {
        let run = self.asked(&["--json"]).ended(code);
        run.json().as_array().unwrap().clone()
    }

    /// Something of that name is in that state, and says those words, finding or remedy.
    #[track_caller]
    fn finds(&self, code: i32, check: &str, state: &str, words: &[&str]) {
        let findings = self.findings(code);
        let fits = |one: &&Value| {
            let said = format!("{} {}", one["finding"], one["remedy"]);
            one["check"] == check && one["state"] == state && words.iter().all(|word| said.contains(word))
        };
        let found = findings.iter().find(fits);
        let found = found.unwrap_or_else(|| panic!("no {check} {state} with {words:?} in {findings:#?}"));
        assert!(found["remedy"].is_string() || state == "ok" || state == "skipped", "no remedy: {found}");
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_set_up_is_found_to_be_good() {
    let setup = Setup::new().await;
    let findings = setup.findings(0);
    // What room there is on the disk is no matter of ours.
    let bad: Vec<_> = findings
        .iter()
        .filter(|one| one["check"] != "disk" && !["ok", "skipped"].contains(&one["state"].as_str().unwrap()))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    for check in
        ["config", "prompts", "permissions", "disk", "state", "model fake", "clock", "discord", "telegram"]
    {
        assert!(findings.iter().any(|one| one["check"] == check), "{check} is not in {findings:#?}");
    }
    setup.finds(0, "model fake", "ok", &["takes the key", "32,000", "64,000"]);
    setup.finds(0, "discord", "ok", &["(101): the bot may read and write"]);
    setup.finds(0, "telegram", "ok", &["@cairn_test_bot"]);
    setup.model.assert_clean();
    setup.discord.assert_clean();
    setup.telegram.assert_clean();
    let text = setup.asked(&[]).ended(0).stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("ok       config        "), "{text}");
    assert!(text.contains("\nok       clock         ") && text.contains("as the clocks of"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_daemon_is_asked_and_goes_on() {
    let setup = Setup::new().await;
    let config = setup.home.config(&setup.config());
    let key = setup.home.file("model.key", CANARY);
    chmod(&key, 0o644);
    let daemon = setup.home.daemon(Some(&config)).await;
    let log = std::fs::read_to_string(setup.home.state().join("daemon.log")).unwrap();
    let warning = format!("chmod 600 {}", key.display());
    assert!(log.contains(&warning) && !log.contains(CANARY), "a key that is open is told: {log}");
    daemon.client().say("main", "are you there?").await.unwrap();
    setup.finds(0, "state", "ok", &["a daemon runs", "1 channel"]);
    daemon.client().say("main", "and now?").await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
    setup.finds(0, "state", "ok", &["the store", "is fine"]);
    setup.discord.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_model_is_told_with_its_remedy() {
    let setup = Setup::new().await;
    let answers = |answer: Answer| setup.model.push(Kind::Reply, answer);
    answers(Answer::error(401, &format!("Incorrect API key provided: {CANARY}")));
    setup.finds(1, "model fake", "failed", &["refuses the key", "model.key"]);
    answers(Answer::error(404, "The model `fake` does not exist"));
    setup.finds(1, "model fake", "failed", &["does not exist", "`model`"]);
    answers(Answer::error(429, "slow down"));
    setup.finds(0, "model fake", "warning", &["slow down", "later"]);
    setup.change("context_window = 32000", "context_window = 128000");
    setup.finds(0, "model fake", "warning", &["128,000", "64,000", "context_window = 64000"]);
    setup.home.config(&setup.config());
    chmod(&setup.home.file("model.key", CANARY), 0o644);
    setup.finds(0, "permissions", "warning", &["everybody", "model.key", "chmod 600"]);
    setup.change("api_key_file = \"model.key\"", "api_key_env = \"NO_SUCH_KEY\"");
    setup.finds(1, "model fake", "failed", &["$NO_SUCH_KEY is not set"]);
    let port = free_address().port();
    setup.change(&setup.model.base_url(), &format!("http://127.0.0.1:{port}/v1"));
    setup.finds(1, "model fake", "failed", &["cannot be reached", "check that the server runs"]);
    setup.asked(&["--offline"]).ended(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_bot_on_discord_is_told_with_its_remedy() {
    let setup = Setup::new().await;
    setup.discord.deny(101);
    setup.finds(1, "discord", "failed", &["(101)", "lacks Send Messages"]);
    setup.discord.hide(101);
    setup.finds(1, "discord", "failed", &["101", "cannot see the channel"]);
    setup.discord.allow(101);
    setup.change("servers = [100]", "servers = [100, 999]");
    setup.finds(1, "discord", "failed", &["not in the server 999", "invite it"]);
    setup.home.config(&setup.config());
    setup.discord.set_message_content(false);
    setup.finds(1, "discord", "failed", &["Message Content Intent is off", "switch it on"]);
    setup.home.secret("discord.token", "a.wrong.token");
    setup.finds(1, "discord", "failed", &["refuses the bot's token", "Reset Token"]);
    std::fs::remove_file(setup.home.state().with_file_name("discord.token")).unwrap();
    setup.finds(1, "discord", "failed", &["cannot read the token file", "discord.token"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_bot_on_telegram_is_told_with_its_remedy() {
    let setup = Setup::new().await;
    setup.telegram.set_webhook();
    setup.finds(1, "telegram", "failed", &["a webhook is set", "deleteWebhook"]);
    setup.telegram.mute(setup.group);
    setup.finds(1, "telegram", "failed", &["Hut", "may not write"]);
    setup.telegram.kick(setup.group, &setup.telegram.person("Mallory"));
    setup.finds(1, "telegram", "failed", &["Hut", "not in it"]);
    setup.change(&setup.group.to_string(), "-100777");
    setup.finds(1, "telegram", "failed", &["-100777", "add the bot"]);
    setup.home.secret("telegram.token", "7000000001:AAwrong_wrong_wrong_wrong_wrong_wrong");
    setup.finds(1, "telegram", "failed", &["does not know this token", "@BotFather"]);
    let private = FakeTelegram::builder().privacy().start().await;
    let group = private.group("Barn");
    setup.home.secret("telegram.token", private.token());
    let chats = format!("api_url = \"{}\"\nchats = [{group}]", private.api_url());
    setup.change(&format!("api_url = \"{}\"\nchats = [{}]", setup.telegram.api_url(), setup.group), &chats);
    setup.finds(0, "telegram", "warning", &["privacy mode is on", "/setprivacy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_looked_at_as_telegram_sees_it() {
    let setup = Setup::new().await;
    let address = free_address();
    setup.telegram.lead("bot.example.org", address);
    let keys =
        format!("webhook_url = \"https://bot.example.org/t\"\nwebhook_listen = \"{address}\"\nchats = [");
    setup.change(&format!("chats = [{}", setup.group), &format!("{keys}{}", setup.group));
    setup.finds(0, "telegram", "ok", &["no webhook is set yet"]);
    let daemon = setup.home.daemon(Some(&setup.home.path("config.toml"))).await;
    setup.telegram.wait_until("a webhook", |fake| fake.webhook().is_some()).await;
    setup.finds(0, "telegram", "ok", &["the webhook is set"]);
    daemon.kill().await.unwrap();
    let ann = setup.telegram.person("Ann");
    let before = setup.telegram.deliveries();
    setup.telegram.say(ann.id, &ann, "hello?");
    setup.telegram.wait_until("a failure", |fake| fake.deliveries() > before).await;
    setup.finds(1, "telegram", "failed", &["Connection refused", "1 update waits", "webhook_listen"]);
    setup.home.config(&setup.config());
    setup.finds(0, "telegram", "ok", &["cairn had set still stands", "deletes it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_ends_with_2_and_the_rest_is_looked_at_all_the_same() {
    let setup = Setup::new().await;
    setup.change("agent.md.j2", "gone.md.j2");
    setup.finds(2, "prompts", "failed", &["gone.md.j2", "create the file"]);
    setup.finds(2, "model fake", "ok", &["answers"]);
    setup.change("id = \"main\"", "id = \"main\"\nbogus = 1");
    setup.finds(2, "config", "failed", &["bogus", "config.toml:"]);
    setup.finds(2, "state", "ok", &["there is no state"]);
    setup.home.config("this is [not TOML");
    setup.finds(2, "config", "failed", &["not TOML"]);
    setup.finds(2, "models", "skipped", &["configuration"]);
    let folder = setup.home.state().with_file_name("folder.toml");
    std::fs::create_dir(&folder).unwrap();
    let run = setup.asked(&["--config", folder.to_str().unwrap(), "--offline"]).ended(2);
    assert!(run.stdout.contains("failed   config") && run.stdout.contains("config.toml"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_damaged_or_cannot_be_written_is_told() {
    let setup = Setup::new().await;
    setup.home.cairn_with(&["chat"], b"hello\nand again\n").ended(0);
    setup.finds(0, "state", "ok", &["1 channel"]);
    chmod(&setup.home.state(), 0o755);
    setup.finds(0, "permissions", "warning", &["look into the state folder", "chmod 700"]);
    // Only root can give a folder away.
    if std::os::unix::fs::chown(setup.home.state(), Some(12_345), None).is_ok() {
        setup.finds(
            0,
            "state",
            "warning",
            &["belongs to the user #12345", "not opened", "sudo -u '#12345' cairn store verify"],
        );
        std::os::unix::fs::chown(setup.home.state(), Some(0), None).unwrap();
    }
    let segment = std::fs::read_dir(setup.home.state().join("journal")).unwrap().next().unwrap().unwrap();
    let text = std::fs::read_to_string(segment.path()).unwrap();
    std::fs::write(segment.path(), text.replacen("hello", "hallo", 1)).unwrap();
    setup.finds(5, "state", "failed", &["damaged", "cairn store verify"]);
    let blocked = setup.home.file("a-file", "").join("state");
    let run = setup.asked(&["--state", blocked.to_str().unwrap(), "--offline"]).ended(1);
    assert!(run.stdout.contains("failed   state") && run.stdout.contains("cannot be written"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_servers_are_looked_for_and_not_started() {
    let setup = Setup::new().await;
    let servers = "[[mcp]]\nid = \"gone\"\ncommand = \"/nonexistent/server\"\n\n[[mcp]]\nid = \"new\"\ncommand = \"/bin/true\"\n";
    setup.home.config(&format!("{}\n{servers}", setup.config()));
    setup.finds(1, "mcp gone", "failed", &["/nonexistent/server", "install it"]);
    setup.finds(1, "mcp new", "warning", &["not approved", "cairn mcp approve new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_for_a_file_and_a_file_for_a_folder_are_told_as_what_they_are() {
    let setup = Setup::new().await;
    std::fs::create_dir(setup.home.state().with_file_name("key.d")).unwrap();
    setup.change("api_key_file = \"model.key\"", "api_key_file = \"key.d\"");
    setup.finds(1, "model fake", "failed", &["key.d is a folder", "name the file in it"]);
    let run = setup.asked(&["--offline"]).ended(1);
    assert!(!run.stdout.contains("chmod"), "{run:?}");
    setup.home.config(&setup.config());
    let file = setup.home.file("a-file", "");
    let run = setup.asked(&["--offline", "--state", file.to_str().unwrap()]).ended(1);
    assert!(run.stdout.contains("a-file is a file") && run.stdout.contains("name a folder"), "{run:?}");
    assert!(!run.stdout.contains("chmod"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_its_server_does_not_list_is_a_warning_though_it_answers() {
    let model = FakeModel::builder().list(&["one", "two"]).start().await;
    let setup = Setup::with(model, FakeDiscord::start().await).await;
    setup.finds(0, "model fake", "ok", &["answers"]);
    setup.finds(0, "model fake", "warning", &["`fake` is not among them", "the server's list"]);
}

/// A server that refuses, in these words, every request that has the result of a tool.
async fn refusing_results(status: u16, words: &'static str) -> Setup {
    let refuse = move |seen: &Seen| {
        let mut messages = seen.body["messages"].as_array().unwrap().iter();
        messages.any(|message| message["role"] == "tool").then(|| Answer::error(status, words))
    };
    let model = FakeModel::builder().expect_stable_prefix(false).respond(refuse).start().await;
    Setup::with(model, FakeDiscord::start().await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_chat_template_refuses_of_a_conversation_with_a_tool_is_told_with_its_remedy() {
    let gemma =
        refusing_results(500, "Conversation roles must alternate user/assistant/user/assistant/...").await;
    let told = &["refuses tool results", "must alternate", "tools = false"];
    gemma.finds(0, "model fake", "warning", told);
    gemma.change("id = \"fake\"\n", "id = \"fake\"\ntools = false\n");
    let findings = gemma.findings(0);
    let of_model: Vec<_> = findings.iter().filter(|one| one["check"] == "model fake").collect();
    assert!(
        of_model.iter().all(|one| one["remedy"].as_str().is_none_or(|it| !it.contains("tools"))),
        "{of_model:?}"
    );
    gemma.model.assert_clean();
    let other = refusing_results(500, "Value is not callable: null at row 1, column 72").await;
    other.finds(1, "model fake", "failed", &["refuses a conversation", "not callable", "chat template"]);
    let none = refusing_results(400, "registry.ollama.ai/library/llama3:latest does not support tools").await;
    none.finds(0, "model fake", "warning", &["takes no tools", "tools = false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_as_a_turn_asks_it() {
    let setup = Setup::new().await;
    let extra = "max_output_tokens = 1024\ntemperature = 0.5\nextra_body = { top_k = 40 }\n";
    let agent = "prompt = \"agent.md.j2\"\ntools = [\"fetch\"]\n\n[fetch]\nenabled = true\n";
    let text = setup.config().replace("max_output_tokens = 1024\n", extra);
    setup.home.config(&text.replace("prompt = \"agent.md.j2\"\n", agent));
    setup.finds(0, "model fake", "ok", &["with 12 tools", "the result of a call", "a later message"]);

    let asked = setup.model.requests_of(Kind::Reply);
    assert_eq!(asked.len(), 3, "{asked:#?}");
    for body in &asked {
        assert_eq!((&body["stream"], &body["max_tokens"]), (&Value::from(true), &Value::from(1024)));
        assert_eq!((&body["temperature"], &body["top_k"]), (&Value::from(0.5), &Value::from(40)));
        let system = text_of(&body["messages"][0]);
        assert!(
            system.starts_with("You are main.\n\n[System: place] You are asked on this machine"),
            "{system}"
        );
        let names = tool_names(body);
        assert!(
            ["time", "memory_save", "fetch"].iter().all(|name| names.contains(&(*name).to_owned())),
            "{names:?}"
        );
        let n_tokens = Count::O200k.tokens(&body.to_string());
        assert!(n_tokens < 3_000, "{n_tokens} tokens");
    }
    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&asked[0]), ["system", "user"]);
    assert_eq!(roles(&asked[1]), ["system", "user", "assistant", "tool"]);
    let later = roles(&asked[2]);
    assert_eq!(later[..5], ["system", "user", "assistant", "tool", "assistant"], "{later:?}");
    assert_eq!(
        later.iter().filter(|role| *role == "tool").count(),
        2,
        "one of a turn that was stopped: {later:?}"
    );
    assert!(!setup.home.state().exists(), "nothing is stored");
    setup.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_model_makes_itself_gets_its_result() {
    for provider in ["openai", "anthropic"] {
        let setup = Setup::new().await;
        setup.change("id = \"fake\"\n", &format!("id = \"fake\"\nprovider = \"{provider}\"\n"));
        setup.model.push(Kind::Reply, Answer::call("time", serde_json::json!({ "zone": "Europe/Oslo" })));
        setup.finds(0, "model fake", "ok", &["answers a question with 11 tools"]);
        let seen = setup.model.seen();
        let second = seen[1].body["messages"].to_string();
        assert!(second.contains("Europe/Oslo") && !second.contains("doctor001"), "{second}");
        setup.model.assert_clean();
    }
}

/// A model server that gives that answer to the requests that fit.
async fn answering(fits: fn(&Value) -> bool, answer: Answer) -> Setup {
    let respond = move |seen: &Seen| fits(&seen.body).then(|| answer.clone());
    let model = FakeModel::builder().expect_stable_prefix(false).respond(respond).start().await;
    Setup::with(model, FakeDiscord::start().await).await
}

fn n_users(body: &Value) -> usize {
    body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_model_is_fine_that_a_message_would_fail_on() {
    let has_tools = |body: &Value| !tool_names(body).is_empty();
    // https://platform.openai.com/docs/guides/latest-model: reasoning with tools is for the Responses API.
    let refusal = "Function tools with reasoning are not supported for this model in /v1/chat/completions.";
    let reasons = answering(has_tools, Answer::error(400, refusal)).await;
    reasons.finds(
        1,
        "model fake",
        "failed",
        &["with the agent's 11 tools", "Function tools", "`tools = false`"],
    );

    let limit = "max_tokens is too large: 1024. This model supports at most 512 completion tokens.";
    let small = answering(|body| body["max_tokens"] == 1024, Answer::error(400, limit)).await;
    small.finds(1, "model fake", "failed", &["max_tokens is too large"]);

    let thinks = answering(|_| true, Answer::text("").reasoning("hm, hm").finish("length")).await;
    thinks.finds(1, "model fake", "failed", &["before its first word", "raise `max_output_tokens`"]);

    let filtered = answering(|_| true, Answer::text("").finish("content_filter")).await;
    filtered.finds(1, "model fake", "failed", &["content filter", "another model"]);

    let forgets = answering(|body| n_users(body) > 1, Answer::error(400, "no second message, please")).await;
    forgets.finds(1, "model fake", "failed", &["answers a question", "a later message", "no second message"]);

    let full = Setup::new().await;
    full.change(
        "context_window = 32000\nmax_output_tokens = 1024",
        "context_window = 1500\nmax_output_tokens = 1100",
    );
    full.finds(1, "model fake", "failed", &["no room for a conversation", "raise `context_window`"]);
}

#[test]
fn who_may_not_enter_the_state_is_told_whose_it_is() {
    let home = home();
    home.cairn_with(&["chat"], b"hello\n").ended(0);
    let Some(run) = as_a_stranger(&home, &["doctor", "--offline"]) else { return };
    let run = run.ended(1);
    assert!(run.stdout.contains("failed   state"), "{run:?}");
    assert!(run.stdout.contains("you may not enter") && run.stdout.contains("belongs to root"), "{run:?}");
    assert!(!run.stdout.contains("state folder and") && !run.stdout.contains("it works"), "{run:?}");
}
