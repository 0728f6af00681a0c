//! The end of a connection, and the filter for a server's messages, for both transports.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::Transport;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Most messages that a server may send in a burst.
const MESSAGES_MAX: f64 = 10_000.0;

/// Messages per second that a server may send over time.
const MESSAGES_PER_SECOND: f64 = 100.0;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndCause {
    pub kind: &'static str,
    /// The reason, as text for operators and models.
    pub reason: String,
    /// Not a failure: the server may be restarted at once.
    pub quiet: bool,
}

impl EndCause {
    pub(super) fn failure(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: false }
    }

    pub(super) fn quiet(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: true }
    }

    /// Whether the connection or its session was lost, so that a new connection may work.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self.kind, "lost" | "unreached" | "closed" | "expired")
    }
}

/// The state of a connection, shared by everything that uses it. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionState(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cause: OnceLock<EndCause>,
    broken: CancellationToken,
    ended: CancellationToken,
    released: CancellationToken,
    list: watch::Sender<ToolListVersion>,
    trouble: Mutex<Option<String>>,
}

/// How often the server announced changed tools, and the last announcement whose list was read.
#[derive(Debug, Clone, Copy, Default)]
struct ToolListVersion {
    announced: u64,
    read: u64,
}

impl ConnectionState {
    /// Ends the connection. Calls in progress fail with this cause. Only the first cause is kept.
    pub(super) fn break_off(&self, cause: EndCause) {
        // A later cause is usually a result of the first.
        let _already_broken = self.0.cause.set(cause);
        self.0.broken.cancel();
    }

    pub(super) async fn broken(&self) -> EndCause {
        self.0.broken.cancelled().await;
        self.cause().unwrap_or_else(|| EndCause::failure("closed", "the connection ended"))
    }

    /// Why the connection was ended; `None`: it was not.
    pub(super) fn cause(&self) -> Option<EndCause> {
        self.0.cause.get().cloned()
    }

    /// Records that the server sends no more; the reason is not known yet.
    pub(super) fn end(&self) {
        self.0.ended.cancel();
    }

    /// Waits until the server sends no more.
    pub(super) async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Allows another connection to be opened.
    pub(super) fn release(&self) {
        self.0.released.cancel();
    }

    /// Waits until another connection may be opened.
    pub(super) async fn released(&self) {
        self.0.released.cancelled().await;
    }

    /// Waits until the server announces changed tools. Returns the announcement's number.
    pub(super) async fn tools_changed(&self) -> u64 {
        let mut list = self.0.list.subscribe();
        // The sender lives in this state, so this cannot fail.
        let changed = list.wait_for(|list| list.read < list.announced).await;
        changed.map_or(0, |list| list.announced)
    }

    /// Records that the list of tools was read after this announcement.
    pub(super) fn tools_read(&self, version: u64) {
        self.0.list.send_modify(|list| list.read = list.read.max(version));
    }

    /// Waits until the list of tools is read after the last announcement, so that calls are checked against the current
    /// list.
    pub(super) async fn tools_are_current(&self) {
        let mut list = self.0.list.subscribe();
        // The sender lives in this state, so this cannot fail.
        let _current = list.wait_for(|list| list.read >= list.announced).await;
    }

    /// Keeps the reason why an answer was rejected, since its call only learns that the stream ended.
    pub(super) fn keep_trouble(&self, reason: String) {
        *self.0.trouble.lock() = Some(reason);
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.0.trouble.lock().is_some()
    }

    pub(super) fn take_trouble(&self) -> Option<String> {
        self.0.trouble.lock().take()
    }
}

/// The rate limit for a server's messages.
#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new() -> Self {
        Self { left: MESSAGES_MAX, at: Instant::now() }
    }

    fn spend(&mut self) -> bool {
        let now = Instant::now();
        let earned = now.duration_since(self.at).as_secs_f64() * MESSAGES_PER_SECOND;
        *self = Self { left: (self.left + earned).min(MESSAGES_MAX) - 1.0, at: now };
        self.left >= 0.0
    }
}

/// A transport that passes answers and requests. Of the notifications only the announcement of changed tools has an
/// effect.
pub(super) struct Guarded<T> {
    inner: T,
    state: ConnectionState,
    allowance: Allowance,
    /// For a child: the longest time for it to read one message.
    write_limit: Option<Duration>,
}

impl<T> Guarded<T> {
    pub(super) fn new(inner: T, state: ConnectionState, write_limit: Option<Duration>) -> Self {
        Self { inner, state, allowance: Allowance::new(), write_limit }
    }

    fn let_in(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        if !self.allowance.spend() {
            self.state.break_off(EndCause::failure("flood", "it floods the daemon with messages"));
            return None;
        }
        let JsonRpcMessage::Notification(note) = &message else { return Some(message) };
        if matches!(note.notification, ServerNotification::ToolListChangedNotification(_)) {
            // Before any later message of the server is seen.
            self.state.0.list.send_modify(|list| list.announced += 1);
        }
        None
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        self.state.end();
    }
}

impl<T> Transport<RoleClient> for Guarded<T>
where
    T: Transport<RoleClient>,
    T::Error: From<io::Error>,
{
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sending = self.inner.send(item);
        let (state, limit) = (self.state.clone(), self.write_limit);
        async move {
            let Some(limit) = limit else { return sending.await };
            let sent = tokio::select! {
                biased;
                _cause = state.broken() => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
                sent = tokio::time::timeout(limit, sending) => sent,
            };
            match sent {
                Ok(sent) => sent.inspect_err(|_closed| state.end()),
                Err(_elapsed) => {
                    state.break_off(EndCause::failure("stuck", "it does not read what it is sent"));
                    Err(io::Error::from(io::ErrorKind::TimedOut).into())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                _cause = self.state.broken() => None,
                message = self.inner.receive() => message,
            };
            let Some(message) = message else {
                self.state.end();
                return None;
            };
            if let Some(message) = self.let_in(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_are_bounded() {
        let mut allowance = Allowance::new();
        assert!((0..10_000).all(|_| allowance.spend()), "a burst is fine");
        assert!(!allowance.spend(), "one too many");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!((0..190).all(|_| allowance.spend()), "some more after a while");
    }

    #[tokio::test]
    async fn the_first_cause_counts() {
        let state = ConnectionState::default();
        state.break_off(EndCause::failure("flood", "first"));
        state.break_off(EndCause::quiet("closed", "second"));
        assert_eq!(state.broken().await.reason, "first");
    }
}
