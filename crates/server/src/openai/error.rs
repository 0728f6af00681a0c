//! Errors in the shape of OpenAI's API: `{"error":{"message","type","param","code"}}`.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use serde_json::{Value, json};

/// OpenAI's own clients ask again after some statuses unless this header says not to.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failed {
    status: StatusCode,
    code: String,
    message: String,
    /// The field of the request that is wrong.
    param: Option<String>,
    retry_after_secs: Option<u64>,
}

impl Failed {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), param: None, retry_after_secs: None }
    }

    /// 400: a field of the request is wrong.
    pub(super) fn wrong(param: &str, code: &str, message: impl Into<String>) -> Self {
        Self { param: Some(param.to_owned()), ..Self::new(StatusCode::BAD_REQUEST, code, message) }
    }

    /// 400: the request cannot be read.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    /// 400: the request asks for something that is not there.
    pub(super) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::wrong(param, "unsupported_parameter", message)
    }

    /// 401: no key, or a wrong one.
    pub(super) fn unauthorized() -> Self {
        let message =
            "the API key is missing or wrong; send `Authorization: Bearer KEY` with a key of [openai_api]";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    /// 404: there is no such model, or the key may not talk to it.
    pub(super) fn no_such_model(model: &str) -> Self {
        let name: String = model.chars().take(64).collect();
        let message = format!(
            "the model `{name}` does not exist or this key may not use it; /v1/models lists the models"
        );
        Self {
            param: Some("model".to_owned()),
            ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message)
        }
    }

    /// 404: there is no such path.
    pub(super) fn no_such_path() -> Self {
        let message = "the only paths are GET /v1/models, GET /v1/models/MODEL and POST /v1/chat/completions; is the base URL http://ADDRESS:PORT/v1?";
        Self::new(StatusCode::NOT_FOUND, "unknown_url", message)
    }

    /// 405: the path takes another method.
    pub(super) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_supported", "this path takes another method")
    }

    /// The body, also as an event in a stream.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            429 => "rate_limit_error",
            401 => "authentication_error",
            400..=498 => "invalid_request_error",
            _ => "server_error",
        };
        let Self { code, message, param, .. } = self;
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }

    /// How such requests are counted.
    pub(super) fn outcome(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "unauthorized",
            400..=498 => "refused",
            _ => "failed",
        }
    }
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        let ApiError { status, retry_after_secs, detail } = error;
        let message = format!("{}; {}", detail.message.trim_end_matches('.'), detail.hint);
        Self { retry_after_secs, ..Self::new(status, &detail.code, message) }
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        metrics::counter!("cairn_openai_requests_total", "outcome" => self.outcome()).increment(1);
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.retry_after_secs {
            Some(secs) => drop(headers.insert(RETRY_AFTER, HeaderValue::from(secs))),
            // The daemon has tried again already, and another try may cost again.
            None => drop(headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"))),
        }
        response
    }
}
