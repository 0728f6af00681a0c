//! A compaction model of its own that is down, slow, empty, inventing or small: the conversation goes on in any case.

use cairn_testkit::model::{Answer, Builder, FakeModel, Kind};
use serde_json::{Value, json};

use crate::compaction::rig::{Rig, WINDOW, words};

/// A house whose summaries are made by another model than its replies.
async fn rig(name: &str, compaction: &str, other: Builder, window: u64, reserve: u64) -> (Rig, FakeModel) {
    let other = other.start().await;
    let tables = format!(
        "[[models]]\nid = \"other\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\
         context_window = {window}\nmax_output_tokens = {reserve}\n",
        other.base_url()
    );
    let more = format!("[agents.compaction]\nmodel = \"other\"\n{compaction}\n\n{tables}");
    (Rig::configured("openai", name, FakeModel::builder().window(WINDOW), WINDOW, &more).await, other)
}

/// The end of the first run, with what the context lists of it.
async fn first_end(rig: &Rig) -> (Value, Value) {
    let mut events = rig.talk_until_run().await;
    let ended = rig.run_ended(&mut events).await;
    assert_eq!(ended["outcome"], "committed", "{ended}");
    let context = rig.context().await;
    rig.check_places().await;
    rig.say("go on").await;
    rig.model.assert_clean();
    (ended, context)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_is_down_is_stood_in_for_by_the_agents_own() {
    let (rig, other) = rig("other-down", "", FakeModel::builder(), WINDOW, 1_000).await;
    other.push(Kind::Compaction, Answer::error(503, "down for maintenance"));
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
    assert_eq!((other.unused(Kind::Compaction), other.tally(Kind::Compaction).arrived), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_stalls_is_given_up_after_the_limit_of_a_call() {
    let (rig, other) = rig("other-slow", "call_timeout_secs = 1", FakeModel::builder(), WINDOW, 1_000).await;
    let _never = other.hold(Kind::Compaction);
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_says_nothing_is_asked_once_more_and_then_the_next() {
    let (rig, other) = rig("other-empty", "", FakeModel::builder(), WINDOW, 1_000).await;
    other.push(Kind::Compaction, Answer::text(""));
    other.push(Kind::Compaction, Answer::text(" "));
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
    assert_eq!(other.unused(Kind::Compaction), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_compaction_model_invents_is_not_kept() {
    let (rig, other) = rig("other-inventing", "", FakeModel::builder(), WINDOW, 1_000).await;
    let text = "## Goal\n- Anna looks for a flat in Lisbon, and likes the third one best, near the river\n- the file is /srv/made/up.txt";
    other.push(Kind::Compaction, Answer::text(text));
    other.push(Kind::Compaction, Answer::text(text));
    let (ended, context) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "other", "{ended}");
    let summary = context["summaries"][0]["text"].as_str().unwrap();
    assert!(summary.contains("near the river") && !summary.contains("/srv"), "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_refused_leads_to_the_digest_at_once_and_the_outcome_says_so() {
    let rig = Rig::start("refused-key").await;
    rig.model.push(Kind::Compaction, Answer::error(401, "bad key"));
    let (ended, context) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "digest", "{ended}");
    let reason = context["outcomes"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("refused the key"), "{reason}");
    assert_eq!(rig.model.tally(Kind::Compaction).arrived, 1, "it is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_are_finished_are_not_asked_again_after_a_kill() {
    const SMALL: u64 = 3_600;
    let fractions = "background_fraction = 0.7\naggressive_fraction = 0.75";
    let (mut rig, small) =
        rig("small-chunks", fractions, FakeModel::builder().window(SMALL), SMALL, 400).await;
    small.push(Kind::Compaction, Answer::text("## Goal\n- Anna looks for a flat in Lisbon"));
    small.push(Kind::Compaction, Answer::text("## Goal\n- Anna").hanging());
    rig.talk_until_run().await;
    small.wait_for(Kind::Compaction, 2).await;
    rig = rig.crash().await;
    let mut events = rig.events().await;
    if rig.context().await["outcomes"].as_array().unwrap().is_empty() {
        rig.run_ended(&mut events).await;
    }
    let context = rig.context().await;
    assert_eq!(context["outcomes"][0]["outcome"], "committed", "{context}");
    let requests = small.requests_of(Kind::Compaction);
    let first = words(&requests[0]);
    assert!(first.contains("month from 1 June") && first.contains("(0)"), "{first}");
    for request in &requests[1..] {
        let request = words(request);
        assert!(request.contains("<summaries-so-far>") && !request.contains("(0)"), "{request}");
    }
    assert!(requests.len() > 2, "it went on after the kill");
    let summary = &context["summaries"][0];
    assert_eq!(summary["made_by"], "other");
    assert!(summary["text"].as_str().unwrap().contains("flat in Lisbon"), "a section was lost: {summary}");
    rig.check_places().await;
    small.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instruction_of_a_megabyte_is_refused_with_what_to_do() {
    let rig = Rig::start("long-instruction").await;
    rig.say("hello").await;
    let body = json!({ "instruction": "x".repeat(1_000_000) });
    let (status, answer) = rig.client().ask("POST", "/v1/channels/main/compact", &body).await.unwrap();
    assert_eq!(status, 413, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("4000 at most") && message.contains("a few sentences"), "{message}");
}
