//! Talk that was held elsewhere.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_api::message::{ImportRecord, ImportRequest, ImportedMessage, read_object};
use cairn_core::import::Said;
use cairn_types::ids::MessageId;
use cairn_types::message::Author;
use jiff::Timestamp;

use crate::api::shared::{Channel, Shared, runtime_error};
use crate::http::body::read_body;

/// Most bytes of one request.
const IMPORT_MAX_BYTES: usize = 8 << 20;

/// Longest id and name, in bytes.
const NAME_MAX_BYTES: usize = 128;

/// `POST /v1/channels/{channel}/import`: takes in talk that was held elsewhere. The channel may be a new one.
pub(super) async fn import(
    State(admin): State<Shared>,
    Channel(channel, ()): Channel,
    body: Body,
) -> Result<Json<ImportRecord>, ApiError> {
    let bytes = read_body(body, IMPORT_MAX_BYTES).await?;
    let bytes = bytes.ok_or_else(|| ApiError::too_large(IMPORT_MAX_BYTES))?;
    let request: ImportRequest =
        read_object(&bytes).map_err(|why| ApiError::malformed(format!("the body cannot be read: {why}")))?;
    let most = admin.agent_registry.loaded().config.limits.max_message_bytes;
    let direct = request.direct;
    let said = request.messages.into_iter().map(|message| said(message, direct, most));
    let said = said.collect::<Result<Vec<Said>, ApiError>>()?;
    let imported = admin.runtime()?.import(&channel, said).await.map_err(runtime_error)?;
    Ok(Json(ImportRecord {
        messages: imported.messages,
        answers: imported.answers,
        known: imported.known,
        unasked: imported.unasked,
    }))
}

fn said(message: ImportedMessage, direct: bool, most: usize) -> Result<Said, ApiError> {
    let ImportedMessage { id, at, user, name, text } = message;
    for (field, value) in [("id", Some(&id)), ("user", user.as_ref()), ("name", name.as_ref())] {
        let Some(value) = value else { continue };
        if value.trim().is_empty() || value.len() > NAME_MAX_BYTES || value.chars().any(char::is_control) {
            let words = format!("`{field}` of a message is empty, too long or has a control character");
            return Err(ApiError::malformed(words));
        }
    }
    if text.len() > most {
        return Err(ApiError::too_large(most));
    }
    if text.trim().is_empty() || text.contains('\0') {
        return Err(ApiError::malformed(format!("the text of message {id} is empty or has a NUL character")));
    }
    let at = at.parse::<Timestamp>().map_err(|error| {
        ApiError::malformed(format!(
            "`at` of message {id} is no time: {error}; write it like 2026-11-20T10:00:00Z"
        ))
    })?;
    let author = user.map(|user| {
        let bare = user.split_once('/').map_or(user.as_str(), |(_platform, bare)| bare);
        Author { name: name.unwrap_or_else(|| bare.to_owned()), id: user.clone() }
    });
    Ok(Said { message: MessageId::from(id), at, author, text, direct })
}
