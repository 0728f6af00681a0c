//! The HTTP side of the fake model.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use serde_json::{Value, json};

use super::answer::{End, Form, Said};
use super::check::Rule;
use super::measure::Input;
use super::respond::{Flight, Taken, take};
use super::{Answer, Seen, Shared, Violation};
use crate::gate;

/// Largest request: a window of a million tokens with pictures.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Words come in chunks of about so many characters.
const CHUNK_CHARS: usize = 16;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(shared)
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let mut model = json!({"id": "fake", "object": "model", "owned_by": "testkit"});
    if let Some(window) = shared.builder.advertised {
        model["context_length"] = window.into();
    }
    axum::Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            let text = format!("the body is not JSON: {error}");
            shared.update(|state| {
                let n = state.n_seen();
                state.violations.push(Violation { n, rule: Rule::Shape, text: text.clone() });
            });
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
    };
    let authorization =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let Taken { seen, flight, input, answer } = take(&shared, body, authorization);
    let answer = match answer {
        Ok(answer) => {
            gate::pass(shared.gates.of(&seen.kind)).await;
            pause(shared.builder.delays[seen.kind as usize]).await;
            answer
        }
        Err(refusal) => refusal,
    };
    match answer.form {
        Form::Raw { status, headers, body } => {
            flight.end();
            raw(status, &headers, body)
        }
        Form::Said(ref said) => {
            let usage = answer.usage.then(|| usage(&shared, said, input));
            if seen.body.get("stream").and_then(Value::as_bool) == Some(true) {
                streamed(&answer, said, &seen, usage, flight)
            } else {
                pause(answer.pace).await;
                whole(said, &seen, usage, flight).await
            }
        }
    }
}

async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

fn raw(status: u16, headers: &[(String, String)], body: String) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let explain =
        |error: axum::http::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    response.body(Body::from(body)).unwrap_or_else(explain)
}

fn usage(shared: &Shared, said: &Said, input: Input) -> Value {
    let count = shared.builder.count;
    let calls: u64 =
        said.calls.iter().map(|(name, args)| count.tokens(name) + count.tokens(&args.to_string())).sum();
    let output = count.tokens(&said.text) + count.tokens(&said.reasoning) + calls;
    json!({
        "prompt_tokens": input.tokens,
        "completion_tokens": output,
        "total_tokens": input.tokens + output,
        "prompt_tokens_details": {"cached_tokens": input.cached},
    })
}

fn finish_of(said: &Said) -> &str {
    match &said.finish {
        Some(finish) => finish,
        None if said.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn wire_calls(said: &Said, n: usize) -> Vec<Value> {
    let call = |(idx, (name, arguments)): (usize, &(String, Value))| {
        json!({
            "index": idx, "id": format!("call_f{n}_{idx}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()},
        })
    };
    said.calls.iter().enumerate().map(call).collect()
}

async fn whole(said: &Said, seen: &Seen, usage: Option<Value>, flight: Flight) -> Response {
    if said.end == End::Hanging {
        return std::future::pending().await;
    }
    let content = if said.text.is_empty() { Value::Null } else { said.text.as_str().into() };
    let mut message = json!({"role": "assistant", "content": content});
    if !said.reasoning.is_empty() {
        message["reasoning_content"] = said.reasoning.as_str().into();
    }
    if !said.calls.is_empty() {
        message["tool_calls"] = wire_calls(said, seen.n).into();
    }
    let mut body = json!({
        "id": format!("fake-{}", seen.n), "object": "chat.completion", "created": 0, "model": seen.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_of(said)}],
    });
    if let Some(usage) = usage {
        body["usage"] = usage;
    }
    let mut text = match &said.end {
        End::Error(error) => json!({"error": error}).to_string(),
        End::Complete | End::Truncated | End::Hanging => body.to_string(),
    };
    if said.end == End::Truncated {
        text = text.chars().take(text.chars().count() / 2).collect();
    }
    flight.end();
    raw(200, &[("content-type".to_owned(), "application/json".to_owned())], text)
}

fn streamed(answer: &Answer, said: &Said, seen: &Seen, usage: Option<Value>, flight: Flight) -> Response {
    let events = events(said, seen, usage);
    let hanging = said.end == End::Hanging;
    let pace = answer.pace;
    let body =
        stream::unfold((events.into_iter(), Some(flight)), move |(mut events, mut flight)| async move {
            match events.next() {
                Some(event) => {
                    pause(pace).await;
                    Some((Ok::<_, Infallible>(event), (events, flight)))
                }
                None if hanging => std::future::pending().await,
                None => {
                    if let Some(flight) = flight.take() {
                        flight.end();
                    }
                    None
                }
            }
        });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

/// The events of a streamed answer, as text.
fn events(said: &Said, seen: &Seen, usage: Option<Value>) -> Vec<String> {
    let chunk = |choices: Value, usage: Option<&Value>| {
        let mut chunk = json!({
            "id": format!("fake-{}", seen.n), "object": "chat.completion.chunk", "created": 0,
            "model": seen.body["model"], "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    events.extend(pieces(&said.reasoning).into_iter().map(|text| delta(json!({"reasoning_content": text}))));
    let words = pieces(&said.text);
    let n_words = if said.end == End::Complete { words.len() } else { words.len().div_ceil(2) };
    events.extend(words.into_iter().take(n_words).map(|text| delta(json!({"content": text}))));
    match &said.end {
        End::Complete => {}
        End::Truncated | End::Hanging => return events,
        End::Error(error) => {
            events.push(format!("data: {}\n\n", json!({"error": error})));
            return events;
        }
    }
    for call in wire_calls(said, seen.n) {
        events.extend(call_pieces(&call).into_iter().map(|call| delta(json!({"tool_calls": [call]}))));
    }
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish_of(said)}]), None));
    let asked = seen.body.pointer("/stream_options/include_usage").and_then(Value::as_bool) == Some(true);
    if let Some(usage) = usage.filter(|_| asked) {
        events.push(chunk(json!([]), Some(&usage)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// A call in pieces: its head with half of the arguments, then the other half.
fn call_pieces(call: &Value) -> [Value; 2] {
    let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
    let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
    let (head, tail) = arguments.split_at(middle);
    let mut first = call.clone();
    first["function"]["arguments"] = head.into();
    [first, json!({"index": call["index"], "function": {"arguments": tail}})]
}

fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split_inclusive(' ') {
        piece.push_str(word);
        if piece.chars().count() >= CHUNK_CHARS {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
