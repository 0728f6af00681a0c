//! The listener for Telegram's webhooks: plain HTTP, behind a proxy or load balancer with TLS.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http::Bounds;
use crate::parts::background::Background;

/// Telegram sends up to a hundred updates at once per bot. Each is answered within 15 s.
const BOUNDS: Bounds = Bounds {
    what: "the webhook address",
    count: |outcome| metrics::counter!("cairn_webhook_connections_total", "outcome" => outcome).increment(1),
    at_once: 256,
    head: Duration::from_secs(5),
    unread: Duration::from_secs(30),
    whole: Some(Duration::from_secs(30)),
};

/// A webhook address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for webhooks at {address}: {error}")]
pub struct NoWebhook {
    pub address: SocketAddr,
    pub error: io::Error,
}

/// Binds the addresses of the webhooks. Nothing is served yet.
pub async fn bind(webhooks: &BTreeMap<SocketAddr, Router>) -> Result<Vec<(TcpListener, Router)>, NoWebhook> {
    let mut bound = Vec::with_capacity(webhooks.len());
    for (&address, router) in webhooks {
        let listener = TcpListener::bind(address).await.map_err(|error| NoWebhook { address, error })?;
        bound.push((listener, router.clone()));
    }
    Ok(bound)
}

/// Serves webhooks until stopped. Telegram repeats the requests that are cut off.
pub fn serve((listener, router): (TcpListener, Router)) -> Background {
    Background::start(super::serve(listener, router, BOUNDS, CancellationToken::new()))
}
