//! The service tasks of a daemon: feeds the watchdog, updates systemd's status line, reloads, and restarts for
//! erasures.

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

use crate::wiring::Daemon;
use cairn_server::parts::restart::RestartHandle;
use cairn_server::parts::systemd;
use cairn_server::reload::{Reloader, watch};

/// Pause before a task that panicked is restarted.
const PAUSE: Duration = Duration::from_secs(1);

/// Time between two checks for a stuck store.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time between two checks for a moment without turns.
const TURNS_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Service {
    tasks: TaskTracker,
    end: CancellationToken,
    hangup: Arc<Notify>,
}

impl Service {
    /// Starts the tasks for a daemon that is ready.
    pub(crate) fn start(daemon: &Daemon, restart_handle: &RestartHandle) -> Self {
        let service =
            Self { tasks: TaskTracker::new(), end: CancellationToken::new(), hangup: Arc::default() };
        let (runtime, adapters) = (daemon.runtime().clone(), daemon.adapters());
        let (store, on_stuck) = (daemon.store().clone(), restart_handle.clone());
        service.keep("store", move || Box::pin(give_up_when_stuck(store.clone(), on_stuck.clone())));
        let erase = Erasures {
            runtime: daemon.runtime().clone(),
            store: daemon.store().clone(),
            restart_handle: restart_handle.clone(),
            patience: daemon.grace(),
        };
        service.keep("erasure", move || Box::pin(erase.clone().carry_out()));
        service
            .keep("status", move || Box::pin(systemd::show_status(runtime.clone(), Arc::clone(&adapters))));
        if let Some(limit) = systemd::watchdog() {
            let (runtime, store) = (daemon.runtime().clone(), daemon.store().clone());
            service.keep("watchdog", move || {
                let (runtime, store) = (runtime.clone(), store.clone());
                let ask = move |limit| answering(runtime.clone(), store.clone(), limit);
                let feed = || systemd::tell(&[NotifyState::Watchdog]);
                Box::pin(systemd::feed(ask, limit, feed))
            });
        }
        if let Some(reloader) = daemon.reloader() {
            let (hangup, on_hangup) = (Arc::clone(&service.hangup), Arc::clone(&reloader));
            service.keep("reload", move || Box::pin(reload_on(Arc::clone(&hangup), Arc::clone(&on_hangup))));
            service.keep("watch", move || Box::pin(watch::watch(Arc::clone(&reloader))));
        }
        service.tasks.close();
        service
    }

    /// Requests a reload; its result is logged.
    pub(crate) fn reload(&self) {
        self.hangup.notify_one();
    }

    pub(crate) async fn stop(self) {
        self.end.cancel();
        self.tasks.wait().await;
    }

    /// Runs a task, and restarts it after a panic.
    fn keep(&self, name: &'static str, work: impl Fn() -> BoxFuture<'static, ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(end.run_until_cancelled_owned(async move {
            while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
                tracing::error!(task = name, "a task of the service panicked and restarts; please report it");
                metrics::counter!("cairn_actor_restarts_total", "actor" => name).increment(1);
                tokio::time::sleep(PAUSE).await;
            }
        }));
    }
}

/// Restarts the daemon for each requested erasure, once it is prepared and no turn is in progress.
#[derive(Clone)]
struct Erasures {
    runtime: Runtime,
    store: Store,
    restart_handle: RestartHandle,
    /// Longest wait for a moment without turns.
    patience: Duration,
}

impl Erasures {
    async fn carry_out(self) {
        loop {
            self.store.erasure_asked().await;
            match self.store.prepare_erasure().await {
                Ok(()) => {}
                // The next start carries it out.
                Err(_) if self.store.is_ending() => return,
                Err(error) => {
                    tracing::warn!(%error,
                        "the erasure could not be prepared; it runs while the daemon restarts, which takes \
                         longer");
                }
            }
            let is_quiet = async {
                while self.runtime.health().turns > 0 {
                    tokio::time::sleep(TURNS_EVERY).await;
                }
            };
            if tokio::time::timeout(self.patience, is_quiet).await.is_err() {
                tracing::info!(
                    "there are always turns running; the interrupted ones are resumed after the restart"
                );
            }
            self.restart_handle.restart();
        }
    }
}

/// Whether the actors answer and the journal is not stuck.
async fn answering(runtime: Runtime, store: Store, limit: Duration) -> Liveness {
    let mut liveness = runtime.liveness(limit).await;
    if store.stuck().is_some_and(|stuck| stuck.part == StuckPart::Journal) {
        liveness.silent.push("journal".to_owned());
    }
    liveness
}

/// Ends the process if a part of the store hangs; the next process reopens it. Never returns.
async fn give_up_when_stuck(store: Store, restart_handle: RestartHandle) {
    let mut is_logged = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(stuck) = store.stuck() else {
            is_logged = false;
            continue;
        };
        if !std::mem::replace(&mut is_logged, true) {
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
        // The result is logged.
        drop(reloader.reload("SIGHUP").await);
    }
}
