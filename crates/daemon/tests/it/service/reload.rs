//! A new configuration while the daemon works.

use cairn_testkit::model::{Kind, text_of};
use serde_json::{Value, json};

use crate::service::rig::Rig;

const LOWER: &str = "[agents.compaction]\nbackground_threshold = 0.5\n";

fn keys(changes: &Value) -> Vec<&str> {
    changes.as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_change_at_once_and_what_cannot_is_named() {
    let rig = Rig::start().await;
    rig.say("hello").await;
    assert_eq!(rig.context().await["thresholds"]["background"], 0.8);
    rig.configure("", "", &format!("{LOWER}\n[store]\nsegment_mib = 7\n"));
    let (code, out, err) = rig.cairn(&["reload", "--json"]).await;
    assert_eq!(code, 0, "{err}");
    let reloaded: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&reloaded["changed"]), ["agents[main].compaction.background_threshold"]);
    assert_eq!(reloaded["changed"][0]["to"], 0.5);
    assert_eq!(keys(&reloaded["needs_restart"]), ["store.segment_mib"]);
    assert_eq!(rig.context().await["thresholds"]["background"], 0.5);
    let (code, out, _) = rig.cairn(&["reload"]).await;
    assert_eq!(code, 0);
    assert_eq!(out, "nothing has changed\nonly after a restart:\n  store.segment_mib: 64 -> 7\n");
    assert!(rig.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_threshold_starts_the_run_that_it_asks_for() {
    let rig = Rig::start().await;
    let long = "We looked at seven flats in Lisbon and Anna liked the third one best. ".repeat(60);
    for _ in 0..8 {
        rig.say(&long).await;
    }
    assert_eq!(rig.context().await["tier"], "calm");
    let usage = rig.context().await["usage_ratio"].as_f64().unwrap();
    rig.configure("", "", &format!("[agents.compaction]\nbackground_threshold = {:.2}\n", usage / 2.0));
    assert_eq!(rig.cairn(&["reload"]).await.0, 0);
    rig.until(|context| !context["summaries"].as_array().unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_tells_systemd_and_drops_neither_turn_nor_words() {
    let rig = Rig::start().await;
    let (gate, open) = rig.open_turn("take your time").await;
    let prompt = rig.path("prompt.md.j2");
    std::fs::write(&prompt, "You are {{ agent }}, a lighthouse keeper.\n").unwrap();
    rig.configure("", "prompt = \"prompt.md.j2\"", "");
    let text = std::fs::read_to_string(rig.file()).unwrap();
    rig.write(&text.replace("models = [\"first\"]", "models = [\"second\"]"));
    rig.systemd.said();
    rig.daemon.signal("HUP").await.unwrap();
    let told = rig.systemd.until("READY=1").await.unwrap();
    let at = |what: &str| told.iter().position(|line| line.starts_with(what));
    assert!(at("RELOADING=1").is_some_and(|at_| Some(at_) < at("READY=1")), "{told:?}");
    assert!(at("MONOTONIC_USEC=").is_some(), "{told:?}");
    gate.open();
    let (status, answer) = open.await.unwrap();
    assert_eq!((status.as_u16(), &answer["reply"]), (200, &json!("echo: take your time")));
    assert_eq!(answer["model"], "first");
    assert_eq!(rig.say("and now?").await["model"], "second");
    let requests = rig.model.requests_of(Kind::Reply);
    let system = text_of(&requests.last().unwrap()["messages"][0]);
    assert!(system.contains("You are main, a lighthouse keeper."), "{system}");
    // Only the text of the prompt is another.
    std::fs::write(&prompt, "You are {{ agent }}, a baker.\n").unwrap();
    let (_, out, _) = rig.cairn(&["reload", "--json"]).await;
    let reloaded: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&reloaded["changed"]), ["agents[main].the text of prompt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_says_why() {
    let rig = Rig::start().await;
    rig.say("hello").await;
    let good = std::fs::read_to_string(rig.file()).unwrap();
    let before = rig.context().await;
    let bad_model = good.replace("http://127", "ftp://127");
    let cases: [(&str, &str); 5] = [
        ("[agents\n", "config.toml:1:"),
        ("[defaults.compaction]\nbackground_threshold = 0.99\n", "background_threshold"),
        ("[[agents]]\nid = \"main\"\nprompt = \"none.md.j2\"\n", "none.md.j2"),
        ("[log]\nlevel = \"inof\"\n", "info"),
        (&bad_model, "base_url"),
    ];
    for (text, why) in cases {
        rig.write(text);
        let (code, out, err) = rig.cairn(&["reload"]).await;
        assert_eq!((code, &*out), (2, ""), "{text}: {err}");
        assert!(err.contains(why) && err.contains("nothing was changed"), "{text}: {err}");
        assert_eq!(rig.context().await, before);
    }
    for gone in ["a directory", "nothing"] {
        std::fs::remove_file(rig.file()).unwrap();
        if gone == "a directory" {
            std::fs::create_dir(rig.file()).unwrap();
        }
        let (code, _, err) = rig.cairn(&["reload"]).await;
        assert_eq!(code, 2, "{gone}: {err}");
        assert!(err.contains("cannot read the config file"), "{gone}: {err}");
        if gone == "a directory" {
            std::fs::remove_dir(rig.file()).unwrap();
            rig.write(&good);
        }
    }
    rig.write(&good);
    assert_eq!(rig.cairn(&["reload"]).await.0, 0);
    assert_eq!(rig.say("still there?").await["reply"], "echo: still there?");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_changes_at_once() {
    let rig = Rig::start().await;
    rig.say("hello").await;
    assert!(!rig.log().contains("DEBUG"), "{}", rig.log());
    rig.configure("", "", "[log]\nlevel = \"debug\"\n");
    assert_eq!(rig.cairn(&["reload"]).await.0, 0);
    rig.say("hello again").await;
    assert!(rig.log().contains("DEBUG"), "{}", rig.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_file_is_read_when_it_changes_until_it_is_watched_no_more() {
    let rig = Rig::with("watch = true", &[]).await;
    rig.say("hello").await;
    rig.configure("watch = true", "", LOWER);
    rig.until(|context| context["thresholds"]["background"] == 0.5).await;
    // A file that is wrong for a while, as when an editor saves twice.
    rig.write("[agents\n");
    rig.configure("", "", "[agents.compaction]\nbackground_threshold = 0.6\n");
    rig.until(|context| context["thresholds"]["background"] == 0.6).await;
    rig.configure("", "", LOWER);
    assert_eq!(rig.cairn(&["reload"]).await.0, 0);
    let reloads = rig.log().matches("a changed file").count();
    assert!(reloads >= 2, "{}", rig.log());
}

#[tokio::test]
async fn without_a_daemon_there_is_nothing_to_reload() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = crate::service::rig::cairn_on(dir.path(), &["reload"]).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no daemon runs here"), "{err}");
}
