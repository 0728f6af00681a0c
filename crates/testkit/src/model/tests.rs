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
async fn a_gate_holds_one_kind_and_arrivals_can_be_awaited() {
    let model = Arc::new(FakeModel::start().await);
    let gate = model.hold(Kind::Compaction);
    let compaction = tokio::spawn({
        let model = model.clone();
        async move { post(&model, &request(json!([user("<transcript>x</transcript>")]))).await }
    });
    model.wait_for(Kind::Compaction, 1).await;
    let (status, body) = post(&model, &request(json!([user("[Ana | 2026-01-01 10:00] hello")]))).await;
    assert_eq!(status, 200);
    assert!(body.contains("echo: hello"), "{body}");
    assert!(!compaction.is_finished());
    gate.open();
    let (_, body) = compaction.await.unwrap();
    assert!(body.contains("fake summary 1"), "{body}");
    assert_eq!(model.tally(Kind::Compaction), Tally { arrived: 1, answered: 1, abandoned: 0 });
}

#[tokio::test]
async fn a_client_that_hangs_up_is_counted() {
    let model = Arc::new(FakeModel::start().await);
    let _gate = model.hold(Kind::Reply);
    let client = tokio::spawn({
        let model = model.clone();
        async move { post(&model, &request(json!([user("x")]))).await }
    });
    model.wait_for(Kind::Reply, 1).await;
    client.abort();
    model.wait_until("the hang-up", |model| model.tally(Kind::Reply).abandoned == 1).await;
}

#[tokio::test]
async fn memories_are_saved_in_the_first_round_and_the_summary_follows() {
    let memory = json!({"kind": "fact", "text": "Rex is a dog"});
    let model = FakeModel::builder().memories(vec![memory.clone()]).start().await;
    let mut body = request(json!([user("<transcript>x</transcript>")]));
    body["tools"] = json!([{"type": "function", "function": {"name": "memory_save", "parameters": {}}}]);
    let (_, first) = post(&model, &body).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    let call = &first["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], memory.to_string());
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "saved"}));
    let (_, second) = post(&model, &body).await;
    assert!(second.contains("fake summary 1"), "{second}");
    model.assert_clean();
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

#[tokio::test]
async fn scripted_answers_come_first_and_in_order() {
    let model =
        FakeModel::builder().respond(|seen| (seen.n == 2).then(|| Answer::text("made up"))).start().await;
    model.push(Kind::Reply, Answer::error(529, "busy").header("retry-after", "7"));
    model.push(Kind::Reply, Answer::text("scripted"));
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(post(&model, &request(json!([user("x")]))).await);
    }
    assert_eq!(got[0].0, 529);
    for (answer, text) in got[1..].iter().zip(["scripted", "made up", "echo: x"]) {
        assert!(answer.1.contains(text), "{answer:?}");
    }
    assert_eq!(model.unused(Kind::Reply), 0);
}
