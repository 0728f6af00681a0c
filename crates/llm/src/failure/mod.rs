//! What a model server's refusal means: the typed error for a status, a body, or an error object in a stream.

mod wording;

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use cairn_core::model::ModelError;

use crate::remedy::Remedy;

/// Longest message of a server that is passed on, in characters.
const MESSAGE_MAX: usize = 600;

/// A refusal: what it means, and what of the request it may be for.
#[derive(Debug, PartialEq)]
pub(crate) struct ServerRefusal {
    pub(crate) error: ModelError,
    /// The server may take the same request asked otherwise.
    pub(crate) remedies: Vec<Remedy>,
}

impl From<ModelError> for ServerRefusal {
    fn from(error: ModelError) -> Self {
        Self { error, remedies: Vec::new() }
    }
}

/// What a status other than success means.
pub(crate) fn from_status(status: u16, headers: &HeaderMap, body: &[u8]) -> ServerRefusal {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let said = match &value {
        Some(value) => ErrorBody::of(value),
        None => ErrorBody::of_text(&String::from_utf8_lossy(body)),
    };
    let message = if said.message.is_empty() {
        format!("HTTP {status} without a word")
    } else {
        format!("HTTP {status}: {}", said.message)
    };
    let of_streaming = said.param == "stream" || wording::is_no_streaming(&said.plain);
    let remedies = if said.is_overflow() {
        Vec::new()
    } else if said.param == "tool_choice" || wording::is_no_tool_choice(&said.plain) {
        vec![Remedy::NoToolChoice]
    } else if wording::is_short_ids(&said.plain) {
        vec![Remedy::ShortIds]
    } else if wording::is_one_call(&said.plain) {
        vec![Remedy::OneCall]
    } else if matches!(status, 400..=499 | 501) && of_streaming {
        vec![Remedy::NoStream]
    } else {
        wording::remedies_of(&said.plain)
    };
    ServerRefusal { error: typed(status, message, &said, retry_after(headers)), remedies }
}

/// Whether words of a server say that roles must take turns. Requests do, so that the results of tools are what the chat
/// template does not take.
pub(crate) fn is_of_roles(said: &str) -> bool {
    wording::is_of_roles(&wording::plain(said))
}

/// The error that an error object in a successful answer stands for. `error` is the object itself, what holds it, or
/// its message.
pub(crate) fn from_object(error: &Value) -> ModelError {
    let said = ErrorBody::of(error);
    let number = |value: &Value| match value {
        Value::Number(code) => code.as_u64().and_then(|code| u16::try_from(code).ok()),
        Value::String(code) => code.parse().ok(),
        _ => None,
    };
    let status = error.get("code").or_else(|| error.get("status")).and_then(number);
    let status = status.filter(|status| (300..600).contains(status)).unwrap_or(match said.kind.as_str() {
        kind if kind.contains("rate_limit") || kind.contains("too_many_requests") => 429,
        kind if kind.contains("auth") || kind.contains("api_key") || kind.contains("permission") => 401,
        kind if kind.contains("request_too_large") => 413,
        kind if kind.contains("invalid_request") || kind.contains("bad_request") => 400,
        kind if kind.contains("not_found") => 404,
        kind if kind.contains("billing") => 402,
        _ => 500,
    });
    let message =
        if said.message.is_empty() { "an error without a word".to_owned() } else { said.message.clone() };
    typed(status, message, &said, None)
}

/// Tells what is wrong with an answer that is no JSON without quoting it: its words do not belong in a log.
pub(crate) fn malformed(error: &serde_json::Error, data: &[u8]) -> ModelError {
    let n_bytes = data.len();
    let problem = match error.classify() {
        _ if looks_like_html(&String::from_utf8_lossy(data)) => "is an HTML page",
        serde_json::error::Category::Eof => "is cut off or empty",
        _ => "is not JSON",
    };
    ModelError::Protocol(format!("a chunk of {n_bytes} bytes {problem} (column {})", error.column()))
}

