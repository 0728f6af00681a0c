//! The admin address: metrics and the page over TCP.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{Bounds, Names};
use crate::metrics::{Meters, UPKEEP_EVERY};

/// Enough for one or two Prometheus servers, a probe, and a person who looks. An answer takes milliseconds; a store that hangs
/// delays it for seconds. Prometheus gives up after ten, so slow clients must not delay it that long.
const BOUNDS: Bounds = Bounds {
    what: "the admin address",
    count: |outcome| metrics::counter!("cairn_admin_connections_total", "outcome" => outcome).increment(1),
    at_once: 64,
    head: Duration::from_secs(5),
    unread: Duration::from_secs(30),
    whole: Some(Duration::from_secs(30)),
};

/// Longest for an answer where the page is on: what happens is shown as it happens, and a browser asks again after that.
const PAGE_WHOLE: Duration = Duration::from_secs(600);

/// How long answers under way may take when the daemon stops.
const GRACE: Duration = Duration::from_millis(500);

/// Listens at the admin address.
///
/// # Errors
/// The system refuses: another program listens there, or the address is not one of this machine.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// The page, as the address that serves it knows it.
pub struct PageAddress {
    /// The only names by which it is asked.
    pub names: Vec<String>,
    /// Adds what browsers are told with every answer.
    pub with_headers: fn(Router) -> Router,
}

/// Maintains the metrics and serves them at the admin address.
pub struct MetricsListener {
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl MetricsListener {
    /// Maintains the metrics, and serves `router` at `listener`, if there is one, to who asks for one of its names. No `page`:
    /// it is off.
    pub fn start(
        meters: &'static Meters,
        listener: Option<TcpListener>,
        hosts: Vec<String>,
        page: Option<PageAddress>,
        router: Router,
    ) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = vec![("metrics", tokio::spawn(keep(meters, stop.clone())))];
        if let Some(listener) = listener {
            let bounds = if page.is_some() { Bounds { whole: Some(PAGE_WHOLE), ..BOUNDS } } else { BOUNDS };
            let (only, with_headers) = page.map(|page| (page.names, page.with_headers)).unzip();
            let router = super::only_at(Names { hosts, only }, router);
            let router = match with_headers {
                Some(with_headers) => with_headers(router),
                None => router,
            };
            let served = super::serve(listener, router, bounds, stop.clone());
            tasks.push(("admin address", tokio::spawn(served)));
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
