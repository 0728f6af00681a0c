//! The TCP addresses of bridges: plain HTTP, for bridges that cannot reach the daemon's socket.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::with_fallbacks;
use crate::http::Bounds;
use crate::parts::background::Background;

/// A bridge has one event stream and a few calls at a time. The stream stays open.
const BOUNDS: Bounds = Bounds {
    what: "the address of bridges",
    count: |outcome| metrics::counter!("cairn_bridge_connections_total", "outcome" => outcome).increment(1),
    at_once: 256,
    head: Duration::from_secs(5),
    unread: Duration::from_secs(30),
    whole: None,
};

/// An address of bridges cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for bridges at {address}: {error}")]
pub struct NoBridgeAddress {
    pub address: SocketAddr,
    pub error: io::Error,
}

/// Binds the addresses of bridges. Nothing is served yet.
///
/// # Errors
/// An address is in use, or does not belong to this machine.
pub async fn bind(
    addresses: BTreeMap<SocketAddr, Router>,
) -> Result<Vec<(TcpListener, Router)>, NoBridgeAddress> {
    let mut bound = Vec::with_capacity(addresses.len());
    for (address, router) in addresses {
        let listener =
            TcpListener::bind(address).await.map_err(|error| NoBridgeAddress { address, error })?;
        bound.push((listener, router));
    }
    Ok(bound)
}

/// Serves bridges until stopped.
pub fn serve((listener, router): (TcpListener, Router)) -> Background {
    let router = with_fallbacks(router);
    Background::start(super::serve(listener, router, BOUNDS, CancellationToken::new()))
}
