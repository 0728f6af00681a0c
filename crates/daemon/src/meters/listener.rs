//! The admin address: metrics over TCP, with bounds on how many connections there are and how long each may take. Its tasks
//! are supervised: one that fails restarts.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Meters, UPKEEP_EVERY};

/// Before a task that failed restarts.
const PAUSE: Duration = Duration::from_secs(1);

/// How long answers under way may take when the daemon stops.
const GRACE: Duration = Duration::from_millis(500);

/// Listens at the admin address.
///
/// # Errors
/// The system refuses: another program listens there, or the address is not one of this machine.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Maintains the metrics and serves them at the admin address.
pub struct MetricsListener {
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl MetricsListener {
    /// Maintains the metrics, and serves `router` at `listener`, if there is one.
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
                // A client that stops reading is not waited for.
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
                let server = serve_connections(listener, router.clone(), BOUNDS, stop.clone());
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
                tracing::warn!(%address, %error, "cannot listen at the admin address; trying again")
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Connections that are served at once; further ones wait in the system's queue.
    at_once: usize,
    /// Longest until the head of the request is there.
    head: Duration,
    /// Longest for all of a connection, to the last byte of its answer.
    whole: Duration,
}

/// Enough for one or two Prometheus servers, a probe, and a person who looks. An answer takes milliseconds; a store that hangs
/// delays it for seconds. Prometheus gives up after ten, so slow clients must not delay it that long.
const BOUNDS: Bounds = Bounds { at_once: 64, head: Duration::from_secs(5), whole: Duration::from_secs(30) };

/// Most of a request that is held; a longer head is refused with 431.
const REQUEST_BYTES: usize = 16 * 1024;

/// What became of a connection, as the metric has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// It took too long, and was closed.
    Slow,
    /// It broke, or what came was no request.
    Broken,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Slow => "slow",
            Self::Broken => "broken",
        }
    }
}

/// Serves connections until it is stopped; those that are open then are served to the end.
///
/// # Errors
/// No more connections can be accepted.
async fn serve_connections(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = open.join_next() => note(ended),
            accepted = listener.accept(), if open.len() < bounds.at_once => match accepted {
                Ok((stream, _from)) => {
                    open.spawn(connection(stream, router.clone(), bounds, stop.clone()));
                }
                // The client closed it before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => note(Ok(Outcome::Broken)),
                Err(error) => return Err(error),
            },
        }
    }
    drop(listener);
    while let Some(ended) = open.join_next().await {
        note(ended);
    }
    Ok(())
}

fn note(ended: Result<Outcome, JoinError>) {
    match ended {
        Ok(outcome) => {
            metrics::counter!("cairn_admin_connections_total", "outcome" => outcome.name()).increment(1);
        }
        Err(_panic) => tracing::error!("a connection of the admin address panicked; please report it"),
    }
}

/// One request a connection: an idle connection would take the place of another. Bodies are not read.
async fn connection(stream: TcpStream, router: Router, bounds: Bounds, stop: CancellationToken) -> Outcome {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(REQUEST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    let ended = async {
        tokio::select! {
            ended = served.as_mut() => ended,
            () = stop.cancelled() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        }
    };
    let outcome = match tokio::time::timeout(bounds.whole, ended).await {
        Ok(Ok(())) => Outcome::Answered,
        Ok(Err(error)) if error.is_timeout() => Outcome::Slow,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection of the admin address broke");
            Outcome::Broken
        }
        Err(_elapsed) => Outcome::Slow,
    };
    if outcome == Outcome::Slow {
        tracing::debug!("a slow connection of the admin address was closed");
    }
    outcome
}

#[cfg(test)]
mod tests;
