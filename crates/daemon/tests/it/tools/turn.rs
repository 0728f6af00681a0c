//! The loop of a turn: calls beside each other, wrong calls, an end, cancellation.

use cairn_testkit::mcp::Script;
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, lasting_text_of, text_of};
use serde_json::{Value, json};

use crate::tools::rig::{Over, Plan};

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_answer_run_beside_each_other_and_their_results_keep_their_order() {
    for over in Over::BOTH {
        let rig = Plan::one(over, Script::default()).start().await;
        let path = rig.folder.path().join("gate").display().to_string();
        rig.script(&[
            ("files__gate", json!({ "path": path })),
            ("files__echo", json!({ "text": "second" })),
            ("files__add", json!({ "a": 1, "b": 2 })),
        ]);
        let talking = tokio::spawn({
            let client = rig.client();
            async move { client.say("main", "please look").await.unwrap() }
        });
        rig.files().wait_for_calls("add", 1).await;
        rig.files().wait_for_calls("gate", 1).await;
        std::fs::write(&path, "").unwrap();
        assert_eq!(talking.await.unwrap().0, 200);
        let result = rig.results();
        for (result, end) in result.iter().zip(["it is open", "second", "3"]) {
            assert!(result.ends_with(end), "{result}");
        }
        assert_eq!(result.len(), 3);
        rig.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_call_is_told_to_the_model_and_reaches_no_server() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    let wrong = [
        ("files__ghost", json!({})),
        ("ghost__echo", json!({ "text": "x" })),
        ("echo", json!({ "text": "x" })),
        ("files__echo", json!({})),
        ("files__echo", json!({ "text": 5 })),
        ("files__add", json!({ "a": 1, "b": "two" })),
        ("files__add", json!([1, 2])),
        ("files__slow", json!({ "ms": -1 })),
    ];
    let result = rig.calls(&wrong).await;
    assert_eq!(result.len(), wrong.len());
    for ((tool, arguments), result) in wrong.iter().zip(&result) {
        assert!(result.contains("error"), "{tool} {arguments}: {result}");
    }
    assert!(result[3].contains("text"), "it says which argument is missing: {}", result[3]);
    assert_eq!(rig.files().requests("tools/call"), [] as [Value; 0]);
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_after_its_rounds() {
    let model = FakeModel::builder().expect_stable_prefix(false).respond(|seen| match seen.kind {
        Kind::Reply => Some(Answer::call("files__echo", json!({ "text": "once more" }))),
        Kind::Compaction => None,
    });
    let plan = Plan::one(Over::Stdio, Script::default()).agent("max_rounds = 5").model(model);
    let rig = plan.start().await;
    let (status, answer) = rig.client().say("main", "go on and on").await.unwrap();
    let n = rig.files().calls("echo").len();
    assert!((4..=5).contains(&n), "{n} calls; {status} {answer}");
    assert!(answer.to_string().contains("rounds") || answer.to_string().contains('5'), "{status} {answer}");
    rig.assert_clean();
}

/// Who speaks in a request after the system, message by message.
fn roles(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap().iter();
    let role = |message: &Value| message["role"].as_str().unwrap()[..1].to_owned();
    messages.map(role).collect::<String>().trim_start_matches('s').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_goes_on_behind_calls_a_stop_and_failures_though_the_template_is_strict() {
    let rig = Plan::one(Over::Stdio, Script::default()).model(FakeModel::builder()).start().await;
    rig.call("files__echo", json!({ "text": "one" })).await;
    let requests = rig.model.requests_of(Kind::Reply);
    assert_eq!(roles(&requests[1]), "uat");
    let result = text_of(&requests[1]["messages"][3]);
    assert!(result.contains("<context>\nFrom the system") && result.ends_with("</context>"), "{result}");
    // Stopped behind a result.
    rig.model.push(Kind::Reply, Answer::call("files__hang", json!({})));
    let mut events = rig.talk("please wait").await;
    rig.files().wait_for_calls("hang", 1).await;
    let (status, _) = rig.client().ask("POST", "/v1/channels/main/stop", &Value::Null).await.unwrap();
    assert!(status.is_success(), "{status}");
    events.wait_for("error", |_| true).await.unwrap();
    // Failed twice.
    for text in ["are you there?", "hello?"] {
        rig.model.push(Kind::Reply, Answer::error(404, "no"));
        assert_ne!(rig.client().say("main", text).await.unwrap().0, 200);
    }
    rig.say("and now?").await;
    rig.call("files__echo", json!({ "text": "two" })).await;
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap();
    assert_eq!(roles(&request), "uatauatauauat");
    let asked = lasting_text_of(&request["messages"][9]);
    for text in ["are you there?", "hello?", "and now?"] {
        assert!(asked.contains(&format!("] {text}")), "{asked}");
    }
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_whose_template_knows_no_results_goes_on_with_calls_in_words() {
    let refuse = |seen: &Seen| {
        let has_result = seen.body["messages"].as_array().unwrap().iter().any(|it| it["role"] == "tool");
        has_result.then(|| {
            Answer::error(500, "Conversation roles must alternate user/assistant/user/assistant/...")
        })
    };
    let model = FakeModel::builder().expect_stable_prefix(false).respond(refuse);
    let rig = Plan::one(Over::Stdio, Script::default()).model(model).start().await;
    rig.model.push(Kind::Reply, Answer::call("files__echo", json!({ "text": "one" })));
    rig.say("please look").await;
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap();
    assert_eq!(roles(&request), "uau");
    assert!(text_of(&request["messages"][3]).starts_with("[result of files__echo]"), "{request}");
    assert!(request.get("tools").is_none());
    rig.say("and on").await;
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_round_forbids_calls_and_the_request_before_it_does_not() {
    let rig = Plan::one(Over::Stdio, Script::default()).agent("max_rounds = 2").start().await;
    rig.call("files__echo", json!({ "text": "one" })).await;
    let requests = rig.model.requests_of(Kind::Reply);
    assert_eq!((&requests[0]["tool_choice"], &requests[1]["tool_choice"]), (&Value::Null, &json!("none")));
    assert_eq!(requests[0]["tools"], requests[1]["tools"], "the prefix stays");
    assert!(text_of(requests[1]["messages"].as_array().unwrap().last().unwrap()).contains("No more tools"));
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_reaches_the_server() {
    for over in Over::BOTH {
        let rig = Plan::one(over, Script::default()).start().await;
        rig.script(&[("files__hang", json!({})), ("files__hang", json!({}))]);
        let mut events = rig.talk("please wait").await;
        rig.files().wait_for_calls("hang", 2).await;
        let (status, _) = rig.client().ask("POST", "/v1/channels/main/stop", &Value::Null).await.unwrap();
        assert!(status.is_success(), "{status}");
        rig.files().wait_until("both to be cancelled", |log| log.cancelled().len() == 2).await;
        events.wait_for("error", |_| true).await.unwrap();
        assert_eq!(rig.model.unused(Kind::Reply), 1, "the model is not asked again");
        rig.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_its_time_and_the_server_is_told_that_it_is_over() {
    let plan = Plan::none().server("files", Over::Stdio, Script::default(), "timeout_secs = 15");
    let rig = plan.start().await;
    let result = rig.call("files__hang", json!({})).await;
    assert!(result.contains("error") && result.contains("15 s"), "{result}");
    rig.files().wait_until("the end of the call", |log| log.cancelled().len() == 1).await;
    assert_eq!(rig.tool_log().await[0]["outcome"], "timed_out");
    assert!(rig.call("files__echo", json!({ "text": "x" })).await.ends_with('x'));
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_seen_as_they_run() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    rig.script(&[("files__echo", json!({ "text": "x" }))]);
    let mut events = rig.talk("please look").await;
    let tool = events.wait_for("tool", |data| data["name"] == "files__echo").await.unwrap();
    assert!(tool["state"].is_string(), "{tool}");
    events.wait_for("reply", |_| true).await.unwrap();
}
