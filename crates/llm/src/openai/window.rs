//! The window as the server lists it.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use super::OpenAi;

/// A daemon that starts does not wait longer for a server that may be down.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// OpenRouter's list of all its models has under a megabyte.
const MAX_LIST_BYTES: usize = 8 << 20;

/// Where servers list the window in use: vLLM, LM Studio (loaded, then largest), OpenRouter and others.
const LISTED: &[&str] = &[
    "/meta/n_ctx",
    "/n_ctx",
    "/loaded_context_length",
    "/max_model_len",
    "/top_provider/context_length",
    "/context_length",
    "/context_window",
    "/max_context_length",
    "/max_context_window_tokens",
];

/// The window that a model was trained with; llama.cpp may have been started with a smaller one.
const TRAINED: &str = "/meta/n_ctx_train";

impl OpenAi {
    /// Asks the server for its list of models; `None` when it does not answer or does not say.
    pub(super) async fn ask_window(&self) -> Option<u64> {
        let list = self.get(self.address(&["models"])).await?;
        let model = entry_of(&list, &self.options.model)?;
        if let Some(window) = listed_window(model) {
            return Some(window);
        }
        let trained = number(model, TRAINED)?;
        let mut props = self.base_url.clone();
        props.set_path("/props");
        let in_use = match self.get(props).await {
            Some(props) => number(&props, "/default_generation_settings/n_ctx"),
            None => None,
        };
        Some(in_use.unwrap_or(trained))
    }

    async fn get(&self, url: Url) -> Option<Value> {
        let request = self.authorized(self.client().ok()?.get(url));
        let asked = async {
            let mut response = request.send().await.ok().filter(|response| response.status().is_success())?;
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.ok()? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_LIST_BYTES {
                    return None;
                }
            }
            serde_json::from_slice(&bytes).ok()
        };
        let answer = tokio::time::timeout(ASK_TIMEOUT, asked).await.ok().flatten();
        if answer.is_none() {
            tracing::debug!(model = %self.info.id, "the model's server lists no window; set context_window");
        }
        answer
    }
}

/// The model's entry in a list; a list of one needs no name.
fn entry_of<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()?;
    let named = |name: &str| {
        entries.iter().find(|entry| {
            ["id", "name", "model"].iter().any(|key| entry.get(key).and_then(Value::as_str) == Some(name))
        })
    };
    named(model).or_else(|| named(&format!("{model}:latest"))).or(match entries.as_slice() {
        [only] => Some(only),
        _ => None,
    })
}

/// The smallest of those listed: a provider's limit may be under its model's.
fn listed_window(model: &Value) -> Option<u64> {
    LISTED.iter().filter_map(|pointer| number(model, pointer)).min()
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    let found = value.pointer(pointer)?;
    let tokens = found.as_u64().or_else(|| found.as_str()?.parse().ok())?;
    (tokens > 0).then_some(tokens)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_window_is_found_in_the_lists_of_all_servers() {
        let cases = [
            ("vLLM", json!({"data": [{"id": "m", "max_model_len": 4096}]}), Some(4096)),
            (
                "LM Studio",
                json!({"data": [{"id": "m", "loaded_context_length": 8192, "max_context_length": 131072}]}),
                Some(8192),
            ),
            (
                "OpenRouter",
                json!({"data": [{"id": "x", "context_length": 1}, {"id": "m", "context_length": 200000, "top_provider": {"context_length": 128000}}]}),
                Some(128_000),
            ),
            (
                "a list of one",
                json!({"data": [{"id": "/models/m.gguf", "meta": {"n_ctx": 2048}}]}),
                Some(2048),
            ),
            (
                "Ollama's tags",
                json!({"models": [{"name": "m:latest", "context_window": "32768"}, {"name": "y"}]}),
                Some(32_768),
            ),
            ("OpenAI", json!({"data": [{"id": "m", "object": "model"}, {"id": "y"}]}), None),
            ("not listed", json!({"data": [{"id": "x", "context_length": 1}, {"id": "y"}]}), None),
            ("nonsense", json!({"data": [{"id": "m", "context_length": -5}]}), None),
            ("no list", json!("hello"), None),
        ];
        for (server, list, expected) in cases {
            assert_eq!(entry_of(&list, "m").and_then(listed_window), expected, "{server}");
        }
    }
}
