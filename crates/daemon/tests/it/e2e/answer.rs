//! `cairn import --answer`: what people said is sent once, skipped the second time, refused whole when a line is bad.

use serde_json::{Value, json};

use crate::home;

const TALK: &str = r#"{"user":"ann","text":"my name is Ann","at":"2026-01-02T03:04:05Z"}
{"user":"bo","text":"I prefer tea","id":"m2"}

{"role":"assistant","text":"noted by another program"}
{"user":"ann","text":"we decided to sail on Tuesday"}
"#;

fn figures(report: &Value) -> [u64; 5] {
    ["messages", "answers", "known", "left_out", "failed"].map(|key| report[0][key].as_u64().unwrap())
}

#[test]
fn a_second_time_what_is_done_is_skipped() {
    let home = home();
    let file = home.file("talk.jsonl", TALK);
    let args = ["import", "--answer", file.to_str().unwrap(), "--channel", "talk"];
    let planned = home.json(&[&args[..], &["--dry-run"]].concat());
    assert_eq!((figures(&planned), home.json(&["channels"])), ([3, 0, 0, 1, 0], json!([])));
    let first = home.json(&args);
    assert_eq!(figures(&first), [3, 3, 0, 1, 0]);
    for key in ["runs", "memories", "summaries", "emergencies", "seconds"] {
        assert!(first[0].get(key).is_some(), "{key} in {first}");
    }
    assert_eq!(figures(&home.json(&args)), [0, 0, 3, 1, 0]);
    let history = home.json(&["history", "talk"]);
    assert_eq!(history.as_array().unwrap().len(), 6, "each message is there once, with its reply");
    assert_eq!(history[0]["at"], "2026-01-02T03:04:05Z");
    assert_eq!((&history[2]["message"], &history[2]["author"]["id"]), (&json!("m2"), &json!("local/bo")));
    assert_ne!(history[3]["parts"][0]["text"], "noted by another program");
}

#[test]
fn stdin_is_read_and_new_lines_are_sent() {
    let home = home();
    home.cairn_with(&["import", "-", "--answer", "--no-wait"], TALK.as_bytes()).ended(0);
    let more = format!("{TALK}{}\n", r#"{"user":"ann","text":"one more"}"#);
    let report = home.cairn_with(&["import", "-", "--answer", "--json"], more.as_bytes()).ended(0).json();
    assert_eq!((figures(&report), &report[0]["channel"]), ([1, 1, 3, 1, 0], &json!("main/local/main")));
}

#[test]
fn people_of_an_export_speak_under_their_names() {
    let message = |n: usize, name: &str, from: &str| {
        json!({ "id": n, "type": "message", "date_unixtime": (1_704_103_200 + n).to_string(), "from": name,
                "from_id": from, "text": format!("word {n}") })
    };
    let messages = [message(1, "Ann", "user7"), message(2, "Rook", "user9"), message(3, "Ann", "user8")];
    let home = home();
    let export = json!({ "name": "Sailing", "type": "private_group", "id": 7, "messages": messages });
    let file = home.file("result.json", export.to_string());
    let report = home.json(&["import", file.to_str().unwrap(), "--answer", "--bot", "Rook"]);
    assert_eq!((figures(&report), &report[0]["channel"]), ([2, 2, 0, 1, 0], &json!("main/local/sailing")));
    let history = home.json(&["history", "sailing"]);
    let said = |n: usize| (&history[n]["author"]["name"], &history[n]["parts"][0]["text"], &history[n]["at"]);
    assert_eq!(said(0), (&json!("Ann"), &json!("word 1"), &json!("2024-01-01T10:00:01Z")));
    assert_eq!(said(2), (&json!("telegram/8"), &json!("word 3"), &json!("2024-01-01T10:00:03Z")));
}

#[test]
fn what_cannot_be_sent_is_named_and_nothing_is_sent() {
    let home = home();
    let bad = home.file("bad.jsonl", format!("{TALK}not json\n"));
    let good = home.file("good.jsonl", TALK);
    let (bad, good) = (bad.to_str().unwrap(), good.to_str().unwrap());
    let cases: [(&[&str], i32, &[&str]); 4] = [
        (
            &[bad, "--answer"],
            1,
            &["line 6: not a message", "expected", "\"user\"", "nothing was imported or sent"],
        ),
        (&["no-such-file", "--answer"], 1, &["no-such-file"]),
        (&[good, "--answer", "--channel", "main/telegram/7"], 2, &["local channels", "main/telegram/7"]),
        (&[good, "--no-wait"], 2, &["--answer"]),
    ];
    for (args, code, words) in cases {
        let run = home.cairn(&[&["import"], args].concat()).ended(code);
        for word in words {
            assert!(run.stderr.contains(word), "{args:?}: `{word}` in {}", run.stderr);
        }
    }
    assert_eq!(home.json(&["channels"]), json!([]));
}
