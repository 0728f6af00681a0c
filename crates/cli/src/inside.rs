//! What opens a state in this process, where no daemon runs. Who links this crate hands it in.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use cairn_config::{Loaded, StateDir};
use futures::future::BoxFuture;

use crate::failure::Failure;

/// A state that was opened for one command.
pub struct Opened {
    /// The calls that it answers.
    pub router: Router,
    /// Closes it, in order.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

pub trait Inside: Debug + Send + Sync {
    /// There is a state in that folder.
    fn is_there(&self, dir: &Path) -> bool;

    /// Opens the state to read in it.
    ///
    /// # Errors
    /// It is in use, damaged or unreadable.
    fn reading<'a>(
        &'a self,
        loaded: &'a Arc<Loaded>,
        state: &'a StateDir,
    ) -> BoxFuture<'a, Result<Opened, Failure>>;

    /// Starts a daemon inside this process, with the local platform alone.
    ///
    /// # Errors
    /// The state is in use, damaged or unreadable, or the configuration cannot be used.
    fn changing<'a>(
        &'a self,
        loaded: &'a Arc<Loaded>,
        state: &'a StateDir,
    ) -> BoxFuture<'a, Result<Opened, Failure>>;

    /// The calls of a state that does not exist yet; they create nothing.
    ///
    /// # Errors
    /// The configuration cannot be used.
    fn nothing(&self, loaded: &Arc<Loaded>, state: &StateDir) -> Result<Router, Failure>;
}
