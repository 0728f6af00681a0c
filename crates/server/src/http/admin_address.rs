//! The admin address: metrics and the page over TCP.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{Bounds, Names};
use crate::metrics::{Meters, UPKEEP_EVERY};

/// Enough for one or two Prometheus servers, a probe and a browser. An answer usually takes milliseconds, and some
/// seconds if the store hangs. Prometheus gives up after ten, so slow clients must not delay an answer that long.
const BOUNDS: Bounds = Bounds {
    what: "the admin address",
    count: |outcome| metrics::counter!("cairn_admin_connections_total", "outcome" => outcome).increment(1),
    at_once: 64,
    head: Duration::from_secs(5),
    unread: Duration::from_secs(30),
    whole: Some(Duration::from_secs(30)),
};

/// Longest answer with the page enabled: it streams events, and browsers reconnect after this time.
const PAGE_WHOLE: Duration = Duration::from_secs(600);

/// Time for answers in progress when the daemon stops.
const GRACE: Duration = Duration::from_millis(500);

/// Binds the admin address.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// The settings of the page for this address.
pub struct PageAddress {
    /// The only accepted host names.
    pub names: Vec<String>,
    /// Adds the page's response headers.
    pub with_headers: fn(Router) -> Router,
}

/// Maintains the metrics and serves them at the admin address.
pub struct MetricsListener {
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl MetricsListener {
    /// Maintains the metrics and, if there is a `listener`, serves `router` there for the accepted host names. `page`:
    /// `None` if the page is disabled.
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

    /// Stops accepting connections, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        for (task, mut handle) in self.tasks {
            match tokio::time::timeout(GRACE, &mut handle).await {
                Ok(Ok(())) => {}
                Ok(Err(_panic)) => tracing::error!(task, "a task panicked; please report it"),
                // Does not wait for a client that stops reading.
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
            tracing::error!("the metrics upkeep panicked; it continues; please report it");
        }
    }
}
