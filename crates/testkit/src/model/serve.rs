//! The HTTP side of the fake model.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use serde_json::{Value, json};

use super::answer::{End, Form, Said};
use super::check::Rule;
use super::measure::Input;
use super::respond::{Arrived, Flight, Taken, take};
use super::{
    Answer, Seen, Shared, Streaming, Violation, Wire, anthropic, capture, ollama, openai, responses,
};
use crate::gate;

/// Largest request: a window of a million tokens with pictures.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Words come in chunks of about so many characters.
const CHUNK_CHARS: usize = 16;

const FLOOD_BYTES: usize = 64 << 10;

/// What a flood says over and over.
const FLOOD: &str = "and on and on it goes without any end in sight; ";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/responses", post(response))
        .route("/v1/messages", post(message))
        .route("/v1/models", get(models))
        .route("/v1/models/{id}", get(model))
        .route("/api/ps", get(ollama::running))
        .route("/api/show", post(ollama::show))
        .route("/api/v0/models", get(lm_studio))
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(shared)
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(key) = &shared.builder.key
        && sent.and_then(|sent| sent.strip_prefix("Bearer ")) != Some(key)
    {
        // https://platform.openai.com/docs/guides/error-codes
        let error = json!({"message": "Incorrect API key provided", "type": "invalid_request_error",
            "param": null, "code": "invalid_api_key"});
        return (StatusCode::UNAUTHORIZED, axum::Json(json!({ "error": error }))).into_response();
    }
    let one = |id: &str| {
        let mut model = json!({"id": id, "object": "model", "owned_by": "testkit"});
        if let Some(window) = shared.builder.advertised {
            model["context_length"] = window.into();
        }
        model
    };
    let listed = &shared.builder.listed;
    let models: Vec<_> =
        if listed.is_empty() { vec![one("fake")] } else { listed.iter().map(|id| one(id)).collect() };
    axum::Json(json!({"object": "list", "data": models})).into_response()
}

/// The models as LM Studio lists them: <https://lmstudio.ai/docs/developer/rest/endpoints>. All are loaded by the first request.
async fn lm_studio(State(shared): State<Arc<Shared>>) -> Response {
    let Some((loaded, most)) = shared.builder.lm_studio else { return StatusCode::NOT_FOUND.into_response() };
    let is_loaded = shared.state.lock().tallies.iter().any(|tally| tally.answered > 0);
    let one = |id: &String| {
        let mut model = json!({"id": id, "object": "model", "type": "llm", "publisher": "testkit", "arch": "qwen2",
            "compatibility_type": "gguf", "quantization": "Q4_K_M", "max_context_length": most,
            "state": if is_loaded { "loaded" } else { "not-loaded" }});
        if is_loaded {
            model["loaded_context_length"] = loaded.into();
        }
        model
    };
    let models: Vec<_> = shared.builder.listed.iter().map(one).collect();
    axum::Json(json!({"object": "list", "data": models})).into_response()
}

/// One model, as Anthropic lists it.
async fn model(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    let mut model = json!({"type": "model", "id": id, "display_name": "Fake", "max_tokens": 1000});
    if let Some(window) = shared.builder.advertised {
        model["max_input_tokens"] = window.into();
    }
    axum::Json(model).into_response()
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(shared, Wire::OpenAi, &headers, &body).await
}

async fn response(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(shared, Wire::Responses, &headers, &body).await
}

async fn message(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(shared, Wire::Anthropic, &headers, &body).await
}

