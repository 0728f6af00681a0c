//! Runs that go wrong leave the conversation as it was; then the next one succeeds.

use std::collections::BTreeMap;

use cairn_testkit::model::{Answer, FakeModel, Kind};
use serde_json::Value;

use crate::compaction::rig::{
    LONG, WINDOW, check_places, configured, history, run_ended, start, talk_until_run,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_is_harmless_and_the_next_one_commits() {
    let long = || Answer::text(LONG.repeat(120));
    let cut = || Answer::text("The flats in").finish("length");
    // Where the answer can be corrected, it takes two bad ones for an attempt to fail.
    let cases = [
        ("failed", vec![Answer::error(500, "internal error")]),
        ("empty", vec![Answer::text(""), Answer::text("  ")]),
        ("longer-than-its-source", vec![long(), long()]),
        (
            "malformed",
            vec![Answer::text("{\"tool\":\"memory_save\"}"), Answer::text("## Goal\n\n## Progress\nNone")],
        ),
        ("broken-off", vec![Answer::text("The flats in Lis").truncated()]),
        ("cut-off-at-the-limit", vec![cut(), cut()]),
        ("never-ending", vec![Answer::text("people talked").flooding()]),
    ];
    let mut rig = start().await;
    for (name, bad) in cases {
        rig.channel = name.to_owned();
        let arrived = rig.model.tally(Kind::Compaction).arrived;
        bad.into_iter().for_each(|answer| rig.model.push(Kind::Compaction, answer));
        let gate = rig.model.hold(Kind::Compaction);
        let mut events = talk_until_run(&rig).await;
        rig.model.wait_for(Kind::Compaction, arrived + 1).await;
        let before = history(&rig).await;
        gate.open();
        let ended = run_ended(&mut events).await;
        assert_eq!(ended["outcome"], "committed", "{name}: {ended}");
        assert_eq!(ended["made_by"], "main", "{name}: the next attempt should have made it: {ended}");
        assert_eq!(rig.model.unused(Kind::Compaction), 0, "{name}: not all bad answers were taken");
        let after = history(&rig).await;
        let parts = |history: &BTreeMap<u64, Value>| {
            history.values().map(|entry| entry["parts"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(parts(&before), parts(&after)[..before.len()], "{name}");
        check_places(&rig).await;
        rig.say("go on").await;
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_model_of_a_run_is_down_the_digest_stands_in() {
    let rig = start().await;
    for _ in 0..3 {
        rig.model.push(Kind::Compaction, Answer::error(503, "down for maintenance"));
    }
    let mut events = talk_until_run(&rig).await;
    let ended = run_ended(&mut events).await;
    assert_eq!((&ended["outcome"], &ended["made_by"]), (&"committed".into(), &"digest".into()), "{ended}");
    let context = rig.context().await;
    assert_eq!(context["summaries"][0]["made_by"], "digest");
    assert_eq!(context["summaries"][0]["provisional"], true, "{context}");
    assert!(context["summaries"][0]["text"].as_str().unwrap().contains("Lisbon"), "{context}");
    check_places(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_never_ends_is_given_up_and_asked_for_again() {
    for provider in ["openai", "anthropic"] {
        let model = FakeModel::builder().window(WINDOW);
        let rig = configured(provider, model, WINDOW, "").await;
        rig.model.push(Kind::Reply, Answer::text("well, as I said before").flooding());
        let reply = rig.say("hello").await;
        assert!(reply["reply"].as_str().unwrap().ends_with("echo: hello"), "{reply}");
        rig.model.wait_until("the hang-up", |model| model.tally(Kind::Reply).abandoned == 1).await;
        rig.say("go on").await;
        rig.model.assert_clean();
    }
}
