//! The life of the daemon as a whole: whoever needs it restarted, or ended, says so here.

use std::sync::Arc;

use tokio::sync::Notify;

/// Has the daemon stopped in order and restarted within its process, for work that needs the store to itself.
/// Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RestartHandle {
    again: Arc<Notify>,
    hung: Arc<Notify>,
}

impl RestartHandle {
    /// Asks for it. Turns under way get their time first; asking twice is asking once.
    pub fn restart(&self) {
        self.again.notify_one();
    }

    /// Asks for the end of the process: something in it never comes back, and only a new one is rid of it.
    pub fn give_up(&self) {
        self.hung.notify_one();
    }

    /// Returns when that was asked for.
    pub(crate) async fn given_up(&self) {
        self.hung.notified().await;
    }

    /// Returns when a new beginning was asked for.
    pub(crate) async fn asked(&self) {
        self.again.notified().await;
    }
}
