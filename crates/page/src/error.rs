//! Views that cannot be shown.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_api::text::plain;
use cairn_types::ports::StoreError;
use maud::html;

use crate::layout::bare;
use crate::pieces::said;

/// A view that cannot be shown; what the admin API says of it.
#[derive(Debug)]
pub(super) struct PageError(ApiError);

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let ApiError { status, detail, .. } = self.0;
        let title = status.canonical_reason().unwrap_or("Error");
        let view = html! {
            h1 { (title) }
            p.trouble role="alert" { (plain(&detail.message)) }
            (said(&detail.hint))
            p { a href="/" { "Status" } }
        };
        (status, bare(title, view)).into_response()
    }
}

pub(super) async fn no_such_view() -> PageError {
    PageError(ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_view",
        "there is no such page",
        "the menu has all views",
    ))
}

/// A path that is only read, or only changed.
pub(super) async fn not_so() -> PageError {
    PageError(ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address takes no such request",
        "go back and load the page again",
    ))
}
