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

/// What a request took: its tokens, those that were cached, and those that were written.
async fn usage(model: &FakeModel, body: &Value) -> (u64, u64, u64) {
    let (status, said) = post(model, body).await;
    assert_eq!(status, 200, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let number =
        |pointer: &str| said.pointer(&format!("/usage/prompt_{pointer}")).and_then(Value::as_u64).unwrap();
    let details = |key: &str| number(&format!("tokens_details/{key}"));
    (number("tokens"), details("cached_tokens"), details("cache_write_tokens"))
}

#[tokio::test]
async fn usage_tells_what_an_automatic_cache_held() {
    let model = FakeModel::start().await;
    let long = "hello there ".repeat(800);
    let talk = |rest: &[Value]| request([&[user(&long)], rest].concat().into());
    let (first, cached, written) = usage(&model, &talk(&[])).await;
    assert_eq!((cached, written), (0, 0));
    let (second, cached, written) = usage(&model, &talk(&[said("hi"), user("more")])).await;
    assert!(second > first && written == 0);
    assert_eq!(cached, 1_024 + (first - 1_024) / 128 * 128, "in steps of 128");
    let expected = cached as f64 / (first + second) as f64;
    assert!((model.cached_share() - expected).abs() < 1e-9);
    // A beginning ends within a message, too; less than 1,024 tokens of it are not told.
    let model = FakeModel::start().await;
    let (first, ..) = usage(&model, &request(json!([user(&format!("{long}\n\nnow"))]))).await;
    let (_, cached, _) = usage(&model, &request(json!([user(&format!("{long}\n\nthen"))]))).await;
    assert!(cached > first - 130 && cached < first, "{cached} of {first}");
    assert_eq!(usage(&model, &request(json!([user("short")]))).await.1, 0);
    assert_eq!(usage(&model, &request(json!([user("short")]))).await.1, 0);
}

/// A text of more than 1,024 tokens, or another one behind it, with a breakpoint or without.
fn part(text: &str, mark: bool) -> Value {
    match mark {
        true => json!({"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}}),
        false => json!({"type": "text", "text": text}),
    }
}

#[tokio::test]
async fn a_newer_model_of_openai_holds_what_ends_at_a_breakpoint_and_finds_it_at_one() {
    let model = FakeModel::builder().breakpoints().expect_stable_prefix(false).start().await;
    let long = "hello there ".repeat(800);
    let talk = |parts: Value, rest: &[Value]| {
        let mut body = request([&[json!({"role": "user", "content": parts})], rest].concat().into());
        body["prompt_cache_options"] = json!({"mode": "explicit"});
        body
    };
    let (all, read, written) =
        usage(&model, &talk(json!([part(&long, true), part("\n\nnow", false)]), &[])).await;
    assert!(read == 0 && written > 1_024 && written < all);
    let next = [said("hi"), json!({"role": "user", "content": [part("more", true), part("then", false)]})];
    let (_, read, more) = usage(&model, &talk(json!([part(&long, true)]), &next)).await;
    assert_eq!(read, written);
    assert!(more > 0);
    assert_eq!(
        usage(&model, &talk(json!([part(&long, false)]), &next)).await.1,
        read + more,
        "found at the second"
    );
    let next = [said("hi"), json!({"role": "user", "content": [part("less", true)]})];
    assert_eq!(
        usage(&model, &talk(json!([part(&long, false)]), &next)).await.1,
        0,
        "there is none at the first"
    );
    model.assert_clean();
}

#[tokio::test]
async fn breakpoints_are_refused_where_they_do_not_belong() {
    let marked = |text: &str| json!({"role": "user", "content": [part(text, true)]});
    let of_model = json!({"role": "assistant", "content": [part("x", true)]});
    let five = json!({"role": "user", "content": (0..5).map(|_| part("x", true)).collect::<Vec<_>>()});
    let run = json!([marked("<transcript>\nx\n</transcript>")]);
    let cases = [
        (false, json!([marked("x")])),
        (true, json!([user("x"), of_model, user("y")])),
        (true, json!([marked("<context>\nnow\n</context>")])),
        (true, json!([five])),
        (true, run),
    ];
    for (known, messages) in cases {
        let model = FakeModel::builder();
        let model = if known { model.breakpoints() } else { model }.start().await;
        assert_eq!(post(&model, &request(messages.clone())).await.0, 400, "{messages}");
        assert_eq!(model.violations()[0].rule, Rule::Cache, "{messages}");
    }
    let model = FakeModel::start().await;
    let mut body = request(json!([user("x")]));
    body["prompt_cache_key"] = "c".into();
    let (status, said) = post(&model, &body).await;
    assert_eq!((status, said.contains("Unsupported parameter: 'prompt_cache_key'")), (400, true), "{said}");
}
