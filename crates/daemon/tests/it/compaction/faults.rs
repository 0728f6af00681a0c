//! Runs that go wrong leave the conversation as it was; then the next one succeeds.

use cairn_testkit::model::{Answer, FakeModel, Kind};
use serde_json::Value;

use crate::compaction::rig::{LONG, Rig, WINDOW};

/// Two bad answers make a failed attempt where a corrective retry is allowed; one does where the call itself fails.
async fn a_bad_attempt_is_harmless(name: &str, bad: Vec<Answer>) {
    let rig = Rig::start(name).await;
    let n_bad = bad.len();
    for answer in bad {
        rig.model.push(Kind::Compaction, answer);
    }
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = rig.talk_until_run().await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let before = rig.history().await;
    gate.open();
    let ended = rig.run_ended(&mut events).await;
    assert_eq!(ended["outcome"], "committed", "{ended}");
    assert_eq!(ended["made_by"], "main", "the next attempt should have made it: {ended}");
    assert_eq!(rig.model.unused(Kind::Compaction), 0, "{name}: {n_bad} bad answers were not all taken");
    let after = rig.history().await;
    let parts = |history: &std::collections::BTreeMap<u64, Value>| {
        history.values().map(|entry| entry["parts"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(parts(&before), parts(&after)[..before.len()]);
    rig.check_places().await;
    rig.say("go on").await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_harmless() {
    a_bad_attempt_is_harmless("failed", vec![Answer::error(500, "internal error")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_summary_is_harmless() {
    a_bad_attempt_is_harmless("empty", vec![Answer::text(""), Answer::text("  ")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_longer_than_its_source_is_harmless() {
    let long = LONG.repeat(120);
    a_bad_attempt_is_harmless("grown", vec![Answer::text(&long), Answer::text(&long)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_summary_is_harmless() {
    let bad = vec![Answer::text("{\"tool\":\"memory_save\"}"), Answer::text("## Goal\n\n## Progress\nNone")];
    a_bad_attempt_is_harmless("malformed", bad).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_is_harmless() {
    a_bad_attempt_is_harmless("broken", vec![Answer::text("The flats in Lis").truncated()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_cut_off_at_the_limit_is_harmless() {
    let cut = || Answer::text("The flats in").finish("length");
    a_bad_attempt_is_harmless("cut-off", vec![cut(), cut()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_model_of_a_run_is_down_the_digest_stands_in() {
    let rig = Rig::start("digest").await;
    for _ in 0..3 {
        rig.model.push(Kind::Compaction, Answer::error(503, "down for maintenance"));
    }
    let mut events = rig.talk_until_run().await;
    let ended = rig.run_ended(&mut events).await;
    assert_eq!((&ended["outcome"], &ended["made_by"]), (&"committed".into(), &"digest".into()), "{ended}");
    let context = rig.context().await;
    assert_eq!(context["summaries"][0]["made_by"], "digest");
    assert_eq!(context["summaries"][0]["provisional"], true, "{context}");
    assert!(context["summaries"][0]["text"].as_str().unwrap().contains("Lisbon"), "{context}");
    rig.check_places().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_never_ends_is_given_up_and_asked_for_again() {
    for provider in ["openai", "anthropic"] {
        let model = FakeModel::builder().window(WINDOW);
        let rig = Rig::on(provider, &format!("flood-{provider}"), model).await;
        rig.model.push(Kind::Reply, Answer::text("well, as I said before").flooding());
        let reply = rig.say("hello").await;
        assert!(reply["reply"].as_str().unwrap().ends_with("echo: hello"), "{reply}");
        rig.model.wait_until("the hang-up", |model| model.tally(Kind::Reply).abandoned == 1).await;
        rig.say("go on").await;
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_answer_never_ends_is_harmless() {
    a_bad_attempt_is_harmless("flooded", vec![Answer::text("people talked").flooding()]).await;
}
