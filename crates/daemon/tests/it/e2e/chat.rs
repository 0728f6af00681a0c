//! `cairn chat` through a pipe, with the offline model; files that go with a message, with one that takes pictures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_testkit::home::Home;
use cairn_testkit::mcp::PNG;
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::model_table;
use serde_json::Value;

use crate::home;

#[test]
fn every_line_gets_its_reply_in_order_and_is_kept() {
    let home = home();
    let run = home
        .cairn_with(&["chat", "--user", "ann", "--json"], b"my name is Ann\r\nwhat is my name?\nlast")
        .ended(0);
    let replies: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 3, "{run:?}");
    let turns: Vec<_> = replies.iter().map(|reply| reply["turn"].as_str().unwrap()).collect();
    assert_eq!(turns, ["t1", "t2", "t3"]);
    assert!(replies.iter().all(|reply| !reply["reply"].as_str().unwrap().is_empty()));

    let history = home.json(&["history", "main"]);
    let said: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["role"] == "user")
        .map(|entry| (entry["author"]["name"].as_str().unwrap(), entry["parts"][0]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("ann", "my name is Ann"), ("ann", "what is my name?"), ("ann", "last")]);
}

#[test]
fn a_bad_line_is_told_and_the_next_ones_are_answered() {
    let home = home();
    let mut input = b"one\n\xff\xfe\n\nwith \0 in it\n".to_vec();
    input.extend(vec![b' '; 1_000_000]);
    input.extend(b"\n");
    input.extend(vec![b'x'; 1_000_000]);
    input.extend(b"\ntwo\n");
    let run = home.cairn_with(&["chat", "--json"], &input).ended(1);
    let said: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<Option<u64>> = said.iter().map(|said| said["line"].as_u64()).collect();
    assert_eq!(lines, [None, Some(2), Some(3), Some(4), Some(5), Some(6), None], "{run:?}");
    let is_told =
        |said: &&serde_json::Value| !said["error"]["message"].as_str().unwrap_or_default().is_empty();
    assert_eq!(said.iter().filter(is_told).count(), 5, "{run:?}");
    assert_eq!(run.stderr, "");
}

#[test]
fn the_last_word_holds_and_what_is_said_to_be_saved_is() {
    let home = home();
    let talk = "I live in Hamburg.\nThe cat has moved in, too.\nI have just moved to Berlin.\nWhere do I live?\n\
                Remember my locker is number 81.\n";
    let run = home.cairn_with(&["chat", "--user", "ann"], talk.as_bytes()).ended(0);
    assert!(
        run.stdout.contains("> I have just moved to Berlin.") && !run.stdout.contains("> I live in"),
        "{run:?}"
    );
    assert!(run.stdout.contains("Saved: I will remember “ann's locker is number 81”"), "{run:?}");
    assert_eq!(run.stdout.matches("remember “").count(), 1, "{run:?}");
    let memories = home.json(&["memory", "list"]);
    assert!(memories.as_array().unwrap().len() == 1 && memories.to_string().contains("81"), "{memories}");
}

#[test]
fn nothing_to_say_is_no_error() {
    let home = home();
    let run = home.cairn_with(&["chat"], b"").ended(0);
    assert_eq!(run.stdout, "");
}

#[test]
fn a_message_on_the_command_line_is_asked_once() {
    let home = home();
    let run = home.cairn(&["chat", "my name is Ann", "--user", "ann"]).ended(0);
    assert!(!run.stdout.trim().is_empty() && run.stderr.is_empty(), "{run:?}");
    let history = home.json(&["history", "main"]);
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
    home.cairn(&["chat", ""]).told(1, &["empty"]);
}

