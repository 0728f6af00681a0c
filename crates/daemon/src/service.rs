//! What a daemon does beside its work, as a service: it feeds the watchdog, keeps systemd's status line true, reloads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::reload::{Reloader, watch};
use crate::systemd;
use crate::wiring::Daemon;

/// Pause after one of the tasks came to grief.
const PAUSE: Duration = Duration::from_secs(1);

/// The tasks of a service.
pub struct Service {
    tasks: TaskTracker,
    end: CancellationToken,
    hangup: Arc<Notify>,
}

impl Service {
    /// Starts them for a daemon that is ready.
    pub fn start(daemon: &Daemon) -> Self {
        let service =
            Self { tasks: TaskTracker::new(), end: CancellationToken::new(), hangup: Arc::default() };
        let (house, adapters) = (daemon.house().clone(), daemon.adapters());
        let vital = house.clone();
        service.keep("status", move || Box::pin(systemd::show_status(house.clone(), Arc::clone(&adapters))));
        if let Some(limit) = systemd::watchdog() {
            service.keep("watchdog", move || {
                let vital = vital.clone();
                let feed = || systemd::tell(&[NotifyState::Watchdog]);
                Box::pin(async move { systemd::feed(&vital, limit, feed).await })
            });
        }
        if let Some(reloader) = daemon.reloader() {
            let (hangup, hung_up) = (Arc::clone(&service.hangup), Arc::clone(&reloader));
            service.keep("reload", move || Box::pin(reload_on(Arc::clone(&hangup), Arc::clone(&hung_up))));
            service.keep("watch", move || Box::pin(watch::watch(Arc::clone(&reloader))));
        }
        service.tasks.close();
        service
    }

    /// Has the configuration read anew; the log tells what came of it.
    pub fn reload(&self) {
        self.hangup.notify_one();
    }

    /// Ends them.
    pub async fn stop(self) {
        self.end.cancel();
        self.tasks.wait().await;
    }

    /// Keeps a task going: one that panics is begun again after a pause.
    fn keep(&self, name: &'static str, work: impl Fn() -> BoxFuture<'static, ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(end.run_until_cancelled_owned(async move {
            while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
                tracing::error!(
                    task = name,
                    "a task of the service panicked and begins again; please report it"
                );
                metrics::counter!("cairn_actor_restarts_total", "actor" => name).increment(1);
                tokio::time::sleep(PAUSE).await;
            }
        }));
    }
}

async fn reload_on(hangup: Arc<Notify>, reloader: Arc<Reloader>) {
    loop {
        hangup.notified().await;
        // Told in the log, whichever way it went.
        drop(reloader.reload("SIGHUP").await);
    }
}
