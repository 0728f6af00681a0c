//! What is sent, and what is read.

use rstest::rstest;
use serde_json::{Map, Value, json};

use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_types::provider_state::{ProviderItem, ProviderState};
use cairn_types::wire::format::{Wire, WireFormat};

use super::assemble::Assembler;
use crate::options::ServerOptions;
use crate::remedy::Remedy;
use crate::testing::{
    Events, Whole, answer_of, assistant, calls, context, image, request, result, user, whole,
};
use crate::wires::body_of;

fn options() -> ServerOptions {
    ServerOptions { images: true, ..ServerOptions::new("m", "http://127.0.0.1:1/v1", "gpt") }
}

fn wire(options: &ServerOptions) -> Wire {
    options.wire(WireFormat::Responses, "max_tokens")
}

fn body(wire: &Wire, request: &ChatRequest) -> Value {
    serde_json::from_str(&body_of(wire, request)).unwrap()
}

/// The items of a conversation.
fn input(wire: &Wire, messages: Vec<ChatMessage>) -> Value {
    let request = ChatRequest { system: Vec::new(), ..request(messages) };
    body(wire, &request)["input"].clone()
}

fn words(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

#[test]
fn the_frame_of_a_request() {
    let mut asked = request(vec![user("hi")]);
    asked.system.insert(1, String::new());
    let expected = json!({
        "model": "gpt",
        "input": [
            {"type": "message", "role": "system", "content": [words("prompt"), words("summaries")]},
            {"type": "message", "role": "user", "content": [words("hi")]},
        ],
        "stream": true,
        "store": false,
        "max_output_tokens": 100,
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "find", "description": "d", "parameters": {"type": "object"}, "strict": false}],
    });
    assert_eq!(body(&wire(&options()), &asked), expected);
    let last = ChatRequest { last_call: true, max_output_tokens: 1, ..asked.clone() };
    let last = body(&wire(&ServerOptions { stream: false, ..options() }), &last);
    assert_eq!(
        (&last["stream"], &last["tool_choice"], &last["max_output_tokens"]),
        (&json!(false), &json!("none"), &json!(16))
    );
    let toolless = body(&wire(&ServerOptions { tools: false, ..options() }), &asked);
    assert!(toolless.get("tools").is_none());
}

#[test]
fn the_effort_stands_where_the_format_has_it() {
    let with = |extra: Value| {
        let extra_body: Map<String, Value> = extra.as_object().unwrap().clone();
        body(&wire(&ServerOptions { extra_body, ..options() }), &request(vec![user("hi")]))
    };
    let effort = with(json!({"reasoning_effort": "low", "temperature": 0.5}));
    assert_eq!(
        (&effort["reasoning"], &effort["temperature"], effort.get("reasoning_effort")),
        (&json!({"effort": "low"}), &json!(0.5), None)
    );
    let both = with(json!({"reasoning_effort": "low", "reasoning": {"summary": "auto"}}));
    assert_eq!(both["reasoning"], json!({"effort": "low", "summary": "auto"}));
    let own = with(json!({"store": true, "include": []}));
    assert_eq!((&own["store"], own["include"].as_array().unwrap().len()), (&json!(false), 1));
}

/// Each item in short.
fn shape(input: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let content = |value: &Value| match value {
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().unwrap_or("[picture]").to_owned())
            .collect::<Vec<_>>()
            .join("|"),
        words => text(words),
    };
    let one = |item: &Value| match item["type"].as_str() {
        Some("function_call") => format!("+{}", text(&item["call_id"])),
        Some("function_call_output") => format!("={}: {}", text(&item["call_id"]), content(&item["output"])),
        Some("reasoning") => format!("({})", text(&item["id"])),
        _ => format!("{}: {}", text(&item["role"]), content(&item["content"])),
    };
    input.as_array().unwrap().iter().map(one).collect()
}

