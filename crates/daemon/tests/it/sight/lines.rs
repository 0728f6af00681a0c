//! Lines of the log: each of a turn carries it, in every shape.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use cairn_testkit::daemon::PATIENCE;
use cairn_testkit::model::{Answer, Kind};
use serde_json::{Value, json};

use crate::sight::rig::Scene;
use crate::{CAIRN, home};

/// A turn with a failed call of the model and a call of a tool, on a chat network: its channel, its name, and the log.
async fn one_turn(format: &str) -> (String, String, String) {
    let scene = Scene::start(home(), &format!("level = \"debug\"\nformat = \"{format}\"")).await;
    scene.rig.model.push(Kind::Reply, Answer::error(503, "busy"));
    scene.rig.model.push(Kind::Reply, Answer::call("files__echo", json!({ "text": "x" })));
    scene.rig.model.push(Kind::Reply, Answer::text("done"));
    let anna = scene.telegram.person("Anna");
    scene.telegram.say(anna.id, &anna, "hello");
    scene.telegram.wait_sent(anna.id, 1).await;
    let path = format!("/v1/channels/main%2Ftelegram%2F{}/history", anna.id);
    let said = |list: &Value| list.as_array().unwrap().iter().any(|entry| entry["role"] == "assistant");
    let history = scene.rig.until(&path, said).await;
    scene.rig.until("/v1/outbox", |list| list.as_array().unwrap().is_empty()).await;
    let turn = history[0]["turn"].as_str().unwrap().to_owned();
    (format!("main/telegram/{}", anna.id), turn, scene.stop().await)
}

const STEPS: [&str; 5] =
    ["a turn is taken up", "model call failed", "tool call ended", "turn ended", "delivered"];

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_can_be_followed_from_its_start_to_its_delivery_in_json() {
    let (channel, turn, log) = one_turn("json").await;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_turn: Vec<Value> =
        lines.filter(|line| line["turn"] == turn.as_str() && line["channel"] == channel.as_str()).collect();
    for step in STEPS {
        let is_there = of_turn.iter().any(|line| line["message"] == step);
        assert!(is_there, "no line of the turn says {step:?}: {of_turn:#?}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_can_be_followed_from_its_start_to_its_delivery_in_text() {
    let (channel, turn, log) = one_turn("text").await;
    let (channel, turn) = (format!("channel={channel}"), format!("turn={turn}"));
    for step in STEPS {
        let line = log.lines().find(|line| line.contains(step)).unwrap_or_else(|| panic!("{step}: {log}"));
        for field in [&channel, &turn] {
            assert_eq!(line.split(' ').filter(|word| word == field).count(), 1, "{field}: {line}");
        }
    }
}

/// The journal's socket, which is there where systemd runs.
const JOURNAL: &str = "/run/systemd/journal/socket";

#[tokio::test(flavor = "multi_thread")]
async fn under_systemd_without_its_journal_lines_are_json() {
    if std::path::Path::new(JOURNAL).exists() {
        // Then the lines are in the journal of this machine.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    let stderr = File::create(&path).unwrap();
    let meta = stderr.metadata().unwrap();
    let mut child = Command::new(CAIRN)
        .args(["run", "--state"])
        .arg(folder.path().join("state"))
        .env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()))
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUNTIME_DIRECTORY")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let ready = async {
        while !std::fs::read_to_string(&path).unwrap().contains("\"ready\"") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let became_ready = tokio::time::timeout(PATIENCE, ready).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(became_ready.is_ok(), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["message"].as_str().unwrap().contains("journal cannot be reached"), "{text}");
    assert!(lines.iter().any(|line| line["message"] == "ready" && line["socket"].is_string()), "{text}");
}
