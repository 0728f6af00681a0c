//! Views that cannot be shown.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_api::text::plain;
use cairn_server::api::page_access::Access;
use cairn_types::ports::StoreError;
use maud::{Markup, html};

use crate::layout::{Frame, Section, bare, layout};
use crate::pieces::said;
use crate::visitor::{Visitor, visitor};

/// A view that cannot be shown; what the admin API says of it.
#[derive(Debug, Clone)]
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

impl PageError {
    fn title(&self) -> &'static str {
        self.0.status.canonical_reason().unwrap_or("Error")
    }

    fn told(&self) -> Markup {
        let detail = &self.0.detail;
        html! {
            p.trouble role="alert" { (plain(&detail.message)) }
            (said(&detail.hint))
            p { a href="/" { "Status" } }
        }
    }

    /// With the menu, for somebody who is logged in.
    pub(super) fn within(&self, visitor: Visitor) -> Response {
        let frame = Frame { title: self.title(), section: Section::Nowhere, visitor, command: String::new() };
        (self.0.status, layout(&frame, &self.told())).into_response()
    }
}

/// Without the menu; whoever knows the visitor finds the error in the response, and has it shown with the menu.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let view = html! { h1 { (self.title()) } (self.told()) };
        let mut response = (self.0.status, bare(self.title(), view)).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) fn no_such_view(access: &Access, headers: &HeaderMap) -> Response {
    let error = PageError(ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_view",
        "there is no such page",
        "the menu lists all views",
    ));
    match visitor(access, headers) {
        Some(visitor) => error.within(visitor),
        None => error.into_response(),
    }
}

/// A path that is only read, or only changed.
pub(super) async fn not_so() -> PageError {
    PageError(ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address does not accept such a request",
        "go back and reload the page",
    ))
}
