//! Calls to the Bot API: teloxide's payloads, sent by our own client.
//!
//! teloxide's own client is not used: it sleeps ten seconds on every 5xx answer, drops the status and the error code,
//! and does not distinguish a connection that failed from one that broke after the request was sent.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use cairn_types::wire::body::{self, BodyError};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, DATE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use teloxide::requests::Payload;
use tokio::time::Instant;

use super::{API_URL, BadSettings, TelegramSettings, address};
use crate::fence::Fence;
use crate::multipart::Multipart;

/// Largest answer that is read, in bytes; a hundred updates take far less.
const ANSWER_MAX_BYTES: usize = 32 << 20;

/// Longest wait that Telegram may ask for at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call failed. No text contains the address, and so none contains the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The Bot API refused: nothing was done.
    #[error("Telegram says: {description} ({code})")]
    Api { code: i64, description: String, retry_after: Option<Duration>, migrate_to: Option<i64> },
    /// No connection: the request was not sent.
    #[error("no connection: {0}")]
    Connect(String),
    /// The request was sent, but no complete answer arrived.
    #[error("{0}")]
    Broken(String),
    /// The answer is not from a Bot API.
    #[error("an answer that is not the Bot API's (HTTP {status}): {what}")]
    Garbled { status: u16, what: String },
}

/// The envelope of every answer.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error_code: Option<i64>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

pub(super) struct Api {
    client: Client,
    base: Url,
    token: SecretString,
    fence: Fence,
    /// The server's time in its last answer, and when that arrived.
    server_clock: Mutex<Option<(Timestamp, Instant)>>,
}

impl Api {
    pub(super) fn new(settings: &TelegramSettings) -> Result<Self, BadSettings> {
        let token = settings.token.expose_secret();
        if token.is_empty() || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(BadSettings::Token);
        }
        let base = address(&settings.api_url)?;
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(Policy::none());
        if settings.api_url.trim_end_matches('/') != API_URL {
            // A proxy from the environment would see the token.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| BadSettings::Client(error.without_url().to_string()))?;
        let (token, fence) = (settings.token.clone(), settings.fence.clone());
        Ok(Self { client, base, token, fence, server_clock: Mutex::default() })
    }

    /// Calls a method and returns its raw result, which may have more than teloxide can read.
    pub(super) async fn call<P>(&self, payload: &P, timeout: Duration) -> Result<Value, CallError>
    where
        P: Payload + Serialize + Sync,
    {
        let raw = self.call_unread(payload, timeout).await?;
        serde_json::from_str(raw.get()).map_err(|_| {
            let what = "a result that is no valid JSON".to_owned();
            CallError::Garbled { status: StatusCode::OK.as_u16(), what }
        })
    }

    /// Calls a method and returns its result as text. Only the form of the JSON is checked: a string in it may have half of
    /// a surrogate pair, and a number may be too large, either of which makes a [`Value`] impossible.
    pub(super) async fn call_unread<P>(
        &self,
        payload: &P,
        timeout: Duration,
    ) -> Result<Box<RawValue>, CallError>
    where
        P: Payload + Serialize + Sync,
    {
        self.answer_to(self.post(P::NAME)?.timeout(timeout).json(payload)).await
    }

    /// Calls a method with a form that has files.
    pub(super) async fn call_form(
        &self,
        method: &'static str,
        form: Multipart,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let (content_type, body) = form.finish().await;
        let request = self.post(method)?.timeout(timeout).header(CONTENT_TYPE, content_type).body(body);
        let raw = self.answer_to(request).await?;
        serde_json::from_str(raw.get()).map_err(|_| {
            let what = "a result that is no valid JSON".to_owned();
            CallError::Garbled { status: StatusCode::OK.as_u16(), what }
        })
    }

    fn post(&self, method: &str) -> Result<RequestBuilder, CallError> {
        let token = self.token.expose_secret();
        let url = self.url(&[&format!("bot{token}"), method])?;
        self.fence.check().map_err(CallError::Connect)?;
        Ok(self.client.post(url))
    }

