//! A new configuration while the daemon works.

use cairn_testkit::model::{Kind, text_of};
use serde_json::{Value, json};

use crate::service::rig::{configure, open_turn, start, with, write};

const CONTEXT: &str = "/v1/channels/main/context";

const LOWER: &str = "[agents.compaction]\nbackground_threshold = 0.5\n";

fn keys(changes: &Value) -> Vec<&str> {
    changes.as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_change_at_once_and_what_cannot_is_named() {
    let mut rig = start().await;
    rig.say("hello").await;
    assert_eq!(rig.context().await["thresholds"]["background"], 0.8);
    configure(&rig, "", "", &format!("{LOWER}\n[store]\nsegment_mib = 7\n"));
    let reloaded = rig.json(&["reload"]);
    assert_eq!(keys(&reloaded["changed"]), ["agents[main].compaction.background_threshold"]);
    assert_eq!(reloaded["changed"][0]["to"], 0.5);
    assert_eq!(keys(&reloaded["needs_restart"]), ["store.segment_mib"]);
    assert_eq!(rig.context().await["thresholds"]["background"], 0.5);
    assert_eq!(
        rig.cairn(&["reload"]).ended(0).stdout,
        "nothing changed\nonly after a restart:\n  store.segment_mib: 64 -> 7\n"
    );
    assert!(!rig.log().contains("DEBUG"), "{}", rig.log());
    configure(&rig, "", "", "[log]\nlevel = \"debug\"\n");
    rig.cairn(&["reload"]).ended(0);
    rig.say("hello again").await;
    assert!(rig.log().contains("DEBUG"), "{}", rig.log());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_threshold_starts_the_run_that_it_asks_for() {
    let rig = start().await;
    let long = "We looked at seven flats in Lisbon and Anna liked the third one best. ".repeat(60);
    for _ in 0..8 {
        rig.say(&long).await;
    }
    assert_eq!(rig.context().await["tier"], "calm");
    let usage = rig.context().await["usage_ratio"].as_f64().unwrap();
    configure(&rig, "", "", &format!("[agents.compaction]\nbackground_threshold = {:.2}\n", usage / 2.0));
    rig.cairn(&["reload"]).ended(0);
    rig.until(CONTEXT, |context| !context["summaries"].as_array().unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_tells_systemd_and_drops_neither_turn_nor_words() {
    let rig = start().await;
    let (gate, open) = open_turn(&rig, "take your time").await;
    let prompt = rig.path("prompt.md.j2");
    std::fs::write(&prompt, "You are {{ agent }}, a lighthouse keeper.\n").unwrap();
    configure(&rig, "", "prompt = \"prompt.md.j2\"", "");
    let text = std::fs::read_to_string(rig.path("config.toml")).unwrap();
    write(&rig, &text.replace("models = [\"first\"]", "models = [\"second\"]"));
    rig.daemon().systemd.said();
    rig.daemon().signal("HUP").await.unwrap();
    let told = rig.daemon().systemd.until("READY=1").await.unwrap();
    let at = |what: &str| told.iter().position(|line| line.starts_with(what));
    assert!(at("RELOADING=1").is_some_and(|at_| Some(at_) < at("READY=1")), "{told:?}");
    assert!(at("MONOTONIC_USEC=").is_some(), "{told:?}");
    gate.open();
    let (status, answer) = open.await.unwrap();
    assert_eq!((status, &answer["reply"]), (200, &json!("echo: take your time")));
    assert_eq!(answer["model"], "first");
    assert_eq!(rig.say("and now?").await["model"], "second");
    let requests = rig.model.requests_of(Kind::Reply);
    let system = text_of(&requests.last().unwrap()["messages"][0]);
    assert!(system.contains("You are main, a lighthouse keeper."), "{system}");
    // Only the text of the prompt is another.
    std::fs::write(&prompt, "You are {{ agent }}, a baker.\n").unwrap();
    let reloaded = rig.json(&["reload"]);
    assert_eq!(keys(&reloaded["changed"]), ["agents[main].the text of prompt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_says_why() {
    let rig = start().await;
    rig.say("hello").await;
    let good = std::fs::read_to_string(rig.path("config.toml")).unwrap();
    let before = rig.context().await;
    let bad_model = good.replace("http://127", "ftp://127");
    let no_token = format!("{good}\n[discord]\ntoken_env = \"NO_SUCH_TOKEN\"\n");
    let cases: [(&str, &str); 6] = [
        ("[agents\n", "config.toml:1:"),
        ("[defaults.compaction]\nbackground_threshold = 0.99\n", "background_threshold"),
        ("[[agents]]\nid = \"main\"\nprompt = \"none.md.j2\"\n", "none.md.j2"),
        ("[log]\nlevel = \"inof\"\n", "info"),
        (&bad_model, "base_url"),
        (&no_token, "$NO_SUCH_TOKEN is not set"),
    ];
    for (text, why) in cases {
        write(&rig, text);
        rig.cairn(&["config", "check"]).told(2, &[why]);
        let run = rig.cairn(&["reload"]).told(2, &[why, "nothing was changed"]);
        assert_eq!(run.stdout, "", "{text}");
        assert_eq!(rig.context().await, before);
    }
    for gone in ["a directory", "nothing"] {
        std::fs::remove_file(rig.path("config.toml")).unwrap();
        if gone == "a directory" {
            std::fs::create_dir(rig.path("config.toml")).unwrap();
        }
        rig.cairn(&["reload"]).told(2, &["cannot read the config file"]);
        if gone == "a directory" {
            std::fs::remove_dir(rig.path("config.toml")).unwrap();
            write(&rig, &good);
        }
    }
    write(&rig, &good);
    rig.cairn(&["reload"]).ended(0);
    assert_eq!(rig.say("still there?").await["reply"], "echo: still there?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_file_is_read_when_it_changes_until_it_is_watched_no_more() {
    let rig = with("watch = true", &[]).await;
    rig.say("hello").await;
    configure(&rig, "watch = true", "", LOWER);
    rig.until(CONTEXT, |context| context["thresholds"]["background"] == 0.5).await;
    // A file that is wrong for a while, as when an editor saves twice.
    write(&rig, "[agents\n");
    configure(&rig, "", "", "[agents.compaction]\nbackground_threshold = 0.6\n");
    rig.until(CONTEXT, |context| context["thresholds"]["background"] == 0.6).await;
    configure(&rig, "", "", LOWER);
    rig.cairn(&["reload"]).ended(0);
    let reloads = rig.log().matches("a changed file").count();
    assert!(reloads >= 2, "{}", rig.log());
}

#[test]
fn without_a_daemon_there_is_nothing_to_reload() {
    crate::home().cairn(&["reload"]).told(1, &["no daemon runs here"]);
}
