//! The rules of the fake's Anthropic side, asked over the wire.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::tests::bytes_of::post_to;
use super::super::{Answer, FakeModel, Kind, Rule, Streaming, Wire, Wording};

async fn post(model: &FakeModel, body: &Value) -> (u16, String) {
    post_to(model, "/v1/messages", body).await
}

fn request(messages: Value) -> Value {
    json!({
        "model": "m", "max_tokens": 50, "messages": messages,
        "system": [{"type": "text", "text": "prompt", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    })
}

fn words(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn marked(text: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
}

fn user(blocks: Value) -> Value {
    json!({"role": "user", "content": blocks})
}

fn said(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

fn picture(media_type: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": "AAAA".repeat(10_000)}})
}

fn shown(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

#[tokio::test]
async fn results_may_have_pictures_which_weigh_as_such() {
    let model = FakeModel::start().await;
    let messages = json!([
        user(json!([words("see")])),
        said(json!([call("a"), call("b")])),
        user(json!([
            shown("a", json!([words("one"), picture("image/png"), picture("image/jpeg")])),
            result("b")
        ])),
    ]);
    let (status, body) = post(&model, &request(messages)).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("echo: see"), "{body}");
    let usage = serde_json::from_str::<Value>(&body).unwrap()["usage"].clone();
    let tokens: u64 =
        ["input_tokens", "cache_creation_input_tokens"].iter().map(|key| usage[key].as_u64().unwrap()).sum();
    assert!((2_000..2_200).contains(&tokens), "{usage}");
    let shown = model.seen().pop().unwrap();
    let roles: Vec<_> =
        shown.body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(shown.body["messages"][3]["content"], "one");
    model.assert_clean();
}

#[rstest]
#[case::twice_the_same(json!([user(json!([words("x")])), user(json!([words("y")]))]), Rule::Roles)]
#[case::the_model_first(json!([said(json!([words("x")]))]), Rule::Roles)]
#[case::words_behind_a_result(
    json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([result("a"), words("y")]))]),
    Rule::Roles
)]
#[case::a_breakpoint_on_a_result_with_the_tail(
    json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([{
        "type": "tool_result", "tool_use_id": "a", "cache_control": {"type": "ephemeral"},
        "content": [words("done"), words("\n\n<context>\n10:00\n</context>")],
    }]))]),
    Rule::Cache
)]
#[case::no_blocks(json!([user(json!([]))]), Rule::Empty)]
#[case::no_words(json!([user(json!([words(" ")]))]), Rule::Empty)]
#[case::unanswered(json!([user(json!([words("x")])), said(json!([call("a")]))]), Rule::Parted)]
#[case::half_answered(
    json!([user(json!([words("x")])), said(json!([call("a"), call("b")])), user(json!([result("a")]))]),
    Rule::Parted
)]
#[case::result_after_words(
    json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([words("y"), result("a")]))]),
    Rule::Parted
)]
#[case::never_called(json!([user(json!([result("a")]))]), Rule::Parted)]
#[case::twice_the_id(
    json!([user(json!([words("x")])), said(json!([call("a"), call("a")])), user(json!([result("a"), result("a")]))]),
    Rule::Shape
)]
#[case::a_bad_id(json!([user(json!([words("x")])), said(json!([call("a.b")])), user(json!([result("a.b")]))]), Rule::Shape)]
#[case::a_call_from_people(json!([user(json!([call("a")]))]), Rule::Shape)]
#[case::a_picture_by_address(
    json!([user(json!([{"type": "image", "source": {"type": "url", "url": "http://x"}}]))]),
    Rule::Shape
)]
#[case::a_result_without_anything(
    json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([shown("a", json!([]))]))]),
    Rule::Empty
)]
#[case::a_result_with_a_picture_of_another_format(
    json!([user(json!([words("x")])), said(json!([call("a")])),
        user(json!([shown("a", json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]))]))]),
    Rule::Shape
)]
#[case::a_result_with_a_picture_of_an_unknown_kind(
    json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([shown("a", json!([picture("image/tiff")]))]))]),
    Rule::Shape
)]
#[case::five_breakpoints(
    json!([user(json!([marked("a"), marked("b"), marked("c"), marked("d")]))]),
    Rule::Cache
)]
#[case::a_breakpoint_on_the_tail(json!([user(json!([words("a"), marked("<context>\n10:00\n</context>")]))]), Rule::Cache)]
#[tokio::test]
async fn a_malformed_request_is_refused_and_recorded(#[case] messages: Value, #[case] rule: Rule) {
    let model = FakeModel::start().await;
    let (status, body) = post(&model, &request(messages)).await;
    let rules: Vec<Rule> = model.violations().iter().map(|violation| violation.rule).collect();
    assert_eq!((status, rules), (400, vec![rule]), "{body}");
    assert!(body.contains("invalid_request_error"), "{body}");
}

