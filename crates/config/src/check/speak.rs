//! Checks of `[speak]`.

use super::models::{trimmed, url_trouble};
use super::{Check, key_path};
use crate::env::Environment;
use crate::types::{Provider, SpeakConfig};
use crate::url;

pub(crate) fn check_speak(
    check: &mut Check<'_, '_>,
    mut speak: SpeakConfig,
    env: &dyn Environment,
) -> SpeakConfig {
    let bad = |text: &str| text.is_empty() || text.chars().any(char::is_control);
    if speak.model.as_deref().is_some_and(bad) {
        let hint = "such as model = \"gpt-4o-mini-tts\"";
        check.wrong(&key_path!["speak", "model"], "`model` is not the name of a model", hint);
    }
    if bad(&speak.voice) {
        check.wrong(
            &key_path!["speak", "voice"],
            "`voice` is not the name of a voice",
            "such as voice = \"alloy\"",
        );
    }
    let address = trimmed(&speak.base_url).to_owned();
    let trouble = url_trouble(&address, Provider::Openai)
        .or_else(|| address.ends_with("/audio/speech").then(|| "must end before /audio/speech".to_owned()));
    if let Some(trouble) = trouble {
        let message = format!("`base_url` = \"{}\" {trouble}", url::shown(&address));
        let hint = "such as base_url = \"http://127.0.0.1:8080/v1\"";
        check.wrong(&key_path!["speak", "base_url"], message, hint);
    }
    speak.base_url = address;
    let (variable, file) = (speak.api_key_env.as_deref(), &mut speak.api_key_file);
    check.key("[speak]", &key_path!["speak"], variable, file, env);
    speak
}