#[rstest]
#[case::a_first_message(vec![user("a"), context("t")], &["user: a|t"])]
#[case::nothing_but_the_tail(vec![context("t")], &["user: t"])]
#[case::people_twice(vec![user("a"), user("b"), context("t")], &["user: a|b|t"])]
#[case::the_model_first(
    vec![assistant("b"), user("c")],
    &["user: (the conversation goes on)", "assistant: b", "user: c"]
)]
#[case::the_model_twice(
    vec![user("a"), assistant("b"), calls("c", &["1"]), result("1", "x"), context("t")],
    &["user: a", "assistant: b\n\nc", "+1", "=1: x\n\nt"]
)]
#[case::a_round_of_tools(
    vec![user("a"), calls("", &["1", "2"]), result("1", "x"), result("2", " "), context("t")],
    &["user: a", "+1", "+2", "=1: x", "=2: (no text)\n\nt"]
)]
#[case::a_turn_that_ended_with_a_result(
    vec![user("a"), calls("", &["1"]), result("1", "x"), user("b")],
    &["user: a", "+1", "=1: x", "assistant: (no answer was given)", "user: b"]
)]
#[case::an_id_twice(
    vec![user("a"), calls("", &["1"]), result("1", "x"), assistant("b"), user("c"), calls("", &["1"]), result("1", "y")],
    &["user: a", "+1", "=1: x", "assistant: b", "user: c", "+1_2", "=1_2: y"]
)]
#[case::nothing_empty(vec![ChatMessage::User { parts: Vec::new() }, assistant("")], &["user: (no text)"])]
fn items_take_turns_and_the_tail_ends_the_last(#[case] talk: Vec<ChatMessage>, #[case] expected: &[&str]) {
    assert_eq!(shape(&input(&wire(&options()), talk)), expected);
}

#[test]
fn calls_of_other_models_are_plain_items_that_the_server_takes() {
    let long = "x".repeat(65);
    let call = ToolCall { id: long.clone(), name: "read file".to_owned(), arguments: json!("{oops") };
    let answer = ChatMessage::assistant("", vec![call]);
    let sent = input(&wire(&options()), vec![user("q"), answer, result(&long, "r")]);
    let id = sent[1]["call_id"].as_str().unwrap();
    assert!(id.len() <= 64 && id.starts_with("xxxx"), "{id}");
    assert_eq!(sent[2]["call_id"], id);
    assert!(sent[1]["name"].as_str().unwrap().starts_with("read_file_"));
    assert_eq!(sent[1]["arguments"], r#"{"raw":"{oops"}"#);
}

#[test]
fn pictures_stand_in_their_message_or_result() {
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"});
    let talk = || {
        vec![
            ChatMessage::User { parts: vec![Part::text("see"), image("image/png"), Part::text("this")] },
            calls("", &["1"]),
            ChatMessage::Tool {
                call_id: "1".to_owned(),
                text: "a".to_owned(),
                images: vec![image("image/png")],
            },
            context("now"),
        ]
    };
    let sent = input(&wire(&options()), talk());
    assert_eq!(sent[0]["content"], json!([words("see"), picture, words("this")]));
    assert_eq!(sent[2]["output"], json!([words("a"), picture, words("now")]));
    let blind = input(&wire(&ServerOptions { images: false, ..options() }), talk());
    assert_eq!(shape(&blind), ["user: see\n[image: a.png]\nthis", "+1", "=1: a\n\nnow"]);
}

#[test]
fn a_model_without_tools_is_told_of_calls_in_words() {
    let talk = vec![user("q"), calls("look", &["1"]), result("1", "r"), context("now")];
    let told = ["user: q", "assistant: look\n\n[called find {\"q\":1}]", "user: [result of find]\nr|now"];
    assert_eq!(shape(&input(&wire(&ServerOptions { tools: false, ..options() }), talk.clone())), told);
    let mut in_words = wire(&options());
    in_words.remedies = vec![Remedy::CallsInWords.name().to_owned()];
    assert_eq!(shape(&input(&in_words, talk)), told);
}

fn reasoning(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": format!("enc-{id}"), "status": null})
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// An answer that thinks, says something, thinks again and calls a tool.
fn given(text: &str, id: &str) -> ChatMessage {
    let mut answer = calls(text, &[id]);
    let ChatMessage::Assistant { provider_state, .. } = &mut answer else { panic!("an answer") };
    let message = fields(json!({"id": "msg_1", "status": "completed", "phase": "commentary"}));
    let items = vec![
        ProviderItem::Opaque { value: reasoning("rs_1") },
        ProviderItem::Text { bytes: 6, fields: message },
        ProviderItem::Opaque { value: reasoning("rs_2") },
        ProviderItem::Call { fields: fields(json!({"id": "fc_1", "status": "completed"})) },
    ];
    *provider_state = ProviderState::of(WireFormat::Responses, "gpt", items).map(Box::new);
    answer
}

#[test]
fn what_the_server_gave_goes_back_unchanged_and_in_order_within_the_turn() {
    let sent = input(&wire(&options()), vec![user("q"), given("I look", "c1"), result("c1", "r")]);
    let message = json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "phase": "commentary", "content": [{"type": "output_text", "text": "I look", "annotations": []}]});
    let call = json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1",
        "name": "find", "arguments": "{\"q\":1}"});
    let expected = [reasoning("rs_1"), message, reasoning("rs_2"), call];
    assert_eq!(sent.as_array().unwrap()[1..5], expected);
}

