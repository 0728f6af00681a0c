//! The window as servers tell it: in their lists, and in the calls of their own in which some tell it alone.

use cairn_types::ports::{ServerWindow, Unanswered};
use cairn_types::wire::address::is_nearby;
use serde_json::{Value, json};

use crate::server::{Look, Server};

/// Where servers list the window in use: vLLM, OpenRouter, Anthropic and others.
const LISTED: &[&str] = &[
    "/meta/n_ctx",
    "/n_ctx",
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

/// Asks the server for its list of models, and where that names no window, in the ways of the servers that have one of their
/// own.
pub(crate) async fn ask(server: &Server) -> Result<ServerWindow, Unanswered> {
    let list = server.get(server.address(&["models"])).await?;
    let model = list.as_ref().and_then(|list| entry_of(list, &server.options.model));
    if let Some(window) = model.and_then(window_of) {
        return Ok(window);
    }
    if let Some(trained) = model.and_then(|model| number(model, TRAINED)) {
        return Ok(ServerWindow::Listed(of_llama_cpp(server).await.unwrap_or(trained)));
    }
    // A public provider has none of these; Ollama lists all models so, wherever it is.
    let is_ollama = model.is_some_and(|model| model["owned_by"] == "library");
    if !is_ollama && !is_nearby(server.base_url().as_str()) {
        return Ok(ServerWindow::Unlisted);
    }
    let window = match of_ollama(server).await {
        Some(window) => Some(window),
        None => of_lm_studio(server).await,
    };
    Ok(window.unwrap_or(ServerWindow::Unlisted))
}

/// llama.cpp: the window of one slot
/// (<https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md#get-props-get-server-global-properties>).
async fn of_llama_cpp(server: &Server) -> Option<u64> {
    let props = server.get(server.own_address(&["props"])).await.ok().flatten()?;
    number(&props, "/default_generation_settings/n_ctx")
}

/// Ollama: the window of the loaded model (<https://docs.ollama.com/api/ps>), else the one with which it will be loaded, where
/// its Modelfile sets one (<https://docs.ollama.com/api-reference/show-model-details>). `None`: it is no Ollama.
async fn of_ollama(server: &Server) -> Option<ServerWindow> {
    let name = &server.options.model;
    let running = server.get(server.own_address(&["api", "ps"])).await.ok().flatten()?;
    let loaded = named(running.get("models")?.as_array()?, name);
    if let Some(window) = loaded.and_then(|model| number(model, "/context_length")) {
        return Some(ServerWindow::Loaded(window));
    }
    let shown = server.query(server.own_address(&["api", "show"]), &json!({ "model": name })).await;
    Some(match (shown.as_ref().and_then(parameter_of), loaded) {
        (Some(window), _) => ServerWindow::Loaded(window),
        (None, None) => ServerWindow::NotLoaded,
        // Versions before 0.11 do not tell it.
        (None, Some(_)) => ServerWindow::Unlisted,
    })
}

/// `num_ctx` of a Modelfile. The window under `model_info` is the largest that the model was trained for.
fn parameter_of(shown: &Value) -> Option<u64> {
    let lines = shown.get("parameters")?.as_str()?.lines();
    let value = lines
        .filter_map(|line| line.trim().strip_prefix("num_ctx"))
        .find_map(|rest| rest.strip_prefix(char::is_whitespace).and_then(|value| value.trim().parse().ok()));
    value.filter(|window| *window > 0)
}

/// LM Studio (<https://lmstudio.ai/docs/developer/rest/endpoints>).
async fn of_lm_studio(server: &Server) -> Option<ServerWindow> {
    let list = server.get(server.own_address(&["api", "v0", "models"])).await.ok().flatten()?;
    window_of(named(list.get("data")?.as_array()?, &server.options.model)?)
}

/// The window of a model in a list.
fn window_of(model: &Value) -> Option<ServerWindow> {
    // LM Studio: its largest window says nothing of the one with which it will be loaded.
    if model["state"] == "not-loaded" {
        return Some(ServerWindow::NotLoaded);
    }
    let loaded = number(model, "/loaded_context_length").map(ServerWindow::Loaded);
    loaded.or_else(|| listed_window(model).map(ServerWindow::Listed))
}

/// The entry of that name. Ollama lists `model` as `model:latest`.
fn named<'a>(entries: &'a [Value], model: &str) -> Option<&'a Value> {
    let named = |name: &str| {
        entries.iter().find(|entry| {
            ["id", "name", "model"].iter().any(|key| entry.get(key).and_then(Value::as_str) == Some(name))
        })
    };
    named(model).or_else(|| named(&format!("{model}:latest")))
}

/// The model's entry in a list; a list of one needs no name.
pub(crate) fn entry_of<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()?;
    named(entries, model).or(match entries.as_slice() {
        [only] => Some(only),
        _ => None,
    })
}

/// Whether it is a list that has anything in it.
pub(crate) fn has_entries(list: &Value) -> bool {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array();
    entries.is_some_and(|entries| !entries.is_empty())
}

