//! Files that come with a message of the local platform: they reach the model as those of chat networks do.

use cairn_api::error::ApiError;
use cairn_config::Config;
use cairn_platforms::attach::{AttachLimits, Attachment, Content};
use cairn_types::ids::{AgentId, LOCAL_PLATFORM};

use super::LocalApi;
use crate::parts::OWN_BINARY;
use crate::parts::networks::agents_that_see;

/// Most files of one message.
pub const FILES_MAX: usize = 10;

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 1_024;

/// Most bytes of a message with its files.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A file as a client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingFile {
    pub name: String,
    /// Its MIME type as stated; not trusted.
    pub media_type: Option<String>,
    pub bytes: Vec<u8>,
}

/// What the files of a message become in it. Pictures are read if the agent's model takes them; what is too large or of
/// another kind is only named.
///
/// # Errors
/// There are too many files, or a name is too long.
pub async fn content_of(
    api: &LocalApi,
    config: &Config,
    agent: &AgentId,
    files: Vec<IncomingFile>,
) -> Result<Content, ApiError> {
    if files.len() > FILES_MAX {
        let message = format!("the message has {} files; at most {FILES_MAX} are taken", files.len());
        return Err(ApiError::malformed(message));
    }
    if files.iter().any(|file| file.name.len() > NAME_MAX) {
        return Err(ApiError::malformed(format!("the name of a file is longer than {NAME_MAX} bytes")));
    }
    let limits = AttachLimits {
        images: agents_that_see(config).contains(agent),
        document_reader: Some(OWN_BINARY),
        ..AttachLimits::default()
    };
    let mut content = Content::default();
    for IncomingFile { name, media_type, bytes } in files {
        let size = Some(bytes.len() as u64);
        let attachment = Attachment { name: &name, media_type: media_type.as_deref(), size };
        let transcriber = api.transcriber.as_deref();
        attachment.take(LOCAL_PLATFORM, &limits, transcriber, (bytes, false), &mut content).await;
    }
    Ok(content)
}
