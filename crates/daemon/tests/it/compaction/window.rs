//! No gap, no wait, whatever the size.

use cairn_testkit::model::{FakeModel, Kind, Violation, Wording};
use cairn_testkit::rig::Rig;

use crate::compaction::rig::{
    LONG, WINDOW, check_places, configured, history, message, run_ended, start, talk_until_run, words,
};

const FACT: &str = "The code of the vault is 7431-KX.";

#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_a_run_is_answered_at_once_and_the_run_goes_on() {
    let rig = start().await;
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = talk_until_run(&rig).await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let run = rig.context().await["run"]["id"].clone();
    for n in 0..8 {
        let id = format!("during-{n}");
        let body = message(&id, &format!("still there? {n}"));
        let (status, reply) = rig.post("/v1/channels/main/messages", &body).await;
        assert_eq!(status, 200, "{reply}");
        assert_eq!(reply["message"], id.as_str());
        assert!(reply["reply"].as_str().unwrap().contains(&format!("still there? {n}")), "{reply}");
    }
    assert_eq!(rig.context().await["run"]["id"], run, "the run was not left alone");
    assert_eq!(rig.model.tally(Kind::Compaction).arrived, 1, "the run was repeated");
    assert_eq!(rig.model.tally(Kind::Compaction).abandoned, 0, "the run was cancelled");
    gate.open();
    let ended = run_ended(&mut events).await;
    assert_eq!((&ended["run"], &ended["outcome"]), (&run, &"committed".into()));
    let said = history(&rig).await.into_values().filter(|entry| entry["role"] == "user");
    let order: Vec<_> = said.map(|entry| entry["message"].clone()).collect();
    let during: Vec<_> = order.iter().filter(|id| id.as_str().unwrap().starts_with("during-")).collect();
    let expected: Vec<_> = (0..8).map(|n| format!("during-{n}")).collect();
    assert_eq!(during, expected.iter().map(String::as_str).collect::<Vec<_>>());
    check_places(&rig).await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_stays_in_sight_until_its_summary_stands() {
    let rig = start().await;
    rig.say(FACT).await;
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = talk_until_run(&rig).await;
    for n in 0..4 {
        rig.say(&format!("and what else? {n}")).await;
    }
    let replies = rig.model.requests_of(Kind::Reply);
    for (idx, request) in replies.iter().enumerate() {
        assert!(words(request).contains("7431-KX"), "request {idx} of {} lacks the fact", replies.len());
    }
    gate.open();
    run_ended(&mut events).await;
    rig.say("so what?").await;
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap();
    assert!(
        request["messages"][0].to_string().contains("[Compaction Summary]"),
        "{}",
        request["messages"][0]
    );
    let hits = rig.get("/v1/channels/main/search?q=code%20of%20the%20vault&limit=10").await;
    let found = hits.as_array().unwrap().iter().any(|hit| hit["text"].as_str().unwrap().contains("7431-KX"));
    assert!(found, "the fact has left the window and no search finds it: {hits}");
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emergency_works_while_a_run_is_held_back() {
    let rig = start().await;
    let gate = rig.model.hold(Kind::Compaction);
    let mut events = talk_until_run(&rig).await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    let run = rig.context().await["run"].clone();
    let mut n_said = 0;
    while rig.context().await["markers"].as_array().unwrap().is_empty() {
        rig.say(&format!("{LONG} (more {n_said})")).await;
        n_said += 1;
        assert!(n_said < 100, "no emergency");
    }
    let emergency = events.wait_for("emergency", |_| true).await.unwrap();
    assert!(emergency["tokens_after"].as_u64() < emergency["tokens_before"].as_u64(), "{emergency}");
    assert_eq!(rig.context().await["run"]["id"], run["id"], "the run was not left alone");
    let text = rig.context().await["markers"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("older messages were truncated due to context limits]"), "{text}");
    check_places(&rig).await;
    gate.open();
    let ended = run_ended(&mut events).await;
    assert_eq!((&ended["run"], &ended["outcome"]), (&run["id"], &"committed".into()));
    // What the emergency took beyond the run is summarised by a run of its own.
    while !rig.context().await["markers"].as_array().unwrap().is_empty() {
        let ended = run_ended(&mut events).await;
        assert_eq!(ended["outcome"], "committed", "{ended}");
    }
    check_places(&rig).await;
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_message_larger_than_the_window_is_answered() {
    let rig = start().await;
    let giant = format!("BEGIN {} END", "a long and winding tale ".repeat(9_000));
    assert!(giant.len() > 200_000);
    let reply = rig.say(&giant).await;
    assert!(reply["reply"].as_str().unwrap().contains("BEGIN"), "{reply}");
    rig.say("and now?").await;
    let history = history(&rig).await;
    assert_eq!(history[&1]["parts"][0]["text"], giant.as_str(), "the raw words are kept");
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_id_is_answered_once() {
    let rig = start().await;
    let path = "/v1/channels/main/messages";
    let gate = rig.model.hold(Kind::Reply);
    let body = message("same", "hello");
    let first = rig.post(path, &body);
    let second = rig.post(path, &body);
    let release = async {
        rig.model.wait_for(Kind::Reply, 1).await;
        gate.open();
    };
    let (first, second, ()) = tokio::join!(first, second, release);
    assert_eq!(first, second);
    let third = rig.post(path, &body).await;
    assert_eq!(third.1["reply"], first.1["reply"]);
    let (status, conflict) = rig.post(path, &message("same", "other words")).await;
    assert_eq!(status, 409, "{conflict}");
    assert_eq!(rig.model.tally(Kind::Reply).arrived, 1);
    assert_eq!(history(&rig).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_no_refusal_names_is_learnt_from_what_was_taken_and_what_was_refused() {
    let model = FakeModel::builder().window(WINDOW).wording(Wording::Ollama).expect_stable_prefix(false);
    let mut rig = configured("openai", model, 4 * WINDOW, "").await;
    let refused = |rig: &Rig| {
        let seen = rig.model.seen();
        let of_replies = |violation: &Violation| seen[violation.n].kind == Kind::Reply;
        rig.model.violations().into_iter().filter(of_replies).count()
    };
    let mut n_said = 0;
    while refused(&rig) < 2 {
        rig.say(&format!("{LONG} ({n_said})")).await;
        if refused(&rig) < 2 {
            assert_eq!(rig.context().await["window_source"], "model", "one refusal may be a mistake");
        }
        n_said += 1;
        assert!(n_said < 200, "no overflow");
    }
    for n in 0..60 {
        if n == 30 {
            rig.crash().await;
        }
        rig.say(&format!("{LONG} (more {n})")).await;
    }
    assert_eq!(refused(&rig), 2, "the tiers work on what is known");
    let context = rig.context().await;
    assert_eq!(context["window_source"], "learnt");
    let learnt = context["window_tokens"].as_u64().unwrap();
    assert!((WINDOW * 6 / 10..=WINDOW).contains(&learnt), "{learnt}");
    assert!(!context["summaries"].as_array().unwrap().is_empty(), "{context}");
    check_places(&rig).await;
}
