//! Whether this process may talk to chat networks at the moment.

use std::fmt;
use std::sync::Arc;

/// Checked before each request to a chat network. Open by default.
#[derive(Clone)]
pub struct Fence(Arc<dyn Fn() -> bool + Send + Sync>);

impl Fence {
    /// `is_open` must return at once.
    pub fn new(is_open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_open))
    }

    /// # Errors
    /// The fence is closed; the text says why nothing is sent.
    pub(crate) fn check(&self) -> Result<(), String> {
        if (self.0)() { Ok(()) } else { Err("this node no longer leads".to_owned()) }
    }
}

impl Default for Fence {
    fn default() -> Self {
        Self::new(|| true)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.check()).finish()
    }
}
