//! What a model server's refusal means: the typed error for a status, a body, or an error object in a stream.

mod retry;
mod said;
mod wording;

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use cairn_types::model::{ModelError, RefusalCause};
use cairn_types::wire::sse::ServerEvent;

use crate::remedy::Remedy;

use said::Said;
pub(crate) use said::error_in;

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
    let said = match crate::json::parse(body) {
        Ok(parsed) => Said::of(&parsed.value),
        Err(_) => Said::of_text(&String::from_utf8_lossy(body)),
    };
    let message = if said.message.is_empty() {
        format!("HTTP {status} without a word")
    } else {
        format!("HTTP {status}: {}", said.message)
    };
    let retry_after = retry::of_headers(headers).or(said.retry_after);
    refusal(status, message, &said, retry_after)
}

/// What an error in a successful answer means, if nothing came before it. `error` is the object itself, what holds it, or its
/// message.
pub(crate) fn of_object(error: &Value) -> ServerRefusal {
    let said = Said::of(error);
    let status = said.status.unwrap_or(match said.kind.as_str() {
        kind if kind.contains("rate_limit") || kind.contains("too_many_requests") => 429,
        kind if kind.contains("auth") || kind.contains("api_key") || kind.contains("permission") => 401,
        kind if kind.contains("request_too_large") => 413,
        kind if kind.contains("invalid_") || kind.contains("bad_request") => 400,
        kind if kind.contains("policy") || kind.contains("image") => 400,
        kind if kind.contains("not_found") => 404,
        kind if kind.contains("billing") => 402,
        kind if kind.contains("overload") || kind.contains("unavailable") || kind.contains("timeout") => 503,
        _ => 500,
    });
    let message =
        if said.message.is_empty() { "an error without a word".to_owned() } else { said.message.clone() };
    let mut refusal = refusal(status, message, &said, said.retry_after);
    // It is up, so to wait for it is no use: what it says may be of this request, or of what somebody must mend.
    if let (500, ModelError::Overloaded { message, retry_after: None }) = (status, &refusal.error) {
        refusal.error = ModelError::Failed(message.clone());
    }
    refusal
}

/// What an event of a stream means that tells an error. `None`: it is a piece of an answer.
pub(crate) fn of_event(event: &ServerEvent) -> Option<ServerRefusal> {
    let is_error = event.name == "error";
    match crate::json::parse(event.data.as_bytes()) {
        Ok(parsed) if is_error || error_in(&parsed.value).is_some() => Some(of_object(&parsed.value)),
        Err(_) if is_error => Some(of_object(&event.data.as_str().into())),
        Ok(_) | Err(_) => None,
    }
}

/// The error that an error object in a successful answer stands for.
pub(crate) fn from_object(error: &Value) -> ModelError {
    of_object(error).error
}

/// Whether words of a server say that roles must take turns. Requests do, so that the results of tools are what the chat
/// template does not take.
pub(crate) fn is_of_roles(said: &str) -> bool {
    wording::is_of_roles(&wording::plain(said))
}

/// Tells what is wrong with an answer that is no JSON without quoting it: its words do not belong in a log.
pub(crate) fn malformed(error: &serde_json::Error, data: &[u8]) -> ModelError {
    let n_bytes = data.len();
    if looks_like_html(&String::from_utf8_lossy(data)) {
        return ModelError::Protocol(format!("the answer is an HTML page; {CHECK_ADDRESS}"));
    }
    let problem = match error.classify() {
        serde_json::error::Category::Eof => "is cut off or empty",
        _ => "is not JSON",
    };
    ModelError::Protocol(format!("a chunk of {n_bytes} bytes {problem} (column {})", error.column()))
}

/// What to do where something else than a model answers.
pub(crate) const CHECK_ADDRESS: &str = "check `base_url`, which mostly ends in /v1";

fn refusal(status: u16, message: String, said: &Said, retry_after: Option<Duration>) -> ServerRefusal {
    let remedies = remedies(status, said);
    ServerRefusal { error: typed(status, message, said, retry_after), remedies }
}

