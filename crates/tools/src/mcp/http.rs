//! The transport to a remote server: streamable HTTP. rmcp implements the protocol; this sends its requests, limits
//! everything that is read, follows no redirects, and keeps secrets out of errors.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairn_types::wire::body::{self, BodyError};
use cairn_types::wire::sse::{self, ServerEvent, SseBounds, SseFault};
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::Sse;

use super::connection::{ConnectionState, EndCause};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time to end a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest body of an error answer, in bytes.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// Pause before a stream is reopened, in case a server closes each at once.
const STREAM_PAUSE: Duration = Duration::from_secs(1);

/// Attempts in a row to resume a stream.
const STREAM_RETRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// No connection: nothing was sent.
    #[error("it cannot be reached: {0}")]
    Unreached(String),
    /// The connection was lost before an answer came; the request may have arrived.
    #[error("the connection broke off before an answer came: {0}")]
    Lost(String),
    #[error("its answer broke off: {0}")]
    Broken(String),
    /// The status of the answer is an error.
    #[error("it answers with HTTP {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    #[error("it sent a message of more than {0} bytes")]
    TooLarge(usize),
    #[error("its answer is no valid JSON-RPC: {0}")]
    Invalid(String),
}

impl HttpError {
    fn broken(error: reqwest::Error) -> Self {
        Self::Broken(causes(error))
    }

    /// Whether further requests would fail, too.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unreached(_) | Self::Lost(_) => true,
            // An error 500 may concern a single tool; a gateway's error means that the server is not there.
            Self::Status(status) => {
                matches!(status.as_u16(), 300..=399 | 401 | 403 | 404 | 410 | 502..=504)
            }
            Self::Broken(_) | Self::TooLarge(_) | Self::Invalid(_) => false,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unreached(_) => "unreached",
            Self::Lost(_) => "lost",
            Self::Broken(_) => "closed",
            Self::Status(_) => "status",
            Self::TooLarge(_) => "too_large",
            Self::Invalid(_) => "protocol",
        }
    }
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed: set `url` to where it leads",
        401 => {
            "; a login by OAuth is not supported; where it takes a fixed token as well, set it as `Authorization` in \
             `headers_from_env` or `headers_from_file`"
        }
        403 => "; look at the server's `headers`",
        404 | 405 | 410 => {
            "; look at the server's `url`: it is that of streamable HTTP, which often ends in /mcp; the older transport \
             HTTP+SSE is not supported"
        }
        _ => "",
    }
}

/// An error and its causes, without the address, which may contain a key.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

#[derive(Clone)]
pub(super) struct HttpClient {
    client: Client,
    bytes_max: usize,
    state: ConnectionState,
    /// Whether a stream was opened before.
    has_streamed: Arc<AtomicBool>,
}

/// The transport to a server. Nothing is sent yet.
///
/// # Errors
/// The settings are invalid: the name or value of a header.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, SecretString>,
    bytes_max: usize,
    state: ConnectionState,
) -> Result<StreamableHttpClientTransport<HttpClient>, String> {
    let client = HttpClient { client: client(headers)?, bytes_max, state, has_streamed: Arc::default() };
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(STREAM_RETRIES);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(bytes_max)
        // After a session expires the server may be another one: the connection is restarted and its tools are listed
        // again.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(retries);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The HTTP client, with these headers in each request.
fn client(headers: &BTreeMap<String, SecretString>) -> Result<Client, String> {
    let mut always = HeaderMap::new();
    for (name, value) in headers {
        let header: HeaderName =
            name.parse().map_err(|_error| format!("`{name}` in its `headers` is no name of a header"))?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_error| {
            format!("the value of its header `{name}` has characters that no header can have")
        })?;
        value.set_sensitive(true);
        always.insert(header, value);
    }
    Client::builder()
        .default_headers(always)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Duration::from_secs(30))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("cairn/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(causes)
}

type Outcome<T> = Result<T, StreamableHttpError<HttpError>>;

