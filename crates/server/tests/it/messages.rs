//! The message route against a router that does as it is told: every status, both forms of the answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use cairn_server::messages::{LocalApi, router};
use cairn_testkit::clock::{TEST_EPOCH, TestClock};
use cairn_testkit::runtime::Runtime;
use cairn_types::ids::{AgentId, MessageId, TurnId};
use cairn_types::message::Part;
use cairn_types::model::Usage;
use cairn_types::ports::{Answer, ChatCommands, Intake, Progress, Refusal, Reply, StoreError, TurnFailure};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAX_TEXT: usize = 1_000;

fn reply() -> Progress {
    Progress::Ended(Answer::Reply(Reply {
        turn: TurnId::from("t1"),
        message: MessageId::from("m1"),
        reply: "hello".to_owned(),
        model: "offline".to_owned(),
        usage: Usage { input_tokens: 3, output_tokens: 2, cached_tokens: 1, cache_write_tokens: 0 },
        recalled: vec!["m0123456789abcdef".into()],
        finish: None,
        notice: None,
    }))
}

fn failure(code: &str) -> Progress {
    let (message, hint) = ("what".to_owned(), "do".to_owned());
    Progress::Ended(Answer::Failed(TurnFailure { code: code.to_owned(), message, hint }))
}

fn app(results: Vec<Result<Vec<Progress>, Refusal>>) -> (Router, Arc<Runtime>) {
    let runtime = Runtime::new();
    runtime.state.update(|state| {
        for result in results {
            match result {
                Ok(progress) => state.progress.push_back(progress),
                Err(refusal) => state.refusals.push_back(refusal),
            }
        }
    });
    let api = LocalApi {
        intake: Arc::clone(&runtime) as Arc<dyn Intake>,
        chat_commands: Arc::clone(&runtime) as Arc<dyn ChatCommands>,
        clock: Arc::new(TestClock::default()),
        default_agent: AgentId::from("main"),
        max_text_bytes: MAX_TEXT,
        transcriber: None,
        mint: Arc::default(),
    };
    (router(api), runtime)
}

