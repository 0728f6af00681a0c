//! The current configuration: read by everything that depends on it, changed only by a reload.

use std::sync::Arc;

use tokio::sync::watch;

use super::Loaded;

/// The current configuration. Clones share it.
#[derive(Debug, Clone)]
pub struct Live(Arc<watch::Sender<Arc<Loaded>>>);

impl Live {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        Self(Arc::new(watch::Sender::new(loaded)))
    }

    /// The current configuration. Work in progress keeps the one that it started with.
    pub fn now(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.borrow())
    }

    pub fn changes(&self) -> watch::Receiver<Arc<Loaded>> {
        self.0.subscribe()
    }

    /// Replaces the configuration. Only for a reload, which tells the rest of the runtime.
    pub fn set(&self, loaded: Arc<Loaded>) {
        self.0.send_replace(loaded);
    }
}
