//! The bytes of artifacts: files that a bot hands out, and whole results. They are downloaded, and never shown as a page.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_core::artifact::{named, readable};
use cairn_core::store_port::Store as _;
use cairn_platforms::attach::image_type;
pub use cairn_platforms::attach::is_image_type;
use cairn_types::ids::{ArtifactId, ChannelId, Seq};
use cairn_types::people::said::{HistoryQuery, SaidFilter};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api::channels::{lost_artifact, no_artifact};
use crate::api::shared::{Admin, Channel, Shared};

/// A file on its way to a client.
pub struct Download {
    name: String,
    /// Its type, if it is a picture that a browser may show.
    picture: Option<&'static str>,
    bytes: Arc<[u8]>,
}

/// `GET /v1/channels/{C}/artifacts/{id}/content`: all bytes of an artifact. Does not count as reading it.
pub(super) async fn content(
    State(admin): State<Shared>,
    Channel(channel, id): Channel<String>,
) -> Result<Download, ApiError> {
    of_artifact(&admin, &channel, &id).await
}

/// All bytes of an artifact: a file under its own name, a text as a text file.
///
/// # Errors
/// There is no such channel or artifact, or its content has expired or is lost.
pub async fn of_artifact(admin: &Admin, channel: &ChannelId, id: &str) -> Result<Download, ApiError> {
    let (conversation, _awake) = admin.conversation(channel).await?;
    let found = admin.store.artifact(channel, &named(id)).await?;
    let artifact = readable(found, conversation.newest_artifact, id, 1).map_err(no_artifact)?;
    let bytes = admin.store.artifact_bytes(channel, &artifact).await?;
    let bytes = bytes.ok_or_else(|| lost_artifact(channel, &artifact))?;
    let name = match &artifact.file {
        Some(file) => file.name.clone(),
        None => format!("{}.txt", artifact.id),
    };
    let picture = artifact.file.is_some().then(|| image_type(&bytes)).flatten();
    Ok(Download { name, picture, bytes })
}

/// The nth file, from 0, that people were handed with an entry, under the name that they saw.
///
/// # Errors
/// There is no such channel, entry or file, or its content has expired or is lost.
pub async fn of_entry(admin: &Admin, channel: &ChannelId, seq: Seq, n: usize) -> Result<Download, ApiError> {
    let query = HistoryQuery { from: seq, to: seq, said: SaidFilter::default(), limit: 1, newest: false };
    let page = admin.store.history(channel, query).await?;
    let sent = page.entries.first().and_then(|entry| entry.files.get(n));
    let sent = sent.ok_or_else(|| {
        ApiError::not_found(
            "no_such_file",
            format!("message {seq} of {channel} has no such file"),
            "the message may have expired with its files",
        )
    })?;
    Ok(Download { name: sent.name.clone(), ..of_artifact(admin, channel, sent.artifact.as_str()).await? })
}

/// Whether the content of an artifact is gone.
pub(super) async fn is_gone(admin: &Admin, channel: &ChannelId, id: &ArtifactId) -> Result<bool, ApiError> {
    let found = admin.store.artifact(channel, id).await?;
    Ok(found.is_none_or(|artifact| artifact.expired_at.is_some() || artifact.lost))
}

/// The header that names a file, which browsers save unless it is a picture (RFC 6266).
fn disposition(name: &str, shown: bool) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c) { c } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    let how = if shown { "inline" } else { "attachment" };
    format!("{how}; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

impl IntoResponse for Download {
    fn into_response(self) -> Response {
        let Self { name, picture, bytes } = self;
        let disposition = disposition(&name, picture.is_some());
        let mut response = axum::body::Body::from(axum::body::Bytes::from_owner(bytes)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(picture.unwrap_or("application/octet-stream")));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Opened by itself it still runs nothing.
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'"),
        );
        // It is ASCII without control characters, so it is always a header.
        if let Ok(disposition) = HeaderValue::from_str(&disposition) {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6266, 4.3: what `filename` cannot say is in `filename*`; RFC 8187 has its encoding.
    #[test]
    fn a_name_ends_no_header() {
        for (name, shown, header) in [
            ("cat.png", true, "inline; filename=\"cat.png\"; filename*=UTF-8''cat%2Epng"),
            ("ä b.pdf", false, "attachment; filename=\"__b.pdf\"; filename*=UTF-8''%C3%A4%20b%2Epdf"),
            ("a\"\r\nX: 1", false, "attachment; filename=\"a___X__1\"; filename*=UTF-8''a%22%0D%0AX%3A%201"),
        ] {
            assert_eq!(disposition(name, shown), header);
        }
    }
}
