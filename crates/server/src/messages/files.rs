//! Files that come with a message of the local platform: they reach the model as those of chat networks do.

use axum::http::StatusCode;
use cairn_api::error::ApiError;
use cairn_api::message::{FILES_MAX, IncomingFile, MESSAGE_BYTES_MAX};
use cairn_platforms::attach::{AttachLimits, Attachment, Content};
use cairn_types::ids::{AgentId, LOCAL_PLATFORM};

use super::LocalApi;
use crate::parts::OWN_BINARY;
use crate::parts::networks::agents_that_see;

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 1_024;

/// 413: the message is too large with its files.
pub fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        format!("the message with its files is larger than {} MiB", MESSAGE_BYTES_MAX >> 20),
        "send fewer or smaller files",
    )
}

/// # Errors
/// There are too many files, they are too large together, or a name is too long.
pub(super) fn check_files(files: &[IncomingFile]) -> Result<(), ApiError> {
    if files.len() > FILES_MAX {
        let message = format!("the message has {} files; at most {FILES_MAX} are taken", files.len());
        return Err(ApiError::malformed(message));
    }
    if files.iter().any(|file| file.name.len() > NAME_MAX) {
        return Err(ApiError::malformed(format!("the name of a file is longer than {NAME_MAX} bytes")));
    }
    let n_bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    if n_bytes > MESSAGE_BYTES_MAX { Err(too_large()) } else { Ok(()) }
}

/// What the files of a message become in it. Pictures are read if the agent's model takes them; what is too large or of
/// another kind is only named.
pub(super) async fn content_of(api: &LocalApi, agent: &AgentId, files: Vec<IncomingFile>) -> Content {
    let limits = AttachLimits {
        images: agents_that_see(&api.config.now().config).contains(agent),
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
    content
}
