//! `[openai_api]`: the endpoint for clients that speak OpenAI's API.

use std::net::SocketAddr;
use std::path::PathBuf;

use cairn_types::ids::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenAiApiConfig {
    /// A numeric address and port that serve GET /v1/models and POST /v1/chat/completions over HTTP. Clients need the
    /// base URL http://ADDRESS:PORT/v1 and a key. Put a reverse proxy with TLS in front before other machines use it.
    /// Not set: no endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"127.0.0.1:8787")]
    pub listen: Option<String>,
    /// The clients' keys: one table each. Every client needs a key, so at least one is required
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<ApiKeyConfig>,
}

/// A key of a client. Who has it talks as the person `openai/NAME`, and all conversations under it share their memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ApiKeyConfig {
    /// The name of the key's user: 1 to 24 of A-Z a-z 0-9 -
    #[schemars(example = &"desk", regex(pattern = "^[A-Za-z0-9-]{1,24}$"))]
    pub name: String,
    /// The key, one word of at least 16 characters: a file or an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"desk.key")]
    pub key_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"CAIRN_DESK_KEY", extend("x-alternative" = true))]
    pub key_env: Option<String>,
    /// The agents that it may use. Clients see them as models.
    #[schemars(with = "Vec<String>", example = ["main"])]
    pub agents: Vec<AgentId>,
}

impl OpenAiApiConfig {
    /// Where to listen, if anywhere.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.as_ref()?.trim().parse().ok()
    }
}
