//! The wire format, without a wire: cuts, truncations, the dialects of servers.

use serde_json::{Value, json};

use cairn_types::message::ToolCall;
use cairn_types::model::{Finish, ModelError, ModelEvent, RefusalCause, Usage};

use super::assemble::Assembler;
use crate::testing::{self, Events, Whole, whole};

async fn answer_of(chunks: Vec<Vec<u8>>) -> Events {
    testing::answer_of(Assembler::new("m", 7), chunks).await
}

async fn answer_to(body: &str) -> Events {
    answer_of(vec![body.as_bytes().to_vec()]).await
}

fn sse(chunks: &[Value]) -> String {
    let mut body: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    body.push_str("data: [DONE]\r\n\r\n");
    body
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn full_stream() -> String {
    let body = sse(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "Grüß "})),
        delta(json!({"content": "\u{1F980}\r\n dich"})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a1", "type": "function", "function": {"name": "find", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"q\":"}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "b2", "function": {"name": "read", "arguments": "{}"}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"é\"}"}}]})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}}}),
    ]);
    format!(": keep-alive\r\n\r\n{body}")
}

fn full_answer() -> Whole {
    let call =
        |id: &str, name: &str, arguments| ToolCall { id: id.to_owned(), name: name.to_owned(), arguments };
    Whole {
        text: "Grüß \u{1F980}\r\n dich".to_owned(),
        reasoning: "hm".to_owned(),
        calls: vec![call("a1", "find", json!({"q": "é"})), call("b2", "read", json!({}))],
        done: Some((
            Finish::ToolCalls,
            Some(Usage { input_tokens: 100, output_tokens: 9, cached_tokens: 64, cache_write_tokens: 0 }),
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
        assert_eq!(answer_of(vec![head.to_vec(), tail.to_vec()]).await, expected, "cut at byte {cut}");
    }
    let bytewise = body.bytes().map(|byte| vec![byte]).collect();
    assert_eq!(answer_of(bytewise).await, expected);
}

#[tokio::test]
async fn a_stream_truncated_anywhere_is_an_error_or_complete() {
    let body = full_stream();
    let ends = body.find("\"finish_reason\":\"tool_calls\"").unwrap();
    let mut n_complete = 0;
    for length in 0..body.len() {
        match whole(answer_of(vec![body.as_bytes()[..length].to_vec()]).await) {
            Err(ModelError::Protocol(_)) => {}
            Err(error) => panic!("cut at byte {length}: {error}"),
            Ok(said) => {
                n_complete += 1;
                assert!(length > ends, "cut at byte {length}, before the end of the words: {said:?}");
                // The tokens are told after the end of the words, and may be missing; never the words.
                let expected = full_answer();
                assert_eq!((said.text, said.calls), (expected.text, expected.calls), "cut at byte {length}");
            }
        }
    }
    assert!(n_complete > 0);
}

#[tokio::test]
async fn a_stream_without_its_end_is_an_error() {
    let words = format!("data: {}\n\n", delta(json!({"content": "half"})));
    let events = answer_to(&words).await;
    assert_eq!(events[0], Ok(ModelEvent::Text("half".to_owned())));
    assert!(matches!(events[1..], [Err(ModelError::Protocol(_))]), "{events:?}");
    for body in ["", "\n\n", "data: [DONE]\n\n", ": ping\n\n", "data: {}\n\ndata: [DONE]\n\n"] {
        let events = answer_to(body).await;
        assert!(matches!(events[..], [Err(ModelError::Protocol(_))]), "{body:?}: {events:?}");
    }
}

#[tokio::test]
async fn either_end_mark_is_enough() {
    let words = format!("data: {}\n\n", delta(json!({"content": "hi"})));
    for end in
        ["data: [DONE]\n\n".to_owned(), "data: [DONE]".to_owned(), format!("data: {}\n\n", finish("stop"))]
    {
        let said = whole(answer_to(&format!("{words}{end}")).await).unwrap();
        assert_eq!((said.text.as_str(), said.done), ("hi", Some((Finish::Stop, None))), "{end:?}");
    }
}

#[tokio::test]
async fn a_broken_chunk_ends_the_answer() {
    let words = format!("data: {}\n\n", delta(json!({"content": "hi"})));
    for broken in ["{\"choices\":[{\"del", "[1, 2", "<html>", "{\"choices\": 3}"] {
        let events = answer_to(&format!("{words}data: {broken}\n\n{words}data: [DONE]\n\n")).await;
        assert!(
            matches!(events[..], [Ok(ModelEvent::Text(_)), Err(ModelError::Protocol(_))]),
            "{broken}: {events:?}"
        );
    }
}

#[tokio::test]
async fn an_error_in_the_stream_is_typed() {
    type Is = fn(&ModelError) -> bool;
    let cases: [(&str, Is); 13] = [
        (r#"data: {"error":{"message":"slow down","code":429}}"#, |e| {
            matches!(e, ModelError::RateLimited { .. })
        }),
        (r#"data: {"error":{"message":"busy","type":"overloaded_error"}}"#, |e| {
            matches!(e, ModelError::Overloaded { .. })
        }),
        (r#"data: {"error":{"message":"no","type":"authentication_error"}}"#, |e| {
            matches!(e, ModelError::Auth(_))
        }),
        (
            r#"data: {"error":{"message":"This model's maximum context length is 10 tokens","code":400}}"#,
            |e| matches!(e, ModelError::ContextOverflow { .. }),
        ),
        (r#"data: {"object":"error","message":"bad","code":400}"#, |e| {
            matches!(e, ModelError::BadRequest { .. })
        }),
        ("event: error\ndata: {\"message\":\"Reached context length of 4096 tokens\"}", |e| {
            matches!(e, ModelError::ContextOverflow { .. })
        }),
        (
            "event: error\ndata: out of memory",
            |e| matches!(e, ModelError::Failed(message) if message == "out of memory"),
        ),
        // llama.cpp's of 2025.
        (
            r#"error: {"code":400,"message":"the request exceeds the available context size","type":"invalid_request_error"}"#,
            |e| matches!(e, ModelError::ContextOverflow { .. }),
        ),
        (
            r#"{"error":{"message":"model not loaded: out of memory","type":"server_error","code":500}}"#,
            |e| matches!(e, ModelError::Failed(message) if message.ends_with("out of memory")),
        ),
        ("{\n  \"errors\": [\n    {\"message\": \"bad\", \"code\": 400}\n  ]\n}", |e| {
            matches!(e, ModelError::BadRequest { .. })
        }),
        (r#"data: {"detail":"Not Found","status":404}"#, |e| {
            matches!(e, ModelError::BadRequest { cause: RefusalCause::Address, .. })
        }),
        (
            r#"data: {"errors":[{"message":"exceeded this model context window limit (24000)","code":5021}]}"#,
            |e| matches!(e, ModelError::ContextOverflow { limit: Some(24_000), .. }),
        ),
        (r#"data: {"error":"Rate limited, try again in 1m30s","code":429}"#, |e| {
            e.retry_after() == Some(std::time::Duration::from_secs(90))
        }),
    ];
    for (event, is) in cases {
        let words = delta(json!({"content": "hi"}));
        let events = answer_to(&format!("data: {words}\n\n{event}\n\ndata: [DONE]\n\n")).await;
        let [Ok(ModelEvent::Text(_)), Err(error)] = &events[..] else { panic!("{event}: {events:?}") };
        assert!(is(error), "{event}: {error:?}");
    }
}

