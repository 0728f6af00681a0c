//! Watched tasks: the end of every background task is reported to a callback.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

#[derive(Debug)]
pub(crate) enum Ended<T> {
    Done(T),
    /// Its token was cancelled first.
    Cancelled,
    /// It panicked with this message, which must not be logged: it may quote what people wrote.
    Panicked(String),
}

#[derive(Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    root: CancellationToken,
}

impl Tasks {
    /// A token that is cancelled with the runtime.
    pub(crate) fn token(&self) -> CancellationToken {
        self.root.child_token()
    }

    /// Runs `work` until it ends, panics or `token` is cancelled, then calls `told`. The task inherits the caller's log
    /// span.
    pub(crate) fn watch<F, D>(&self, token: CancellationToken, work: F, told: D)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
        D: FnOnce(Ended<F::Output>) + Send + 'static,
    {
        let watched = async move {
            #[cfg(test)]
            let work = crate::tests::sim::chance::at_each_poll(work);
            let work = AssertUnwindSafe(work).catch_unwind();
            let ended = tokio::select! {
                biased;
                () = token.cancelled() => Ended::Cancelled,
                result = work => match result {
                    Ok(done) => Ended::Done(done),
                    Err(panic) => Ended::Panicked(panic_text(panic.as_ref())),
                },
            };
            told(ended);
        };
        self.tracker.spawn(watched.in_current_span());
    }

    /// Runs `work`, which has no result. A panic in it is logged under `name`.
    pub(crate) fn spawn<F>(&self, name: &'static str, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.watch(self.token(), work, move |ended| {
            if let Ended::Panicked(_) = ended {
                tracing::error!(task = name, "a background task panicked; please report it");
            }
        });
    }

    pub(crate) fn cancel(&self) {
        self.root.cancel();
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until all tasks have ended. Call it after [`Tasks::cancel`].
    pub(crate) async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Runs CPU-heavy work on a blocking thread.
///
/// # Errors
/// It panicked.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    #[cfg(test)]
    if crate::tests::sim::chance::is_drawn() {
        return tokio::spawn(async { work() }).await;
    }
    tokio::task::spawn_blocking(work).await
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without words".to_owned()
    }
}
