//! Messages and commands as they are sent to the socket, and what commands answer.

use cairn_types::ids::MessageId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/channels/{C}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    pub user: String,
    pub text: String,
    /// The message's id; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, where the channel is a bare name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When it was said, RFC 3339; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The body of `POST /v1/channels/{C}/commands`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    pub user: String,
    /// The command with its words, without the slash: `remember the harbour`.
    pub command: String,
    /// It runs once for an id; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, where the channel is a bare name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What a command answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandReply {
    pub message: MessageId,
    /// In Markdown.
    pub words: String,
    /// It was not carried out: the words say why.
    pub failed: bool,
}

/// Reads a JSON object.
///
/// # Errors
/// What is wrong and where. A list of values in the order of the fields is no object.
pub fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if begins.is_some_and(|byte| *byte != b'{') {
        return Err("it is not a JSON object".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        if text.contains("hex escape") {
            return format!("{text} (half of a surrogate pair, such as \\ud800, is no character)");
        }
        text
    })
}
