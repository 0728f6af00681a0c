//! A connection to a server, and the calls over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cairn_types::tool::ToolOutput;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ClientResult,
    ErrorCode, ErrorData, JsonObject, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, Service, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient};
use tokio_util::task::TaskTracker;

use super::child::Secrets;
use super::connection::{ConnectionState, EndCause};
use super::http::HttpError;
use super::result::{self, ResultError};
use super::status::McpError;

/// Longest wait for the reason of an end that has already happened.
const REASON_WAIT: Duration = Duration::from_secs(2);

/// Longest time to tell a server that a call is cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest error text of a server that is shown, in characters.
const WORDS_MAX: usize = 2_000;

pub(super) struct Connection {
    pub server: String,
    pub peer: Peer<RoleClient>,
    pub state: ConnectionState,
    /// The process id, if the server is a child.
    pub pid: Option<u32>,
    pub calls: AtomicU32,
    /// Removed from everything that the server says.
    pub secrets: Secrets,
    /// Whether files that it returns are sent to the chat.
    pub sends_files: bool,
    pub tasks: TaskTracker,
}

/// The result of a call over one connection.
pub(super) enum CallOutcome {
    Ended(Result<ToolOutput, McpError>),
    /// The connection or session was lost: the call may be repeated over another one.
    Lost {
        /// The call may have reached the server and been carried out.
        sent: bool,
        reason: String,
    },
}

impl Connection {
    /// Counts a call in progress until the guard is dropped.
    pub(super) fn counted(&self) -> CountedCall<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        CountedCall(self)
    }

    /// Calls a tool. On timeout, or if the future is dropped, the server is told that the call is cancelled.
    pub(super) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: JsonObject,
        limit: Duration,
    ) -> CallOutcome {
        let _counted = self.counted();
        let mut cancel = CancelOnDrop { connection: self.clone(), request: None };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let asked = async {
            let handle =
                self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
            cancel.request = Some(handle.id.clone());
            handle.rx.await.map_err(|_dropped| ServiceError::TransportClosed)?
        };
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            cause = self.state.broken() => {
                cancel.request = None;
                return match cause.is_loss() {
                    true => CallOutcome::Lost { sent: true, reason: cause.reason },
                    false => CallOutcome::Ended(Err(self.broken(cause.reason))),
                };
            }
            () = tokio::time::sleep(limit) => {
                let secs = limit.as_secs();
                return CallOutcome::Ended(Err(McpError::TimedOut { server: self.server.clone(), secs }));
            }
        };
        cancel.request = None;
        match answer {
            Ok(answer) => {
                // It may hold megabytes in base64.
                let secrets = self.secrets.clone();
                let read = tokio::task::spawn_blocking(move || result::read(answer, &secrets)).await;
                let mut read = read.unwrap_or(Err(ResultError::NoResult("its result cannot be read")));
                for file in read.iter_mut().flat_map(|output| &mut output.files) {
                    file.is_sent = self.sends_files;
                }
                CallOutcome::Ended(read.map_err(|error| match error {
                    ResultError::Tool(words) => McpError::Refused(self.secrets.strike(&words, usize::MAX)),
                    ResultError::NoResult(reason) => self.broken(reason),
                }))
            }
            Err(error) => self.failed(error).await,
        }
    }

    fn broken(&self, reason: impl Into<String>) -> McpError {
        McpError::Broken { server: self.server.clone(), reason: reason.into() }
    }

    async fn failed(&self, error: ServiceError) -> CallOutcome {
        let was_sent = match streamable_error(&error) {
            Some(
                StreamableHttpError::SessionExpired | StreamableHttpError::Client(HttpError::Unreached(_)),
            ) => Some(false),
            Some(StreamableHttpError::Client(HttpError::Lost(_) | HttpError::Broken(_))) => Some(true),
            Some(StreamableHttpError::Client(_)) => None,
            _ => (!self.state.has_trouble()).then_some(true),
        };
        let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        if let ServiceError::McpError(error) = &error {
            return CallOutcome::Ended(Err(McpError::Refused(self.refusal(error))));
        }
        let reason = self.explain(error).await;
        match was_sent.filter(|_| is_closed && self.state.cause().is_none_or(|cause| cause.is_loss())) {
            Some(sent) => CallOutcome::Lost { sent, reason },
            None => CallOutcome::Ended(Err(self.broken(reason))),
        }
    }

    /// The server's error as text.
    fn refusal(&self, error: &ErrorData) -> String {
        let words = self.secrets.strike(&error.message, WORDS_MAX);
        format!("the server `{}` refuses the call: {words} (code {})", self.server, error.code.0)
    }

    /// The reason why a request failed. An error that no further request can avoid ends the connection.
    pub(super) async fn explain(&self, error: ServiceError) -> String {
        match streamable_error(&error) {
            Some(StreamableHttpError::SessionExpired) => {
                let reason = "its session is over";
                self.state.break_off(EndCause::quiet("expired", reason));
                return reason.to_owned();
            }
            Some(StreamableHttpError::Client(error)) => {
                let words = error.to_string();
                if error.is_final() {
                    self.state.break_off(EndCause::failure(error.kind(), words.clone()));
                }
                return words;
            }
            _ => {}
        }
        match error {
            ServiceError::McpError(error) => self.refusal(&error),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => self.explain_end().await,
            ServiceError::UnexpectedResponse => {
                "it answers with something else than was asked for".to_owned()
            }
            other => other.to_string(),
        }
    }

    async fn explain_end(&self) -> String {
        if let Some(trouble) = self.state.take_trouble() {
            return trouble;
        }
        if !self.peer.is_transport_closed() && self.state.cause().is_none() {
            return "its answer broke off".to_owned();
        }
        let cause = tokio::time::timeout(REASON_WAIT, self.state.broken()).await;
        cause.map_or_else(|_elapsed| "the connection ended".to_owned(), |cause| cause.reason)
    }
}

fn streamable_error(error: &ServiceError) -> Option<&StreamableHttpError<HttpError>> {
    match error {
        ServiceError::TransportSend(error) => error.error.downcast_ref(),
        _ => None,
    }
}

/// Counts a call in progress.
pub(super) struct CountedCall<'c>(&'c Connection);

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the server that a request is cancelled, if it is dropped before its answer arrives.
struct CancelOnDrop {
    connection: Arc<Connection>,
    request: Option<RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.request.take() else { return };
        let connection = self.connection.clone();
        self.connection.tasks.spawn(async move {
            let params =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
            let was_told = tokio::select! {
                sent = connection.peer.notify_cancelled(params) => sent.is_ok(),
                _cause = connection.state.broken() => true,
                () = tokio::time::sleep(CANCEL_TIMEOUT) => false,
            };
            if !was_told {
                let server = &connection.server;
                tracing::warn!(server, "a tool server could not be told that a call was cancelled");
            }
        });
    }
}

/// Answers the server's requests; only ping is supported.
pub(super) struct ClientService;

impl Service<RoleClient> for ClientService {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client does not do that", None)),
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> rmcp::model::ClientConfig {
        let own = rmcp::model::Implementation::new("cairn", env!("CARGO_PKG_VERSION"));
        rmcp::model::ClientConfig::new(rmcp::model::ClientCapabilities::default(), own)
    }
}
