//! The HTTP server for the socket and the admin address, with limits on the number of connections and on slow clients.
//! A server task that panics is restarted.

pub mod admin_address;
pub mod body;
pub mod bridges;
mod hosts;
pub mod socket;
pub mod webhooks;

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{JoinError, JoinSet};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use hosts::Names;
pub use hosts::only_at;

/// Pause before a failed task is restarted.
const PAUSE: Duration = Duration::from_secs(1);

/// Largest head of a request, in bytes; a longer one is refused with 431. Also the most of a body that is buffered.
const HEAD_BYTES: usize = 16 * 1024;

/// A source of connections.
pub trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _from)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(stream, _from)| stream)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The name of the server in the log.
    pub what: &'static str,
    /// Counts an ended connection by its outcome.
    pub count: fn(&'static str),
    /// Most connections at once; further ones wait in the system's queue.
    pub at_once: usize,
    /// Longest time for the head of a request, also between two requests.
    pub head: Duration,
    /// Longest time in which the client reads nothing of an answer.
    pub unread: Duration,
    /// Longest time for a connection, which then serves a single request. `None`: no limit.
    pub whole: Option<Duration>,
}

/// The outcome of a connection, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// It was too slow and was closed.
    Slow,
    /// It broke, or sent no valid request.
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

/// Serves connections until `stop`, then finishes the open ones. Dropping the future closes them.
pub async fn serve<L: Listener>(listener: L, router: Router, bounds: Bounds, stop: CancellationToken) {
    let what = bounds.what;
    let listener = Arc::new(listener);
    loop {
        let server = connections(Arc::clone(&listener), router.clone(), bounds, stop.clone());
        let mut server = AbortOnDropHandle::new(tokio::spawn(server));
        let ended = tokio::select! {
            ended = &mut server => ended,
            () = stop.cancelled() => {
                // New clients find nobody listening.
                drop(listener);
                if server.await.is_err() {
                    tracing::error!("the server of {what} panicked; please report it");
                }
                return;
            }
        };
        if ended.is_err() {
            tracing::error!("the server of {what} panicked; it restarts; please report it");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn connections<L: Listener>(listener: Arc<L>, router: Router, bounds: Bounds, stop: CancellationToken) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = open.join_next() => note(ended, bounds),
            accepted = listener.accept(), if open.len() < bounds.at_once => match accepted {
                Ok(stream) => {
                    open.spawn(connection(stream, router.clone(), bounds, stop.clone()));
                }
                // The client closed it before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {
                    note(Ok(Outcome::Broken), bounds);
                }
                Err(error) => {
                    tracing::warn!(%error, open = open.len(), "{} accepts no further connections for now", bounds.what);
                    // Waits, since open connections may free what is missing.
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
            },
        }
    }
    drop(listener);
    while let Some(ended) = open.join_next().await {
        note(ended, bounds);
    }
}

fn note(ended: Result<Outcome, JoinError>, bounds: Bounds) {
    match ended {
        Ok(outcome) => (bounds.count)(outcome.name()),
        Err(_panic) => tracing::error!("a connection of {} panicked; please report it", bounds.what),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    bounds: Bounds,
    stop: CancellationToken,
) -> Outcome {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.unread));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(bounds.whole.is_none())
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
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
    let ended = match bounds.whole {
        Some(whole) => tokio::time::timeout(whole, ended).await,
        None => Ok(ended.await),
    };
    let outcome = match ended {
        Ok(Ok(())) => Outcome::Answered,
        Ok(Err(error)) if error.is_timeout() || is_unread(&error) => Outcome::Slow,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection of {} broke", bounds.what);
            Outcome::Broken
        }
        Err(_elapsed) => Outcome::Slow,
    };
    if outcome == Outcome::Slow {
        tracing::debug!("a slow connection of {} was closed", bounds.what);
    }
    outcome
}

/// Whether a connection failed because the client did not read the answer.
fn is_unread(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests;
