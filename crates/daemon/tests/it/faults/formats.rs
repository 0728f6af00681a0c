//! States of earlier and later versions, with the real binary.

use std::path::{Path, PathBuf};

use cairn_testkit::telegram::FakeTelegram;
use serde_json::{Value, json};

use crate::faults::home::copy;
use crate::home;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures")
}

/// What commands show of a fixture; kept in `records` beside it.
const RECORDS: [(&str, &[&str]); 8] = [
    ("channels", &["channels"]),
    ("context", &["context", "main"]),
    ("history", &["history", "main", "--limit", "1000"]),
    ("history-telegram", &["history", "main/telegram/7"]),
    ("memories", &["memory", "list"]),
    ("outbox", &["outbox", "list"]),
    ("artifacts", &["artifact", "list", "main"]),
    ("tools-log", &["tools", "log"]),
];

#[test]
fn every_format_shows_what_it_showed() {
    for format in [1, 2] {
        let home = home();
        copy(&fixtures().join(format!("format-{format}")), &home.state());
        assert_eq!(home.json(&["store", "verify"])["ok"], true);
        for (name, args) in RECORDS {
            let mut found = home.json(args);
            without_ours(&mut found);
            let kept = fixtures().join("records").join(format!("{name}.json"));
            let kept: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
            assert_eq!(found, kept, "format {format}: {name} is shown otherwise: {found:#}");
        }
        assert_eq!(home.state().join("before-format-2").is_dir(), format == 1);
    }
}

/// Leaves out what is no part of the state: figures that depend on the day, on the prompt and on the tools of this version.
fn without_ours(found: &mut Value) {
    let items = match found {
        Value::Array(items) => items.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("age_seconds");
        item.remove("usage_ratio");
        if let Some(regions) = item.get_mut("regions").and_then(Value::as_object_mut) {
            regions.remove("system");
            regions.remove("tools");
        }
    }
}

#[test]
fn a_newer_state_is_refused_with_a_clear_word() {
    let home = home();
    copy(&fixtures().join("format-2"), &home.state());
    let marker = json!({ "format": 3, "written_by": "9.8.7" });
    std::fs::write(home.state().join("format"), marker.to_string()).unwrap();
    for args in [
        &["run"][..],
        &["history", "main"],
        &["store", "verify"],
        &["store", "verify", "--quarantine"],
        &["store", "rebuild"],
    ] {
        home.cairn(args).told(1, &["format 3", "cairn 9.8.7", "up to 2"]);
    }
    let mut names: Vec<_> =
        std::fs::read_dir(home.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["artifacts", "format", "journal"], "nothing was made");
}

/// Adds to `missing` where `found` lacks something of `expected`. Keys that are new are fine.
fn compare(found: &Value, expected: &Value, place: &str, missing: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (key, value) in expected {
                compare(found.get(key).unwrap_or(&Value::Null), value, &format!("{place}.{key}"), missing);
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (idx, (found, expected)) in found.iter().zip(expected).enumerate() {
                compare(found, expected, &format!("{place}[{idx}]"), missing);
            }
        }
        _ if found != expected => missing.push(format!("{place}: {found}, not {expected}")),
        _ => {}
    }
}

#[test]
fn a_state_that_was_lived_in_shows_all_it_showed() {
    let fixture = fixtures().join("lived-in");
    let expected = std::fs::read(fixture.join("expected.json")).unwrap();
    let expected: Vec<Value> = serde_json::from_slice(&expected).unwrap();
    for with_databases in [true, false] {
        let home = home();
        home.config(&std::fs::read_to_string(fixture.join("config.toml")).unwrap());
        copy(&fixture.join("state"), &home.state());
        if !with_databases {
            for name in ["views", "index"] {
                std::fs::remove_dir_all(home.state().join(name)).unwrap();
            }
        }
        let mut missing = Vec::new();
        for entry in &expected {
            let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
            let args: Vec<&str> = args.collect();
            let mut found = home.json(&args);
            if args[0] == "pair" {
                // Codes were good for an hour, and whoever was revoked was not listed then.
                let rows = found.as_array_mut().unwrap();
                assert_eq!(rows.iter().filter(|row| row["state"] == "revoked").count(), 1, "{rows:?}");
                rows.retain(|row| row["state"] == "paired");
            }
            compare(&found, &entry["shows"], &args.join(" "), &mut missing);
        }
        assert!(missing.is_empty(), "with its databases: {with_databases}\n{}", missing.join("\n"));
    }
}

#[tokio::test]
async fn a_state_that_was_lived_in_goes_on() {
    let telegram = FakeTelegram::builder().start().await;
    let group = telegram.group("Group");
    let home = home();
    home.file("telegram.token", telegram.token());
    let table = format!(
        "[telegram]\ntoken_file = \"telegram.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\nchats = [{group}]\n",
        telegram.api_url()
    );
    copy(&fixtures().join("lived-in/state"), &home.state());
    let daemon = home.daemon(Some(&home.config(&table))).await;
    let client = daemon.client();

    // What was owed is sent; what was refused stays listed.
    telegram.wait_sent(group, 1).await;
    let outbox = client.until("/v1/outbox", |list| list.as_array().unwrap().len() == 1).await.unwrap();
    assert_eq!(outbox[0]["state"], "dead");

    let history = "/v1/channels/main/history?limit=10000";
    let before = client.get(history).await.unwrap();
    let (status, reply) = client.say("main", "Where does Anna live?").await.unwrap();
    assert!(status.is_success(), "{reply}");
    assert!(reply.to_string().contains("Lisbon"), "it answers by its memories: {reply}");
    let after = client.get(history).await.unwrap();
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after[before.len()]["parts"][0]["text"], "Where does Anna live?");
    let erased = client.get("/v1/people/erased").await.unwrap();
    assert_eq!(erased["erasures"].as_array().unwrap().len(), 2, "{erased}");
    assert!(daemon.stop().await.unwrap().success());
    assert_eq!(home.json(&["store", "verify"])["ok"], true);
}
