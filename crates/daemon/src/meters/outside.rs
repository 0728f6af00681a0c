//! The admin address: figures over TCP, beside the socket. Its tasks are watched: one that fails restarts.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Meters, UPKEEP_EVERY, door};

/// Before a task that failed restarts.
const PAUSE: Duration = Duration::from_secs(1);

/// How long answers under way may take when the daemon stops.
const GRACE: Duration = Duration::from_millis(500);

/// Listens at the admin address.
///
/// # Errors
/// The system refuses: somebody else listens there, or the address is none of this machine's.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// What keeps the metrics and serves them outside of the socket.
pub struct Outside {
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl Outside {
    /// Keeps the metrics, and serves `router` at `listener`, where there is one.
    pub fn start(meters: &'static Meters, listener: Option<TcpListener>, router: Router) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = vec![("metrics", tokio::spawn(keep(meters, stop.clone())))];
        if let Some(listener) = listener {
            tasks.push(("admin address", tokio::spawn(serve(listener, router, stop.clone()))));
        }
        Self { stop, tasks }
    }

    /// Takes no more connections and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        for (task, mut handle) in self.tasks {
            match tokio::time::timeout(GRACE, &mut handle).await {
                Ok(Ok(())) => {}
                Ok(Err(_panic)) => tracing::error!(task, "a task panicked; please report it"),
                // Whoever reads no further is not waited for.
                Err(_elapsed) => handle.abort(),
            }
        }
    }
}

async fn keep(meters: &'static Meters, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if tokio::spawn(async { meters.upkeep() }).await.is_err() {
            tracing::error!("the upkeep of the metrics panicked; it goes on, please report it");
        }
    }
}

async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let Ok(address) = listener.local_addr() else { return };
    let mut listener = Some(listener);
    loop {
        let bound = match listener.take() {
            Some(listener) => Ok(listener),
            None => bind(address).await,
        };
        match bound {
            Ok(listener) => {
                let server = door::serve(listener, router.clone(), door::BOUNDS, stop.clone());
                let ended = tokio::spawn(server).await;
                if stop.is_cancelled() {
                    return;
                }
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        tracing::warn!(%address, %error, "the admin address failed; it restarts")
                    }
                    Err(_panic) => tracing::error!(%address, "the admin address panicked; it restarts"),
                }
            }
            Err(error) => {
                tracing::warn!(%address, %error, "the admin address cannot be listened at; trying again")
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
