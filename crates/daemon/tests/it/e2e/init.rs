//! `cairn init`: by flags, by answers through a pipe and on a terminal, and what it finds out while it asks.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::home::{Home, Run};
use cairn_testkit::model::{FakeModel, Kind, Ollama};
use cairn_testkit::telegram::FakeTelegram;
use cairn_testkit::terminal::Terminal;

use crate::home;

/// Where `init` writes when nothing else is said: the user's own folder.
fn users_file(home: &Home) -> PathBuf {
    home.state().with_file_name(".config").join("cairn/config.toml")
}

#[test]
fn without_any_answer_the_embedded_model_answers() {
    let home = home();
    let run = home.cairn(&["init", "--yes"]).ended(0);
    for word in ["wrote ", "cairn doctor", "cairn chat", "cairn run"] {
        assert!(run.stdout.contains(word), "`{word}` in {run:?}");
    }
    let file = users_file(&home);
    assert!(file.is_file(), "{run:?}");
    home.cairn(&["config", "check", file.to_str().unwrap()]).ended(0);
    assert_eq!(home.cairn_with(&["chat"], b"hello\n").ended(0).stdout.lines().count(), 1);
}

#[test]
fn flags_answer_all_of_it_and_a_file_that_says_something_is_not_overwritten() {
    let home = home();
    home.secret("telegram.token", "7000000001:AAcanary_canary_canary_canary_canary");
    let flags = [
        "init",
        "--yes",
        "--config",
        "config.toml",
        "--provider",
        "openai",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--model",
        "a \"quoted\" name",
        "--key-env",
        "SOME_KEY",
        "--context-window",
        "32000",
        "--telegram-token-file",
        "telegram.token",
        "--owner",
        "telegram/42",
    ];
    let run = home.cairn(&flags).ended(0);
    assert!(!run.stdout.contains("--config"), "it is found where one is: {run:?}");
    let shown = home.json(&["config", "show"]);
    let model = &shown["models"][0];
    assert_eq!(model["model"], "a \"quoted\" name");
    assert_eq!(
        (&model["base_url"], &model["api_key_env"]),
        (&"http://127.0.0.1:9/v1".into(), &"SOME_KEY".into())
    );
    assert_eq!(model["context_window"], 32_000);
    assert_eq!(shown["agents"][0]["models"][0], "main");
    assert_eq!(shown["telegram"]["users"][0], "42");
    assert_eq!(shown["commands"]["operators"][0], "telegram/42");
    let text = std::fs::read_to_string(home.state().with_file_name("config.toml")).unwrap();
    assert!(text.contains("token_file = \"telegram.token\"") && !text.contains("canary"), "{text}");
    let again = home.cairn(&flags).ended(2);
    assert!(again.stderr.contains("exists already") && again.stderr.contains("--force"), "{again:?}");
    let run = home.cairn(&[&flags[..], &["--force"]].concat()).ended(0);
    assert!(run.stdout.contains("config.toml; the old one is "), "{run:?}");
    let old = std::fs::read_to_string(home.state().with_file_name("config.toml.old")).unwrap();
    assert_eq!(old, text);
}

#[test]
fn by_force_again_and_again_the_first_file_is_kept() {
    let home = home();
    let first = "[limits]\nidle_secs = 77\n";
    let file = home.config(first);
    let force = |model: &str| {
        let flags = ["init", "--yes", "--force", "--config", "config.toml", "--model", model];
        home.cairn(&flags).ended(0).stdout
    };
    let told = |n: &str| format!("wrote {}; the old one is {}.old{n}\n", file.display(), file.display());
    let said = force("one");
    assert!(said.starts_with(&told("")), "{said}");
    let said = force("two");
    assert!(said.starts_with(&told("-2")), "{said}");
    let said = force("three");
    assert!(said.starts_with(&told("-3")), "{said}");
    let kept =
        |ending: &str| std::fs::read_to_string(file.with_file_name(format!("config.toml.old{ending}")));
    assert_eq!(kept("").unwrap(), first);
    assert!(kept("-2").unwrap().contains("\"one\"") && kept("-3").unwrap().contains("\"two\""));
    let flags = ["init", "--yes", "--force", "--config", "config.toml"];
    let old = home.json(&flags)["old"].as_str().unwrap().to_owned();
    assert!(old.ends_with("config.toml.old-4"), "{old}");
}

