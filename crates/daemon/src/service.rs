//! What a daemon does beside its work, as a service: it feeds the watchdog, keeps systemd's status line true, reloads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::{House, Pulse};
use cairn_store::{Store, StuckPart};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::life::Life;
use crate::reload::{Reloader, watch};
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
    pub fn start(daemon: &Daemon, life: &Life) -> Self {
        let service =
            Self { tasks: TaskTracker::new(), end: CancellationToken::new(), hangup: Arc::default() };
        let (house, adapters) = (daemon.house().clone(), daemon.adapters());
        let vital = Arc::new(Parts { house: house.clone(), store: daemon.store().clone() });
        let (store, life) = (daemon.store().clone(), life.clone());
        service.keep("store", move || Box::pin(give_up_when_stuck(store.clone(), life.clone())));
        service.keep("status", move || Box::pin(systemd::show_status(house.clone(), Arc::clone(&adapters))));
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

    /// Has the configuration read anew; the log tells what came of it.
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
    house: House,
    store: Store,
}

impl Vital for Parts {
    fn pulse(&self, patience: Duration) -> BoxFuture<'_, Pulse> {
        Box::pin(async move {
            let mut pulse = self.house.pulse(patience).await;
            if self.store.stuck().is_some_and(|stuck| stuck.part == StuckPart::Journal) {
                pulse.silent.push("journal".to_owned());
            }
            pulse
        })
    }
}

/// Has the process ended when a part of the store does not come back: the next one opens it anew. Never returns.
async fn give_up_when_stuck(store: Store, life: Life) {
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
            life.give_up();
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
