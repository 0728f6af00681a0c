//! Checks of the servers that are asked for one thing each: `[transcribe]`, `[speak]`, `[embeddings]`, `[rerank]`.

use std::path::PathBuf;

use super::models::{trimmed, url_trouble};
use super::{Check, key_path};
use crate::env::Environment;
use crate::types::{Config, Provider};
use crate::url;

/// What such a table says of its server.
struct Service<'a> {
    table: &'static str,
    /// Where the address must end before.
    call: &'static str,
    /// A model's name, for the hint.
    such_as: &'static str,
    model: Option<&'a str>,
    base_url: &'a mut String,
    api_key_env: Option<&'a str>,
    api_key_file: &'a mut Option<PathBuf>,
}

/// Checks all such tables, and finds their key files.
pub(crate) fn check_services(check: &mut Check<'_, '_>, config: &mut Config, env: &dyn Environment) {
    let Config { transcribe, speak, embeddings, rerank, .. } = config;
    let is_code = |text: &str| (2..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase());
    if transcribe.language.as_deref().is_some_and(|language| !is_code(language)) {
        let hint = "such as language = \"en\"";
        check.wrong(&key_path!["transcribe", "language"], "`language` is not the code of a language", hint);
    }
    if is_no_name(&speak.voice) {
        let hint = "such as voice = \"alloy\"";
        check.wrong(&key_path!["speak", "voice"], "`voice` is not the name of a voice", hint);
    }
    if embeddings.folder.is_some() && embeddings.model.is_some() {
        let message = "`folder` and `model` exclude each other";
        check.wrong(&key_path!["embeddings", "model"], message, "leave one of them out");
    }
    /// The service of a table of that shape.
    macro_rules! service {
        ($table:ident, $call:literal, $such_as:literal) => {
            Service {
                table: stringify!($table),
                call: $call,
                such_as: $such_as,
                model: $table.model.as_deref(),
                base_url: &mut $table.base_url,
                api_key_env: $table.api_key_env.as_deref(),
                api_key_file: &mut $table.api_key_file,
            }
        };
    }
    for service in [
        service!(transcribe, "/audio/transcriptions", "whisper-1"),
        service!(speak, "/audio/speech", "gpt-4o-mini-tts"),
        service!(embeddings, "/embeddings", "text-embedding-3-small"),
        service!(rerank, "/rerank", "bge-reranker-v2-m3"),
    ] {
        check_service(check, service, env);
    }
}

fn check_service(check: &mut Check<'_, '_>, service: Service<'_>, env: &dyn Environment) {
    let Service { table, call, such_as, model, base_url, api_key_env, api_key_file } = service;
    if model.is_some_and(is_no_name) {
        let hint = format!("such as model = \"{such_as}\"");
        check.wrong(&key_path![table, "model"], "`model` is not the name of a model", &hint);
    }
    let address = trimmed(base_url).to_owned();
    let trouble = url_trouble(&address, Provider::Openai)
        .or_else(|| address.ends_with(call).then(|| format!("must end before {call}")));
    if let Some(trouble) = trouble {
        let message = format!("`base_url` = \"{}\" {trouble}", url::shown(&address));
        let hint = "such as base_url = \"http://127.0.0.1:8080/v1\"";
        check.wrong(&key_path![table, "base_url"], message, hint);
    }
    *base_url = address;
    check.key(&format!("[{table}]"), &key_path![table], api_key_env, api_key_file, env);
}

fn is_no_name(text: &str) -> bool {
    text.is_empty() || text.chars().any(char::is_control)
}