#[test]
fn what_has_lost_its_place_stays_away_with_all_that_belongs_to_it() {
    let plain = ["user: q", "assistant: I look", "+c1", "=c1: r"];
    let talk = || vec![user("q"), given("I look", "c1"), result("c1", "r")];
    let of_request = |wire: &Wire, turn_from: usize| {
        let request = ChatRequest { system: Vec::new(), turn_from, ..request(talk()) };
        body(wire, &request)
    };
    let closed = of_request(&wire(&options()), 3);
    assert_eq!(shape(&closed["input"]), plain, "the turn is closed");
    assert!(closed["input"][2].get("id").is_none(), "an id would ask for the reasoning");
    let other = ServerOptions { model: "other".to_owned(), ..options() };
    assert_eq!(shape(&of_request(&wire(&other), 0)["input"]), plain, "another model made it");
    let mut stateless = wire(&options());
    stateless.remedies = vec![Remedy::NoState.name().to_owned()];
    let sent = of_request(&stateless, 0);
    assert_eq!(shape(&sent["input"]), plain, "the server refuses it");
    assert!(sent.get("include").is_none(), "so it is not asked for");
    let edited = vec![user("q"), given("changed", "c1"), result("c1", "r")];
    assert_eq!(shape(&input(&wire(&options()), edited)), ["user: q", "assistant: changed", "+c1", "=c1: r"]);
}

/// What is sent once is sent again: all items but the last, and the last up to its tail.
#[test]
fn a_conversation_goes_on_byte_for_byte() {
    let steps = [
        vec![user("a")],
        vec![user("b")],
        vec![calls("look", &["1"]), result("1", "x")],
        vec![calls("", &["2", "3"]), result("2", "y"), result("3", "z")],
        vec![user("stopped")],
        vec![assistant("c"), user("d")],
    ];
    let mut talk = Vec::new();
    let mut before = String::new();
    for step in steps {
        talk.extend(step);
        let mut asked = talk.clone();
        asked.push(context("TAIL"));
        let now = input(&wire(&options()), asked).to_string();
        let lasting = before.split("TAIL").next().unwrap_or_default();
        let lasting =
            lasting.trim_end_matches("{\"text\":\"").trim_end_matches(',').trim_end_matches("\\n\\n");
        assert!(now.starts_with(lasting), "{before} became {now}");
        before = now;
    }
}

#[test]
fn the_last_resorts_hold_here_too() {
    let talk =
        vec![user("a"), assistant("b"), user("c"), calls("", &["1"]), result("1", "x"), context("now")];
    let mut asked = wire(&options());
    asked.remedies =
        [Remedy::LastMessage, Remedy::NoTools, Remedy::PlainSystem].map(|it| it.name().to_owned()).to_vec();
    let sent = body(&asked, &request(talk));
    let [only] = sent["input"].as_array().unwrap().as_slice() else { panic!("{sent}") };
    assert_eq!(only["role"], "user");
    assert_eq!(only["content"], json!([words("prompt"), words("c")]));
    assert!(sent.get("tools").is_none());
}

fn assembler() -> Assembler {
    Assembler::new("gpt", 7)
}

async fn answer_to(events: &[Value]) -> Events {
    answer_of(assembler(), vec![sse(events).into_bytes()]).await
}

fn sse(events: &[Value]) -> String {
    let one = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(one).collect()
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta})
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "phase": null,
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "status": "completed", "call_id": call_id, "name": "find",
        "arguments": arguments})
}

