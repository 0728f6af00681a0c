//! The fake model's own rules, asked over the wire.

use bytes_of::post;
use serde_json::{Value, json};

use super::*;

pub(super) mod bytes_of {
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use hyper_util::rt::TokioIo;
    use serde_json::Value;

    use super::FakeModel;

    /// Sends a request, returns status and body.
    pub(super) async fn post(model: &FakeModel, body: &Value) -> (u16, String) {
        post_to(model, "/v1/chat/completions", body).await
    }

    pub(crate) async fn post_to(model: &FakeModel, path: &str, body: &Value) -> (u16, String) {
        let socket = tokio::net::TcpStream::connect(model.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = hyper::Request::post(path)
            .header("host", "fake")
            .header("anthropic-version", "2023-06-01")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }
}

fn request(messages: Value) -> Value {
    json!({"model": "m", "messages": messages, "max_tokens": 50})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn call(id: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "done"})
}

/// A message with a picture, as the pictures of results are sent.
fn picture(role: &str) -> Value {
    json!({"role": role, "tool_call_id": "a", "content": [
        {"type": "text", "text": "[pictures of the result of f, call a]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]})
}

#[tokio::test]
async fn a_malformed_request_is_refused_and_recorded() {
    let cases = [
        (json!([]), Rule::Shape),
        (json!([{"role": "robot", "content": "x"}]), Rule::Shape),
        (json!([user("x"), {"role": "system", "content": "late"}]), Rule::Shape),
        (json!([{"role": "tool", "content": "x"}]), Rule::Shape),
        (json!([user(" ")]), Rule::Empty),
        (json!([user("x"), said("")]), Rule::Empty),
        (json!([user("x"), call("a")]), Rule::Parted),
        (json!([user("x"), call("a"), user("y"), result("a")]), Rule::Parted),
        (json!([user("x"), result("a")]), Rule::Parted),
        (json!([user("x"), call("a"), result("b"), result("a")]), Rule::Parted),
        (json!([user("x"), call("a"), picture("tool")]), Rule::Shape),
        (json!([user("x"), call("a"), picture("user"), result("a")]), Rule::Parted),
        (json!([user("x"), user("y")]), Rule::Roles),
        (json!([user("x"), said("y"), said("z")]), Rule::Roles),
        (json!([said("x"), user("y")]), Rule::Roles),
        (json!([user("x"), call("a"), result("a"), user("y")]), Rule::Roles),
        (json!([user("x"), call("a"), result("a"), picture("user")]), Rule::Roles),
        (json!([user("x"), said("y"), call("a"), result("a"), said("z")]), Rule::Roles),
    ];
    for (messages, rule) in cases {
        let model = FakeModel::start().await;
        let (status, body) = post(&model, &request(messages.clone())).await;
        let rules: Vec<Rule> = model.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!((status, rules), (400, vec![rule]), "{messages}: {body}");
    }
    // No server is so lenient that it takes what its template refuses.
    let model = FakeModel::builder().lenient().start().await;
    let (status, body) = post(&model, &request(json!([user("x"), user("y")]))).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("roles must alternate"), "{body}");
    let model = FakeModel::start().await;
    let fine =
        json!([{"role": "system", "content": "s"}, user("x"), call("a"), result("a"), said("y"), user("z")]);
    let (status, body) = post(&model, &request(fine)).await;
    assert_eq!(status, 200, "{body}");
    let (status, body) =
        post(&model, &request(json!([user("see"), call("a"), result("a"), said("look"), picture("user")])))
            .await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("echo: see"), "{body}");
    model.assert_clean();
}

#[tokio::test]
async fn a_request_over_the_window_is_refused_in_the_words_of_servers() {
    let model = FakeModel::builder().window(100).count(Count::O200k).start().await;
    assert_eq!(post(&model, &request(json!([user("short")]))).await.0, 200);
    let (status, body) = post(&model, &request(json!([user(&"long ".repeat(100))]))).await;
    assert_eq!(status, 400);
    assert!(body.contains("context_length_exceeded"), "{body}");
    assert_eq!(model.violations()[0].rule, Rule::Window);
}

#[tokio::test]
async fn a_changed_prefix_is_refused_and_volatile_context_is_not_part_of_it() {
    let model = FakeModel::start().await;
    let system = json!({"role": "system", "content": "s"});
    let ok = async |messages: Value| assert_eq!(post(&model, &request(messages)).await.0, 200);
    // Two conversations that begin alike.
    ok(json!([system, user("hi\n\n<context>\n10:00\n</context>")])).await;
    ok(json!([system, user("hi\n\n<context>\n10:01\n</context>")])).await;
    ok(json!([system, user("hi"), said("a"), user("one\n\n<context>\n10:02\n</context>")])).await;
    ok(json!([system, user("hi"), said("b"), user("two")])).await;
    ok(json!([
        system,
        user("hi"),
        said("b"),
        user("two"),
        call("c"),
        {"role": "tool", "tool_call_id": "c", "content": "done\n\n<context>\nx\n</context>"}
    ]))
    .await;
    ok(json!([system, user("hi"), said("b"), user("two"), call("c"), result("c"), said("d"), user("e")]))
        .await;
    // What a person says behind an answer that failed joins the message before it.
    ok(json!([
        system,
        user("hi"),
        said("b"),
        user("two"),
        call("c"),
        result("c"),
        said("d"),
        user("e\n\nf")
    ]))
    .await;
    // A new system block is a compaction: nothing to compare with.
    ok(json!([{"role": "system", "content": "s\n\nsummary"}, user("hi"), said("changed"), user("one")]))
        .await;
    model.assert_clean();
    let (status, _) =
        post(&model, &request(json!([system, user("hi"), said("x"), user("one"), said("y"), user("z")])))
            .await;
    assert_eq!(status, 400);
    assert_eq!(model.violations()[0].rule, Rule::Prefix);
}

#[tokio::test]
async fn usage_tells_what_a_cache_would_have_held() {
    let model = FakeModel::start().await;
    let usage = async |messages: Value| {
        let (_, body) = post(&model, &request(messages)).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64).unwrap();
        (number("/usage/prompt_tokens"), number("/usage/prompt_tokens_details/cached_tokens"))
    };
    let (first, cached) = usage(json!([user("hello there")])).await;
    assert_eq!(cached, 0);
    let (second, cached) = usage(json!([user("hello there"), said("hi"), user("more")])).await;
    assert!(second > first);
    assert_eq!(cached, first);
    let expected = first as f64 / (first + second) as f64;
    assert!((model.cached_share() - expected).abs() < 1e-9);
}
