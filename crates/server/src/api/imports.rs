//! Imports of conversations from other programs.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_api::message::{ImportRecord, ImportRequest, ImportedMessage, read_object};
use cairn_core::import::PastMessage;
use cairn_types::ids::MessageId;
use cairn_types::message::Author;
use jiff::Timestamp;

use crate::api::shared::{Channel, Shared, runtime_error};
use crate::http::body::read_body;
use crate::messages::take::{check_name, check_text, read_time};

/// Most bytes of one request.
const IMPORT_MAX_BYTES: usize = 8 << 20;

/// `POST /v1/channels/{channel}/import`: imports a part of a conversation. The channel may be a new one.
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
    let (direct, now) = (request.direct, admin.clock.now());
    let said = request.messages.into_iter().map(|message| said(message, direct, most, now));
    let said = said.collect::<Result<Vec<PastMessage>, ApiError>>()?;
    let imported = admin.runtime()?.import(&channel, said).await.map_err(runtime_error)?;
    Ok(Json(ImportRecord {
        messages: imported.messages,
        answers: imported.answers,
        known: imported.known,
        orphaned: imported.orphaned,
    }))
}

fn said(
    message: ImportedMessage,
    direct: bool,
    most: usize,
    now: Timestamp,
) -> Result<PastMessage, ApiError> {
    let ImportedMessage { id, at, user, name, text } = message;
    check_name("id", &id)?;
    user.iter().try_for_each(|user| check_name("user", user))?;
    name.iter().try_for_each(|name| check_name("name", name))?;
    check_text(&text, most)?;
    let at = at.as_deref().map_or(Ok(now), read_time)?;
    let author = user.map(|user| {
        let bare = user.split_once('/').map_or(user.as_str(), |(_platform, bare)| bare);
        Author { name: name.unwrap_or_else(|| bare.to_owned()), id: user.clone() }
    });
    Ok(PastMessage { message: MessageId::from(id), at, author, text, direct })
}