fn thought() -> Value {
    let parts = json!([{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}]);
    json!({"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "enc"})
}

/// The end of an answer, with these items in it.
fn end(status: &str, output: Vec<Value>) -> Value {
    let usage = json!({"input_tokens": 100, "output_tokens": 9, "total_tokens": 109,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 26},
        "output_tokens_details": {"reasoning_tokens": 5}});
    json!({"type": format!("response.{status}"), "response": {"id": "resp_1", "object": "response",
        "status": status, "error": null, "incomplete_details": null, "output": output, "usage": usage}})
}

fn all_items() -> Vec<Value> {
    vec![
        thought(),
        message("msg_1", "Grüß"),
        call("fc_1", "c1", "{\"q\":\"é\"}"),
        message("msg_2", "dich"),
        call("fc_2", "c2", ""),
    ]
}

fn full_stream() -> Vec<Value> {
    let items = all_items();
    vec![
        json!({"type": "response.created", "response": {"status": "in_progress", "error": null, "output": []}}),
        json!({"type": "keepalive", "sequence_number": 3}),
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "half"})),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0}),
        delta("reasoning_summary_text", 0, "hm"),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1}),
        delta("reasoning_summary_text", 0, "so"),
        done(0, items[0].clone()),
        added(1, json!({"type": "message", "id": "msg_1", "content": []})),
        json!({"type": "response.content_part.added", "output_index": 1, "part": {"type": "output_text", "text": ""}}),
        delta("output_text", 1, "Gr"),
        delta("output_text", 1, "üß"),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Grüß"}),
        done(1, items[1].clone()),
        added(
            2,
            json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "find", "arguments": ""}),
        ),
        delta("function_call_arguments", 2, "{\"q\":"),
        delta("function_call_arguments", 2, "\"é\"}"),
        done(2, items[2].clone()),
        json!({"type": "response.something_new", "with": ["whatever"]}),
        added(3, json!({"type": "message", "id": "msg_2", "content": []})),
        delta("output_text", 3, "dich"),
        done(3, items[3].clone()),
        added(4, items[4].clone()),
        done(4, items[4].clone()),
        end("completed", items),
    ]
}

fn full_answer() -> Whole {
    let call = |id: &str, arguments| ToolCall { id: id.to_owned(), name: "find".to_owned(), arguments };
    let usage = Usage { input_tokens: 100, output_tokens: 9, cached_tokens: 64, cache_write_tokens: 26 };
    Whole {
        text: "Grüß\n\ndich".to_owned(),
        reasoning: "hm\n\nso".to_owned(),
        calls: vec![call("c1", json!({"q": "é"})), call("c2", json!({}))],
        done: Some((Finish::ToolCalls, Some(usage))),
    }
}

fn state_of(events: &Events) -> Option<ProviderState> {
    events.iter().find_map(|event| match event {
        Ok(ModelEvent::State(state)) => Some((**state).clone()),
        _ => None,
    })
}

