//! `[speak]`: who turns answers to voice messages into recordings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OPENAI_URL;

/// The server of recordings, as [transcribe] names its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SpeakConfig {
    /// The model's name on its server. Not set: answers are only text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"gpt-4o-mini-tts")]
    pub model: Option<String>,
    /// The server's address, without /audio/speech: OpenAI, LocalAI, and others that return Opus in Ogg.
    pub base_url: String,
    /// Its key: an environment variable or a file. Not set: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// The voice's name on the server.
    pub voice: String,
    /// Time limit of one recording, in seconds. The text of the answer never waits.
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
}

impl Default for SpeakConfig {
    fn default() -> Self {
        Self {
            model: None,
            base_url: OPENAI_URL.to_owned(),
            api_key_env: None,
            api_key_file: None,
            voice: "alloy".to_owned(),
            timeout_secs: 60,
        }
    }
}