    async fn answer_to(&self, request: RequestBuilder) -> Result<Box<RawValue>, CallError> {
        let sent = request.send().await;
        let response = sent.map_err(|error| self.transport(error))?;
        self.note_time(&response);
        let status = response.status().as_u16();
        let body = self.read(response, ANSWER_MAX_BYTES).await?;
        let Ok(answer) = serde_json::from_str::<Answer>(&String::from_utf8_lossy(&body)) else {
            return Err(CallError::Garbled { status, what: looks_like(&body) });
        };
        if answer.ok {
            return Ok(answer.result.unwrap_or_default());
        }
        Err(CallError::Api {
            code: answer.error_code.unwrap_or(i64::from(status)),
            description: self.redact(answer.description.as_deref().unwrap_or("no reason given")),
            retry_after: answer
                .parameters
                .retry_after
                .map(|secs| Duration::from_secs(secs).min(LONGEST_WAIT)),
            migrate_to: answer.parameters.migrate_to_chat_id,
        })
    }

    fn note_time(&self, response: &Response) {
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        if let Some(at) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) {
            *self.server_clock.lock() = Some((at, Instant::now()));
        }
    }

    /// The server's current time, if it has sent one. Messages carry the server's time; this machine's clock may be
    /// wrong.
    pub(super) fn server_now(&self) -> Option<Timestamp> {
        let (at, heard) = (*self.server_clock.lock())?;
        at.checked_add(heard.elapsed()).ok()
    }

    /// Downloads a file by its path from `getFile`. `None`: it is longer than `max_bytes`.
    pub(super) async fn download(
        &self,
        path: &str,
        max_bytes: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let token = format!("bot{}", self.token.expose_secret());
        let segments: Vec<&str> = ["file", &token].into_iter().chain(path.split('/')).collect();
        let sent = self.client.get(self.url(&segments)?).timeout(timeout).send().await;
        let response = sent.map_err(|error| self.transport(error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(CallError::Garbled { status: status.as_u16(), what: "no file".to_owned() });
        }
        if response.content_length().is_some_and(|length| length > max_bytes as u64) {
            return Ok(None);
        }
        match self.read(response, max_bytes).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(CallError::Garbled { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn url(&self, segments: &[&str]) -> Result<Url, CallError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) => drop(path.pop_if_empty().extend(segments)),
            Err(()) => return Err(CallError::Connect("the server's address takes no path".to_owned())),
        }
        Ok(url)
    }

    /// Reads a body, up to a limit.
    async fn read(&self, response: Response, max_bytes: usize) -> Result<Vec<u8>, CallError> {
        let status = response.status().as_u16();
        body::read_whole(response.bytes_stream(), max_bytes).await.map_err(|short| match short {
            BodyError::TooLarge => {
                CallError::Garbled { status, what: format!("more than {max_bytes} bytes") }
            }
            BodyError::Broken(error) => self.transport(error),
        })
    }

    fn transport(&self, error: reqwest::Error) -> CallError {
        let never_left = error.is_connect() || error.is_builder();
        let timed_out = error.is_timeout();
        let error = error.without_url();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        let text = self.redact(&text);
        match (never_left, timed_out) {
            (true, _) => CallError::Connect(text),
            (false, true) => CallError::Broken("no answer in time".to_owned()),
            (false, false) => CallError::Broken(format!("the connection broke: {text}")),
        }
    }

    /// Removes the token from a text, as a precaution.
    fn redact(&self, text: &str) -> String {
        text.replace(self.token.expose_secret(), "<token>")
    }
}

/// Describes a body that is not an answer, without quoting it.
fn looks_like(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..512).unwrap_or(body)).to_ascii_lowercase();
    match text.trim_start() {
        "" => "nothing".to_owned(),
        text if text.starts_with('<') => "a page of HTML".to_owned(),
        _ => format!("{} bytes", body.len()),
    }
}
