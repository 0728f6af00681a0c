//! Checks of `[[models]]`.

use std::collections::BTreeMap;

use super::{Check, is_name, key_path};
use crate::config::env::Environment;
use crate::config::secrets::key_file;
use crate::config::types::{ANTHROPIC_URL, ModelConfig, OFFLINE, OPENAI_URL, Provider};
use crate::config::url;

/// Checks the models and adds the embedded one where the file does not have it.
pub(in crate::config) fn check_models(
    check: &mut Check<'_, '_>,
    models: Vec<ModelConfig>,
    env: &dyn Environment,
) -> Vec<ModelConfig> {
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = Vec::with_capacity(models.len() + 1);
    for (idx, mut model) in models.into_iter().enumerate() {
        check_id(check, &model, idx);
        if let Some(first) = first_of.get(&model.id) {
            let message =
                format!("two models have the id `{}` (numbers {} and {})", model.id, first + 1, idx + 1);
            check.wrong(&key_path!["models", idx, "id"], message, "give each its own id");
        }
        first_of.entry(model.id.clone()).or_insert(idx);
        check_provider(check, &mut model, idx);
        check_room(check, &model, idx);
        if model.api_key_env.is_some() && model.api_key_file.is_some() {
            let message = format!("model `{}` has both api_key_env and api_key_file", model.id);
            check.wrong(&key_path!["models", idx, "api_key_file"], message, "keep one of the two");
        }
        model.api_key_file = model.api_key_file.map(|file| key_file(&file, check.source.dir(), env));
        out.push(model);
    }
    if !first_of.contains_key(OFFLINE) {
        out.push(ModelConfig::offline());
    }
    out
}

fn check_id(check: &mut Check<'_, '_>, model: &ModelConfig, idx: usize) {
    let at = key_path!["models", idx, "id"];
    if model.id.is_empty() {
        check.wrong(&at, format!("number {} of [[models]] has no `id`", idx + 1), "add one: id = \"main\"");
    } else if !is_name(&model.id) {
        let message = format!("`id` = \"{}\" is no name of a model", model.id);
        check.wrong(&at, message, "write 1 to 64 of the characters A-Z a-z 0-9 . _ -");
    } else if model.id == OFFLINE && model.provider != Provider::Offline {
        let message = "the id `offline` belongs to the embedded model";
        check.wrong(&at, message, "choose another id, or set provider = \"offline\"");
    }
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