#[test]
fn commands_of_chats_work_through_a_pipe_too() {
    let home = home();
    let input = b"/remember the harbour code is blue 17\n/memory harbour\n//memory is a word\n/dance\n/hist\n/statsu\n\
        /status\n/new\n";
    let run = home.cairn_with(&["chat"], input).ended(1);
    for words in ["Remembered", "blue 17", "is well", "starts"] {
        assert!(run.stdout.contains(words), "`{words}` in {run:?}");
    }
    for words in ["error: line 4: there is no command `dance`", "mean `cairn history`", "mean `status`"] {
        assert!(run.stderr.contains(words), "`{words}` in {run:?}");
    }
    let history = home.json(&["history", "main"]);
    assert_eq!(history[0]["parts"][0]["text"], "/memory is a word", "{history}");
    assert_eq!(home.json(&["memory", "list"])[0]["text"], "the harbour code is blue 17");
    let run = home.cairn_with(&["chat", "--json"], b"/memory\n").ended(0);
    assert!(run.json()["words"].as_str().unwrap().contains("harbour"), "{run:?}");
}

/// A home with a picture and a text, and a model that takes pictures.
async fn seeing() -> (Home, FakeModel) {
    let (home, model) = (home(), FakeModel::start().await);
    let table = model_table("main", &model.base_url(), 64_000);
    home.config(&format!("{table}images = true\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n"));
    home.file("a.png", STANDARD.decode(PNG).unwrap());
    home.file("the plan.md", "feed the quokka at nine");
    (home, model)
}

fn told(model: &FakeModel) -> Vec<String> {
    model.requests_of(Kind::Reply).iter().map(Value::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_with_the_message_with_the_first_line_and_with_the_next_one() {
    let (home, model) = seeing().await;
    let chat = ["chat", "--config", "config.toml"];
    let files = ["--file", "a.png", "--file", "the plan.md"];
    home.cairn(&[&chat[..], &files, &["what is this?"]].concat()).ended(0);
    let asked = told(&model).pop().unwrap();
    for part in [PNG, "feed the quokka at nine", "the plan.md", "what is this?"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let daemon = home.daemon(Some(&home.path("config.toml"))).await;
    let at = |channel: &'static str| ["--channel", channel];
    home.cairn_with(&[&chat[..], &at("two"), &files[..2]].concat(), b"what is this?\nand now?\n").ended(0);
    home.cairn_with(&[&chat[..], &at("three")].concat(), b"/file the plan.md\nwhen?\n/file a.png\n").ended(0);
    let asked = told(&model);
    assert!(asked[1].contains(PNG) && asked[1].contains("what is this?"), "{}", asked[1]);
    assert!(
        asked[3].contains("quokka") && asked[3].contains("when?") && !asked[3].contains(PNG),
        "{}",
        asked[3]
    );
    assert!(asked[4].contains(PNG), "a file needs no words: {}", asked[4]);
    let parts = |channel: &str| home.json(&["history", channel])[0]["parts"].as_array().unwrap().len();
    assert_eq!((parts("two"), parts("three")), (2, 2));
    model.assert_clean();
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_sent_is_told_and_nothing_is_sent() {
    let (home, model) = seeing().await;
    home.file("large.bin", vec![0; (16 << 20) + 1]);
    let chat = |args: &[&str]| home.cairn(&[&["chat", "--config", "config.toml"], args].concat());
    chat(&["--file", "none.png", "look"]).told(2, &["`none.png`", "cannot be read: No such file"]);
    chat(&["--file", ".", "look"]).told(2, &["`.`", "cannot be read", "directory"]);
    chat(&["--file", "large.bin", "look"]).told(2, &["`large.bin`", "at most 16 MiB"]);
    let many: Vec<&str> = ["--file", "a.png"].repeat(11);
    chat(&[&many[..], &["look"]].concat()).told(2, &["at most 10 files"]);
    chat(&["--file", "a.png", "/status"]).told(2, &["not with a command"]);
    assert_eq!(told(&model), [""; 0]);
    let input = b"/file none.png\n/file .\nhello\n";
    let run = home.cairn_with(&["chat", "--config", "config.toml", "--json"], input).ended(1);
    let said: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = said.iter().map(|said| said["error"]["code"].as_str()).collect();
    assert_eq!(codes, [Some("unreadable_file"), Some("unreadable_file"), None], "{run:?}");
    model.assert_clean();
}
