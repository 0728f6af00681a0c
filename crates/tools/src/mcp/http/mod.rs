//! The transport to a server that listens elsewhere: streamable HTTP. The protocol is rmcp's; here is what carries it, with a
//! bound on all that is read, without redirects, and without secrets in what it says of errors.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
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
use tokio::time::Instant;

use super::sse;
use super::wire::Wire;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the end of a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest body that comes with an error.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// Streams opened within this time of one another are opened ever more slowly.
const STREAM_RUSH: Duration = Duration::from_secs(10);

/// Times that a stream is taken up again in a row.
const STREAM_RETRIES: usize = 5;

/// What goes wrong with a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// No answer came.
    #[error("it cannot be reached: {0}")]
    Unreached(String),
    /// The answer broke off.
    #[error("its answer broke off: {0}")]
    Broken(String),
    /// The answer is an error.
    #[error("it answers with HTTP {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    /// One message is too large.
    #[error("it sent a message of more than {0} bytes")]
    TooLarge(usize),
    /// The answer is no message.
    #[error("its answer is no valid JSON-RPC: {0}")]
    Invalid(String),
}

impl HttpError {
    /// An answer that ended too soon.
    pub(super) fn broken(error: reqwest::Error) -> Self {
        Self::Broken(causes(error))
    }

    /// No further request would fare better.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unreached(_) => true,
            // An error of the server's own may be that of one tool; one of a gateway says that nobody is there.
            Self::Status(status) => {
                matches!(status.as_u16(), 300..=399 | 401 | 403 | 404 | 410 | 502..=504)
            }
            Self::Broken(_) | Self::TooLarge(_) | Self::Invalid(_) => false,
        }
    }

    /// For metrics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unreached(_) => "unreached",
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
        401 | 403 => "; look at the server's `headers`",
        404 | 405 | 410 => "; look at the server's `url`",
        _ => "",
    }
}

/// An error of reqwest with its causes, without the address: it may hold a key.
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

/// Carries requests to one server.
#[derive(Clone)]
pub(super) struct Carrier {
    client: Client,
    bytes_max: usize,
    wire: Wire,
    opened: Arc<Mutex<Option<(Instant, u32)>>>,
}

/// The transport to a server. Nothing is sent yet.
///
/// # Errors
/// The settings make no request.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, SecretString>,
    bytes_max: usize,
    wire: Wire,
) -> Result<StreamableHttpClientTransport<Carrier>, String> {
    let client = client(headers)?;
    let carrier = Carrier { client, bytes_max, wire, opened: Arc::default() };
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(STREAM_RETRIES);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(bytes_max)
        // A new session may be with another server: it begins anew, with a look at its tools.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(retries);
    Ok(StreamableHttpClientTransport::with_client(carrier, config))
}

/// What sends requests, with these headers in each.
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

impl Carrier {
    async fn send(
        &self,
        request: RequestBuilder,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<Response> {
        let request = request.headers(headers.into_iter().collect());
        request.send().await.map_err(|error| StreamableHttpError::Client(HttpError::Unreached(causes(error))))
    }

    /// Waits when streams are opened in a rush: a server that closes each at once shall not keep the daemon busy.
    async fn hold_back(&self) {
        let pause = {
            let mut opened = self.opened.lock();
            let streak = match *opened {
                Some((at, streak)) if at.elapsed() < STREAM_RUSH => (streak + 1).min(6),
                _ => 0,
            };
            let pause = if streak == 0 { Duration::ZERO } else { Duration::from_millis(250 << streak) };
            *opened = Some((Instant::now() + pause, streak));
            pause
        };
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

impl StreamableHttpClient for Carrier {
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
        let session =
            response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(String::from);
        let asks = matches!(message, JsonRpcMessage::Request(_));
        if status.is_success() && is_kind(&response, EVENT_STREAM_MIME_TYPE) {
            let events = sse::events(response, self.bytes_max, self.wire.clone());
            return Ok(StreamableHttpPostResponse::Sse(events, session));
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
        self.hold_back().await;
        let mut request = self.client.get(uri.as_ref()).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(session) = session_id {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        if let Some(id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let response = self.send(request, custom_headers).await?;
        let status = response.status();
        if status.is_client_error() || (status.is_success() && !is_kind(&response, EVENT_STREAM_MIME_TYPE)) {
            // Such a stream is an offer that few servers make; without it there are answers to requests alone.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(StreamableHttpError::Client(HttpError::Status(status)));
        }
        Ok(sse::events(response, self.bytes_max, self.wire.clone()))
    }
}

fn is_kind(response: &Response, kind: &str) -> bool {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// The message of an answer: also of one that is an error, where it says more than its status.
async fn answer(response: Response, bytes_max: usize) -> Result<ServerJsonRpcMessage, HttpError> {
    let status = response.status();
    if status.is_success() {
        let body = read(response, bytes_max).await?;
        return serde_json::from_slice(&body).map_err(|error| HttpError::Invalid(error.to_string()));
    }
    let may_say_why = is_kind(&response, JSON_MIME_TYPE) && !matches!(status.as_u16(), 401 | 403 | 429);
    if may_say_why
        && let Ok(body) = read(response, ERROR_BODY_MAX.min(bytes_max)).await
        && let Ok(message @ JsonRpcMessage::Error(_)) = serde_json::from_slice::<ServerJsonRpcMessage>(&body)
        && let JsonRpcMessage::Error(error) = &message
        && error.id.is_some()
    {
        return Ok(message);
    }
    Err(HttpError::Status(status))
}

/// A body, never more than `max` bytes of it.
async fn read(mut response: Response, max: usize) -> Result<Vec<u8>, HttpError> {
    if response.content_length().is_some_and(|length| length > max as u64) {
        return Err(HttpError::TooLarge(max));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpError::broken)? {
        if body.len() + chunk.len() > max {
            return Err(HttpError::TooLarge(max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests;
