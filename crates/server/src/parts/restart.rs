//! Requests to restart or end the daemon as a whole.

use std::sync::Arc;

use tokio::sync::Notify;

/// Restarts the daemon within its process, for work that needs exclusive access to the store. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RestartHandle {
    again: Arc<Notify>,
    drain: Arc<Notify>,
    hung: Arc<Notify>,
}

impl RestartHandle {
    /// Requests a restart. Turns in progress get a moment. Repeated requests count once.
    pub fn restart(&self) {
        self.again.notify_one();
    }

    /// Requests a restart after which another node with the same database leads.
    pub fn drain(&self) {
        self.drain.notify_one();
    }

    /// Waits for a request by [`Self::drain`].
    pub async fn drained(&self) {
        self.drain.notified().await;
    }

    /// Requests the end of the process: a part of it hangs, and only a new process can recover.
    pub fn give_up(&self) {
        self.hung.notify_one();
    }

    /// Waits for a request by [`Self::give_up`].
    pub async fn given_up(&self) {
        self.hung.notified().await;
    }

    /// Waits for a request by [`Self::restart`].
    pub async fn asked(&self) {
        self.again.notified().await;
    }
}
