//! A fake server of embeddings and of reranking. It takes the published forms and refuses whatever else comes.
//!
//! Embeddings: <https://platform.openai.com/docs/api-reference/embeddings/create>: JSON with `model`, `input` (1 to 2,048 texts, none
//! of them empty) and `encoding_format`. A text that is longer than the model reads is refused with status 500, in the words of
//! llama.cpp's server. Reranking: <https://docs.cohere.com/reference/rerank>: `model`, `query`, `documents` and `top_n`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::gate::{Gate, Gates, pass};
use crate::watched::listen;

/// The key that it takes.
pub const KEY: &str = "ranking-key-7";

/// Most texts of a request.
const TEXTS_MAX: usize = 2_048;

/// Most bytes of a text that the model reads.
const READ_MAX: usize = 1_000;

/// What texts are about, each a direction of the vectors.
const THINGS: [&[&str]; 3] = [&["greyhound", "puppy"], &["tram", "railway"], &["rain", "weather"]];

#[derive(Default)]
struct Shared {
    wrong: Mutex<Vec<String>>,
    reranked: Mutex<Vec<String>>,
    gates: Gates<()>,
}

/// Vectors that know three things; and a text with `the answer to QUESTION` answers that question.
pub struct FakeRanking {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for FakeRanking {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeRanking {
    /// # Panics
    /// No address is free.
    pub async fn start() -> Self {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .route("/v1/embeddings", post(serve))
            .route("/v1/rerank", post(serve))
            .with_state(shared.clone());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the fake of ranking stopped");
            }
        });
        Self { address, shared, server }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The questions of all requests to rerank.
    pub fn reranked(&self) -> Vec<String> {
        self.shared.reranked.lock().clone()
    }

    /// Holds requests to rerank.
    pub fn hold_reranking(&self) -> Gate {
        self.shared.gates.close(())
    }

    /// # Panics
    /// A request was none of a published form.
    pub fn assert_clean(&self) {
        let wrong = self.shared.wrong.lock().clone();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

async fn serve(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get("authorization").and_then(|key| key.to_str().ok()) != Some(&format!("Bearer {KEY}")) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let asked: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
    let answer = if uri.path() == "/v1/embeddings" { embed(&asked) } else { rerank(&asked) };
    if let Some(question) = asked.get("query").and_then(Value::as_str) {
        shared.reranked.lock().push(question.to_owned());
        pass(shared.gates.of(&())).await;
    }
    match answer {
        Ok(answer) => axum::Json(answer).into_response(),
        Err((status, why)) => {
            if status == StatusCode::BAD_REQUEST {
                shared.wrong.lock().push(why.clone());
            }
            (status, axum::Json(json!({ "error": { "message": why } }))).into_response()
        }
    }
}

type Refused = (StatusCode, String);

fn wrong<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err((StatusCode::BAD_REQUEST, why.into()))
}

/// The texts under a key, none of them empty, if there is nothing else in the request than what is known.
fn texts<'a>(asked: &'a Map<String, Value>, key: &str, known: &[&str]) -> Result<Vec<&'a str>, Refused> {
    if let Some(other) = asked.keys().find(|key| !known.contains(&key.as_str())) {
        return wrong(format!("a field `{other}` that there is not"));
    }
    if asked.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return wrong("`model` is missing");
    }
    let list = asked.get(key).and_then(Value::as_array).filter(|list| (1..=TEXTS_MAX).contains(&list.len()));
    let Some(list) = list else { return wrong(format!("`{key}` is no list of texts")) };
    let texts: Option<Vec<&str>> =
        list.iter().map(|text| text.as_str().filter(|text| !text.is_empty())).collect();
    texts.map_or_else(|| wrong(format!("`{key}` has an empty text, or something else than texts")), Ok)
}

fn embed(asked: &Map<String, Value>) -> Result<Value, Refused> {
    let texts = texts(asked, "input", &["model", "input", "encoding_format", "dimensions", "user"])?;
    if asked.get("encoding_format").and_then(Value::as_str) != Some("float") {
        return wrong("this fake gives floats alone");
    }
    if texts.iter().any(|text| text.len() > READ_MAX) {
        let why = "input is too large to process. increase the physical batch size";
        return Err((StatusCode::INTERNAL_SERVER_ERROR, why.to_owned()));
    }
    let vector = |text: &&str| -> Vec<f32> {
        let has = |words: &&[&str]| f32::from(words.iter().any(|word| text.contains(word))) + 0.01;
        THINGS.iter().map(has).collect()
    };
    let one = |(index, text): (usize, &&str)| json!({ "object": "embedding", "index": index, "embedding": vector(text) });
    let data: Vec<Value> = texts.iter().enumerate().map(one).collect();
    Ok(
        json!({ "object": "list", "model": "fake", "data": data, "usage": { "prompt_tokens": 1, "total_tokens": 1 } }),
    )
}

fn rerank(asked: &Map<String, Value>) -> Result<Value, Refused> {
    let texts = texts(asked, "documents", &["model", "query", "documents", "top_n"])?;
    let query = asked.get("query").and_then(Value::as_str).filter(|query| !query.is_empty());
    let Some(query) = query else { return wrong("`query` is missing") };
    if asked.get("top_n").is_some_and(|n| n.as_u64().is_none_or(|n| n == 0)) {
        return wrong("`top_n` is no number from 1 on");
    }
    let answer = format!("the answer to {query}");
    let score = |text: &str| if text.contains(&answer) { 0.9 } else { 0.1 };
    let mut results: Vec<(usize, f64)> = texts.iter().map(|text| score(text)).enumerate().collect();
    results.sort_by(|a, b| b.1.total_cmp(&a.1));
    let results: Vec<Value> = results
        .into_iter()
        .map(|(index, score)| json!({ "index": index, "relevance_score": score }))
        .collect();
    Ok(json!({ "results": results }))
}
