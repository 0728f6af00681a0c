//! The message route against a router that does as it is told: every status, both forms of the answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use cairn_config::{Config, FixedEnvironment, Live};
use cairn_server::messages::{LocalApi, router};
use cairn_testkit::clock::{TEST_EPOCH, TestClock};
use cairn_testkit::mcp::PNG;
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

/// The agents `main`, whose model takes pictures, and `bob`.
fn agents() -> Live {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    let model = "[[models]]\nid = \"seer\"\nbase_url = \"http://localhost/v1\"\nmodel = \"m\"\ncontext_window = 64000\nimages = true\n";
    let agents = "[[agents]]\nid = \"main\"\nmodels = [\"seer\"]\n[[agents]]\nid = \"bob\"\n";
    std::fs::write(&file, format!("{model}{agents}")).unwrap();
    Live::new(Arc::new(Config::load(Some(&file), &FixedEnvironment::new("/")).unwrap()))
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
        config: agents(),
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

fn file(name: &str, data: &str) -> Value {
    json!({ "name": name, "data": data })
}

#[tokio::test]
async fn files_are_parts_of_the_message_and_need_no_words() {
    let (app, runtime) = app((0..3).map(|_| Ok(vec![reply()])).collect());
    let long = "eHh4".repeat(40_000);
    let files = json!([file("cat.png", PNG), file("notes.txt", "ZmVlZCBpdA=="), file("long.txt", &long)]);
    let body = json!({ "user": "a", "text": "look", "files": files }).to_string();
    assert_eq!(post(&app, "ops", "*/*", body).await.status(), StatusCode::OK);
    // Pictures are only named where the model takes none; the type may be said instead of being guessed by the name.
    for files in
        [json!([file("cat.png", PNG)]), json!([{ "name": "x", "media_type": "text/plain", "data": "" }])]
    {
        let body = json!({ "user": "a", "text": "", "files": files }).to_string();
        assert_eq!(post(&app, "bob%2Flocal%2Fops", "*/*", body).await.status(), StatusCode::OK);
    }
    let taken = &runtime.state.lock().taken;
    let named = |name: &str| Part::File { name: name.to_owned(), media_type: None, text: None };
    let notes =
        Part::File { name: "notes.txt".to_owned(), media_type: None, text: Some("feed it".to_owned()) };
    let (media_type, data) = ("image/png".to_owned(), PNG.to_owned());
    let picture = Part::Image { name: Some("cat.png".to_owned()), media_type, data };
    let expected = [Part::text("look"), picture, notes, named("long.txt (120 kB, too large to be read)")];
    assert_eq!(taken[0].parts, expected);
    assert_eq!(taken[1].parts, [named("cat.png (75 bytes)")]);
    assert!(
        matches!(&taken[2].parts[..], [Part::File { text: Some(text), .. }] if text.is_empty()),
        "{taken:?}"
    );
}

#[tokio::test]
async fn files_over_a_limit_and_what_is_no_file_are_refused_with_the_reason() {
    let too_many = vec![file("a", ""); 11];
    let cases = [
        (json!(too_many), 400, "11 files; at most 10"),
        (json!([file(&"x".repeat(1_025), "")]), 400, "longer than 1024 bytes"),
        (json!([file("a", "?")]), 400, "`data` of a file is not base64"),
        (json!([{ "name": "a", "data": "", "url": "file:///etc/passwd" }]), 400, "unknown field `url`"),
        (json!([file("a", &"A".repeat((16 << 20) / 3 * 4 + 8))]), 413, "larger than 16 MiB"),
        (json!([file("a", &"A".repeat(32 << 20))]), 413, "larger than 16 MiB"),
    ];
    for (files, status, why) in cases {
        let (app, runtime) = app(vec![]);
        let body = json!({ "user": "a", "text": "x", "files": files }).to_string();
        let response = post(&app, "ops", "*/*", body).await;
        assert_eq!(response.status().as_u16(), status, "{why}");
        let answer = text(response).await;
        assert!(answer.contains(why), "{answer}");
        assert!(runtime.state.lock().taken.is_empty(), "{why}");
    }
}

#[tokio::test]
async fn a_channel_in_which_nobody_can_talk_is_refused_before_the_body_is_there() {
    for (channel, status) in [("main%2Fdiscord%2F1", 400), ("nobody%2Flocal%2Fops", 404), ("a%20b", 400)] {
        let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let (app, _runtime) = app(vec![]);
        assert_eq!(post(&app, channel, "*/*", never).await.status().as_u16(), status, "{channel}");
    }
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
