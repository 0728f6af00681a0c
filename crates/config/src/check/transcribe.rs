//! Checks of `[transcribe]`.

use super::models::{trimmed, url_trouble};
use super::{Check, key_path};
use crate::env::Environment;
use crate::types::{Provider, TranscribeConfig};
use crate::url;

pub(crate) fn check_transcribe(
    check: &mut Check<'_, '_>,
    mut transcribe: TranscribeConfig,
    env: &dyn Environment,
) -> TranscribeConfig {
    let bad = |text: &str| text.is_empty() || text.chars().any(char::is_control);
    if transcribe.model.as_deref().is_some_and(bad) {
        let hint = "such as model = \"whisper-1\"";
        check.wrong(&key_path!["transcribe", "model"], "`model` is not the name of a model", hint);
    }
    let is_code = |text: &str| (2..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase());
    if transcribe.language.as_deref().is_some_and(|language| !is_code(language)) {
        let hint = "such as language = \"en\"";
        check.wrong(&key_path!["transcribe", "language"], "`language` is not the code of a language", hint);
    }
    let address = trimmed(&transcribe.base_url).to_owned();
    let trouble = url_trouble(&address, Provider::Openai).or_else(|| {
        address.ends_with("/audio/transcriptions").then(|| "must end before /audio/transcriptions".to_owned())
    });
    if let Some(trouble) = trouble {
        let message = format!("`base_url` = \"{}\" {trouble}", url::shown(&address));
        let hint = "such as base_url = \"http://127.0.0.1:8080/v1\"";
        check.wrong(&key_path!["transcribe", "base_url"], message, hint);
    }
    transcribe.base_url = address;
    let (variable, file) = (transcribe.api_key_env.as_deref(), &mut transcribe.api_key_file);
    check.key("[transcribe]", &key_path!["transcribe"], variable, file, env);
    transcribe
}