/// The names in a list, in its order.
fn names_of(list: &Value) -> Vec<String> {
    let entries = list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array();
    let name = |entry: &Value| entry.get("id").or_else(|| entry.get("name"))?.as_str().map(str::to_owned);
    entries.map(Vec::as_slice).unwrap_or_default().iter().filter_map(name).collect()
}

/// Asks the server which models it has: the look at it, and their names.
pub(crate) async fn list(server: &Server) -> (Look, Vec<String>) {
    let Some(reply) = server.ask(server.address(&["models"])).await else { return Default::default() };
    let list = reply.value.filter(|list| reply.success && has_entries(list));
    let listed = list.as_ref().map(|list| entry_of(list, &server.options.model).is_some());
    let look = Look { answered: true, date: reply.date, listed, refuses_key: reply.refuses_key };
    (look, list.as_ref().map(names_of).unwrap_or_default())
}

/// The largest window that the model may be loaded with, where Ollama or LM Studio tells it.
pub(crate) async fn trained(server: &Server) -> Option<u64> {
    let question = json!({ "model": server.options.model });
    let shown = server.query(server.own_address(&["api", "show"]), &question).await;
    if let Some(window) = shown.as_ref().and_then(trained_of) {
        return Some(window);
    }
    let list = server.get(server.own_address(&["api", "v0", "models"])).await.ok().flatten()?;
    number(named(list.get("data")?.as_array()?, &server.options.model)?, "/max_context_length")
}

/// `model_info` names it by the architecture (<https://docs.ollama.com/api-reference/show-model-details>).
fn trained_of(shown: &Value) -> Option<u64> {
    let info = shown.get("model_info")?.as_object()?;
    let key = info.keys().find(|key| key.ends_with(".context_length"))?;
    info.get(key)?.as_u64().filter(|window| *window > 0)
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
    use ServerWindow::{Listed, Loaded, NotLoaded};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_window_is_found_in_the_lists_of_all_servers() {
        let cases = [
            ("vLLM", json!({"data": [{"id": "m", "max_model_len": 4096}]}), Some(Listed(4096))),
            (
                "LM Studio",
                json!({"data": [{"id": "m", "state": "loaded", "loaded_context_length": 8192, "max_context_length": 131072}]}),
                Some(Loaded(8192)),
            ),
            (
                "LM Studio before the first request",
                json!({"data": [{"id": "m", "state": "not-loaded", "max_context_length": 131072}]}),
                Some(NotLoaded),
            ),
            (
                "OpenRouter",
                json!({"data": [{"id": "x", "context_length": 1}, {"id": "m", "context_length": 200000, "top_provider": {"context_length": 128000}}]}),
                Some(Listed(128_000)),
            ),
            (
                "a list of one",
                json!({"data": [{"id": "/models/m.gguf", "meta": {"n_ctx": 2048}}]}),
                Some(Listed(2048)),
            ),
            (
                "Ollama's tags",
                json!({"models": [{"name": "m:latest", "context_window": "32768"}, {"name": "y"}]}),
                Some(Listed(32_768)),
            ),
            (
                "Anthropic",
                json!({"data": [{"id": "m", "max_input_tokens": 200000, "max_tokens": 64000}]}),
                Some(Listed(200_000)),
            ),
            ("OpenAI", json!({"data": [{"id": "m", "object": "model"}, {"id": "y"}]}), None),
            ("not listed", json!({"data": [{"id": "x", "context_length": 1}, {"id": "y"}]}), None),
            ("nonsense", json!({"data": [{"id": "m", "context_length": -5}]}), None),
            ("no list", json!("hello"), None),
        ];
        for (server, list, expected) in cases {
            assert_eq!(entry_of(&list, "m").and_then(window_of), expected, "{server}");
        }
    }

    #[test]
    fn only_num_ctx_of_a_modelfile_is_a_window() {
        let parameters =
            |text: &str| json!({"parameters": text, "model_info": {"llama.context_length": 131072}});
        let cases = [
            (
                "num_keep                       24\nnum_ctx                        16384\nstop  \"a\"",
                Some(16_384),
            ),
            ("num_ctx\t4096", Some(4_096)),
            ("num_ctx 0", None),
            ("num_ctx_more 5", None),
            ("stop \"num_ctx 7\"", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parameter_of(&parameters(text)), expected, "{text}");
        }
        assert_eq!(parameter_of(&json!({"model_info": {"llama.context_length": 131072}})), None);
        assert_eq!(trained_of(&parameters("")), Some(131_072));
        assert_eq!(trained_of(&json!({"model_info": {"general.parameter_count": 8}})), None);
    }

    #[test]
    fn the_names_of_models_are_read_from_each_kind_of_list() {
        let openai = json!({"data": [{"id": "b"}, {"id": "a", "name": "A model"}, {"object": "model"}]});
        assert_eq!(names_of(&openai), ["b", "a"]);
        assert_eq!(names_of(&json!({"models": [{"name": "m:latest"}]})), ["m:latest"]);
        assert_eq!(names_of(&json!("hello")), Vec::<String>::new());
    }
}