async fn post(app: &Router, channel: &str, accept: &str, body: impl Into<Body>) -> Response<Body> {
    let request = Request::post(format!("/v1/channels/{channel}/messages"))
        .header("accept", accept)
        .body(body.into())
        .unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn an_answer_has_the_shape_of_the_contract() {
    let (app, runtime) = app(vec![Ok(vec![Progress::Delta("he".to_owned()), reply()])]);
    let body = json!({ "user": "ann", "text": "hi", "id": "m1", "at": "2026-01-02T03:04:05Z" });
    let response = post(&app, "ops", "application/json", body.to_string()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let answer: Value = serde_json::from_str(&text(response).await).unwrap();
    let expected = json!({
        "turn": "t1", "message": "m1", "reply": "hello", "model": "offline",
        "usage": { "input_tokens": 3, "output_tokens": 2, "cached_tokens": 1 },
        "recalled": ["m0123456789abcdef"],
    });
    assert_eq!(answer, expected);
    let taken = &runtime.state.lock().taken;
    assert_eq!(taken[0].channel.as_str(), "main/local/ops");
    assert_eq!(taken[0].author.id, "local/ann");
    assert_eq!(taken[0].at.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(taken[0].parts, [Part::text("hi")]);
}

#[tokio::test]
async fn events_come_in_order_and_end_with_the_reply() {
    let steps = vec![
        Progress::Delta("he".to_owned()),
        Progress::Tool { name: "memory_search".to_owned(), state: "started" },
        Progress::Restarted,
        Progress::Delta("hello".to_owned()),
        reply(),
    ];
    let (app, _runtime) = app(vec![Ok(steps)]);
    let response =
        post(&app, "ops", "text/event-stream", json!({ "user": "a", "text": "x", "id": "m1" }).to_string())
            .await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = text(response).await;
    let names: Vec<_> = body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["accepted", "delta", "tool", "restarted", "delta", "reply"]);
    assert!(body.starts_with("event: accepted\ndata: {\"message\":\"m1\",\"turn\":\"t1\"}\n"), "{body}");
}

#[tokio::test]
async fn every_end_of_a_turn_has_its_status_and_its_event() {
    for (code, status) in
        [("stopped", 499), ("turn_failed", 502), ("compaction_failure", 502), ("stopping", 503)]
    {
        let (app, _runtime) = app(vec![Ok(vec![failure(code)]), Ok(vec![failure(code)])]);
        let body = json!({ "user": "a", "text": "x" }).to_string();
        let response = post(&app, "ops", "*/*", body.clone()).await;
        assert_eq!(response.status().as_u16(), status, "{code}");
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        let expected = json!({ "error": { "code": code, "message": "what", "hint": "do" } });
        assert_eq!(answer, expected);
        let events = text(post(&app, "ops", "text/event-stream", body).await).await;
        let (_, data) = events.split_once("event: error\ndata: ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(data.trim()).unwrap(), expected);
    }
}

#[tokio::test]
async fn every_refusal_has_its_status() {
    let full = StoreError::DiskFull { path: "/state".to_owned() };
    let cases = [
        (Refusal::Conflict("m1".into()), 409, "conflict", None),
        (Refusal::Busy { retry_after_secs: 7 }, 429, "busy", Some("7")),
        (Refusal::Unavailable("starting"), 503, "unavailable", Some("1")),
        (Refusal::Unavailable("stopping"), 503, "stopping", Some("1")),
        (Refusal::UnknownAgent("bob".into()), 404, "no_such_agent", None),
        (Refusal::Store(full), 503, "disk_full", None),
    ];
    for (refusal, status, code, retry_after) in cases {
        let (app, _runtime) = app(vec![Err(refusal)]);
        let response = post(&app, "ops", "*/*", json!({ "user": "a", "text": "x" }).to_string()).await;
        assert_eq!(response.status().as_u16(), status, "{code}");
        let header = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header.as_deref(), retry_after, "{code}");
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(answer["error"]["code"], code);
        assert!(!answer["error"]["hint"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn bad_messages_are_refused_before_they_are_taken_in() {
    let long = "x".repeat(MAX_TEXT + 1);
    let huge = format!("{{\"user\":\"a\",\"text\":\"{}\"}}", " ".repeat(1_000_000));
    let cases: Vec<(&str, String, u16)> = vec![
        ("ops", "not json".to_owned(), 400),
        ("ops", "{}".to_owned(), 400),
        ("ops", r#"["a","x",null,null,null]"#.to_owned(), 400),
        ("ops", r#"{"user":"a","text":"\ud800"}"#.to_owned(), 400),
        ("ops", r#"{"user":"a","text":"a\u0000b"}"#.to_owned(), 400),
        ("ops", r#"{"user":"","text":"x"}"#.to_owned(), 400),
        ("ops", r#"{"user":"a","text":"x","id":""}"#.to_owned(), 400),
        ("ops", r#"{"user":"a","text":"x","at":"noon"}"#.to_owned(), 400),
        ("a%20b", r#"{"user":"a","text":"x"}"#.to_owned(), 400),
        ("main%2Fdiscord%2F1", r#"{"user":"a","text":"x"}"#.to_owned(), 400),
        ("main%2Flocal%2Fops", r#"{"user":"a","text":"x","agent":"other"}"#.to_owned(), 400),
        ("ops", json!({ "user": "a", "text": long }).to_string(), 413),
        ("ops", huge, 413),
        ("ops", r#"{"user":"a","text":""}"#.to_owned(), 422),
        ("ops", r#"{"user":"a","text":" \n\t "}"#.to_owned(), 422),
    ];
    for (channel, body, status) in cases {
        let (app, runtime) = app(vec![]);
        let shown: String = body.chars().take(60).collect();
        let response = post(&app, channel, "*/*", body).await;
        assert_eq!(response.status().as_u16(), status, "{channel} {shown}");
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{shown}");
        assert!(runtime.state.lock().taken.is_empty(), "{shown}");
    }
    let (app, _runtime) = app(vec![]);
    assert_eq!(post(&app, "ops", "*/*", vec![b'{', 0xff]).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn names_agents_and_minted_ids_find_their_way() {
    let (app, runtime) = app((0..4).map(|_| Ok(vec![reply()])).collect());
    let plain = json!({ "user": "a", "text": "x" }).to_string();
    for (channel, body) in [
        ("ops", plain.clone()),
        ("ops", plain.clone()),
        ("ops", json!({ "user": "a", "text": "x", "agent": "bob" }).to_string()),
        ("bob%2Flocal%2Fops%2Fthread", plain),
    ] {
        assert_eq!(post(&app, channel, "*/*", body).await.status(), StatusCode::OK);
    }
    let taken = &runtime.state.lock().taken;
    let channels: Vec<_> = taken.iter().map(|inbound| inbound.channel.to_string()).collect();
    assert_eq!(channels, ["main/local/ops", "main/local/ops", "bob/local/ops", "bob/local/ops/thread"]);
    assert_ne!(taken[0].message, taken[1].message, "each message gets an id of its own");
    assert_eq!(taken[0].at, TEST_EPOCH);
}
