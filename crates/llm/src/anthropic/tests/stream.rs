//! What is read: cuts, truncations, ends, counts.

use rstest::rstest;
use serde_json::{Value, json};

use cairn_types::message::ToolCall;
use cairn_types::model::{Finish, ModelError, ModelEvent, Usage};

use super::super::assemble::Assembler;
use crate::answer::Assemble;
use crate::testing::{Events, Whole, answer_of, whole};

async fn answer_to(body: &str) -> Events {
    answer_of(Assembler::default(), vec![body.as_bytes().to_vec()]).await
}

fn sse_of(events: &[Value]) -> String {
    events
        .iter()
        .map(|data| format!("event: {}\r\ndata: {data}\r\n\r\n", data["type"].as_str().unwrap()))
        .collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "cache_read_input_tokens": 64,
        "cache_creation_input_tokens": 26, "output_tokens": 1}}})
}

#[tokio::test]
async fn a_stream_that_is_cut_has_told_what_its_request_took() {
    let body = sse_of(&[start(), open(0, json!({"type": "text", "text": "Grüß"}))]);
    let events = answer_to(&body).await;
    let usage = Usage { input_tokens: 100, output_tokens: 1, cached_tokens: 64, cache_write_tokens: 26 };
    assert_eq!(events[..2], [Ok(ModelEvent::Usage(usage)), Ok(ModelEvent::Text("Grüß".to_owned()))]);
    assert!(matches!(events[2..], [Err(ModelError::Protocol(_))]), "{events:?}");
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn full_stream() -> String {
    let mut events = vec![
        start(),
        json!({"type": "ping"}),
        open(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "abc"})),
        open(1, json!({"type": "redacted_thinking", "data": "xyz"})),
        open(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Grüß "})),
        json!({"type": "something_new", "with": ["whatever"]}),
        delta(2, json!({"type": "text_delta", "text": "\u{1F980}\r\n dich"})),
        delta(2, json!({"type": "citations_delta", "citation": {}})),
        json!({"type": "content_block_stop", "index": 2}),
        open(3, json!({"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"q\":"})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "\"é\"}"})),
        open(4, json!({"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}})),
    ];
    events.extend(stop("tool_use"));
    sse_of(&events)
}

fn full_answer() -> Whole {
    let call =
        |id: &str, name: &str, arguments| ToolCall { id: id.to_owned(), name: name.to_owned(), arguments };
    Whole {
        text: "Grüß \u{1F980}\r\n dich".to_owned(),
        reasoning: "hm".to_owned(),
        calls: vec![call("toolu_1", "find", json!({"q": "é"})), call("toolu_2", "read", json!({}))],
        done: Some((
            Finish::ToolCalls,
            Some(Usage { input_tokens: 100, output_tokens: 9, cached_tokens: 64, cache_write_tokens: 26 }),
        )),
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_says_the_same() {
    let body = full_stream();
    let expected = answer_to(&body).await;
    assert_eq!(whole(expected.clone()).unwrap(), full_answer());
    for cut in 1..body.len() {
        let (head, tail) = body.as_bytes().split_at(cut);
        assert_eq!(
            answer_of(Assembler::default(), vec![head.to_vec(), tail.to_vec()]).await,
            expected,
            "cut at byte {cut}"
        );
    }
}

#[tokio::test]
async fn a_stream_truncated_before_it_says_why_it_stops_is_a_failure() {
    let body = full_stream();
    // What comes after is its last event, which says nothing.
    let ends = body.find("event: message_stop").unwrap();
    let expected = whole(answer_to(&body).await).unwrap();
    let mut n_complete = 0;
    for length in 0..body.len() {
        let events = answer_of(Assembler::default(), vec![body.as_bytes()[..length].to_vec()]).await;
        match whole(events) {
            Err(ModelError::Protocol(_)) => {}
            Err(error) => panic!("cut at byte {length}: {error}"),
            Ok(said) => {
                n_complete += 1;
                assert!(length + 4 >= ends, "cut at byte {length}");
                assert_eq!(said, expected, "cut at byte {length}");
            }
        }
    }
    assert!(n_complete > 0);
}

#[rstest]
#[case("end_turn", Finish::Stop)]
#[case("stop_sequence", Finish::Stop)]
#[case("max_tokens", Finish::Length)]
#[case("model_context_window_exceeded", Finish::ContextWindow)]
#[case("pause_turn", Finish::Pause)]
#[case("refusal", Finish::Refusal)]
#[case("whatever_comes", Finish::Stop)]
#[tokio::test]
async fn ends_are_told_apart(#[case] reason: &str, #[case] expected: Finish) {
    let mut events = vec![start(), open(0, json!({"type": "text", "text": "x"}))];
    events.extend(stop(reason));
    assert_eq!(whole(answer_to(&sse_of(&events)).await).unwrap().done.unwrap().0, expected);
}

#[rstest]
#[case("overloaded_error", "overloaded")]
#[case("api_error", "server_failed")]
#[case("timeout_error", "overloaded")]
#[case("rate_limit_error", "rate_limited")]
#[case("authentication_error", "auth")]
#[case("permission_error", "auth")]
#[case("invalid_request_error", "bad_request")]
#[case("not_found_error", "bad_request")]
#[case("request_too_large", "context_overflow")]
#[tokio::test]
async fn an_error_in_the_stream_is_typed(#[case] kind: &str, #[case] code: &str) {
    let error = json!({"type": "error", "error": {"type": kind, "message": "m"}});
    let body = sse_of(&[start(), open(0, json!({"type": "text", "text": "hi"})), error]);
    let events = answer_to(&body).await;
    let [Ok(ModelEvent::Usage(_)), Ok(ModelEvent::Text(_)), Err(error)] = &events[..] else {
        panic!("{kind}: {events:?}")
    };
    assert_eq!(error.code(), code, "{error}");
}

#[tokio::test]
async fn what_is_no_answer_is_a_failure() {
    let nameless = open(0, json!({"type": "tool_use", "id": "1", "name": ""}));
    let announced = stop("tool_use");
    let cases = [
        String::new(),
        "data: [DONE]\n\n".to_owned(),
        "data: {\"type\":\"mess\n\n".to_owned(),
        "data: <html>\n\n".to_owned(),
        sse_of(&[json!({"type": "message_stop"})]),
        sse_of(&[start(), nameless, announced[0].clone(), announced[1].clone()]),
        sse_of(&[start(), announced[0].clone(), announced[1].clone()]),
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n".to_owned(),
    ];
    for body in cases {
        let events = answer_to(&body).await;
        assert!(matches!(whole(events), Err(ModelError::Protocol(_))), "{body:?}");
    }
}

#[test]
fn an_answer_that_comes_whole_says_the_same() {
    let body = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "text", "text": "Grüß \u{1F980}\r\n dich"},
        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": "é"}},
        {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}},
    ], "usage": {"input_tokens": 10, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 26, "output_tokens": 9}});
    let read = |body: &str| {
        let mut assembler = Assembler::default();
        let mut events = assembler.whole(body)?;
        events.extend(assembler.end(crate::answer::Ended::Cut)?);
        Ok(events)
    };
    let events = read(&body.to_string()).unwrap();
    assert_eq!(whole(events.into_iter().map(Ok).collect()).unwrap(), full_answer());
    for broken in ["{}", "[]", "<html>", "{\"content\":", "{\"content\": 3}"] {
        let error: ModelError = read(broken).unwrap_err();
        assert_eq!(error.code(), "protocol", "{broken}: {error}");
    }
    let error =
        read(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#).unwrap_err();
    assert_eq!(error.code(), "overloaded");
}
