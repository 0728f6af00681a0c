//! What the configuration has a model asked with: passed on, shown, refused where Cairn sets it itself.

use std::path::Path;

use cairn_testkit::daemon::Daemon;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::{model_table, one_model};
use hyper::StatusCode;
use serde_json::json;

use crate::{CAIRN, home};

const KEYS: &str = "temperature = 0.25\ntop_p = 0.5\nreasoning_effort = \"low\"\n\
                    extra_body = { top_k = 40, provider = { sort = \"price\" } }\n\
                    extra_headers = { X-Title = \"Garden\" }\n\
                    extra_headers_from_env = { X-Gateway-Token = \"CAIRN_TEST_GATEWAY\" }\n";

fn with(model: &FakeModel, keys: &str) -> String {
    let text = one_model(&model.base_url(), 32_000);
    text.replace("context_window = 32000\n", &format!("context_window = 32000\n{keys}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_of_a_model_goes_with_its_requests_and_is_shown_without_secrets() {
    let (home, model) = (home(), FakeModel::start().await);
    let config = home.config(&with(&model, KEYS));
    let shown = home.cairn(&["config", "show"]).ended(0).stdout;
    for line in ["temperature = 0.25", "top_p = 0.5", "reasoning_effort = \"low\"", "top_k = 40", "Garden"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(shown.contains("CAIRN_TEST_GATEWAY") && !shown.contains("hush-hush"), "{shown}");
    let again = home.file("again.toml", &shown);
    home.cairn(&["config", "check", &again.display().to_string()]).ended(0);

    let vars = [("CAIRN_TEST_GATEWAY", "hush-hush")];
    let daemon = Daemon::start_with(&vars, Path::new(CAIRN), &home.state(), Some(&config)).await.unwrap();
    let (status, reply) = daemon.client().say("main", "hello").await.unwrap();
    assert_eq!(status, StatusCode::OK, "{reply}");
    let seen = model.seen().pop().unwrap();
    let of = |key: &str| seen.body[key].clone();
    assert_eq!((of("temperature"), of("top_p")), (json!(0.25), json!(0.5)));
    assert_eq!((of("reasoning_effort"), of("top_k")), (json!("low"), json!(40)));
    assert_eq!((of("provider"), of("model")), (json!({"sort": "price"}), json!("fake")));
    assert_eq!(seen.headers["x-title"], "Garden");
    assert_eq!(seen.headers["x-gateway-token"], "hush-hush");

    let refusal = "Unsupported value: 'temperature' does not support 0.25 with this model, said hush-hush.";
    model.push(Kind::Reply, Answer::error(400, refusal));
    model.push(Kind::Reply, Answer::error(400, refusal));
    let (status, reply) = daemon.client().say("main", "and now?").await.unwrap();
    assert_eq!(status, StatusCode::OK, "{reply}");
    let seen = model.seen().pop().unwrap();
    assert_eq!(seen.body.get("temperature"), None, "it is left out");
    let metrics = daemon.client().raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap().1;
    let metrics = String::from_utf8_lossy(&metrics);
    assert!(
        metrics.contains("cairn_model_remedies_total{model=\"main\",remedy=\"no_extra\"} 1"),
        "{metrics}"
    );

    let refusal = "Unsupported value: 'temperature' does not support 0.25 with this model, said hush-hush.";
    model.push(Kind::Reply, Answer::error(401, refusal));
    let (status, failed) = daemon.client().say("main", "and now?").await.unwrap();
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{failed}");
    assert!(!failed.to_string().contains("hush-hush"), "{failed}");

    model.push(Kind::Reply, Answer::text("").reasoning("hm, hm").finish("length"));
    let (_, failed) = daemon.client().say("main", "think").await.unwrap();
    let error = failed["error"].to_string();
    assert!(error.contains("before its first word") && error.contains("raise max_output_tokens"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_asks_a_model_itself_warns_of_a_key_that_is_not_there() {
    let (home, model) = (home(), FakeModel::start().await);
    let spare = model_table("spare", &model.base_url(), 32_000) + "api_key_env = \"CAIRN_TEST_SPARE\"\n";
    home.config(&format!("{spare}{}", with(&model, "api_key_env = \"CAIRN_TEST_UNSET\"\n")));
    let run = home.cairn(&["chat", "hello"]).ended(0);
    assert!(run.stderr.contains("warning: model `main`: $CAIRN_TEST_UNSET is not set"), "{run:?}");
    assert!(!run.stderr.contains("CAIRN_TEST_SPARE"), "no agent asks it: {run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cairn_sets_itself_and_secrets_are_refused_with_their_line() {
    let (home, model) = (home(), FakeModel::start().await);
    for (keys, says) in [
        ("extra_body = { messages = [] }", "`messages`, which Cairn sets itself"),
        ("extra_body = { max_tokens = 5 }", "`max_tokens`, which Cairn sets itself"),
        ("extra_body = { temperature = 1.0 }", "`temperature`, which is a key of its own"),
        ("temperature = 2.5", "is out of range"),
        ("top_p = -0.1", "is out of range"),
        ("extra_headers = { Authorization = \"x\" }", "is a secret"),
        ("extra_headers = { X-Api-Token = \"x\" }", "is a secret"),
        ("extra_headers = { Content-Type = \"x\" }", "sets the header `Content-Type` itself"),
        ("extra_headers = { \"a b\" = \"x\" }", "cannot be the name of a header"),
        (
            "api_key_env = \"K\"\nextra_headers_from_env = { Authorization = \"A\" }",
            "holds the key of the model already",
        ),
    ] {
        home.config(&with(&model, &format!("{keys}\n")));
        let run = home.cairn(&["config", "check"]).ended(2);
        assert!(run.stderr.contains(says), "{keys}: {}", run.stderr);
    }
    home.config(&with(&model, "provider = \"anthropic\"\nreasoning_effort = \"low\"\n"));
    let run = home.cairn(&["config", "check"]).ended(2);
    assert!(run.stderr.contains("output_config"), "{}", run.stderr);
}