async fn calls_of(chunks: &[Value]) -> Vec<(String, String, Value)> {
    let said = whole(answer_to(&sse(chunks)).await).unwrap();
    assert_eq!(said.done.unwrap().0, Finish::ToolCalls);
    said.calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
}

#[tokio::test]
async fn tool_calls_of_all_dialects_are_read() {
    let call = |id: &str, name: &str, arguments: Value| (id.to_owned(), name.to_owned(), arguments);
    // Whole calls without index or id, arguments as an object, finished with `stop`.
    let ollama = [
        delta(
            json!({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "g", "arguments": "{}"}}]}),
        ),
        finish("stop"),
    ];
    assert_eq!(
        calls_of(&ollama).await,
        [call("call_7_0", "f", json!({"a": 1})), call("call_7_1", "g", json!({}))]
    );
    // All calls numbered 0, told apart by their ids.
    let all_zero = [
        delta(json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "y", "function": {"name": "f", "arguments": "{\"b\":2}"}}]}),
        ),
        finish("tool_calls"),
    ];
    assert_eq!(calls_of(&all_zero).await, [call("x", "f", json!({})), call("y", "f", json!({"b": 2}))]);
    // The same id twice, the id and name repeated with each piece, arguments missing.
    let repeated = [
        delta(
            json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{\"a\":"}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "1}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "id": "x", "function": {"name": "g"}}]})),
        finish("tool_calls"),
    ];
    assert_eq!(
        calls_of(&repeated).await,
        [call("x", "f", json!({"a": 1})), call("call_7_1", "g", json!({}))]
    );
    // Arguments that are no JSON are kept as they are.
    let broken = [
        delta(
            json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{\"a\": oops"}}]}),
        ),
        finish("tool_calls"),
    ];
    assert_eq!(calls_of(&broken).await, [call("x", "f", json!("{\"a\": oops"))]);
}

