//! The address of the endpoint: bound at the start, served until the daemon stops.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::Runtime;
use cairn_config::clock::SystemClock;
use cairn_config::{Live, Loaded};
use cairn_types::ports::Clock;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Endpoint, keys_of, router, stop_abandoned};
use crate::http::{Bounds, serve};
use crate::messages::Mint;
use crate::parts::background::Background;

/// Each connection waits for one answer at a time.
const BOUNDS: Bounds = Bounds {
    what: "the OpenAI-compatible endpoint",
    count: |outcome| metrics::counter!("cairn_openai_connections_total", "outcome" => outcome).increment(1),
    at_once: 256,
    head: Duration::from_secs(30),
    unread: Duration::from_secs(30),
    whole: None,
};

/// The endpoint's address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for OpenAI-compatible clients at {address}: {error}")]
pub struct NoAddress {
    pub address: SocketAddr,
    pub error: io::Error,
}

/// The bound address. Nothing is served yet.
pub struct OpenAiAddress(TcpListener);

impl OpenAiAddress {
    /// Binds the configured address; `None`: there is none.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub async fn bind(loaded: &Loaded) -> Result<Option<Self>, NoAddress> {
        let Some(address) = loaded.config.openai_api.address() else { return Ok(None) };
        let bound = TcpListener::bind(address).await;
        Ok(Some(Self(bound.map_err(|error| NoAddress { address, error })?)))
    }

    /// Serves clients until stopped.
    pub fn serve(self, runtime: Runtime, live: Live) -> Background {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (abandoned, stopping) = mpsc::channel(BOUNDS.at_once);
        let keys = keys_of(&live.now());
        let (mint, lanes) = (Mint::default(), Mutex::new(HashMap::new()));
        let router = router(Arc::new(Endpoint {
            runtime: runtime.clone(),
            live,
            started_at: clock.now(),
            clock,
            mint,
            keys,
            lanes,
            abandoned,
        }));
        Background::start(async move {
            tokio::join!(
                serve(self.0, router, BOUNDS, CancellationToken::new()),
                stop_abandoned(runtime, stopping),
            );
        })
    }
}
