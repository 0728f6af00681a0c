//! What a model server's refusal means: the typed error for a status, a body, or an error object in a stream.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use cairn_core::model::ModelError;

/// Longest message of a server that is passed on, in characters.
const MESSAGE_MAX: usize = 600;

/// Words by which servers say that a request is larger than the window, in lower case: OpenAI and vLLM; OpenAI's
/// newer wording; vLLM's older; llama.cpp's two; Ollama's three; LM Studio's three; then what OpenRouter passes on
/// from Anthropic, Gemini, xAI, Bedrock, TGI, Cohere.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "exceeds the model's context window",
    "longer than the maximum model length",
    "exceeds the maximum model length",
    "exceed_context_size",
    "exceeds the available context size",
    "exceeds the context length",
    "exceeds maximum context length",
    "exceeded max context length",
    "when context the overflows",
    "greater than the context length",
    "reached context length",
    "context length exceeded",
    "context window exceeded",
    "context size has been exceeded",
    "prompt is too long",
    "input token count",
    "maximum prompt length",
    "input is too long",
    "`inputs` tokens + `max_new_tokens`",
    "too many tokens: total number of tokens",
];

/// The error that a status other than success stands for.
pub(crate) fn from_status(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let said = match &value {
        Some(value) => Said::of(value),
        None => Said::of_text(&String::from_utf8_lossy(body)),
    };
    let message = if said.message.is_empty() {
        format!("HTTP {status} without a word")
    } else {
        format!("HTTP {status}: {}", said.message)
    };
    typed(status, message, said.is_overflow(), retry_after(headers))
}

/// The error that an error object in a successful answer stands for. `error` is the object itself or its message.
pub(crate) fn from_object(error: &Value) -> ModelError {
    let said = Said::of(error);
    let status = match error.get("code").or_else(|| error.get("status")) {
        Some(Value::Number(code)) => code.as_u64().and_then(|code| u16::try_from(code).ok()),
        Some(Value::String(code)) => code.parse().ok(),
        _ => None,
    };
    let status = status.unwrap_or(match said.kind.as_str() {
        kind if kind.contains("rate_limit") || kind.contains("too_many_requests") => 429,
        kind if kind.contains("auth") || kind.contains("api_key") || kind.contains("permission") => 401,
        kind if kind.contains("invalid_request") || kind.contains("bad_request") => 400,
        _ => 500,
    });
    let message =
        if said.message.is_empty() { "an error without a word".to_owned() } else { said.message.clone() };
    typed(status, message, said.is_overflow(), None)
}

fn typed(status: u16, message: String, overflow: bool, retry_after: Option<Duration>) -> ModelError {
    match status {
        401 | 403 => ModelError::Auth(message),
        429 => ModelError::RateLimited { message, retry_after },
        413 => ModelError::ContextOverflow { message, limit: None },
        _ if overflow => ModelError::ContextOverflow { message, limit: None },
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
struct Said {
    message: String,
    /// `code` and `type`, in lower case.
    kind: String,
    /// All that may tell of an overflow, in lower case.
    haystack: String,
}

impl Said {
    /// Reads `{"error":{"message",…}}`, `{"error":"…"}`, `{"message"}`, `{"detail"}`, or a bare string.
    fn of(value: &Value) -> Self {
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
        let haystack = format!("{kind} {message} {upstream}").to_lowercase();
        let message = match inner.pointer("/metadata/raw") {
            Some(Value::String(raw)) => format!("{message}: {raw}"),
            _ => message,
        };
        Self { message: shorten(&message), kind, haystack }
    }

    fn of_text(text: &str) -> Self {
        let trimmed = text.trim();
        let message = if looks_like_html(trimmed) { "an HTML page".to_owned() } else { shorten(trimmed) };
        Self { message, kind: String::new(), haystack: shorten(trimmed).to_lowercase() }
    }

    fn is_overflow(&self) -> bool {
        OVERFLOW.iter().any(|words| self.haystack.contains(words))
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
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> ModelError {
        from_status(status, &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn overflow_is_known_in_the_words_of_each_server() {
        let cases = [
            (
                "OpenAI",
                400,
                r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                "OpenAI, newer",
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again."}}"#,
            ),
            (
                "OpenRouter",
                400,
                r#"{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens","code":400}}"#,
            ),
            (
                "OpenRouter, passed on",
                400,
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}"}}}"#,
            ),
            ("Ollama", 400, r#"{"error":{"message":"the input length exceeds the context length"}}"#),
            (
                "Ollama, other",
                500,
                r#"{"error":"prompt too long; exceeded max context length by 12 tokens"}"#,
            ),
            (
                "llama.cpp",
                400,
                r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
            ),
            (
                "llama.cpp, older",
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}"#,
            ),
            (
                "vLLM",
                400,
                r#"{"object":"error","message":"This model's maximum context length is 2048 tokens. However, you requested 3000 tokens","type":"BadRequestError","code":400}"#,
            ),
            (
                "vLLM, other",
                400,
                r#"{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096."}"#,
            ),
            (
                "LM Studio",
                400,
                r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
            ),
            (
                "LM Studio, other",
                400,
                r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}"#,
            ),
            ("a proxy", 413, "<html><title>413 Request Entity Too Large</title></html>"),
        ];
        for (server, status, body) in cases {
            assert!(
                matches!(of(status, body), ModelError::ContextOverflow { .. }),
                "{server}: {:?}",
                of(status, body)
            );
        }
        let rate = r#"{"error":{"message":"Request too large for gpt-4 on tokens per min (TPM): Limit 10000","code":"rate_limit_exceeded"}}"#;
        assert!(matches!(of(429, rate), ModelError::RateLimited { .. }));
    }

    #[test]
    fn statuses_are_typed() {
        let cases = [
            (401, "auth"),
            (403, "auth"),
            (429, "rate_limited"),
            (400, "bad_request"),
            (402, "bad_request"),
            (404, "bad_request"),
            (422, "bad_request"),
            (302, "bad_request"),
            (408, "overloaded"),
            (500, "overloaded"),
            (502, "overloaded"),
            (503, "overloaded"),
            (529, "overloaded"),
        ];
        for (status, code) in cases {
            assert_eq!(of(status, r#"{"error":{"message":"m"}}"#).code(), code, "{status}");
            assert_eq!(of(status, "").code(), code, "{status}");
        }
    }

    #[test]
    fn the_servers_words_are_passed_on_in_one_short_line() {
        let message = |body: &str| of(400, body).to_string();
        assert!(message(r#"{"error":{"message":"a\nb"}}"#).ends_with("HTTP 400: a b"));
        assert!(message(r#"{"detail":[{"msg":"field required"}]}"#).contains("field required"));
        assert!(message(r#"{"error":"plain"}"#).ends_with("HTTP 400: plain"));
        assert!(message("oops").ends_with("HTTP 400: oops"));
        assert!(message("").ends_with("HTTP 400 without a word"));
        assert!(message("<!DOCTYPE html><p>x").ends_with("an HTML page"));
        assert!(message(&"x".repeat(10_000)).len() < 800);
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let wait = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            from_status(429, &headers, b"").retry_after()
        };
        let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(wait(&[("retry-after", "30")]), Some(Duration::from_secs(30)));
        assert_eq!(wait(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            wait(&[("retry-after-ms", "250"), ("retry-after", "1")]),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            wait(&[("retry-after", "Wed, 21 Oct 2015 07:28:45 GMT"), date]),
            Some(Duration::from_secs(45))
        );
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), date]), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:28:45 GMT")]), None);
        assert_eq!(wait(&[("retry-after", "soon"), date]), None);
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[]), None);
    }
}
