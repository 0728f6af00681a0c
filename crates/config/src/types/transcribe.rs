//! `[transcribe]`: who turns what people say in voice messages into words.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OPENAI_URL;

/// The server of transcriptions, as [[models]] name theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TranscribeConfig {
    /// The name by which the server knows the model. Not set: recordings are only named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"whisper-1")]
    pub model: Option<String>,
    /// The server, without /audio/transcriptions: OpenAI, Groq, LocalAI, whisper.cpp's with --convert and --inference-path
    /// /v1/audio/transcriptions.
    pub base_url: String,
    /// Its key: an environment variable that holds it, or a file. None: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// The language that is spoken, as two letters (ISO 639-1). Not set: the model finds out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"en", extend("pattern" = "^[a-z]{2,3}$"))]
    pub language: Option<String>,
    /// Longest wait for the words of one recording; later messages of its chat wait with it. And the largest recording, in
    /// MiB. Telegram hands bots none above 20 MB.
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
    #[schemars(range(min = 1, max = 25))]
    pub max_mib: u64,
}

impl Default for TranscribeConfig {
    fn default() -> Self {
        Self {
            model: None,
            base_url: OPENAI_URL.to_owned(),
            api_key_env: None,
            api_key_file: None,
            language: None,
            timeout_secs: 60,
            max_mib: 25,
        }
    }
}
