//! Messages and commands as they are sent to the socket, and the replies to commands.

use cairn_types::ids::MessageId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most files of one message.
pub const FILES_MAX: usize = 10;

/// Most bytes of a message with its files.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The body of `POST /v1/channels/{C}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    pub user: String,
    pub text: String,
    /// The message's id; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, if the channel is a bare name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When it was said, RFC 3339; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Files that come with it; then `text` may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<IncomingFile>,
}

/// A file that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncomingFile {
    pub name: String,
    /// Its MIME type as stated; not trusted. By its name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// In base64.
    #[serde(rename = "data", with = "cairn_types::wire::base64")]
    pub bytes: Vec<u8>,
}

/// The body of `POST /v1/channels/{C}/commands`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    pub user: String,
    /// The command with its arguments, without the slash: `remember the harbour`.
    pub command: String,
    /// The command's id; minted when absent. A command runs once per id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, if the channel is a bare name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandReply {
    pub message: MessageId,
    /// In Markdown.
    pub words: String,
    /// The command was not carried out; `words` says why.
    pub failed: bool,
}

/// The body of `POST /v1/channels/{C}/import`: a part of a conversation from another program, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    pub messages: Vec<ImportedMessage>,
    /// It was a private chat with the agent.
    #[serde(default)]
    pub direct: bool,
}

/// A message of such a conversation, or an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedMessage {
    /// Unique in the channel. A message whose id the channel already has is skipped, with its answer.
    pub id: String,
    /// When it was sent, RFC 3339; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its author, as `PLATFORM/USER`; absent: an answer by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Their name; `user` without the platform when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub text: String,
}

/// What came of an [`ImportRequest`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// Imported messages from people.
    pub messages: u64,
    /// Imported answers.
    pub answers: u64,
    /// Messages that the channel already had.
    pub known: u64,
    /// Answers without a message before them; they were skipped.
    pub orphaned: u64,
}

/// Reads a JSON object.
///
/// # Errors
/// The bytes are no JSON object of that type; the message says what is wrong and where. A list of the fields' values is not
/// accepted.
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