async fn serve(shared: Arc<Shared>, wire: Wire, headers: &HeaderMap, body: &Bytes) -> Response {
    let sent = String::from_utf8_lossy(body).into();
    let body: Value = match serde_json::from_slice(body) {
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
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = match wire {
        Wire::OpenAi | Wire::Responses => header(header::AUTHORIZATION.as_str()),
        Wire::Anthropic => header("x-api-key"),
    };
    let versioned = header("anthropic-version").is_some();
    let builder = &shared.builder;
    capture::keep(wire, builder.breakpoints, builder.provider, header("anthropic-beta").as_deref(), &body);
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-"));
    let own = own.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let arrived = Arrived { wire, body, sent, authorization, headers: own.collect(), versioned };
    let Taken { seen, flight, input, answer } = take(&shared, arrived);
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
            let counted = count(&shared, said, input);
            let asked = seen.body.get("stream").and_then(Value::as_bool) == Some(true);
            if asked && shared.builder.streaming == Streaming::Yes {
                streamed(&answer, said, &seen, counted, flight)
            } else {
                pause(answer.pace).await;
                whole(said, &seen, counted, flight).await
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

/// Tokens of a request and its answer.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) input: Input,
    pub(super) output: u64,
}

fn count(shared: &Shared, said: &Said, input: Input) -> Counted {
    let count = shared.builder.count;
    let calls: u64 =
        said.calls.iter().map(|(name, args)| count.tokens(name) + count.tokens(&args.to_string())).sum();
    Counted { input, output: count.tokens(&said.text) + count.tokens(&said.reasoning) + calls }
}

async fn whole(said: &Said, seen: &Seen, counted: Counted, flight: Flight) -> Response {
    let json = [("content-type".to_owned(), "application/json".to_owned())];
    let body = match seen.wire {
        Wire::OpenAi => openai::whole(said, seen, counted),
        Wire::Responses => responses::whole(said, seen, counted),
        Wire::Anthropic => anthropic::whole(said, seen, counted),
    };
    let text = match &said.end {
        End::Hanging => return std::future::pending().await,
        End::Flooding => {
            let body = endless("{\"content\": \"".to_owned(), FLOOD, flight);
            return ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        }
        End::Error(error) => json!({"error": error}).to_string(),
        End::Complete | End::Unmarked => body.to_string(),
        End::Truncated => {
            let text = body.to_string();
            text.chars().take(text.chars().count() / 2).collect()
        }
    };
    flight.end();
    raw(200, &json, text)
}

/// A body that never ends; whoever gives it up counts as gone.
fn endless(head: String, again: &str, flight: Flight) -> Body {
    let again = again.repeat(FLOOD_BYTES / again.len() + 1);
    Body::from_stream(stream::unfold((Some(head), again, flight), |(head, again, flight)| async move {
        // Others get their turn: a flood would fill the socket in one go.
        tokio::task::yield_now().await;
        let piece = head.unwrap_or_else(|| again.clone());
        Some((Ok::<_, Infallible>(piece), (None, again, flight)))
    }))
}

fn streamed(answer: &Answer, said: &Said, seen: &Seen, counted: Counted, flight: Flight) -> Response {
    let (events, flood) = match seen.wire {
        Wire::OpenAi => (openai::events(said, seen, counted), openai::piece(seen, FLOOD)),
        Wire::Responses => (responses::events(said, seen, counted), responses::piece(FLOOD)),
        Wire::Anthropic => {
            let idx = usize::from(!said.reasoning.is_empty());
            (anthropic::events(said, seen, counted), anthropic::piece(idx, FLOOD))
        }
    };
    let sse = [(header::CONTENT_TYPE, "text/event-stream")];
    if said.end == End::Flooding {
        return (sse, endless(events.concat(), &flood, flight)).into_response();
    }
    let hanging = said.end == End::Hanging;
    let (pace, places) = (answer.pace, answer.gate.clone());
    let body = stream::unfold((events.into_iter(), Some(flight)), move |(mut events, mut flight)| {
        let places = places.clone();
        async move {
            match events.next() {
                Some(event) => {
                    pause(pace).await;
                    gate::pass(places).await;
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
        }
    });
    (sse, Body::from_stream(body)).into_response()
}

/// A text in the pieces in which it is streamed.
pub(super) fn pieces(text: &str) -> Vec<String> {
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
