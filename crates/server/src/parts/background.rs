//! A background task, which runs until it is stopped.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Background {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Background {
    pub fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let stop = CancellationToken::new();
        let until_stopped = stop.clone().run_until_cancelled_owned(work);
        let task = tokio::spawn(async move {
            until_stopped.await;
        });
        Self { task, stop }
    }

    /// Cancels the task at its next await, and returns when it has ended.
    pub async fn stop(self) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::error!("a background task panicked; please report it");
        }
    }
}
