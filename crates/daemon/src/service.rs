//! What a daemon does beside its work, as a service: it feeds the watchdog, keeps systemd's status line true, reloads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{Liveness, Runtime};
use cairn_store::{Store, StuckPart};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::reload::{Reloader, watch};
use crate::restart_handle::RestartHandle;
use crate::systemd::{self, Vital};
use crate::wiring::Daemon;

/// Pause after one of the tasks came to grief.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the store is asked whether something in it never comes back.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub struct Service {
    tasks: TaskTracker,
    end: CancellationToken,
    hangup: Arc<Notify>,
}

impl Service {
    /// Starts them for a daemon that is ready.
    pub fn start(daemon: &Daemon, restart_handle: &RestartHandle) -> Self {
        let service =
            Self { tasks: TaskTracker::new(), end: CancellationToken::new(), hangup: Arc::default() };
        let (runtime, adapters) = (daemon.runtime().clone(), daemon.adapters());
        let vital = Arc::new(Parts { runtime: runtime.clone(), store: daemon.store().clone() });
        let (store, restart_handle) = (daemon.store().clone(), restart_handle.clone());
        service.keep("store", move || Box::pin(give_up_when_stuck(store.clone(), restart_handle.clone())));
        service
            .keep("status", move || Box::pin(systemd::show_status(runtime.clone(), Arc::clone(&adapters))));
        if let Some(limit) = systemd::watchdog() {
            service.keep("watchdog", move || {
                let vital = Arc::clone(&vital);
                let feed = || systemd::tell(&[NotifyState::Watchdog]);
                Box::pin(async move { systemd::feed(&*vital, limit, feed).await })
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

    /// Has the configuration read again; the log tells what came of it.
    pub fn reload(&self) {
        self.hangup.notify_one();
    }

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

/// What a daemon needs to answer: its actors, and a journal that takes what they write.
struct Parts {
    runtime: Runtime,
    store: Store,
}

impl Vital for Parts {
    fn liveness(&self, patience: Duration) -> BoxFuture<'_, Liveness> {
        Box::pin(async move {
            let mut liveness = self.runtime.liveness(patience).await;
            if self.store.stuck().is_some_and(|stuck| stuck.part == StuckPart::Journal) {
                liveness.silent.push("journal".to_owned());
            }
            liveness
        })
    }
}

/// Has the process ended when a part of the store does not come back: the next one opens it again. Never returns.
async fn give_up_when_stuck(store: Store, restart_handle: RestartHandle) {
    let mut is_told = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(stuck) = store.stuck() else {
            is_told = false;
            continue;
        };
        if !std::mem::replace(&mut is_told, true) {
            tracing::error!(error = %stuck.error(), "a part of the store is stuck");
        }
        if stuck.is_given_up() {
            restart_handle.give_up();
        }
    }
}

async fn reload_on(hangup: Arc<Notify>, reloader: Arc<Reloader>) {
    loop {
        hangup.notified().await;
        // Told in the log, whichever way it went.
        drop(reloader.reload("SIGHUP").await);
    }
}
