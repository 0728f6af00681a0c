//! One connection to a server, and the calls over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cairn_core::tool::ToolOutput;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ClientResult,
    ErrorCode, ErrorData, JsonObject, PingRequest, RequestId, ServerNotification, ServerRequest,
    ServerResult,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, Service, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient};
use tokio_util::task::TaskTracker;

use super::http::HttpError;
use super::result::{self, Answer};
use super::status::McpError;
use super::stderr::Secrets;
use super::wire::{Cause, Wire};

/// Longest wait for the reason of an end that has come already.
const REASON_WAIT: Duration = Duration::from_secs(2);

/// Longest that a server's being told of a cancelled call may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for an answer to a ping.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Characters of what a server says of an error.
const WORDS_MAX: usize = 2_000;

pub(super) struct Link {
    pub server: String,
    pub peer: Peer<RoleClient>,
    /// How it stands with the connection.
    pub wire: Wire,
    /// The process, when the server is a child.
    pub pid: Option<u32>,
    pub calls: AtomicU32,
    /// Struck out of what the server says.
    pub secrets: Secrets,
    pub tasks: TaskTracker,
}

/// What became of a call over a link.
pub(super) enum Called {
    Ended(Result<ToolOutput, McpError>),
    /// The server did not take it: the session is over. It may be made again over another link.
    Expired,
    Lost {
        /// It may have reached the server, and been carried out.
        sent: bool,
        reason: String,
    },
}

impl Link {
    /// Counts what is under way, until the guard is dropped.
    pub(super) fn counted(&self) -> Counted<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }

    /// Calls a tool. When the future is dropped, and when the time is over, the server is told.
    pub(super) async fn call(self: &Arc<Self>, tool: &str, arguments: JsonObject, limit: Duration) -> Called {
        let _counted = self.counted();
        let mut told = Told { link: self.clone(), request: None };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let asked = async {
            let handle =
                self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
            told.request = Some(handle.id.clone());
            handle.rx.await.map_err(|_dropped| ServiceError::TransportClosed)?
        };
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            cause = self.wire.broken() => {
                told.request = None;
                return match cause.is_loss() {
                    true => Called::Lost { sent: true, reason: cause.reason },
                    false => Called::Ended(Err(self.broken(cause.reason))),
                };
            }
            () = tokio::time::sleep(limit) => {
                let secs = limit.as_secs();
                return Called::Ended(Err(McpError::TimedOut { server: self.server.clone(), secs }));
            }
        };
        told.request = None;
        match answer {
            Ok(answer) => Called::Ended(self.read(answer)),
            Err(error) => self.failed(error).await,
        }
    }

    fn read(&self, answer: ServerResult) -> Result<ToolOutput, McpError> {
        match result::read(answer) {
            Answer::Done(output) => Ok(output),
            Answer::Failed(words) => Err(McpError::Refused(self.secrets.strike(&words, usize::MAX))),
            Answer::Nothing(reason) => Err(self.broken(reason)),
        }
    }

    fn broken(&self, reason: impl Into<String>) -> McpError {
        McpError::Broken { server: self.server.clone(), reason: reason.into() }
    }

    async fn failed(&self, error: ServiceError) -> Called {
        if is_expired(&error) {
            self.wire.break_off(Cause::quiet("expired", "its session is over"));
            return Called::Expired;
        }
        if let ServiceError::McpError(error) = &error {
            return Called::Ended(Err(McpError::Refused(self.said(error))));
        }
        let was_cut = match http_error(&error) {
            Some(HttpError::Unreached(_)) => Some(false),
            Some(HttpError::Lost(_) | HttpError::Broken(_)) => Some(true),
            Some(_) => None,
            None => (!self.wire.has_trouble()).then_some(true),
        };
        let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        let reason = self.why(error).await;
        match was_cut.filter(|_| is_closed && self.wire.cause().is_none_or(|cause| cause.is_loss())) {
            Some(sent) => Called::Lost { sent, reason },
            None => Called::Ended(Err(self.broken(reason))),
        }
    }

    /// An error in the server's own words.
    fn said(&self, error: &ErrorData) -> String {
        let words = self.secrets.strike(&error.message, WORDS_MAX);
        format!("the server `{}` refuses the call: {words} (code {})", self.server, error.code.0)
    }

    /// Why something could not be asked, in words. What no further request would change ends the connection.
    pub(super) async fn why(&self, error: ServiceError) -> String {
        if let Some(error) = http_error(&error) {
            let words = error.to_string();
            if error.is_final() {
                self.wire.break_off(Cause::failure(error.kind(), words.clone()));
            }
            return words;
        }
        match error {
            ServiceError::McpError(error) => self.said(&error),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => self.why_closed().await,
            ServiceError::UnexpectedResponse => {
                "it answers with something else than was asked for".to_owned()
            }
            other => other.to_string(),
        }
    }

    async fn why_closed(&self) -> String {
        if let Some(trouble) = self.wire.take_trouble() {
            return trouble;
        }
        if !self.peer.is_transport_closed() && self.wire.cause().is_none() {
            return "its answer broke off".to_owned();
        }
        let cause = tokio::time::timeout(REASON_WAIT, self.wire.broken()).await;
        cause.map_or_else(|_elapsed| "the connection ended".to_owned(), |cause| cause.reason)
    }
}

impl Link {
    /// Asks whether the server is still there; one that is not ends the connection.
    pub(super) async fn probe(&self) {
        let ping = ClientRequest::PingRequest(PingRequest::default());
        match tokio::time::timeout(PROBE_TIMEOUT, self.peer.send_request(ping)).await {
            Ok(Err(error)) if is_expired(&error) => {
                self.wire.break_off(Cause::quiet("expired", "its session is over"));
            }
            Ok(Err(error)) => {
                let reason = self.why(error).await;
                tracing::debug!(server = self.server, reason, "a server does not answer a ping");
            }
            // An answer, or one that is late: calls will tell.
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}

/// The session of the request is over, which no other request would change.
pub(super) fn is_expired(error: &ServiceError) -> bool {
    matches!(streamable(error), Some(StreamableHttpError::SessionExpired))
}

fn http_error(error: &ServiceError) -> Option<&HttpError> {
    match streamable(error)? {
        StreamableHttpError::Client(error) => Some(error),
        _ => None,
    }
}

fn streamable(error: &ServiceError) -> Option<&StreamableHttpError<HttpError>> {
    match error {
        ServiceError::TransportSend(error) => error.error.downcast_ref(),
        _ => None,
    }
}

/// Counts a call while it is under way.
pub(super) struct Counted<'l>(&'l Link);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the server that nobody waits for the answer to a request any more, when it is dropped before there is one.
struct Told {
    link: Arc<Link>,
    request: Option<RequestId>,
}

impl Drop for Told {
    fn drop(&mut self) {
        let Some(id) = self.request.take() else { return };
        let link = self.link.clone();
        self.link.tasks.spawn(async move {
            let params =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
            let told = tokio::select! {
                told = link.peer.notify_cancelled(params) => told.is_ok(),
                _cause = link.wire.broken() => true,
                () = tokio::time::sleep(CANCEL_TIMEOUT) => false,
            };
            if !told {
                tracing::warn!(server = link.server, "a server could not be told that a call is cancelled");
            }
        });
    }
}

/// What a server may ask of us: to show that we are there.
pub(super) struct Host;

impl Service<RoleClient> for Host {
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
