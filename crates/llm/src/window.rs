//! The window as servers list it.

use cairn_core::ports::Unanswered;
use serde_json::Value;

use crate::server::Server;

/// Where servers list the window in use: vLLM, LM Studio (loaded, then largest), OpenRouter, Anthropic
/// and others.
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
    "/max_input_tokens",
];

/// The window that a model was trained with; llama.cpp may have been started with a smaller one.
const TRAINED: &str = "/meta/n_ctx_train";

/// Asks the server for its list of models; `None` when that does not name the window.
pub(crate) async fn of_list(server: &Server) -> Result<Option<u64>, Unanswered> {
    let list = server.get(server.address(&["models"])).await?;
    let Some(model) = list.as_ref().and_then(|list| entry_of(list, &server.options.model)) else {
        return Ok(None);
    };
    let trained = match (listed_window(model), number(model, TRAINED)) {
        (Some(window), _) => return Ok(Some(window)),
        (None, Some(trained)) => trained,
        (None, None) => return Ok(None),
    };
    let mut props = server.base_url().clone();
    props.set_path("/props");
    let props = server.get(props).await.ok().flatten();
    let in_use = props.and_then(|props| number(&props, "/default_generation_settings/n_ctx"));
    Ok(Some(in_use.unwrap_or(trained)))
}

/// The model's entry in a list; a list of one needs no name.
pub(crate) fn entry_of<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
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

/// Whether it is a list that has anything in it.
pub(crate) fn has_entries(list: &Value) -> bool {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array();
    entries.is_some_and(|entries| !entries.is_empty())
}

/// The smallest of those listed: a provider's limit may be under its model's.
pub(crate) fn listed_window(model: &Value) -> Option<u64> {
    LISTED.iter().filter_map(|pointer| number(model, pointer)).min()
}

/// A number of tokens at a place of an answer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<u64> {
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
            (
                "Anthropic",
                json!({"data": [{"id": "m", "max_input_tokens": 200000, "max_tokens": 64000}]}),
                Some(200_000),
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