fn remedies(status: u16, said: &Said) -> Vec<Remedy> {
    let of_streaming = said.param == "stream" || wording::is_no_streaming(&said.plain);
    let mut remedies = if is_overflow(status, said) {
        Vec::new()
    } else if said.param == "tool_choice" || wording::is_no_tool_choice(&said.plain) {
        vec![Remedy::NoToolChoice]
    } else if wording::is_short_ids(&said.plain) {
        vec![Remedy::ShortIds]
    } else if wording::is_one_call(&said.plain) {
        vec![Remedy::OneCall]
    } else if wording::is_other_limit(&said.plain) {
        vec![Remedy::OtherLimit]
    } else if wording::is_no_breakpoints(&said.param) || wording::is_no_breakpoints(&said.plain) {
        vec![Remedy::NoBreakpoints]
    } else if matches!(status, 400..=499 | 501) && of_streaming {
        vec![Remedy::NoStream]
    } else {
        wording::remedies_of(&said.plain)
    };
    // It may be the model that is not found: chat completions say so again.
    remedies.extend(matches!(status, 404 | 405).then_some(Remedy::Chat));
    remedies
}

/// Whether it is refused for its size. Where a status says something else, its words do not count.
fn is_overflow(status: u16, said: &Said) -> bool {
    match status {
        // Their words are the model's.
        _ if wording::is_bad_call(&said.kind) => false,
        413 => true,
        429 => wording::is_beyond_rate(&said.plain),
        401..=404 => false,
        _ => wording::is_overflow(&said.plain),
    }
}

fn typed(status: u16, message: String, said: &Said, retry_after: Option<Duration>) -> ModelError {
    let refused = |cause, message| ModelError::BadRequest { message, cause };
    match status {
        _ if is_overflow(status, said) => {
            let limit = said.limit().filter(|_| wording::is_overflow(&said.plain));
            ModelError::ContextOverflow { message, limit }
        }
        400 | 403 if wording::is_of_content(&said.plain) => refused(RefusalCause::Content, message),
        401 | 403 => ModelError::Auth(message),
        400 if wording::is_of_key(&said.plain) => ModelError::Auth(message),
        429 => ModelError::RateLimited { message, retry_after },
        _ if wording::is_no_tools(&said.plain) || wording::is_of_roles(&said.plain) => {
            ModelError::NoTools(message)
        }
        // Groq: the model wrote a call that cannot be read, and mostly writes another one when it is asked again. The words of
        // the model are in the refusal, so they are not told. https://console.groq.com/docs/tool-use
        _ if wording::is_bad_call(&said.kind) => ModelError::Protocol(format!(
            "the model wrote a tool call that its server cannot read (HTTP {status})"
        )),
        _ if said.kind.contains("throttl") => ModelError::RateLimited { message, retry_after },
        402 => refused(RefusalCause::Account, message),
        404 | 405 | 410 => refused(
            RefusalCause::Address,
            format!("{message}; check `model` and `base_url`, which mostly ends in /v1"),
        ),
        300..=399 => refused(
            RefusalCause::Address,
            format!(
                "{message}; redirects are not followed, so that no key leaks: set `base_url` to where it leads"
            ),
        ),
        408 | 500.. => ModelError::Overloaded { message, retry_after },
        _ => refused(cause(said), message),
    }
}

/// What a refusal is for, by the words of the server.
fn cause(said: &Said) -> RefusalCause {
    // What a field of the request says of its messages may be anything.
    let names_field = !said.param.is_empty()
        && !["messages", "input", "prompt"].iter().any(|whole| said.param.starts_with(whole));
    if wording::is_of_content(&said.plain) {
        RefusalCause::Content
    } else if wording::is_of_model(&said.plain) {
        RefusalCause::Address
    } else if wording::is_of_pictures(&said.plain) {
        RefusalCause::Picture
    } else if names_field || wording::is_of_field(&said.plain) {
        RefusalCause::Field
    } else {
        RefusalCause::Unknown
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

#[cfg(test)]
mod tests;
