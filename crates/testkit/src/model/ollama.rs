//! What Ollama does with requests that are larger than its window, and the calls by which it tells the window.
//!
//! It answers 200 and says nothing. Where it renders the prompt itself it leaves out the oldest messages, not those of the
//! system, until the rest fits; the newest always stays, and no result is parted from its call
//! (<https://github.com/ollama/ollama/blob/main/server/prompt.go>). What is too large all the same is cut to half of the window,
//! and two tokens (<https://github.com/ollama/ollama/issues/17427>). Models whose prompt its runner renders are cut so at
//! once (<https://github.com/ollama/ollama/issues/17889>).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::measure::{Count, Input};
use super::{Kind, Shared};

/// A server of Ollama with a window of so many tokens.
#[derive(Debug, Clone, Copy)]
pub struct Ollama {
    num_ctx: u64,
    halves: bool,
    tells: bool,
}

impl Ollama {
    pub fn new(num_ctx: u64) -> Self {
        Self { num_ctx, halves: false, tells: true }
    }

    /// Its runner renders the prompt.
    pub fn halving(self) -> Self {
        Self { halves: true, ..self }
    }

    /// It tells nobody how large the window is, as behind a proxy that only passes answers on.
    pub fn silent(self) -> Self {
        Self { tells: false, ..self }
    }

    /// What it reads of a request. It reports nothing of its cache.
    pub(super) fn read(self, count: Count, request: &Value, input: Input) -> Input {
        let tokens = if self.halves { input.tokens } else { self.rendered(count, request) };
        let tokens = if tokens > self.num_ctx { self.num_ctx / 2 + 2 } else { tokens };
        Input { tokens, cached: 0, written: 0 }
    }

    fn rendered(self, count: Count, request: &Value) -> u64 {
        let mut request = request.clone();
        let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
        loop {
            let tokens = count.request(&request);
            let Some(messages) = request["messages"].as_array_mut() else { return tokens };
            let first = messages.iter().position(|message| role(message) != "system");
            let (Some(first), true) = (first, tokens > self.num_ctx) else { return tokens };
            let n_results =
                messages[first + 1..].iter().take_while(|message| role(message) == "tool").count();
            if first + n_results + 1 >= messages.len() {
                return tokens;
            }
            messages.drain(first..=first + n_results);
        }
    }
}

/// The models that are loaded (<https://docs.ollama.com/api/ps>): ours, once it has been asked something.
pub(super) async fn running(State(shared): State<Arc<Shared>>) -> Response {
    let Some(ollama) = shared.builder.ollama.filter(|ollama| ollama.tells) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let is_loaded = {
        let state = shared.state.lock();
        [Kind::Reply, Kind::Compaction].iter().any(|kind| state.tallies[*kind as usize].answered > 0)
    };
    let model = json!({"name": "fake:latest", "model": "fake:latest", "context_length": ollama.num_ctx});
    let models: Vec<Value> = is_loaded.then_some(model).into_iter().collect();
    Json(json!({ "models": models })).into_response()
}

/// What a model is made of (<https://docs.ollama.com/api-reference/show-model-details>): no window of its own, and the largest
/// one that it was trained for.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response {
    if shared.builder.ollama.is_none_or(|ollama| !ollama.tells) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let parameters = "temperature                    0.6\nstop                           \"<|im_end|>\"";
    let info = json!({"general.architecture": "qwen3", "qwen3.context_length": 40_960});
    Json(json!({ "parameters": parameters, "model_info": info, "capabilities": ["completion", "tools"] }))
        .into_response()
}
