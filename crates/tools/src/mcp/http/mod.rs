//! The transport to a server that listens elsewhere: streamable HTTP. The protocol is rmcp's; here is what carries it, with a
//! bound on all that is read, without redirects, and without secrets in what it says of errors.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::backoff::pause_after;
use cairn_core::body::{self, Short};
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
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

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the end of a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest body that comes with an error.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// Longest look at whether a server speaks the old transport, and most bytes of its first event.
const OLD_SSE_TIMEOUT: Duration = Duration::from_secs(3);
const FIRST_EVENT_MAX: usize = 4 * 1024;

/// Streams opened within this time of one another are opened ever more slowly.
const STREAM_RUSH: Duration = Duration::from_secs(10);
const STREAM_PAUSE_MIN: Duration = Duration::from_millis(500);
const STREAM_PAUSE_MAX: Duration = Duration::from_secs(16);

/// Times that a stream is taken up again in a row.
const STREAM_RETRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// There is no connection: nothing was sent.
    #[error("it cannot be reached: {0}")]
    Unreached(String),
    /// The connection was lost before an answer came: what was sent may have arrived.
    #[error("the connection broke off before an answer came: {0}")]
    Lost(String),
    #[error("its answer broke off: {0}")]
    Broken(String),
    /// The answer is an error.
    #[error("it answers with HTTP {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    /// It wants a login that the daemon cannot do.
    #[error(
        "it asks for a login by OAuth (HTTP 401), which is not supported; where it takes a fixed token as well, set it as \
             `Authorization` in `headers_from_env` or `headers_from_file`"
    )]
    OAuth,
    #[error("it sent a message of more than {0} bytes")]
    TooLarge(usize),
    #[error("its answer is no valid JSON-RPC: {0}")]
    Invalid(String),
}

impl HttpError {
    pub(super) fn broken(error: reqwest::Error) -> Self {
        Self::Broken(causes(error))
    }

    /// No further request would fare better.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unreached(_) | Self::Lost(_) | Self::OAuth => true,
            // An error of the server's own may be that of one tool; one of a gateway says that nobody is there.
            Self::Status(status) => {
                matches!(status.as_u16(), 300..=399 | 401 | 403 | 404 | 410 | 502..=504)
            }
            Self::Broken(_) | Self::TooLarge(_) | Self::Invalid(_) => false,
        }
    }

    /// A server of the old transport answers the greeting so.
    pub(super) fn is_of_old_sse(&self) -> bool {
        matches!(self, Self::Status(status) if matches!(status.as_u16(), 400 | 404 | 405))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Unreached(_) => "unreached",
            Self::Lost(_) => "lost",
            Self::OAuth => "oauth",
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
        401 => "; look at the server's `headers`: a token is set there, a login by OAuth is not supported",
        403 => "; look at the server's `headers`",
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
        // A new session may be with another server: it restarts, with a look at its tools.
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
        let sent = request.send().await;
        let error = match sent {
            Ok(response) => return Ok(response),
            Err(error) if error.is_connect() || error.is_builder() => HttpError::Unreached(causes(error)),
            Err(error) => HttpError::Lost(causes(error)),
        };
        Err(StreamableHttpError::Client(error))
    }

    /// Waits when streams are opened in a rush: a server that closes each at once shall not keep the daemon busy.
    async fn hold_back(&self) {
        let pause = {
            let mut opened = self.opened.lock();
            let streak = match *opened {
                Some((at, streak)) if at.elapsed() < STREAM_RUSH => streak + 1,
                _ => 0,
            };
            let pause = match streak {
                0 => Duration::ZERO,
                streak => pause_after(streak, STREAM_PAUSE_MIN, STREAM_PAUSE_MAX),
            };
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
        if status == StatusCode::BAD_REQUEST && in_session {
            let body = read(response, ERROR_BODY_MAX.min(self.bytes_max)).await.unwrap_or_default();
            return match message_of_error(&body) {
                // Older libraries of servers say so of a session that they do not know, such as after a restart.
                _ if names_the_session(&body) => Err(StreamableHttpError::SessionExpired),
                Some(message) => Ok(StreamableHttpPostResponse::Json(message, None)),
                None => Err(StreamableHttpError::Client(HttpError::Status(status))),
            };
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
        // Without a stream there are answers to requests alone; whether those still come has to be found out.
        let response = self.send(request, custom_headers).await.inspect_err(|_error| self.wire.doubt())?;
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
    if status == StatusCode::UNAUTHORIZED && wants_oauth(&response) {
        return Err(HttpError::OAuth);
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

/// The message of a body that is the error of a request.
fn message_of_error(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    let message = serde_json::from_slice::<ServerJsonRpcMessage>(body).ok()?;
    matches!(&message, JsonRpcMessage::Error(error) if error.id.is_some()).then_some(message)
}

/// Whether an error is about the session, in whichever words: `No valid session ID provided`, `Unknown mcp-session-id`.
fn names_the_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).to_lowercase().contains("session")
}

/// Whether a refusal says where to log in: the metadata of a resource that is protected by OAuth.
fn wants_oauth(response: &Response) -> bool {
    let asked = response.headers().get_all(WWW_AUTHENTICATE).iter();
    asked.filter_map(|value| value.to_str().ok()).any(|value| value.contains("resource_metadata"))
}

/// Whether there is a server of the transport that streamable HTTP has replaced: its stream begins with the address that
/// messages go to.
pub(super) async fn speaks_old_sse(url: &str, headers: &BTreeMap<String, SecretString>) -> bool {
    let Ok(client) = client(headers) else { return false };
    let look = async {
        let request = client.get(url).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        let mut response = request.send().await.ok().filter(|response| response.status().is_success())?;
        if !is_kind(&response, EVENT_STREAM_MIME_TYPE) {
            return None;
        }
        let mut begin = Vec::new();
        while begin.len() < FIRST_EVENT_MAX && !begin.windows(2).any(|end| end == b"\n\n" || end == b"\n\r") {
            begin.extend_from_slice(&response.chunk().await.ok()??);
        }
        Some(String::from_utf8_lossy(&begin).lines().any(|line| line.trim_end() == "event: endpoint"))
    };
    tokio::time::timeout(OLD_SSE_TIMEOUT, look).await.ok().flatten().unwrap_or_default()
}

async fn read(response: Response, max: usize) -> Result<Vec<u8>, HttpError> {
    body::read_whole(response.bytes_stream(), max).await.map_err(|short| match short {
        Short::TooLarge => HttpError::TooLarge(max),
        Short::Broken(error) => HttpError::broken(error),
    })
}

#[cfg(test)]
mod tests;