/// Pieces of `tool_calls` in chunks, and the calls that they make.
async fn calls_in(pieces: &[Value]) -> Vec<(String, Value)> {
    let chunks: Vec<Value> = pieces.iter().map(|calls| delta(json!({"tool_calls": calls}))).collect();
    let chunks: Vec<Value> = chunks.into_iter().chain([finish("tool_calls")]).collect();
    calls_of(&chunks).await.into_iter().map(|(_, name, arguments)| (name, arguments)).collect()
}

fn head(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Value {
    let mut piece = tail(index, arguments);
    piece["function"]["name"] = name.into();
    if !id.is_empty() {
        piece["id"] = id.into();
    }
    piece
}

fn tail(index: Option<u64>, arguments: &str) -> Value {
    let mut piece = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        piece["index"] = index.into();
    }
    piece
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn pieces_of_calls_find_their_call_however_they_are_numbered() {
    let (one, two) = (("f", json!({"a": 1})), ("g", json!({"b": 2})));
    let only = [one.clone()];
    let both = [one, two];
    let zero = Some(0);
    type Case = (&'static str, Vec<Value>, Vec<(&'static str, Value)>);
    let cases: Vec<Case> = vec![
        (
            "the arguments go on under another index",
            vec![
                json!([head(zero, "x", "f", "{\"a\"")]),
                json!([tail(Some(1), ":")]),
                json!([tail(Some(2), "1}")]),
            ],
            only.to_vec(),
        ),
        (
            "heads are numbered 0, arguments are not",
            vec![
                json!([head(zero, "x", "f", "{\"a\":1}")]),
                json!([head(zero, "y", "g", "")]),
                json!([tail(Some(1), "{\"b\":2}")]),
            ],
            both.to_vec(),
        ),
        (
            "heads are numbered, arguments are all 0",
            vec![
                json!([head(zero, "x", "f", "")]),
                json!([tail(zero, "{\"a\":1}")]),
                json!([head(Some(1), "y", "g", "")]),
                json!([tail(zero, "{\"b\"")]),
                json!([tail(zero, ":2}")]),
            ],
            both.to_vec(),
        ),
        (
            "nothing is numbered",
            vec![
                json!([head(None, "x", "f", "{\"a\":")]),
                json!([tail(None, "1}")]),
                json!([head(None, "y", "g", "{\"b\":")]),
                json!([tail(None, "2}")]),
            ],
            both.to_vec(),
        ),
        (
            "nothing is numbered or named by an id",
            vec![
                json!([head(None, "", "f", "")]),
                json!([tail(None, "{\"a\":1}")]),
                json!([head(None, "", "g", "{\"b\"")]),
                json!([tail(None, ":2}")]),
            ],
            both.to_vec(),
        ),
        (
            "nothing is numbered, and each chunk has a piece of each",
            vec![
                json!([head(None, "x", "f", "{\"a\":"), head(None, "y", "g", "{\"b\":")]),
                json!([tail(None, "1}"), tail(None, "2}")]),
            ],
            both.to_vec(),
        ),
        (
            "each piece repeats the head, under another id",
            vec![
                json!([head(zero, "x1", "f", "{\"a\"")]),
                json!([head(zero, "x2", "f", ":1}")]),
                json!([head(zero, "y1", "g", "{\"b\"")]),
                json!([head(zero, "y2", "g", ":2}")]),
            ],
            both.to_vec(),
        ),
        (
            "the whole call comes once more at the end",
            vec![
                json!([head(zero, "x", "f", "{\"a\"")]),
                json!([tail(zero, ":1}")]),
                json!([head(zero, "x", "f", "{\"a\":1}")]),
                json!([head(zero, "x", "f", "")]),
                json!([{"index": 0}]),
            ],
            only.to_vec(),
        ),
        (
            "the arguments come before the name",
            vec![json!([tail(zero, "{\"a\":1")]), json!([head(zero, "x", "f", "}")])],
            only.to_vec(),
        ),
        (
            "the name comes in pieces",
            vec![json!([head(zero, "x", "me", "")]), json!([head(zero, "", "mory", "{\"a\":1}")])],
            vec![("memory", json!({"a": 1}))],
        ),
        (
            "two calls at once, their pieces mixed",
            vec![
                json!([head(zero, "x", "f", ""), head(Some(1), "y", "g", "")]),
                json!([tail(Some(1), "{\"b\"")]),
                json!([tail(zero, "{\"a\"")]),
                json!([tail(Some(1), ":2}")]),
                json!([tail(zero, ":1}")]),
            ],
            both.to_vec(),
        ),
        (
            "braces in a text close nothing",
            vec![json!([head(zero, "x", "f", "{\"a\":\"\\\"}")]), json!([tail(Some(1), "{\"}")])],
            vec![("f", json!({"a": "\"}{"}))],
        ),
        (
            "an empty piece is none",
            vec![json!([{"index": 3}]), json!([head(zero, "x", "f", "{\"a\":1}")])],
            only.to_vec(),
        ),
    ];
    for (name, pieces, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(calls_in(&pieces).await, expected, "{name}");
    }
}

