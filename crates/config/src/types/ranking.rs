//! `[embeddings]` and `[rerank]`: the models that rank search results besides their words.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OPENAI_URL;

/// The model that makes vectors: one in a folder, or one of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// The folder of a BERT-like sentence-transformers model such as all-MiniLM-L6-v2: config.json, vocab.txt (uncased),
    /// model.safetensors (F32). Relative to this file. Not set: searches use only words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/var/lib/cairn-models/all-MiniLM-L6-v2")]
    pub folder: Option<PathBuf>,
    /// Instead of a folder: the model's name on a server. Changing it recomputes all vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"text-embedding-3-small", extend("x-alternative" = true))]
    pub model: Option<String>,
    /// The server's address, without /embeddings: OpenAI, Ollama, llama.cpp with --embeddings, vLLM, LocalAI.
    pub base_url: String,
    /// Its key: an environment variable or a file. Not set: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"openai.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// Longest wait for the vectors of up to 16 entries. A search waits half a second for its question's vector, then uses
    /// only words.
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
}

impl Default for Embeddings {
    fn default() -> Self {
        Self {
            folder: None,
            model: None,
            base_url: OPENAI_URL.to_owned(),
            api_key_env: None,
            api_key_file: None,
            timeout_secs: 60,
        }
    }
}

/// The server that reranks, as [transcribe] names its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RerankConfig {
    /// The model's name on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"bge-reranker-v2-m3")]
    pub model: Option<String>,
    /// The server's address, without /rerank: llama.cpp with --rerank, vLLM, LocalAI, Jina, Cohere.
    pub base_url: String,
    /// Its key: an environment variable or a file. Not set: no key is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"RERANK_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"rerank.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// Longest wait, in milliseconds. A reply waits at most once, when it quotes old messages.
    #[schemars(range(min = 10, max = 60_000))]
    pub timeout_ms: u64,
}

impl Default for RerankConfig {
    fn default() -> Self {
        Self {
            model: None,
            base_url: "http://127.0.0.1:8080/v1".to_owned(),
            api_key_env: None,
            api_key_file: None,
            timeout_ms: 1_000,
        }
    }
}