fn typed(status: u16, message: String, said: &ErrorBody, retry_after: Option<Duration>) -> ModelError {
    match status {
        401 | 403 => ModelError::Auth(message),
        429 => ModelError::RateLimited { message, retry_after },
        413 => ModelError::ContextOverflow { message, limit: said.limit().filter(|_| said.is_overflow()) },
        _ if said.is_overflow() => ModelError::ContextOverflow { message, limit: said.limit() },
        _ if wording::is_no_tools(&said.plain) || wording::is_of_roles(&said.plain) => {
            ModelError::NoTools(message)
        }
        _ if said.kind.contains("throttl") => ModelError::RateLimited { message, retry_after },
        404 => ModelError::BadRequest(format!(
            "{message}; check `model` and `base_url`, which mostly ends in /v1"
        )),
        300..=399 => ModelError::BadRequest(format!(
            "{message}; redirects are not followed, so that no key leaks: set `base_url` to where it leads"
        )),
        408 | 500.. => ModelError::Overloaded { message, retry_after },
        _ => ModelError::BadRequest(message),
    }
}

/// What a server said, out of the shapes in use.
struct ErrorBody {
    message: String,
    /// `code` and `type`, in lower case.
    kind: String,
    /// The parameter that is at fault, where it is named.
    param: String,
    /// The window, where it has a field of its own.
    window: Option<u64>,
    /// All that may tell what is wrong, as [`wording`] reads it.
    plain: String,
}

impl ErrorBody {
    /// Reads `{"error":{"message",…}}`, the same in a list, `{"error":"…"}`, `{"message"}`, `{"detail"}`, or a bare
    /// string.
    fn of(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |key: &str| match inner.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other @ (Value::Array(_) | Value::Object(_))) => other.to_string(),
            Some(Value::Null | Value::Bool(_)) | None => String::new(),
        };
        let message = match inner {
            Value::String(text) => text.clone(),
            _ => ["message", "detail", "error"]
                .iter()
                .map(|key| text(key))
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
        };
        let kind = format!("{} {}", text("code"), text("type")).to_lowercase();
        let upstream = inner.pointer("/metadata/raw").map(Value::to_string).unwrap_or_default();
        let plain = wording::plain(&format!("{kind} {message} {upstream}"));
        let window = inner.get("n_ctx").and_then(Value::as_u64).filter(|window| *window > 0);
        let message = match inner.pointer("/metadata/raw") {
            Some(Value::String(raw)) => format!("{message}: {raw}"),
            _ => message,
        };
        Self { message: shorten(&message), kind, param: text("param"), window, plain }
    }

    fn of_text(text: &str) -> Self {
        let trimmed = text.trim();
        let message = if looks_like_html(trimmed) { "an HTML page".to_owned() } else { shorten(trimmed) };
        let plain = wording::plain(&shorten(trimmed));
        Self { message, kind: String::new(), param: String::new(), window: None, plain }
    }

    fn is_overflow(&self) -> bool {
        wording::is_overflow(&self.plain)
    }

    fn limit(&self) -> Option<u64> {
        self.window.or_else(|| wording::limit_of(&self.plain))
    }
}

/// Whether a body is a page for people, as proxies and wrong addresses send.
pub(crate) fn looks_like_html(text: &str) -> bool {
    let head: String = text.trim_start().chars().take(15).collect::<String>().to_lowercase();
    head.starts_with("<!doctype")
        || head.starts_with("<html")
        || head.starts_with("<head")
        || head.starts_with("<body")
}

/// The first words of a server's text, control characters taken out, for error messages.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String =
        text.chars().take(MESSAGE_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MESSAGE_MAX).is_some() {
        short.push('…');
    }
    short
}

/// How long the server asks us to wait: milliseconds, seconds, or a date. A date counts from the server's own `Date`,
/// so that neither our clock nor its error matters; without one it says nothing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(wait);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Some(wait) = seconds(value, 1.0) {
        return Some(wait);
    }
    let at = http_date(value)?;
    let now = http_date(text(DATE.as_str())?)?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

fn http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests;