impl HttpClient {
    async fn send(
        &self,
        request: RequestBuilder,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<Response> {
        let request = request.headers(headers.into_iter().collect());
        let sent = request.send().await;
        let error = match sent {
            Ok(response) => return Ok(response),
            Err(error) if error.is_connect() || error.is_builder() => HttpError::Unreached(causes(error)),
            Err(error) => HttpError::Lost(causes(error)),
        };
        Err(StreamableHttpError::Client(error))
    }

    /// The events of an answer. The first error ends the stream. Its reason is kept in the connection's state, unless
    /// the connection itself broke.
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let (state, bytes_max) = (self.state.clone(), self.bytes_max);
        let bounds = SseBounds { event: bytes_max, stream: usize::MAX, plain_errors: false };
        let events = sse::events(response.bytes_stream(), bounds);
        let events = events.map(move |event| {
            checked_event(event, bytes_max).map_err(|error| {
                if !matches!(error, HttpError::Broken(_)) {
                    state.keep_trouble(error.to_string());
                }
                SseError::Body(Box::new(error))
            })
        });
        events.boxed()
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let mut request = self
            .client
            .post(uri.as_ref())
            .header(ACCEPT, "application/json, text/event-stream")
            .json(&message);
        let in_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let response = self.send(request, custom_headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status == StatusCode::BAD_REQUEST && in_session {
            let body = read(response, ERROR_BODY_MAX.min(self.bytes_max)).await.unwrap_or_default();
            return match message_of_error(&body) {
                // Older server libraries answer like this for an unknown session, for example after a restart.
                _ if names_the_session(&body) => Err(StreamableHttpError::SessionExpired),
                Some(message) => Ok(StreamableHttpPostResponse::Json(message, None)),
                None => Err(StreamableHttpError::Client(HttpError::Status(status))),
            };
        }
        let session =
            response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(String::from);
        let asks = matches!(message, JsonRpcMessage::Request(_));
        if status.is_success() && is_kind(&response, EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if status.is_success() && !asks {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        answer(response, self.bytes_max).await.map_or_else(
            |error| Err(StreamableHttpError::Client(error)),
            |message| Ok(StreamableHttpPostResponse::Json(message, session)),
        )
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<()> {
        let request = self
            .client
            .delete(uri.as_ref())
            .header(HEADER_SESSION_ID, session_id.as_ref())
            .timeout(DELETE_TIMEOUT);
        let status = self.send(request, custom_headers).await?.status();
        match status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            status => Err(StreamableHttpError::Client(HttpError::Status(status))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<BoxStream<'static, Result<Sse, SseError>>> {
        if self.has_streamed.swap(true, Ordering::Relaxed) {
            tokio::time::sleep(STREAM_PAUSE).await;
        }
        let mut request = self.client.get(uri.as_ref()).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        if let Some(id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let response = self.send(request, custom_headers).await.inspect_err(|error| {
            // The server is gone, even if no call is in progress.
            if let StreamableHttpError::Client(error @ HttpError::Unreached(_)) = error {
                self.state.break_off(EndCause::failure(error.kind(), error.to_string()));
            }
        })?;
        let status = response.status();
        if status.is_client_error() || (status.is_success() && !is_kind(&response, EVENT_STREAM_MIME_TYPE)) {
            // The stream is optional and few servers offer it; without it only answers to requests arrive.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(StreamableHttpError::Client(HttpError::Status(status)));
        }
        Ok(self.events(response))
    }
}

fn is_kind(response: &Response, kind: &str) -> bool {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// The message of an answer. An error answer may have a message, too, which says more than its status.
async fn answer(response: Response, bytes_max: usize) -> Result<ServerJsonRpcMessage, HttpError> {
    let status = response.status();
    if status.is_success() {
        let body = read(response, bytes_max).await?;
        return serde_json::from_slice(&body).map_err(|error| HttpError::Invalid(error.to_string()));
    }
    let may_say_why = is_kind(&response, JSON_MIME_TYPE) && !matches!(status.as_u16(), 401 | 403 | 429);
    if may_say_why
        && let Ok(body) = read(response, ERROR_BODY_MAX.min(bytes_max)).await
        && let Some(message) = message_of_error(&body)
    {
        return Ok(message);
    }
    Err(HttpError::Status(status))
}

/// The message in an error body, if it is the error of a request.
fn message_of_error(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    let message = serde_json::from_slice::<ServerJsonRpcMessage>(body).ok()?;
    matches!(&message, JsonRpcMessage::Error(error) if error.id.is_some()).then_some(message)
}

/// Whether an error mentions the session: `No valid session ID provided`, `Unknown mcp-session-id`.
fn names_the_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_lowercase().contains("session")
}

async fn read(response: Response, max: usize) -> Result<Vec<u8>, HttpError> {
    body::read_whole(response.bytes_stream(), max).await.map_err(|short| match short {
        BodyError::TooLarge => HttpError::TooLarge(max),
        BodyError::Broken(error) => HttpError::broken(error),
    })
}

fn checked_event(event: Result<ServerEvent, SseFault<reqwest::Error>>, max: usize) -> Result<Sse, HttpError> {
    let event = event.map_err(|fault| match fault {
        SseFault::Broken(error) => HttpError::broken(error),
        SseFault::EventTooLarge | SseFault::StreamTooLarge => HttpError::TooLarge(max),
        SseFault::NotUtf8 => HttpError::Invalid("it is not UTF-8".to_owned()),
    })?;
    let ServerEvent { name, data, id, retry } = event;
    let data = Some(data).filter(|data| !data.trim().is_empty());
    if let Some(data) = data.as_ref().filter(|_| matches!(name.as_str(), "" | "message")) {
        // The library skips data that it cannot read, and the call would wait until its timeout.
        let message = serde_json::from_str::<ServerJsonRpcMessage>(data);
        message.map_err(|error| HttpError::Invalid(error.to_string()))?;
    }
    Ok(Sse { event: Some(name).filter(|name| !name.is_empty()), data, id, retry })
}

#[cfg(test)]
mod tests;