#[test]
fn answers_come_through_a_pipe_and_a_key_that_is_typed_goes_into_a_file_of_its_own() {
    let home = home();
    let file = users_file(&home);
    let answers = "\nopenia\nopenai\nhttp://127.0.0.1:9/v1\n-\nsk-canary-typed\nsome-model\n32k\n\n\nyes\n";
    let run = home.cairn_with(&["init"], answers.as_bytes()).ended(0);
    assert!(
        run.stderr.contains("write one of ollama, lmstudio, openai"),
        "a wrong answer is asked again: {run:?}"
    );
    assert!(run.stderr.contains("nothing answers at http://127.0.0.1:9/v1"), "{run:?}");
    assert!(!run.stdout.contains("canary") && !run.stderr.contains("canary"), "the key is shown: {run:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("api_key_file = \"model.key\"") && text.contains("context_window = 32000"),
        "{text}"
    );
    assert!(!text.contains("canary"), "{text}");
    let key = file.with_file_name("model.key");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "sk-canary-typed\n");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_answer_that_cannot_be_right_is_asked_again_at_once() {
    let home = home();
    let config = users_file(&home);
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    home.secret(".config/cairn/telegram.token", "7000000001:AAcanary_canary_canary_canary_canary");
    home.file("two-words", "not a key");
    let answers = [
        // Where, who, and the server's address.
        "",
        "openai",
        "localhost:8080/v1",
        "http://",
        "http://127.0.0.1:9/v1/chat/completions",
        "http://127.0.0.1:9/v1",
        // The key.
        "nope.key",
        "two-words",
        ".",
        "none",
        "some-model",
        // The window; Discord; Telegram, by a bare name beside the configuration.
        "12",
        "32,000",
        "no",
        "later.token",
        "7000000001:AAcanary_canary_canary_canary_canary",
        "telegram.token",
        // Oneself.
        "discord/5",
        "telegram/ada",
        "telegram/42",
        "yes",
    ];
    let run = home.cairn_with(&["init", "--offline"], (answers.join("\n") + "\n").as_bytes()).ended(0);
    for told in [
        "`base_url` = \"localhost:8080/v1\" must begin with http:// or https://",
        "`base_url` = \"http://\" names no server",
        "must end before /chat/completions",
        "there is no file",
        "nope.key; enter the same answer again",
        "two-words: its key has a blank (U+0020) as character 4",
        "is a folder: name the file in it",
        "from 512 to 100000000",
        "later.token; enter the same answer",
        "that is the token itself",
        "there is no bot on discord",
        "`telegram/ada` is not a person",
    ] {
        assert!(run.stderr.contains(told), "`{told}` in {}", run.stderr);
    }
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("token_file = \"telegram.token\"") && text.contains("users = [42]"), "{text}");
    assert!(!text.contains("api_key_file =") && !text.contains("[discord]"), "{text}");
    assert!(!run.stdout.contains(".new") && !run.stderr.contains(".new"), "{run:?}");
    home.cairn(&["config", "check", config.to_str().unwrap()]).ended(0);
}

#[test]
fn a_secret_that_is_to_be_there_later_is_taken_when_it_is_named_twice() {
    let home = home();
    let answers = "\noffline\nn\nlater.token\nlater.token\n\nyes\n";
    let run = home.cairn_with(&["init"], answers.as_bytes()).ended(0);
    assert!(run.stderr.contains("warning: ") && run.stderr.contains("cannot read the token file"), "{run:?}");
    let text = std::fs::read_to_string(users_file(&home)).unwrap();
    assert!(text.contains("later.token\""), "{text}");
    let other = crate::home();
    let run = other.cairn_with(&["init"], b"\noffline\nn\nlater.token\n").ended(2);
    assert!(
        run.stderr.contains("the input ended before all questions were answered; nothing was written"),
        "{run:?}"
    );
    assert!(!users_file(&other).exists());
}

