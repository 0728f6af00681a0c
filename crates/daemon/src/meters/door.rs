//! The door of the admin address: whoever can reach it gets so many connections at once, each for so long, and no more.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections that are served at once; further ones wait in the system's queue.
    pub(super) at_once: usize,
    /// Longest until the head of the request is there.
    pub(super) head: Duration,
    /// Longest for all of a connection, to the last byte of its answer.
    pub(super) whole: Duration,
}

/// One Prometheus or two, a probe, and somebody who looks. The figures are there within milliseconds; a store that hangs
/// keeps them for seconds. Prometheus gives up after ten: who is slow must not cost it those.
pub(super) const BOUNDS: Bounds =
    Bounds { at_once: 64, head: Duration::from_secs(5), whole: Duration::from_secs(30) };

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

/// Serves whoever comes until it is stopped; then those who are inside are served to the end.
///
/// # Errors
/// No more connections can be accepted.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut inside = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = inside.join_next() => note(ended),
            accepted = listener.accept(), if inside.len() < bounds.at_once => match accepted {
                Ok((stream, _from)) => {
                    inside.spawn(connection(stream, router.clone(), bounds, stop.clone()));
                }
                // It was gone before it was its turn.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => note(Ok(Outcome::Broken)),
                Err(error) => return Err(error),
            },
        }
    }
    drop(listener);
    while let Some(ended) = inside.join_next().await {
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

/// One request: whoever were to wait between two would hold a place that another needs. Bodies are not read.
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
