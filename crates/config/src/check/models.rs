//! Checks of `[[models]]`.

use super::{Check, IdRule, below, key_path};
use crate::env::Environment;
use crate::types::{ANTHROPIC_URL, ModelConfig, OFFLINE, OPENAI_URL, Provider};
use crate::url;
use cairn_types::wire::address;

const IDS: IdRule =
    IdRule { table: "models", one: "a model", many: "models", example: "main", longest: 64, signs: "._-" };

/// Checks the models, and adds the embedded one if the file does not have it.
pub(crate) fn check_models(
    check: &mut Check<'_, '_>,
    models: Vec<ModelConfig>,
    env: &dyn Environment,
) -> Vec<ModelConfig> {
    let mut out: Vec<ModelConfig> = Vec::with_capacity(models.len() + 1);
    for (idx, mut model) in models.into_iter().enumerate() {
        let ids: Vec<&str> = out.iter().chain([&model]).map(|model| model.id.as_str()).collect();
        check.id(&IDS, &ids);
        if model.id == OFFLINE && model.provider != Provider::Offline {
            let message = "the id `offline` belongs to the embedded model";
            let hint = "choose another id, or set provider = \"offline\"";
            check.wrong(&key_path!["models", idx, "id"], message, hint);
        }
        check_provider(check, &mut model, idx);
        if model.api.is_some() && model.provider != Provider::Openai {
            let message = format!("model `{}`: `api` is for provider = \"openai\" only", model.id);
            check.wrong(&key_path!["models", idx, "api"], message, "remove it");
        }
        check_room(check, &model, idx);
        check_request(check, &model, idx);
        let (of, at) = (format!("model `{}`", model.id), key_path!["models", idx]);
        check.key(&of, &at, model.api_key_env.as_deref(), &mut model.api_key_file, env);
        out.push(model);
    }
    if out.iter().all(|model| model.id != OFFLINE) {
        out.push(ModelConfig::offline());
    }
    out
}

fn check_provider(check: &mut Check<'_, '_>, model: &mut ModelConfig, idx: usize) {
    match model.provider {
        Provider::Offline => {
            model.base_url.clear();
            if model.model.is_empty() {
                model.model = OFFLINE.to_owned();
            }
        }
        Provider::Openai => {
            check_name(check, model, idx, "gpt-6-luna");
            check_url(check, model, idx);
        }
        Provider::Anthropic => {
            if model.base_url == OPENAI_URL {
                model.base_url = ANTHROPIC_URL.to_owned();
            }
            check_name(check, model, idx, "claude-sonnet-5-5");
            check_url(check, model, idx);
        }
    }
}

fn check_name(check: &mut Check<'_, '_>, model: &ModelConfig, idx: usize, example: &str) {
    if model.model.is_empty() {
        let message = format!("model `{}` has no `model`", model.id);
        let hint = format!("add the name by which the server knows it, such as model = \"{example}\"");
        check.wrong(&key_path!["models", idx, "model"], message, &hint);
    }
}

/// An address without trailing slashes, unless it has nothing but a scheme.
pub(crate) fn trimmed(url: &str) -> &str {
    let trimmed = url.trim_end_matches('/');
    if trimmed.ends_with(':') { url } else { trimmed }
}

/// What is wrong with the address of a model's server; `None`: nothing.
pub(crate) fn url_trouble(url: &str, provider: Provider) -> Option<String> {
    let calls: &[&str] = match provider {
        Provider::Openai => &["/chat/completions", "/responses"],
        Provider::Anthropic => &["/messages"],
        Provider::Offline => return None,
    };
    let whole_call = || {
        let call = address::whole_call(&address::parse(url).ok()?, calls)?;
        Some(format!("must end before {call}"))
    };
    url::trouble(url, &["http://", "https://"]).or_else(whole_call)
}

fn check_url(check: &mut Check<'_, '_>, model: &mut ModelConfig, idx: usize) {
    let url = trimmed(&model.base_url).to_owned();
    if let Some(trouble) = url_trouble(&url, model.provider) {
        let message = format!("`base_url` = \"{}\" {trouble}", url::shown(&url));
        check.wrong(
            &key_path!["models", idx, "base_url"],
            message,
            "such as base_url = \"http://127.0.0.1:8080/v1\"",
        );
    }
    model.base_url = url;
}

