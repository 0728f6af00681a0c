//! A compaction model of its own that is down, slow, empty, inventing or small: the conversation goes on in any case.

use cairn_testkit::model::{Answer, Builder, FakeModel, Kind};
use cairn_testkit::rig::{Rig, model_table};
use serde_json::Value;

use crate::compaction::rig::{WINDOW, check_places, configured, run_ended, start, talk_until_run, words};

/// A daemon whose summaries are made by another model than its replies.
async fn rig(compaction: &str, other: Builder, window: u64) -> (Rig, FakeModel) {
    let other = other.start().await;
    let table = model_table("other", &other.base_url(), window);
    let more = format!("[agents.compaction]\nmodel = \"other\"\n{compaction}\n\n{table}");
    (configured("openai", FakeModel::builder().window(WINDOW), WINDOW, &more).await, other)
}

/// The end of the first run, with what the context lists of it.
async fn first_end(rig: &Rig) -> (Value, Value) {
    let mut events = talk_until_run(rig).await;
    let ended = run_ended(&mut events).await;
    assert_eq!(ended["outcome"], "committed", "{ended}");
    let context = rig.context().await;
    check_places(rig).await;
    rig.say("go on").await;
    rig.model.assert_clean();
    (ended, context)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_is_down_is_stood_in_for_by_the_agents_own() {
    let (rig, other) = rig("", FakeModel::builder(), WINDOW).await;
    other.push(Kind::Compaction, Answer::error(503, "down for maintenance"));
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
    assert_eq!((other.unused(Kind::Compaction), other.tally(Kind::Compaction).arrived), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_stalls_is_given_up_after_the_limit_of_a_call() {
    // The limit holds for the one that stands in, too.
    let (rig, other) = rig("call_timeout_secs = 15", FakeModel::builder(), WINDOW).await;
    let _never = other.hold(Kind::Compaction);
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_model_that_says_nothing_is_asked_once_more_and_then_the_next() {
    let (rig, other) = rig("", FakeModel::builder(), WINDOW).await;
    other.push(Kind::Compaction, Answer::text(""));
    other.push(Kind::Compaction, Answer::text(" "));
    let (ended, _) = first_end(&rig).await;
    assert_eq!(ended["made_by"], "main", "{ended}");
    assert_eq!(other.unused(Kind::Compaction), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_compaction_model_invents_is_not_kept() {
    let (rig, other) = rig("", FakeModel::builder(), WINDOW).await;
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
    let rig = start().await;
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
    let (mut rig, small) = rig(fractions, FakeModel::builder().window(SMALL), SMALL).await;
    small.push(Kind::Compaction, Answer::text("## Goal\n- Anna looks for a flat in Lisbon"));
    small.push(Kind::Compaction, Answer::text("## Goal\n- Anna").hanging());
    talk_until_run(&rig).await;
    small.wait_for(Kind::Compaction, 2).await;
    rig.crash().await;
    let mut events = rig.events().await;
    if rig.context().await["outcomes"].as_array().unwrap().is_empty() {
        run_ended(&mut events).await;
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
    check_places(&rig).await;
    small.assert_clean();
}
