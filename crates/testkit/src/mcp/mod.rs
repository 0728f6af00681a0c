//! A fake MCP server, by hand: JSON-RPC 2.0 on the lines of a child process (`fake-mcp`), and streamable HTTP.
//!
//! It is an independent check of a client: it uses no library of the protocol, refuses what a strict server would refuse
//! (see [`Rule`]), and records it. It answers with the tools of the runtime (`echo`, `add`, `write`, `slow`, `hang`, …) as a
//! [`Script`] changes them, and does wrong what a [`Fault`] says. All that it saw and did is in its [`Log`].
//!
//! A call of a tool that is not marked as one that only reads is a side effect: [`Log::effects`]. It is in the log before
//! the answer goes out, and before a fault strikes.
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use cairn_testkit::mcp::{FakeMcp, Script};
//!
//! let server = Script::default().fault("hang@call").start_http().await;
//! // … point a configuration at `server.url()`, call …
//! // server.log().wait_for_calls("echo", 1).await;
//! server.log().assert_clean();
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod calls;
mod catalogue;
mod child;
mod fault;
mod frame;
mod http;
mod records;
mod script;
mod server;
mod session;
mod stdio;
mod step;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::watched::listen;
use http::Site;
use script::Behaviour;
use server::Server;

pub use calls::{PNG, WAV};
pub use child::{OverStdio, run};
pub use fault::{Ask, At, Fault, Strike};
pub use records::{Log, Record, Refusal, Rule, Start};
pub use script::{Script, VERSIONS};

/// A running server over HTTP; dropping it stops it.
pub struct FakeMcp {
    site: Arc<Site>,
    address: SocketAddr,
    running: tokio::task::JoinHandle<()>,
}

impl Drop for FakeMcp {
    fn drop(&mut self) {
        self.running.abort();
        self.site.forget();
    }
}

impl Script {
    /// Starts a server that behaves so on a free loopback port.
    pub async fn start_http(self) -> FakeMcp {
        self.start_http_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts it at an address: where another one was before.
    pub async fn start_http_at(self, address: SocketAddr) -> FakeMcp {
        let listener = listen(address).await;
        let address = listener.local_addr().unwrap_or(address);
        let server = Server { behaviour: Behaviour::new(None, self), log: Log::memory() };
        let site = Arc::new(Site::new(server));
        let app = http::router(site.clone());
        let running = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the fake MCP server stopped");
            }
        });
        FakeMcp { site, address, running }
    }
}

impl FakeMcp {
    /// Starts a server with the usual behaviour over HTTP.
    pub async fn start_http() -> Self {
        Script::default().start_http().await
    }

    /// What goes into `url`.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn log(&self) -> &Log {
        &self.site.server.log
    }

    /// Changes how it behaves from the next message on.
    pub fn change(&self, change: impl FnOnce(&mut Script)) {
        self.site.server.behaviour.change(change);
    }

    /// All sessions are unknown from now on: their next requests get 404.
    pub fn forget_sessions(&self) {
        self.site.forget();
    }
}

#[cfg(test)]
mod tests;
