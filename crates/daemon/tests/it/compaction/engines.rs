//! An agent without summaries: its window slides, and nothing else changes.

use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::Rig;
use serde_json::{Value, json};

use crate::compaction::rig::{
    LONG, WINDOW, check_places, configured, history, run_ended, start, talk_until_run, words,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_sliding_window_needs_no_run_and_loses_no_word() {
    let model = FakeModel::builder().window(WINDOW);
    let rig = configured("openai", model, WINDOW, "engine = \"sliding\"\n").await;
    let mut events = rig.events().await;
    for n in 0..80 {
        rig.say(&format!("{LONG} ({n})")).await;
    }
    let slid = events.wait_for("window_slid", |_| true).await.unwrap();
    assert!(slid["tokens_after"].as_u64() < slid["tokens_before"].as_u64(), "{slid}");
    let context = rig.context().await;
    assert_eq!(context["engine"]["id"], "sliding");
    assert_eq!(context["engine"]["owns_compaction"], true);
    assert!(context["engine"]["version"].is_string() && context["engine"]["name"].is_string(), "{context}");
    assert_eq!(
        (&context["run"], &context["outcomes"], &context["summaries"]),
        (&json!(null), &json!([]), &json!([]))
    );
    let markers = context["markers"].as_array().unwrap();
    assert_eq!(markers.len(), 1, "{context}");
    assert_eq!(markers[0]["from_seq"], 1);
    assert!(
        markers[0]["text"].as_str().unwrap().contains("older messages have left the window"),
        "{context}"
    );
    assert!(context["usage_ratio"].as_f64().unwrap() < 0.95, "{context}");
    assert_eq!(rig.model.tally(Kind::Compaction).arrived, 0, "a model was asked for a summary");
    assert_eq!(history(&rig).await.len(), 160);
    check_places(&rig).await;
    let request = words(&rig.model.requests_of(Kind::Reply).pop().unwrap());
    assert!(request.contains("[System: archive]") && !request.contains("[Compaction Summary]: messages"));
    let hits = rig.get("/v1/channels/main/search?q=flats&limit=100").await;
    let marker_to = markers[0]["to_seq"].as_u64().unwrap();
    let gone = hits.as_array().unwrap().iter().any(|hit| hit["seq"].as_u64().unwrap() <= marker_to);
    assert!(gone, "what has left the window is not found");
    let (status, made) = rig.post("/v1/channels/main/compact", &json!({})).await;
    assert_eq!(status, 200, "{made}");
    assert!(made["run"].is_null() && made["made"]["messages"].as_u64() > Some(0), "{made}");
    rig.model.assert_clean();
}

/// Starts the daemon again with that context engine of the agent.
async fn with_engine(rig: &mut Rig, engine: &str) {
    let text = std::fs::read_to_string(rig.path("config.toml")).unwrap();
    let others: String =
        text.lines().filter(|line| !line.starts_with("engine")).map(|line| format!("{line}\n")).collect();
    rig.config(&format!("{others}engine = \"{engine}\"\n"));
    rig.restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_may_change_from_start_to_start() {
    let mut rig = start().await;
    let mut events = talk_until_run(&rig).await;
    run_ended(&mut events).await;
    let before = rig.context().await["summaries"].clone();
    with_engine(&mut rig, "sliding").await;
    assert_eq!(rig.context().await["engine"]["id"], "sliding");
    for n in 0..60 {
        rig.say(&format!("{LONG} ({n})")).await;
    }
    let context = rig.context().await;
    // What it weighs goes by a correction that talk has changed since.
    let said = |summaries: &Value| {
        let summaries = summaries.as_array().unwrap().iter();
        summaries.map(|item| (item["id"].clone(), item["text"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(
        said(&context["summaries"]),
        said(&before),
        "a summary that another engine made is shown no longer"
    );
    assert_eq!(context["markers"].as_array().unwrap().len(), 1);
    check_places(&rig).await;
    with_engine(&mut rig, "standard").await;
    let mut events = talk_until_run(&rig).await;
    assert_eq!(run_ended(&mut events).await["outcome"], "committed");
    check_places(&rig).await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_below_every_threshold_ends_with_its_summary() {
    let rig = start().await;
    for n in 0..12 {
        rig.say(&format!("{LONG} ({n})")).await;
    }
    assert_eq!(rig.context().await["tier"], "calm");
    let path = "/v1/channels/main/compact";
    let instruction = json!({ "instruction": "keep the prices", "wait": true });
    let (status, ended) = rig.post(path, &instruction).await;
    assert_eq!((status, &ended["outcome"]), (200, &json!("committed")), "{ended}");
    assert!(!ended["summary"].as_str().unwrap().is_empty(), "{ended}");
    let end = &ended["end"];
    assert!(end["messages"].as_u64() > Some(0), "{ended}");
    assert!(end["tokens_after"].as_u64() < end["tokens_before"].as_u64(), "{ended}");
    assert!(words(&rig.model.requests_of(Kind::Compaction)[0]).contains("keep the prices"));
    let (status, nothing) = rig.post(path, &json!({ "wait": true })).await;
    assert_eq!((status, &nothing["run"]), (200, &Value::Null), "{nothing}");
    assert_eq!(
        (&nothing["nothing"]["turns"], &nothing["nothing"]["free_messages"]),
        (&json!(1), &json!(0)),
        "{nothing}"
    );
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_during_a_run_queues_behind_it() {
    let rig = start().await;
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = talk_until_run(&rig).await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let path = "/v1/channels/main/compact";
    let long = json!({ "instruction": "x".repeat(1_000_000) });
    let (status, refused) = rig.post(path, &long).await;
    assert_eq!((status, &refused["error"]["code"]), (413, &json!("instruction_too_long")));
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("4000 at most") && message.contains("a few sentences"), "{message}");
    let instruction = json!({ "instruction": "keep the prices" });
    for _ in 0..2 {
        let (status, queued) = rig.post(path, &instruction).await;
        assert_eq!((status, &queued), (202, &json!({ "run": "r2", "queued": true })));
    }
    gate.open();
    for run in ["r1", "r2"] {
        let ended = run_ended(&mut events).await;
        assert_eq!((&ended["run"], &ended["outcome"]), (&json!(run), &json!("committed")), "{ended}");
    }
    let asked = rig.model.requests_of(Kind::Compaction);
    assert!(asked.iter().any(|request| words(request).contains("keep the prices")));
    rig.model.assert_clean();
}
