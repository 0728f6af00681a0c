//! Serves stylesheets and scripts.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;

use crate::asset::served_as;
use crate::error::PageError;

/// `GET /files/{name}`.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, PageError> {
    let served = served_as(&name).ok_or_else(|| {
        ApiError::not_found(
            "no_such_file",
            "there is no such file",
            "the daemon was updated: reload the page",
        )
    })?;
    let headers = [(CONTENT_TYPE, served.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, served.text).into_response())
}