#[tokio::test]
async fn an_answer_is_the_same_in_pieces_without_them_and_whole() {
    let items = all_items();
    let closes = |event: &Value| event["type"] == "response.output_item.done";
    let mut without_deltas: Vec<Value> = full_stream().into_iter().filter(closes).collect();
    without_deltas.push(end("completed", Vec::new()));
    let mut unclosed: Vec<Value> = full_stream().into_iter().filter(|event| !closes(event)).collect();
    unclosed.truncate(unclosed.len() - 1);
    unclosed.push(end("completed", items.clone()));
    let streams = [full_stream(), without_deltas, unclosed, vec![end("completed", items.clone())]];
    let mut states = Vec::new();
    for stream in streams {
        let events = answer_to(&stream).await;
        states.push(state_of(&events));
        assert_eq!(whole(events).unwrap(), full_answer(), "{stream:?}");
    }
    let bounds = crate::answer::Bounds { progress: std::time::Duration::from_secs(60), tokens: 100 };
    let response = end("completed", items)["response"].to_string();
    let events = crate::answer::read_whole(&response, assembler(), bounds);
    states.push(state_of(&events));
    assert_eq!(whole(events).unwrap(), full_answer());
    let id = |id: &str| fields(json!({"id": id, "status": "completed"}));
    let expected = vec![
        ProviderItem::Opaque { value: thought() },
        ProviderItem::Text { bytes: 6, fields: id("msg_1") },
        ProviderItem::Call { fields: id("fc_1") },
        ProviderItem::Text { bytes: 2, fields: Map::new() },
        ProviderItem::Text { bytes: 4, fields: id("msg_2") },
        ProviderItem::Call { fields: id("fc_2") },
    ];
    for state in states {
        assert_eq!(state.unwrap().items, expected);
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_between_its_bytes_is_the_same_or_an_error() {
    let body = sse(&full_stream()).into_bytes();
    for width in [1, 2, 3, 7, 64] {
        let chunks = body.chunks(width).map(<[u8]>::to_vec).collect();
        assert_eq!(whole(answer_of(assembler(), chunks).await).unwrap(), full_answer());
    }
    let last = sse(&full_stream()[..24]).len();
    for length in (0..last).step_by(13) {
        let events = answer_of(assembler(), vec![body[..length].to_vec()]).await;
        assert!(matches!(events.last(), Some(Err(ModelError::Protocol(_)))), "{length}: {events:?}");
    }
}

/// What the answer gave goes back as it was: through the state into the next request.
#[tokio::test]
async fn an_answer_goes_back_as_it_came() {
    let events = answer_to(&full_stream()).await;
    let provider_state = state_of(&events).map(Box::new);
    let said = whole(events).unwrap();
    let answer = ChatMessage::Assistant { text: said.text, tool_calls: said.calls, provider_state };
    let sent = input(&wire(&options()), vec![user("q"), answer, result("c1", "r"), result("c2", "s")]);
    let mut expected = all_items();
    for item in &mut expected {
        item.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
    expected[4]["arguments"] = "{}".into();
    assert_eq!(sent.as_array().unwrap()[1..6], expected);
}

#[tokio::test]
async fn reasoning_that_nothing_follows_does_not_go_back() {
    let stream = [
        done(0, thought()),
        done(1, call("fc_1", "c1", "{}")),
        done(2, thought()),
        end("completed", Vec::new()),
    ];
    let state = state_of(&answer_to(&stream).await).unwrap();
    assert!(matches!(state.items[..], [ProviderItem::Opaque { .. }, ProviderItem::Call { .. }]), "{state:?}");
    let silent = [done(0, thought()), done(1, message("msg_1", "no call")), end("completed", Vec::new())];
    assert_eq!(state_of(&answer_to(&silent).await), None, "the turn closes with it");
}

#[tokio::test]
async fn ends_are_told() {
    let refusal =
        json!({"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I will not"}]});
    let refused = [delta("refusal", 0, "I will not"), end("completed", vec![refusal.clone()])];
    let said = whole(answer_to(&refused).await).unwrap();
    assert_eq!((said.text.as_str(), said.done.unwrap().0), ("I will not", Finish::Refusal));
    let at_once = whole(answer_to(&[end("completed", vec![refusal])]).await).unwrap();
    assert_eq!((at_once.text.as_str(), at_once.done.unwrap().0), ("I will not", Finish::Refusal));
    for (reason, expected) in [
        ("max_output_tokens", Finish::Length),
        ("max_messages", Finish::Length),
        ("content_filter", Finish::ContentFilter),
    ] {
        let mut end = end("incomplete", vec![message("m", "half")]);
        end["response"]["incomplete_details"] = json!({"reason": reason});
        let said = whole(answer_to(&[end]).await).unwrap();
        assert_eq!((said.text.as_str(), said.done.unwrap().0), ("half", expected), "{reason}");
    }
}

#[tokio::test]
async fn errors_in_the_stream_are_typed() {
    type Is = fn(&ModelError) -> bool;
    let failed = |code: &str, message: &str| {
        json!({"type": "response.failed", "response": {"status": "failed", "output": [],
            "error": {"code": code, "message": message}}})
    };
    let cases: [(Value, Is); 8] = [
        (failed("rate_limit_exceeded", "slow down"), |e| matches!(e, ModelError::RateLimited { .. })),
        (failed("server_error", "oh"), |e| matches!(e, ModelError::Failed(_))),
        (failed("invalid_prompt", "against the policy"), |e| matches!(e, ModelError::BadRequest { .. })),
        (failed("image_content_policy_violation", "no"), |e| matches!(e, ModelError::BadRequest { .. })),
        (failed("context_length_exceeded", "Your input exceeds the context window of this model."), |e| {
            matches!(e, ModelError::ContextOverflow { .. })
        }),
        (
            json!({"type": "error", "code": "server_error", "message": "busy", "param": null}),
            |e| matches!(e, ModelError::Failed(message) if message == "busy"),
        ),
        (json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}), |e| {
            matches!(e, ModelError::BadRequest { .. })
        }),
        (json!({"type": "response.cancelled", "response": {"status": "cancelled"}}), |e| {
            matches!(e, ModelError::Protocol(_))
        }),
    ];
    for (event, is) in cases {
        let events = answer_to(&[delta("output_text", 0, "hi"), event.clone()]).await;
        let [Ok(ModelEvent::Text(_)), Err(error)] = &events[..] else { panic!("{event}: {events:?}") };
        assert!(is(error), "{event}: {error:?}");
    }
}