#[tokio::test]
async fn halves_of_characters_are_joined_wherever_they_are_cut() {
    let raw = |field: &str, text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"{field}\":\"{text}\"}}}}]}}\n\n")
    };
    let args = |text: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"x\",\"function\":{{\"name\":\"f\",\
             \"arguments\":\"{text}\"}}}}]}}}}]}}\n\n"
        )
    };
    let body = [
        raw("reasoning_content", "hm \\ud83e"),
        raw("content", "Done \\ud83d"),
        raw("content", "\\ude00 bye \\ud83d"),
        args("{\\\"q\\\":\\\"\\ud83d"),
        args("\\ude01 \\\\ud83d\\\"}"),
        "data: [DONE]\n\n".to_owned(),
    ];
    let said = whole(answer_to(&body.concat()).await).unwrap();
    assert_eq!((said.text.as_str(), said.reasoning.as_str()), ("Done \u{1f600} bye \u{fffd}", "hm \u{fffd}"));
    assert_eq!(said.calls[0].arguments, json!({"q": "\u{1f601} \u{fffd}"}));
}

#[tokio::test]
async fn calls_that_cannot_be_made_are_errors() {
    let nameless = [
        delta(json!({"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": "{}"}}]})),
        finish("tool_calls"),
    ];
    for chunks in [&nameless[..], &[finish("tool_calls")][..]] {
        let events = answer_to(&sse(chunks)).await;
        assert!(matches!(events[..], [Err(ModelError::Protocol(_))]), "{events:?}");
    }
}

#[tokio::test]
async fn ends_and_words_of_all_dialects_are_read() {
    for (reason, expected) in [
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("refusal", Finish::Refusal),
        ("model_context_window_exceeded", Finish::ContextWindow),
        ("pause_turn", Finish::Pause),
        ("eos", Finish::Stop),
    ] {
        let said = whole(answer_to(&sse(&[delta(json!({"content": "x"})), finish(reason)])).await).unwrap();
        assert_eq!(said.done.unwrap().0, expected, "{reason}");
    }
    let chunks = [
        delta(json!({"reasoning": "r", "reasoning_content": "r"})),
        delta(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})),
        delta(json!({"refusal": "no"})),
        json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
        json!({"choices": null, "usage": null}),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 3}}),
    ];
    let said = whole(answer_to(&sse(&chunks)).await).unwrap();
    assert_eq!((said.reasoning.as_str(), said.text.as_str()), ("r", "abno"));
    assert_eq!(said.done.unwrap().0, Finish::Refusal, "its words came as a refusal");
    assert_eq!(
        said.done.unwrap().1,
        Some(Usage { input_tokens: 5, output_tokens: 2, cached_tokens: 3, cache_write_tokens: 0 })
    );
}

#[tokio::test]
async fn what_the_server_wrote_into_its_cache_is_read() {
    let usage = async |details: Value| {
        let usage = json!({"prompt_tokens": 50, "completion_tokens": 2, "prompt_tokens_details": details});
        let chunks = [delta(json!({"content": "x"})), finish("stop"), json!({"choices": [], "usage": usage})];
        let usage = whole(answer_to(&sse(&chunks)).await).unwrap().done.unwrap().1.unwrap();
        (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens)
    };
    assert_eq!(usage(json!({"cached_tokens": 30, "cache_write_tokens": 15})).await, (50, 30, 15));
    assert_eq!(usage(json!({"cached_tokens": 30})).await, (50, 30, 0));
    assert_eq!(
        usage(json!({"cached_tokens": 30, "cache_write_tokens": 90})).await,
        (50, 30, 20),
        "no more than there are"
    );
}
