//! Checks of `[[models]]`.

use super::{Check, IdRule, key_path};
use crate::config::env::Environment;
use crate::config::secrets::key_file;
use crate::config::types::{ANTHROPIC_URL, ModelConfig, OFFLINE, OPENAI_URL, Provider};
use crate::config::url;

const IDS: IdRule =
    IdRule { table: "models", one: "a model", many: "models", example: "main", longest: 64, signs: "._-" };

/// Checks the models and adds the embedded one where the file does not have it.
pub(in crate::config) fn check_models(
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
        check_room(check, &model, idx);
        if model.api_key_env.is_some() && model.api_key_file.is_some() {
            let message = format!("model `{}` has both api_key_env and api_key_file", model.id);
            check.wrong(&key_path!["models", idx, "api_key_file"], message, "keep one of the two");
        }
        if let Some(variable) = &model.api_key_env {
            check.variable(&key_path!["models", idx, "api_key_env"], "api_key_env", variable);
        }
        model.api_key_file = model.api_key_file.map(|file| key_file(&file, check.source.dir(), env));
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
            check_name(check, model, idx, "gpt-4.1-mini");
            check_url(check, model, idx);
        }
        Provider::Anthropic => {
            if model.base_url == OPENAI_URL {
                model.base_url = ANTHROPIC_URL.to_owned();
            }
            check_name(check, model, idx, "claude-sonnet-4-5");
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

/// An address without slashes at its end, unless nothing else follows its beginning.
pub(in crate::config) fn trimmed(url: &str) -> &str {
    let trimmed = url.trim_end_matches('/');
    if trimmed.ends_with(':') { url } else { trimmed }
}

/// What is wrong with the address of a server.
pub(in crate::config) fn url_trouble(url: &str, provider: Provider) -> Option<String> {
    let call = match provider {
        Provider::Openai => "/chat/completions",
        Provider::Anthropic => "/messages",
        Provider::Offline => return None,
    };
    let whole_call = || url.ends_with(call).then(|| format!("must end before {call}"));
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
