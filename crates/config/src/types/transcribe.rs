//! `[transcribe]`: who turns what people say in voice messages into words.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OPENAI_URL;

/// The server of transcriptions, as [[models]] name theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TranscribeConfig {
    /// The model's name on its server. Not set: recordings are only named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"whisper-1")]
    pub model: Option<String>,
    /// The server's address, without /audio/transcriptions: OpenAI, Groq, LocalAI, or whisper.cpp with --convert and
    /// --inference-path /v1/audio/transcriptions.
    pub base_url: String,
    /// Its key: an environment variable or a file. Not set: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// The spoken language, as two letters (ISO 639-1). Not set: the model detects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"en", extend("pattern" = "^[a-z]{2,3}$"))]
    pub language: Option<String>,
    /// Time limit of one transcription, in seconds; later messages of its chat wait, too. Maximum size of a recording,
    /// in MiB; Telegram gives bots none above 20 MB.
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
    #[schemars(range(min = 1, max = 25))]
    pub max_mib: u64,
    /// Keep the recordings as artifacts of their messages. Their transcripts are kept in any case.
    pub keep: bool,
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
            keep: false,
        }
    }
}