/// Without places and ids, with one place for all, with arguments as an object.
#[tokio::test]
async fn the_dialects_of_other_servers_are_read() {
    let placeless = |mut event: Value| {
        event.as_object_mut().unwrap().remove("output_index");
        event
    };
    let stream: Vec<Value> = vec![
        placeless(added(0, json!({"type": "message", "id": "m1", "content": []}))),
        json!({"type": "response.output_text.delta", "item_id": "m1", "delta": "hi"}),
        placeless(done(0, message("m1", "hi"))),
        placeless(done(
            0,
            json!({"type": "function_call", "id": "f1", "name": "find", "arguments": {"q": 1}}),
        )),
        end("completed", vec![message("other", "hi")]),
    ];
    let said = whole(answer_to(&stream).await).unwrap();
    assert_eq!((said.text.as_str(), said.calls.len()), ("hi", 1));
    assert_eq!((said.calls[0].id.as_str(), &said.calls[0].arguments), ("call_7_0", &json!({"q": 1})));
    let one_place = [
        done(0, call("f1", "same", "{\"q\":1}")),
        done(0, call("f2", "same", "{\"q\":2}")),
        end("completed", Vec::new()),
    ];
    let said = whole(answer_to(&one_place).await).unwrap();
    let calls: Vec<_> =
        said.calls.iter().map(|call| (call.id.as_str(), call.arguments["q"].clone())).collect();
    assert_eq!(calls, [("same", json!(1)), ("call_7_1", json!(2))]);
}

/// Some cut what they send between the two halves of a character.
#[tokio::test]
async fn halves_of_characters_are_joined_wherever_they_are_cut() {
    let raw = |kind: &str, index: u64, text: &str| {
        format!(
            "data: {{\"type\":\"response.{kind}.delta\",\"output_index\":{index},\"delta\":\"{text}\"}}\n\n"
        )
    };
    let begun = [
        added(0, json!({"type": "reasoning", "id": "r", "summary": []})),
        added(1, message("m", "")),
        added(2, call("f", "c", "")),
    ];
    let body = [
        sse(&begun),
        raw("reasoning_summary_text", 0, "hm \\ud83e"),
        raw("output_text", 1, "Done \\ud83d"),
        raw("reasoning_summary_text", 0, "\\udd14"),
        raw("output_text", 1, "\\ude00 bye"),
        raw("function_call_arguments", 2, "{\\\"q\\\":\\\"\\ud83d"),
        raw("function_call_arguments", 2, "\\ude01\\\"}"),
        sse(&[end("completed", Vec::new())]),
    ];
    let said = whole(answer_of(assembler(), vec![body.concat().into_bytes()]).await).unwrap();
    assert_eq!((said.text.as_str(), said.reasoning.as_str()), ("Done \u{1f600} bye", "hm \u{1f914}"));
    assert_eq!(said.calls[0].arguments, json!({"q": "\u{1f601}"}));
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    for stream in [
        vec![delta("output_text", 0, "half")],
        vec![done(0, json!({"type": "function_call", "call_id": "c"})), end("completed", Vec::new())],
    ] {
        let events = answer_to(&stream).await;
        assert!(matches!(events.last(), Some(Err(ModelError::Protocol(_)))), "{events:?}");
    }
    let marked = answer_of(assembler(), vec![b"data: [DONE]\n\n".to_vec()]).await;
    assert!(matches!(marked[..], [Err(ModelError::Protocol(_))]), "{marked:?}");
    let bounds = || crate::answer::Bounds { progress: std::time::Duration::from_secs(60), tokens: 100 };
    for body in ["{}", "[]", "<html>", r#"{"output": [], "status": "queued"}"#] {
        let events = crate::answer::read_whole(body, assembler(), bounds());
        assert!(matches!(events[..], [Err(ModelError::Protocol(_))]), "{body}: {events:?}");
    }
}
