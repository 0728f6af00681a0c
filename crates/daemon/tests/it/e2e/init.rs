//! `cairn init`: by flags and by answers through a pipe.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use cairn_testkit::home::Home;

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
    let answers =
        "\nopenia\nopenai\nhttp://127.0.0.1:9/v1\nsome-model\n-\nsk-canary-typed\n32,000\n\n\nyes\n";
    let run = home.cairn_with(&["init"], answers.as_bytes()).ended(0);
    assert!(
        run.stderr.contains("write openai, anthropic or offline"),
        "a wrong answer is asked again: {run:?}"
    );
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
        "some-model",
        // The key.
        "nope.key",
        "two-words",
        ".",
        "none",
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
    let run = home.cairn_with(&["init"], (answers.join("\n") + "\n").as_bytes()).ended(0);
    for told in [
        "`base_url` = \"localhost:8080/v1\" must begin with http:// or https://",
        "`base_url` = \"http://\" names no server",
        "must end before /chat/completions",
        "there is no file",
        "nope.key; give the same answer again",
        "two-words: its key has a blank (U+0020) as character 4",
        "is a folder: name the file in it",
        "from 512 to 100000000",
        "later.token; give the same answer",
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
    home.cairn_with(&["init"], b"\nopenai\nhttp://127.0.0.1:9/v1\nm\n-\nsk-typed\n\n\n\nno\n").ended(1);
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