fn check_room(check: &mut Check<'_, '_>, model: &ModelConfig, idx: usize) {
    let (Some(most), Some(window)) = (model.max_output_tokens, model.context_window) else { return };
    if most >= window {
        check.wrong(
            &key_path!["models", idx, "max_output_tokens"],
            format!("`max_output_tokens` = {most} leaves no room in context_window = {window}"),
            "it is the part of the window kept for the answer: lower it",
        );
    }
}

/// Fields of a request that Cairn sets, in any format.
const OWN_FIELDS: [&str; 18] = [
    "model",
    "messages",
    "system",
    "input",
    "instructions",
    "previous_response_id",
    "store",
    "include",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "n",
];

/// Headers that Cairn sets, or that belong to the connection.
const OWN_HEADERS: [&str; 7] =
    ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding", "user-agent"];

/// Words in the names of headers that hold secrets.
const SECRET_WORDS: [&str; 9] =
    ["apikey", "auth", "authorization", "cookie", "key", "password", "secret", "signature", "token"];

/// Checks the fields and headers that are configured for a model's requests.
fn check_request(check: &mut Check<'_, '_>, model: &ModelConfig, idx: usize) {
    let id = &model.id;
    let at = key_path!["models", idx];
    for key in model.extra_body.keys() {
        let path = below(&below(&at, "extra_body"), key);
        if OWN_FIELDS.contains(&key.as_str()) {
            let message = format!("model `{id}`: `extra_body` has `{key}`, which Cairn sets itself");
            check.wrong(
                &path,
                message,
                "remove it; max_output_tokens, tools and stream are keys of the model",
            );
        } else if ["temperature", "top_p", "reasoning_effort"].contains(&key.as_str()) {
            let message = format!("model `{id}`: `extra_body` has `{key}`, which is a key of its own");
            check.wrong(&path, message, &format!("write {key} = … beside extra_body"));
        }
    }
    if model.provider == Provider::Anthropic {
        if model.reasoning_effort.is_some() {
            let message = format!("model `{id}`: `reasoning_effort` is no field of Anthropic's messages");
            let hint = "write extra_body = { output_config = { effort = \"medium\" } } instead";
            check.wrong(&below(&at, "reasoning_effort"), message, hint);
        }
        if model.temperature.is_some_and(|temperature| temperature > 1.0) {
            let message = format!("model `{id}`: Anthropic takes a `temperature` from 0 to 1");
            check.wrong(&below(&at, "temperature"), message, "lower it");
        }
    }
    for (name, variable) in &model.extra_headers_from_env {
        let path = below(&below(&at, "extra_headers_from_env"), name);
        check.variable(&path, &format!("extra_headers_from_env.{name}"), variable);
    }
    let plain = model.extra_headers.iter().map(|(name, value)| ("extra_headers", name, Some(value)));
    let secret = model.extra_headers_from_env.keys().map(|name| ("extra_headers_from_env", name, None));
    for (table, name, value) in plain.chain(secret) {
        let path = below(&below(&at, table), name);
        if let Some((message, hint)) = header_trouble(model, name, value) {
            check.wrong(&path, format!("model `{id}`: `{table}`: {message}"), hint);
        }
    }
}

/// What is wrong with a header, and a hint. `value`: `None` if it is read from a variable.
fn header_trouble(model: &ModelConfig, name: &str, value: Option<&String>) -> Option<(String, &'static str)> {
    let lower = name.to_lowercase();
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(fits) {
        return Some((format!("`{name}` cannot be the name of a header"), "write one such as X-Title"));
    }
    if OWN_HEADERS.contains(&&*lower) {
        return Some((format!("Cairn sets the header `{name}` itself"), "remove it"));
    }
    let has_key = model.api_key_env.is_some() || model.api_key_file.is_some();
    let key_header = if model.provider == Provider::Anthropic { "x-api-key" } else { "authorization" };
    if has_key && lower == key_header {
        return Some((format!("`{name}` holds the key of the model already"), "keep one of the two"));
    }
    let value = value?;
    if lower.split(['-', '_']).any(|part| SECRET_WORDS.contains(&part)) {
        let hint = "name its variable in `extra_headers_from_env`";
        return Some((format!("`{name}` is a secret, and secrets are not written into this file"), hint));
    }
    value.chars().any(char::is_control).then(|| {
        (
            format!("the value of `{name}` has a line break or another control character"),
            "write it in one line",
        )
    })
}