#[test]
fn flags_that_lack_one_or_contradict_each_other_are_told_by_name() {
    let home = home();
    for (flags, words) in [
        (&["--discord-server", "5"][..], &["--discord-server", "--discord-token-file"][..]),
        (&["--owner", "discord/5"], &["--owner", "--discord-token-file"]),
        (&["--owner", "telegram/5"], &["--owner", "--telegram-token-file"]),
        (&["--provider", "offline", "--model", "m"], &["--model", "--provider offline"]),
        (&["--provider", "offline", "--key-env", "K"], &["--key-env", "--provider offline"]),
        (&["--key-env", "K"], &["--model"]),
        (&["--model", "m", "--context-window", "7"], &["--context-window", "512"]),
        (&["--telegram-token-file", "."], &["--telegram-token-file", "is a folder"]),
    ] {
        let run = home.cairn(&[&["init", "--yes"], flags].concat()).ended(2);
        assert!(run.stderr.starts_with("error: "), "{run:?}");
        for word in words {
            assert!(run.stderr.contains(word), "`{word}` in {run:?}");
        }
        assert!(!users_file(&home).exists(), "{run:?}");
    }
}

#[test]
fn what_would_not_pass_its_check_leaves_nothing_behind() {
    let home = home();
    let file = users_file(&home);
    let folder = file.parent().unwrap();
    let run = home.cairn(&["init", "--yes", "--model", "m", "--base-url", "not an address"]).ended(2);
    assert!(run.stderr.contains("base_url"), "{run:?}");
    let run = home.cairn(&["init", "--yes", "--discord-token-file", "nope.token"]).ended(2);
    assert!(run.stderr.contains("nope.token"), "{run:?}");
    home.cairn(&["init", "--yes", "--provider", "openai"]).ended(2);
    home.cairn(&["init", "--yes", "--telegram-token-file", "t", "--owner", "@ada"]).ended(2);
    home.cairn_with(&["init"], b"\noffline\n").ended(2);
    home.cairn_with(&["init"], b"\nopenai\nhttp://127.0.0.1:9/v1\n-\nsk-typed\nm\n\n\n\nno\n").ended(1);
    let left: Vec<_> = std::fs::read_dir(folder).map(|dir| dir.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    let run = home.cairn(&["init", "--yes", "--config", "."]).ended(2);
    assert!(run.stderr.contains("is a folder"), "{run:?}");
}

#[test]
fn a_file_that_says_no_more_than_the_defaults_gives_way() {
    let home = home();
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/config.toml");
    let text = std::fs::read_to_string(reference).unwrap();
    let file = home.config(&text);
    home.cairn(&["init", "--yes", "--config", "config.toml", "--model", "m", "--key-env", "K"]).ended(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("begun by `cairn init`"));
    assert_eq!(std::fs::read_to_string(file.with_file_name("config.toml.old")).unwrap(), text);
}

/// `cairn init` in the working directory, on a terminal of its own.
fn on_a_terminal(home: &Home, flags: &[&str]) -> Terminal {
    let mut command = home.command(&[&["init", "--config", "config.toml"], flags].concat());
    // The default of a question is behind what makes it bold.
    command.env("CLICOLOR", "0");
    Terminal::start(command)
}

/// Waits for a question and answers it.
fn answer(terminal: &mut Terminal, question: &str, answer: &str) {
    terminal.wait_for(question);
    terminal.type_keys(&format!("{answer}\r"));
}

fn written(home: &Home) -> String {
    std::fs::read_to_string(home.path("config.toml")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ollama_is_asked_for_its_models_and_enter_takes_only_what_is_shown() {
    let home = home();
    let model = FakeModel::builder().ollama(Ollama::new(4_096)).start().await;
    let mut terminal = on_a_terminal(&home, &[]);
    terminal.wait_for("openrouter");
    answer(&mut terminal, "Which one? [offline]", "ollama");
    answer(&mut terminal, "The address of its server: [http://127.0.0.1:11434/v1]", &model.base_url());
    answer(&mut terminal, "by number or name: [fake]", "");
    answer(&mut terminal, "Send it one test message? [yes]", "");
    terminal.wait_for("fake answers (");
    // It is loaded by now, with less than it was trained for.
    terminal.wait_for("takes 40,960 tokens at most");
    answer(&mut terminal, "(empty: 4,096, as the server reports):", "");
    answer(&mut terminal, "bot on Discord", "");
    answer(&mut terminal, "bot on Telegram", "");
    answer(&mut terminal, "Write this to", "");
    assert_eq!(terminal.end(), Some(0));
    let text = written(&home);
    assert!(text.contains("model = \"fake\"") && text.contains(&model.base_url()), "{text}");
    assert!(!text.contains("\ncontext_window") && !text.contains("\napi_key"), "{text}");
    let requests = model.requests_of(Kind::Reply);
    assert_eq!(requests.len(), 1, "one test message");
    assert!(requests[0].get("tools").is_none(), "{}", requests[0]);
    model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_refused_is_asked_for_again_and_none_is_shown() {
    let home = home();
    let names: Vec<String> = (1..=30).map(|n| format!("model-{n}")).chain(["tiny-mini".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = FakeModel::builder().list(&names).key("sk-canary-right").advertise(32_000).start().await;
    let mut terminal = on_a_terminal(&home, &["--provider", "openai", "--base-url", &model.base_url()]);
    answer(&mut terminal, "Its key:", "-");
    answer(&mut terminal, "Type or paste it", "sk-canary-wrong");
    terminal.wait_for("refuses this key");
    answer(&mut terminal, "Give another key? [no]", "yes");
    answer(&mut terminal, "Its key:", "-");
    answer(&mut terminal, "Type or paste it", "sk-canary-right");
    terminal.wait_for("The server has 31 models:");
    terminal.wait_for("and 11 more");
    answer(&mut terminal, "by number or name:", "MINI");
    terminal.wait_for("  1  tiny-mini");
    answer(&mut terminal, "by number or name:", "1");
    answer(&mut terminal, "Send it one test message? [yes]", "no");
    answer(&mut terminal, "(empty: 32,000, as the server reports):", "16k");
    answer(&mut terminal, "bot on Discord", "");
    answer(&mut terminal, "bot on Telegram", "");
    answer(&mut terminal, "Write this to", "");
    terminal.wait_for("readable only by you");
    assert!(!terminal.screen().contains("canary"), "a key is shown: {}", terminal.screen());
    assert_eq!(terminal.end(), Some(0));
    let text = written(&home);
    for line in ["model = \"tiny-mini\"", "context_window = 16000", "api_key_file = \"model.key\""] {
        assert!(text.contains(line), "`{line}` in {text}");
    }
    assert!(!text.contains("canary"), "{text}");
    let key = home.path("model.key");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "sk-canary-right\n");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(model.requests().len(), 0, "the test message was declined");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_checked_and_the_links_that_let_the_bots_in_are_shown() {
    let (home, discord, telegram) = (home(), FakeDiscord::start().await, FakeTelegram::start().await);
    let flags = [
        "--provider",
        "offline",
        "--discord-api-url",
        &discord.api_url(),
        "--telegram-api-url",
        &telegram.api_url(),
    ];
    let answers = [
        // Discord: a token that it refuses, another one; no server.
        "-",
        "a.wrong.token",
        "yes",
        "-",
        discord.token(),
        "",
        // Telegram; oneself.
        "-",
        telegram.token(),
        "",
        "yes",
    ];
    let args = [&["init", "--config", "config.toml"], &flags[..]].concat();
    let run: Run = home.cairn_with(&args, (answers.join("\n") + "\n").as_bytes()).ended(0);
    for told in [
        "refuses the bot's token",
        "Give another token? [no]",
        // What the bot needs: https://docs.discord.com/developers/topics/permissions
        "&scope=bot+applications.commands&permissions=274878008320\n",
        "https://discord.com/oauth2/authorize?client_id=",
        "the Message Content Intent is on",
        "https://t.me/cairn_test_bot\n",
        "https://t.me/cairn_test_bot?startgroup=true\n",
    ] {
        assert!(run.stderr.contains(told), "`{told}` in {}", run.stderr);
    }
    for secret in ["a.wrong.token", discord.token(), telegram.token()] {
        assert!(!run.stderr.contains(secret) && !run.stdout.contains(secret), "a secret is told: {run:?}");
    }
    let text = written(&home);
    assert!(text.contains(&format!("api_url = \"{}\"", discord.api_url())), "{text}");
    for (file, token) in [("discord.token", discord.token()), ("telegram.token", telegram.token())] {
        assert_eq!(std::fs::read_to_string(home.path(file)).unwrap(), format!("{token}\n"));
    }
    home.cairn(&["config", "check", "config.toml"]).ended(0);
    discord.assert_clean();
    telegram.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_of_an_lm_studio_is_known_once_it_has_loaded_the_model() {
    let home = home();
    let model = FakeModel::builder().lm_studio(8_192, 131_072).list(&["qwen", "gemma"]).start().await;
    let url = model.base_url();
    let flags = ["init", "--config", "config.toml", "--force", "--provider", "lmstudio", "--base-url", &url];
    let run = home.cairn_with(&flags, b"2\nno\n\n\n\nyes\n").ended(0);
    for told in ["  2  gemma", "takes 131,072 tokens at most", "when the bot runs, else 8,192"] {
        assert!(run.stderr.contains(told), "`{told}` in {}", run.stderr);
    }
    let run = home.cairn_with(&flags, b"gemma\nyes\n\n\n\nyes\n").ended(0);
    assert!(run.stderr.contains("(empty: 8,192, as the server reports)"), "{run:?}");
    assert!(written(&home).contains("model = \"gemma\""));
}

#[test]
fn with_yes_and_offline_nobody_is_asked() {
    let home = home();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    let flags = ["init", "--config", "config.toml", "--force", "--provider", "lmstudio", "--base-url", &url];
    home.cairn(&[&flags[..], &["--yes", "--model", "m"]].concat()).ended(0);
    let run = home.cairn_with(&[&flags[..], &["--offline"]].concat(), b"m\n\n\n\nyes\n").ended(0);
    assert!(run.stderr.contains("as the server reports when the bot runs, else 8,192"), "{run:?}");
    assert_eq!(server.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "a server was asked");
    home.cairn(&[
        "init",
        "--yes",
        "--config",
        "gemini.toml",
        "--provider",
        "gemini",
        "--model",
        "g",
        "--key-env",
        "K",
    ])
    .ended(0);
    let shown = home.json(&["config", "show", "--config", "gemini.toml"]);
    assert_eq!(shown["models"][0]["base_url"], "https://generativelanguage.googleapis.com/v1beta/openai");
}

/// A `systemctl` that writes down how it is called.
fn systemctl(home: &Home, code: i32) {
    let log = home.path("calls");
    let script = format!("#!/bin/sh\necho \"$@\" >>{}\necho sorry >&2\nexit {code}\n", log.display());
    let file = home.file("systemctl", script);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_service_of_the_user_is_set_up_when_it_is_agreed_to() {
    let home = home();
    systemctl(&home, 0);
    std::fs::create_dir(home.path("systemd")).unwrap();
    let command = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("PATH", home.path("")).env("XDG_RUNTIME_DIR", home.path("")).env("CLICOLOR", "0");
        command
    };
    let mut terminal =
        Terminal::start(command(&["init", "--config", "config.toml", "--provider", "offline"]));
    answer(&mut terminal, "bot on Discord", "");
    answer(&mut terminal, "bot on Telegram", "");
    answer(&mut terminal, "Write this to", "");
    answer(&mut terminal, "runs as you, and start it? [no]", "yes");
    terminal.wait_for("loginctl enable-linger");
    assert_eq!(terminal.end(), Some(0));
    let unit = std::fs::read_to_string(home.path(".config/systemd/user/cairn.service")).unwrap();
    let config = home.path("config.toml");
    assert!(unit.contains(&format!("/cairn run --config {}\n", config.display())), "{unit}");
    let calls = std::fs::read_to_string(home.path("calls")).unwrap();
    assert_eq!(
        calls.lines().collect::<Vec<_>>(),
        ["--user daemon-reload", "--user enable cairn.service", "--user restart cairn.service"]
    );
    systemctl(&home, 1);
    let args = ["init", "--yes", "--force", "--config", "config.toml", "--service", "user"];
    let run =
        Run::from(command(&args).output().unwrap()).told(1, &["systemctl --user daemon-reload", "sorry"]);
    assert!(run.stdout.contains("wrote "), "the configuration is written all the same: {run:?}");
}

#[test]
fn in_a_container_it_writes_where_the_daemon_reads() {
    let home = home();
    let volume = home.path("etc");
    std::fs::create_dir(&volume).unwrap();
    let command = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("CONFIGURATION_DIRECTORY", &volume);
        Run::from(command.output().unwrap()).ended(0)
    };
    let run = command(&["init", "--yes", "--provider", "ollama", "--model", "m"]);
    assert!(run.stdout.contains("start the container") && !run.stdout.contains("systemctl"), "{run:?}");
    assert!(!run.stderr.contains("Where is the model?"), "nothing is asked: {run:?}");
    assert!(std::fs::read_to_string(volume.join("config.toml")).unwrap().contains("11434"));
    command(&["config", "check"]);
}
