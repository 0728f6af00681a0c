//! What a daemon does as a service: feeds the watchdog, keeps systemd's status line up to date, reloads, and
//! restarts for an erasure.

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

/// Pause after one of the tasks panicked.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the store is asked whether a part of it hangs.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often an erasure that is ready looks for a moment without a turn.
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

    /// Reloads the configuration; the log says with what result.
    pub(crate) fn reload(&self) {
        self.hangup.notify_one();
    }

    pub(crate) async fn stop(self) {
        self.end.cancel();
        self.tasks.wait().await;
    }

    /// Keeps a task running: one that panics restarts after a pause.
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

/// Has the daemon restart for each erasure that is asked for, once it is ready and no turn is under way.
#[derive(Clone)]
struct Erasures {
    runtime: Runtime,
    store: Store,
    restart_handle: RestartHandle,
    /// How long it waits for a moment without a turn.
    patience: Duration,
}

impl Erasures {
    async fn carry_out(self) {
        loop {
            self.store.erasure_asked().await;
            match self.store.prepare_erasure().await {
                Ok(()) => {}
                // The next start does it.
                Err(_) if self.store.is_ending() => return,
                Err(error) => {
                    tracing::warn!(%error, "the erasure could not be made ready; it is done while the daemon restarts, which takes longer");
                }
            }
            let is_quiet = async {
                while self.runtime.health().turns > 0 {
                    tokio::time::sleep(TURNS_EVERY).await;
                }
            };
            if tokio::time::timeout(self.patience, is_quiet).await.is_err() {
                tracing::info!("turns are always under way; those that are cut short are taken up again");
            }
            self.restart_handle.restart();
        }
    }
}

/// Whether the daemon answers: its actors do, and its journal takes what they write.
async fn answering(runtime: Runtime, store: Store, limit: Duration) -> Liveness {
    let mut liveness = runtime.liveness(limit).await;
    if store.stuck().is_some_and(|stuck| stuck.part == StuckPart::Journal) {
        liveness.silent.push("journal".to_owned());
    }
    liveness
}

/// Ends the process when a part of the store hangs: the next process opens the store again. Never returns.
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
        // The log says how it went.
        drop(reloader.reload("SIGHUP").await);
    }
}
