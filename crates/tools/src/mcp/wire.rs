//! What both transports share: how a connection ends, and what of a server's messages is let in.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerNotification};
use rmcp::transport::Transport;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Messages that nobody asked for, such as notes of progress, that a server may send at once.
const UNASKED_MAX: f64 = 10_000.0;

/// So many more each second.
const UNASKED_PER_SECOND: f64 = 100.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub kind: &'static str,
    /// In words, for operators and models.
    pub reason: String,
    /// It is no failure: the server may be started again at once.
    pub quiet: bool,
    /// The last thing that a child said of itself. It is not logged.
    pub last_words: Option<String>,
}

impl Cause {
    pub(super) fn failure(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: false, last_words: None }
    }

    pub(super) fn quiet(kind: &'static str, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), quiet: true, last_words: None }
    }

    /// The connection was lost, or its session: with another one the server may be as well as before.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self.kind, "lost" | "unreached" | "closed" | "expired")
    }

    /// In words, with the last ones of the server.
    pub(super) fn in_full(&self) -> String {
        match &self.last_words {
            Some(words) => format!("{}; its last words: {words}", self.reason),
            None => self.reason.clone(),
        }
    }
}

/// State of a connection that everybody who has to do with it sees. Cloned, it is the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Wire(Arc<Inner>);

/// How often the server said that its tools are others, and up to where the list was read since.
#[derive(Debug, Clone, Copy, Default)]
struct Announced {
    said: u64,
    read: u64,
}

#[derive(Debug, Default)]
struct Inner {
    cause: OnceLock<Cause>,
    broken: CancellationToken,
    ended: CancellationToken,
    gone: CancellationToken,
    silent: CancellationToken,
    changed: Notify,
    doubted: Notify,
    list: watch::Sender<Announced>,
    trouble: Mutex<Option<String>>,
}

impl Wire {
    /// Ends the connection: calls under way fail with this cause. The first one counts.
    pub(super) fn break_off(&self, cause: Cause) {
        // A second cause changes nothing: what came first made the rest happen.
        let _already_broken = self.0.cause.set(cause);
        self.0.broken.cancel();
    }

    pub(super) async fn broken(&self) -> Cause {
        self.0.broken.cancelled().await;
        self.cause().unwrap_or_else(|| Cause::failure("closed", "the connection ended"))
    }

    /// Why it broke off; `None`: it did not.
    pub(super) fn cause(&self) -> Option<Cause> {
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

    /// The connection is nobody's any more: another one may be opened.
    pub(super) fn leave(&self) {
        self.0.gone.cancel();
    }

    /// Waits until another connection may be opened.
    pub(super) async fn left(&self) {
        self.0.gone.cancelled().await;
    }

    /// The standard error of a child was read to its end.
    pub(super) fn fall_silent(&self) {
        self.0.silent.cancel();
    }

    /// Waits until all that a child wrote to its standard error was read.
    pub(super) async fn silent(&self) {
        self.0.silent.cancelled().await;
    }

    /// Waits until the server says that its tools are others.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Something has failed beside the calls: whether the server is still there has to be found out.
    pub(super) fn doubt(&self) {
        self.0.doubted.notify_one();
    }

    pub(super) async fn doubted(&self) {
        self.0.doubted.notified().await;
    }

    /// How often it said so up to now: the list that is asked for from here on answers that.
    pub(super) fn announced(&self) -> u64 {
        self.0.list.borrow().said
    }

    /// The list was read, as an answer to so many announcements.
    pub(super) fn list_read(&self, said: u64) {
        self.0.list.send_modify(|list| list.read = list.read.max(said));
    }

    /// Waits until no announcement is unanswered: what is called then is what was looked at.
    pub(super) async fn list_is_fresh(&self) {
        let mut list = self.0.list.subscribe();
        // The sender is this.
        let _fresh = list.wait_for(|list| list.read >= list.said).await;
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

/// How many unasked messages a server may still send.
#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new() -> Self {
        Self { left: UNASKED_MAX, at: Instant::now() }
    }

    fn grant(&mut self) {
        self.left = (self.left + 1.0).min(UNASKED_MAX);
    }

    fn spend(&mut self) -> bool {
        self.left -= 1.0;
        if self.left < 0.0 {
            let now = Instant::now();
            self.left += now.duration_since(self.at).as_secs_f64() * UNASKED_PER_SECOND;
            self.left = self.left.min(UNASKED_MAX);
            self.at = now;
        }
        self.left >= 0.0
    }
}

/// A transport that lets in answers and requests, and of the notes only what they say about the list of tools.
pub(super) struct Guarded<T> {
    inner: T,
    wire: Wire,
    allowance: Allowance,
}

impl<T> Guarded<T> {
    /// Guards `inner`.
    pub(super) fn new(inner: T, wire: Wire) -> Self {
        Self { inner, wire, allowance: Allowance::new() }
    }

    fn let_in(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        if !self.allowance.spend() {
            self.wire.break_off(Cause::failure("flood", "it floods the daemon with messages"));
            return None;
        }
        let JsonRpcMessage::Notification(note) = &message else { return Some(message) };
        if matches!(note.notification, ServerNotification::ToolListChangedNotification(_)) {
            // Before anything that the server says later is seen.
            self.wire.0.list.send_modify(|list| list.said += 1);
            self.wire.0.changed.notify_one();
        }
        None
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        self.wire.end();
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if matches!(item, JsonRpcMessage::Request(_)) {
            self.allowance.grant();
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                _cause = self.wire.broken() => None,
                message = self.inner.receive() => message,
            };
            let Some(message) = message else {
                self.wire.end();
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
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unasked_messages_are_bounded_and_asked_ones_are_not() {
        let mut allowance = Allowance::new();
        assert!((0..10_000).all(|_| allowance.spend()), "a burst is fine");
        assert!(!allowance.spend(), "one too many");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!((0..190).all(|_| allowance.spend()), "some more after a while");
        for _ in 0..50_000 {
            allowance.grant();
            assert!(allowance.spend(), "each answer was asked for");
        }
    }

    #[tokio::test]
    async fn the_first_cause_counts() {
        let wire = Wire::default();
        wire.break_off(Cause::failure("flood", "first"));
        wire.break_off(Cause::quiet("closed", "second"));
        assert_eq!(wire.broken().await.reason, "first");
    }
}
