//! Errors as the API shows them: a status, and `{"error":{"code","message","hint"}}`.

use std::time::Duration;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cairn_types::ids::BadChannel;
use cairn_types::ports::{Refusal, StoreError, TurnFailure};
use serde::{Deserialize, Serialize};

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    /// Seconds after which to try again, for the header `Retry-After`.
    pub retry_after_secs: Option<u64>,
    pub detail: ErrorDetail,
}

/// The body of an error answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    pub code: String,
    /// What is wrong and where, for people.
    pub message: String,
    pub hint: String,
}

impl ApiError {
    /// An error with a status, a code, a message and a hint, without `Retry-After`.
    pub fn new(
        status: StatusCode,
        code: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let detail = ErrorDetail { code: code.into(), message: message.into(), hint: hint.into() };
        Self { status, retry_after_secs: None, detail }
    }

    /// 400: the request cannot be read.
    pub fn malformed(message: impl Into<String>) -> Self {
        let hint = "docs/src/http-api.md shows the calls and their fields";
        Self::new(StatusCode::BAD_REQUEST, "malformed", message, hint)
    }

    /// 404: what the request names does not exist.
    pub fn not_found(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message, hint)
    }

    /// 408: the body did not come in time.
    pub fn slow(limit: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "slow",
            format!("the request body did not arrive within {} seconds", limit.as_secs()),
            "send it again in full; a message with the same `id` is never accepted twice",
        )
    }

    /// 413: the text is too long.
    pub fn too_large(max_bytes: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the text is longer than {max_bytes} bytes"),
            "split it into several messages, or raise `max_message_bytes` in `[limits]`",
        )
    }

    /// 422: there is no text.
    pub fn empty() -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "empty",
            "the text is empty or only white space",
            "write something",
        )
    }

    /// 500: a task failed.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("internal error: {error}"),
            "this is a bug in cairn; the daemon's log has details",
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: self.detail })).into_response();
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        response
    }
}

impl From<BadChannel> for ApiError {
    fn from(error: BadChannel) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad_channel",
            error.to_string(),
            "`cairn channels` lists the channels; in a URL, percent-encode a full name",
        )
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (status, code, hint) = match &error {
            StoreError::DiskFull { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "disk_full",
                "make room on the disk, then send again what was refused",
            ),
            StoreError::Closed => {
                (StatusCode::SERVICE_UNAVAILABLE, "stopping", "start the daemon again with `cairn run`")
            }
            StoreError::Stopped => {
                (StatusCode::CONFLICT, "stopped", "repeat the call to start from the beginning")
            }
            StoreError::Database { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "database",
                "check the database; the daemon resumes automatically, nothing is lost",
            ),
            StoreError::Led { .. } | StoreError::Fenced => {
                (StatusCode::SERVICE_UNAVAILABLE, "not_leading", "use the node that leads")
            }
            StoreError::Elsewhere { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "elsewhere",
                "check [store] url in the configuration, or use another --state",
            ),
            StoreError::Io { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "io",
                "check the state folder and its permissions, then try again",
            ),
            StoreError::InUse { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "in_use", "stop the other daemon, or use another --state")
            }
            StoreError::Newer { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "newer_state",
                "use the version of cairn that wrote it, or a later one",
            ),
            StoreError::Damaged { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "damaged", "stop the daemon and run `cairn store verify`")
            }
            StoreError::View { .. } => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "damaged",
                "stop the daemon and run `cairn store rebuild`; the journal is intact",
            ),
        };
        Self::new(status, code, error.to_string(), hint)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let (status, code, retry_after_secs, hint) = match &refusal {
            Refusal::Conflict(_) => (
                StatusCode::CONFLICT,
                "conflict",
                None,
                "omit `id`, or repeat the message with its original text",
            ),
            Refusal::Busy { retry_after_secs } => (
                StatusCode::TOO_MANY_REQUESTS,
                "busy",
                Some(*retry_after_secs),
                "wait for the time in Retry-After, then send it again with the same `id`",
            ),
            Refusal::Limited { retry_after_secs, .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "limited",
                Some(*retry_after_secs),
                "wait for the time in Retry-After, or raise the limit under [limits]",
            ),
            Refusal::Decided { .. } => (
                StatusCode::CONFLICT,
                "decided",
                None,
                "it was taken as the answer to a request for approval",
            ),
            Refusal::Unavailable(state) => (
                StatusCode::SERVICE_UNAVAILABLE,
                if state.contains("stop") { "stopping" } else { "unavailable" },
                Some(1),
                "send it again with the same `id` in a moment",
            ),
            Refusal::UnknownAgent(_) => {
                (StatusCode::NOT_FOUND, "no_such_agent", None, "`cairn config show` lists the agents")
            }
            Refusal::Store(error) => return error.clone().into(),
        };
        Self { retry_after_secs, ..Self::new(status, code, refusal.to_string(), hint) }
    }
}

impl From<TurnFailure> for ApiError {
    fn from(failure: TurnFailure) -> Self {
        let status = match failure.code.as_str() {
            "stopped" => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            "stopping" => StatusCode::SERVICE_UNAVAILABLE,
            "limited" => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, failure.code, failure.message, failure.hint)
    }
}
