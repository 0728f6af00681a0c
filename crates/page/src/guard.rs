//! What every request for the page passes: who it is, whether the change comes from the page itself, and what a browser is
//! told about the answer.

use crate::links::LOGOUT;
use crate::visitor::{Visitor, visitor};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use cairn_api::error::ApiError;

use crate::error::PageError;
use crate::login;
use cairn_api::records::Scope;
use cairn_server::api::page_access::Access;

/// Nothing from elsewhere, nothing inline, no frame. `same-origin` of the referrer: with `no-referrer` browsers would send
/// `Origin: null` with our own forms.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Longest for a change, its form included. Only what is read may take as long as a connection.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);

/// Longest for a message with files, whose text is read, too.
const UPLOAD_LIMIT: Duration = Duration::from_secs(180);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, PageError> {
        parts.extensions.get::<Self>().copied().ok_or_else(|| ApiError::internal(&"no visitor").into())
    }
}

/// Tells browsers how to treat an answer, whatever it is. A file says itself how long it may be kept.
pub(super) async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Refuses figures that are asked for through the proxy: they need no login, and are for this machine's network alone.
pub(super) async fn figures(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let forwarded = ["x-forwarded-for", "forwarded"].into_iter().any(|name| headers.contains_key(name));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if access.is_proxied(&format!("https://{}", host.to_ascii_lowercase()))
        || (access.has_proxy() && forwarded)
    {
        return PageError::from(ApiError::new(
            StatusCode::FORBIDDEN,
            "figures_by_proxy",
            "metrics and health are not served through the proxy",
            "use the address of `listen` itself, from this machine or its network",
        ))
        .into_response();
    }
    next.run(request).await
}

/// Refuses a change that another page than ours has sent, and one without a word of where it comes from.
pub(super) async fn changes(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if is_reading(request.method()) {
        return next.run(request).await;
    }
    if is_ours(&access, request.headers()) {
        let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let limit = if kind.starts_with(b"multipart/") { UPLOAD_LIMIT } else { CHANGE_LIMIT };
        return match tokio::time::timeout(limit, next.run(request)).await {
            Ok(response) => response,
            Err(_elapsed) => PageError::from(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "too_slow",
                "the change did not come in time",
                "check whether it was made, then try again",
            ))
            .into_response(),
        };
    }
    tracing::warn!("a change sent to the page from another site was refused");
    PageError::from(ApiError::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        "this change was not sent by a page of this address",
        "open the page itself and try again there; behind a proxy, set `proxy` under [admin] to the address that \
         browsers show",
    ))
    .into_response()
}

fn is_ours(access: &Access, headers: &HeaderMap) -> bool {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        value.filter(|_| values.next().is_none())
    };
    // Browsers of before 2023 do not send it.
    let same_site = !headers.contains_key(SEC_FETCH_SITE) || one(SEC_FETCH_SITE) == Some("same-origin");
    let own = one(ORIGIN).zip(one(HOST)).is_some_and(|(origin, host)| access.is_own(origin, host));
    same_site && own
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Lets in whoever is logged in, and has the others log in. What changes something needs the scope `operate`.
pub(super) async fn visitors(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(visitor) = visitor(&access, request.headers()) else {
        // A change leads nowhere that could be looked at.
        return login::asked(Some(request.uri()).filter(|_| is_reading(request.method())));
    };
    let leaves = request.uri().path() == LOGOUT;
    if visitor.scope == Scope::Read && !is_reading(request.method()) && !leaves {
        return PageError::from(ApiError::new(
            StatusCode::FORBIDDEN,
            "read_only",
            "this browser has read-only access",
            "`cairn ui` without --read-only prints a link with full access",
        ))
        .within(visitor);
    }
    request.extensions_mut().insert(visitor);
    let response = next.run(request).await;
    match response.extensions().get::<PageError>() {
        Some(error) => error.within(visitor),
        None => response,
    }
}
