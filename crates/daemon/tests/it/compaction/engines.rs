//! An agent without summaries: its window slides, and nothing else changes.

use cairn_testkit::model::{FakeModel, Kind};
use serde_json::{Value, json};

use crate::compaction::rig::{LONG, Rig, WINDOW, words};

#[tokio::test(flavor = "multi_thread")]
async fn a_sliding_window_needs_no_run_and_loses_no_word() {
    let model = FakeModel::builder().window(WINDOW);
    let rig = Rig::configured("openai", "sliding", model, WINDOW, "engine = \"sliding\"\n").await;
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
    assert_eq!(rig.history().await.len(), 160);
    rig.check_places().await;
    let request = words(&rig.model.requests_of(Kind::Reply).pop().unwrap());
    assert!(request.contains("[System: archive]") && !request.contains("[Compaction Summary]: messages"));
    let hits = rig.client().get("/v1/channels/main/search?q=flats&limit=100").await.unwrap();
    let marker_to = markers[0]["to_seq"].as_u64().unwrap();
    let gone = hits.as_array().unwrap().iter().any(|hit| hit["seq"].as_u64().unwrap() <= marker_to);
    assert!(gone, "what has left the window is not found");
    let (status, made) = rig.client().ask("POST", "/v1/channels/main/compact", &json!({})).await.unwrap();
    assert_eq!(status, 200, "{made}");
    assert!(made["run"].is_null() && made["made"]["messages"].as_u64() > Some(0), "{made}");
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_may_change_from_start_to_start() {
    let rig = Rig::start("engine-change").await;
    let mut events = rig.talk_until_run().await;
    rig.run_ended(&mut events).await;
    let before = rig.context().await["summaries"].clone();
    let rig = rig.with_engine("sliding").await;
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
    rig.check_places().await;
    let rig = rig.with_engine("standard").await;
    let mut events = rig.talk_until_run().await;
    assert_eq!(rig.run_ended(&mut events).await["outcome"], "committed");
    rig.check_places().await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_below_every_threshold_ends_with_its_summary() {
    let rig = Rig::start("compact-wait").await;
    for n in 0..12 {
        rig.say(&format!("{LONG} ({n})")).await;
    }
    assert_eq!(rig.context().await["tier"], "calm");
    let (client, path) = (rig.client(), "/v1/channels/main/compact");
    let wish = json!({ "instruction": "keep the prices", "wait": true });
    let (status, ended) = client.ask("POST", path, &wish).await.unwrap();
    assert_eq!((status.as_u16(), &ended["outcome"]), (200, &json!("committed")), "{ended}");
    assert!(!ended["summary"].as_str().unwrap().is_empty(), "{ended}");
    let end = &ended["end"];
    assert!(end["messages"].as_u64() > Some(0), "{ended}");
    assert!(end["tokens_after"].as_u64() < end["tokens_before"].as_u64(), "{ended}");
    assert!(words(&rig.model.requests_of(Kind::Compaction)[0]).contains("keep the prices"));
    let (status, nothing) = client.ask("POST", path, &json!({ "wait": true })).await.unwrap();
    assert_eq!((status.as_u16(), &nothing["run"]), (200, &Value::Null), "{nothing}");
    assert_eq!(
        (&nothing["nothing"]["turns"], &nothing["nothing"]["free_messages"]),
        (&json!(1), &json!(0)),
        "{nothing}"
    );
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn compacting_during_a_run_queues_behind_it() {
    let rig = Rig::start("compact-queue").await;
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = rig.talk_until_run().await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let (client, path) = (rig.client(), "/v1/channels/main/compact");
    let long = json!({ "instruction": "x".repeat(4_001) });
    let (status, refused) = client.ask("POST", path, &long).await.unwrap();
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (413, &json!("instruction_too_long")));
    let wish = json!({ "instruction": "keep the prices" });
    for _ in 0..2 {
        let (status, queued) = client.ask("POST", path, &wish).await.unwrap();
        assert_eq!((status.as_u16(), &queued), (202, &json!({ "run": "r2", "queued": true })));
    }
    gate.open();
    for run in ["r1", "r2"] {
        let ended = rig.run_ended(&mut events).await;
        assert_eq!((&ended["run"], &ended["outcome"]), (&json!(run), &json!("committed")), "{ended}");
    }
    let asked = rig.model.requests_of(Kind::Compaction);
    assert!(asked.iter().any(|request| words(request).contains("keep the prices")));
    rig.model.assert_clean();
}
