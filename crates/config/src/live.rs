//! The configuration as it is now: read by whoever decides by it, changed by a reload alone.

use std::sync::Arc;

use tokio::sync::watch;

use super::Loaded;

/// The configuration as it is now. Clones share it.
#[derive(Debug, Clone)]
pub struct Live(Arc<watch::Sender<Arc<Loaded>>>);

impl Live {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        Self(Arc::new(watch::Sender::new(loaded)))
    }

    /// As it is now. What is under way goes on by what it was given.
    pub fn now(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.borrow())
    }

    pub fn changes(&self) -> watch::Receiver<Arc<Loaded>> {
        self.0.subscribe()
    }

    /// Another one from here on. For a reload alone, which tells the rest of the runtime.
    pub fn set(&self, loaded: Arc<Loaded>) {
        self.0.send_replace(loaded);
    }
}