#[tokio::test]
async fn the_frame_is_checked() {
    let fine = request(json!([user(json!([words("x")]))]));
    for (key, value) in [("max_tokens", Value::Null), ("system", json!(5)), ("system", json!([]))] {
        let model = FakeModel::start().await;
        let mut body = fine.clone();
        body[key] = value;
        assert_eq!(post(&model, &body).await.0, 400, "{key}");
        assert_eq!(model.violations()[0].rule, Rule::Shape);
    }
    let model = FakeModel::start().await;
    assert_eq!(post(&model, &fine).await.0, 200);
    let undefined = json!([user(json!([words("x")])), said(json!([call("a")])), user(json!([result("a")]))]);
    let mut body = request(undefined);
    body["tools"] = json!([]);
    assert_eq!(post(&model, &body).await.0, 400, "calls without tools");
}

#[tokio::test]
async fn a_request_is_shown_in_the_form_of_chat_completions() {
    let model = FakeModel::start().await;
    let messages = json!([
        user(json!([words("[Ana | 2026-01-01 10:00] x")])),
        said(json!([words("wait"), call("a"), call("b")])),
        user(json!([
            result("a"),
            shown("b", json!([words("done"), words("\n\n<context>\nnow\n</context>")]))
        ])),
    ]);
    let (_, body) = post(&model, &request(messages)).await;
    assert!(body.contains("echo: x"), "{body}");
    let seen = model.seen().pop().unwrap();
    assert_eq!((seen.wire, seen.kind), (Wire::Anthropic, Kind::Reply));
    let roles: Vec<_> = seen.body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!(seen.body["messages"][2]["tool_calls"][1]["id"], "b");
    assert_eq!(seen.raw.unwrap()["messages"][1]["role"], "assistant");
    model.assert_clean();
}

#[tokio::test]
async fn the_cache_holds_what_ends_at_a_breakpoint() {
    let model = FakeModel::start().await;
    let usage = async |messages: Value| {
        let mut body = request(messages);
        body["system"][0]["text"] = "prompt ".repeat(1_200).into();
        let (_, body) = post(&model, &body).await;
        let usage = serde_json::from_str::<Value>(&body).unwrap()["usage"].clone();
        let number = |key: &str| usage[key].as_u64().unwrap();
        (number("input_tokens"), number("cache_read_input_tokens"), number("cache_creation_input_tokens"))
    };
    let tail = words("<context>\nnow\n</context>");
    let (rest, read, first) = usage(json!([user(json!([marked("hello there"), tail]))])).await;
    assert!(rest > 0 && first > 0);
    assert_eq!(read, 0);
    let talk = json!([
        user(json!([words("hello there")])),
        said(json!([words("hi")])),
        user(json!([marked("more")]))
    ]);
    let (rest, read, written) = usage(talk).await;
    assert_eq!((rest, read), (0, first), "a breakpoint looks back");
    assert!(written > 0);
    // Without breakpoints near, only the prompt is found.
    let far: Vec<Value> = (0..30).map(|n| words(&n.to_string())).collect();
    let mut blocks = vec![words("hello there")];
    blocks.extend(far);
    blocks.push(marked("end"));
    let (_, read, _) = usage(json!([user(Value::Array(blocks))])).await;
    assert!(read > 0 && read < first, "{read} of {first}");
}

#[tokio::test]
async fn overflows_no_tools_and_no_streaming_are_played_on_both_wires() {
    let body = request(json!([user(json!([words(&"long ".repeat(200))]))]));
    let model = FakeModel::builder().window(100).start().await;
    assert!(post(&model, &body).await.1.contains("tokens > 100 maximum"));
    let model = FakeModel::builder().window(100).wording(Wording::Ollama).start().await;
    assert!(post(&model, &body).await.1.contains("the input length exceeds the context length"));
    let model = FakeModel::builder().no_tools(Wording::Vllm).start().await;
    assert!(post(&model, &body).await.1.contains("--enable-auto-tool-choice"));
    model.assert_clean();
    let model = FakeModel::builder().streaming(Streaming::Refused).fault(Answer::text("fault")).start().await;
    let mut streaming = body.clone();
    streaming["stream"] = true.into();
    assert_eq!(post(&model, &streaming).await.0, 400);
    assert!(post(&model, &body).await.1.contains("fault"));
    model.assert_clean();
    for wording in Wording::ALL {
        assert_eq!(Wording::named(wording.name()), Some(*wording));
    }
}
