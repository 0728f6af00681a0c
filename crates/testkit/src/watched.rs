//! State that tests wait upon: whoever waits looks again with every change, so no test sleeps.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long waiting methods wait before they give up on a test that went wrong.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Watched<T> {
    state: Mutex<T>,
    changed: watch::Sender<u64>,
}

impl<T> Watched<T> {
    /// State that nobody has changed yet.
    pub fn new(state: T) -> Self {
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }

    /// The state, to look at; a change of it wakes nobody.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock()
    }

    /// Changes the state and wakes whoever waits for a change.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.state.lock());
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Rises with every change, for whoever looks on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until `find` finds something; it looks with every change. `more` says what else helps who reads that it
    /// found nothing.
    pub async fn wait<R>(
        &self,
        what: &str,
        find: impl Fn() -> Option<R>,
        more: impl FnOnce() -> String,
    ) -> R {
        let mut changed = self.changes();
        let waiting = async {
            loop {
                if let Some(found) = find() {
                    return found;
                }
                // The sender lives as long as the state.
                let _rang = changed.changed().await;
            }
        };
        let found = tokio::time::timeout(GIVE_UP_AFTER, waiting).await;
        found.unwrap_or_else(|_| panic!("waited {GIVE_UP_AFTER:?} without success for {what}; {}", more()))
    }
}

/// Listens at an address; port 0: a free one.
pub(crate) async fn listen(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).await;
    listener.unwrap_or_else(|error| panic!("cannot listen at {address}: {error}"))
}
