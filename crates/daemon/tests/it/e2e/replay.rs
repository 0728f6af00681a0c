//! `cairn replay`: sent once, skipped the second time, refused whole when a line is bad.

use crate::home;

const TALK: &str = r#"{"user":"ann","text":"my name is Ann","at":"2026-01-02T03:04:05Z"}
{"user":"bo","text":"I prefer tea","id":"m2"}

{"user":"ann","text":"we decided to sail on Tuesday"}
"#;

#[test]
fn a_second_replay_skips_what_is_done() {
    let home = home();
    let file = home.file("talk.jsonl", TALK);
    let file = file.to_str().unwrap();
    let first = home.json(&["replay", file, "--channel", "talk"]);
    let figures = |report: &serde_json::Value| {
        ["messages", "skipped", "turns", "failed", "emergencies"].map(|key| report[key].as_u64().unwrap())
    };
    assert_eq!(figures(&first), [3, 0, 3, 0, 0]);
    for key in ["runs", "memories", "summaries", "seconds"] {
        assert!(first.get(key).is_some(), "{key} in {first}");
    }
    let second = home.json(&["replay", file, "--channel", "talk"]);
    assert_eq!(figures(&second), [3, 3, 0, 0, 0]);
    let history = home.json(&["history", "talk"]);
    assert_eq!(history.as_array().unwrap().len(), 6, "each message is there once, with its reply");
    assert_eq!(history[0]["at"], "2026-01-02T03:04:05Z");
    assert_eq!(history[2]["message"], "m2");
}

#[test]
fn stdin_is_read_and_new_lines_are_sent() {
    let home = home();
    home.cairn_with(&["replay", "-", "--no-wait"], TALK.as_bytes()).ended(0);
    let more = format!("{TALK}{}\n", r#"{"user":"ann","text":"one more"}"#);
    let report = home.cairn_with(&["replay", "-", "--json"], more.as_bytes()).ended(0).json();
    assert_eq!((report["skipped"].as_u64(), report["turns"].as_u64()), (Some(3), Some(1)));
}

#[test]
fn a_bad_line_is_named_and_nothing_is_sent() {
    let home = home();
    let file = home.file("talk.jsonl", format!("{TALK}not json\n"));
    let run = home.cairn(&["replay", file.to_str().unwrap()]).ended(1);
    for words in ["line 5", "expected", "\"user\"", "nothing was sent"] {
        assert!(run.stderr.contains(words), "{words} in {}", run.stderr);
    }
    assert_eq!(home.json(&["channels"]), serde_json::json!([]));
    let run = home.cairn(&["replay", "no-such-file"]).ended(1);
    assert!(run.stderr.contains("no-such-file"), "{run:?}");
}
