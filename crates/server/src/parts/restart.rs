//! Requests to restart or end the daemon as a whole.

use std::sync::Arc;

use tokio::sync::Notify;

/// Restarts the daemon in order within its process, for work that needs the store to itself.
/// Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RestartHandle {
    again: Arc<Notify>,
    drain: Arc<Notify>,
    hung: Arc<Notify>,
}

impl RestartHandle {
    /// Asks for it. Turns under way get a moment; asking twice is asking once.
    pub fn restart(&self) {
        self.again.notify_one();
    }

    /// Asks for a restart after which another node leads by the database that they share.
    pub fn drain(&self) {
        self.drain.notify_one();
    }

    /// Returns when that was asked for.
    pub async fn drained(&self) {
        self.drain.notified().await;
    }

    /// Ends the process: a part of it hangs, and only a new process can recover.
    pub fn give_up(&self) {
        self.hung.notify_one();
    }

    /// Returns when that was asked for.
    pub async fn given_up(&self) {
        self.hung.notified().await;
    }

    /// Returns when a restart was asked for.
    pub async fn asked(&self) {
        self.again.notified().await;
    }
}
