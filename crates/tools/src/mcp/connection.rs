//! How a connection ends, and what of a server's messages is let in, over either transport.

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

/// Messages that a server may send at once.
const MESSAGES_MAX: f64 = 10_000.0;

/// So many more each second.
const MESSAGES_PER_SECOND: f64 = 100.0;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndCause {
    pub kind: &'static str,
    /// In words, for operators and models.
    pub reason: String,
    /// It is no failure: the server may be started again at once.
    pub quiet: bool,
}

impl EndCause {
    pub(super) fn failure(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: false }
    }

    pub(super) fn quiet(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: true }
    }

    /// The connection was lost, or its session: with another one the server may be as well as before.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self.kind, "lost" | "unreached" | "closed" | "expired")
    }
}

/// State of a connection that everybody who has to do with it sees. Cloned, it is the same.
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

/// How often the server said that its tools have changed, and the version that was read last.
#[derive(Debug, Clone, Copy, Default)]
struct ToolListVersion {
    announced: u64,
    read: u64,
}

impl ConnectionState {
    /// Ends the connection: calls under way fail with this cause. The first one counts.
    pub(super) fn break_off(&self, cause: EndCause) {
        // A second cause changes nothing: what came first made the rest happen.
        let _already_broken = self.0.cause.set(cause);
        self.0.broken.cancel();
    }

    pub(super) async fn broken(&self) -> EndCause {
        self.0.broken.cancelled().await;
        self.cause().unwrap_or_else(|| EndCause::failure("closed", "the connection ended"))
    }

    /// Why it broke off; `None`: it did not.
    pub(super) fn cause(&self) -> Option<EndCause> {
        self.0.cause.get().cloned()
    }

    /// The server sends no more, for a reason that is to be found out.
    pub(super) fn end(&self) {
        self.0.ended.cancel();
    }

    /// Waits until the server sends no more.
    pub(super) async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Another connection may be opened from here on.
    pub(super) fn release(&self) {
        self.0.released.cancel();
    }

    /// Waits until another connection may be opened.
    pub(super) async fn released(&self) {
        self.0.released.cancelled().await;
    }

    /// Waits until the server says that its tools have changed, and gives the version that is to be read.
    pub(super) async fn tools_changed(&self) -> u64 {
        let mut list = self.0.list.subscribe();
        // The sender is this.
        let changed = list.wait_for(|list| list.read < list.announced).await;
        changed.map_or(0, |list| list.announced)
    }

    /// The list of tools was read after it had been announced as this version.
    pub(super) fn tools_read(&self, version: u64) {
        self.0.list.send_modify(|list| list.read = list.read.max(version));
    }

    /// Waits until the list of tools is read as it was announced last: what is called then is what was looked at.
    pub(super) async fn tools_are_current(&self) {
        let mut list = self.0.list.subscribe();
        // The sender is this.
        let _current = list.wait_for(|list| list.read >= list.announced).await;
    }

    /// Keeps what went wrong with one answer, for the call that will hear only that it broke off.
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

/// How many messages a server may still send.
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

/// A transport that lets in answers and requests, and of the notifications only that the list of tools has changed.
pub(super) struct Guarded<T> {
    inner: T,
    state: ConnectionState,
    allowance: Allowance,
    /// Of a child: the longest that it may take to read a message.
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
            // Before anything that the server says later is seen.
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
