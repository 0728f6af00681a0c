//! A fake Discord: REST v10, the gateway and the file host, all on one loopback port.
//!
//! It speaks the real wire formats, refuses what the real one refuses, and records as a [`Violation`] what no correct bot
//! does (a message over the limit, one that may mention people, going on after a 429, identifying too often). Tests
//! set the scene and speak for the people in it; what the bot sent is read back by channel. Requests can be held at a
//! [`Gate`], and faults scripted for a [`Route`].
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! use cairn_testkit::discord::{FakeDiscord, Fault, Route};
//!
//! let discord = FakeDiscord::start().await;
//! discord.guild(100);
//! discord.channel(100, 101);
//! // … point a configuration at `discord.api_url()`, `discord.gateway_url()`, `discord.token()` …
//! // discord.wait_ready().await;
//! let question = discord.post(101, "alice", "hello").mention_bot().send();
//! discord.fail_next(Route::Send, Fault::LostAnswer);
//! // let sent = discord.wait_sent(101, 1).await;
//! // assert_eq!(sent[0].reply_to, Some(question));
//! discord.assert_clean();
//! # let _ = question;
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod fault;
mod gateway;
mod limits;
mod people;
mod rest;
mod rules;
mod say;
mod serve;
mod shapes;
mod state;
mod trouble;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use crate::gate::Gate;
use crate::gate::Gates;
use crate::watched::{Watched, listen};
pub use fault::Fault;
pub use people::{Answer, Followup, Shown};
pub use rules::{Route, Rule, Violation};
pub use say::Say;
use state::State;
pub use world::{Act, BOT_ID, Sent, Upload};

/// The token that the fake knows unless told otherwise. It is good for nothing.
pub const TOKEN: &str = "cairn-testkit.discord.token-that-opens-nothing";

/// How a fake Discord behaves. Made by [`FakeDiscord::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    token: String,
    heartbeat: Duration,
    identify_every: Duration,
    shards: u32,
    max_concurrency: u32,
    answer_within: Duration,
    rate: limits::Rate,
    content_allowed: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            token: TOKEN.to_owned(),
            heartbeat: Duration::from_millis(41_250),
            identify_every: Duration::from_millis(4_900),
            shards: 1,
            max_concurrency: 1,
            answer_within: Duration::from_secs(3),
            rate: limits::Rate { requests: 1_000, per: Duration::from_secs(5) },
            content_allowed: true,
        }
    }
}

impl Builder {
    /// The bot's token.
    pub fn token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    /// The heartbeat interval that the gateway asks for; unset: 41.25 s, as the real one.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    /// Least time between two identifies of a bucket; unset: 4.9 s. Tests that restart the daemon at will set it to zero.
    pub fn identify_every(mut self, pause: Duration) -> Self {
        self.identify_every = pause;
        self
    }

    /// How many shards are recommended; unset: 1. More are taken, and fewer ([`FakeDiscord::require_shards`] changes that).
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// How many shards may identify beside each other; unset: 1.
    pub fn max_concurrency(mut self, shards: u32) -> Self {
        self.max_concurrency = shards;
        self
    }

    /// How soon an interaction must be answered; unset: 3 s.
    pub fn answer_within(mut self, time: Duration) -> Self {
        self.answer_within = time;
        self
    }

    /// So many requests of a route and a channel within that time; unset: 1,000 in 5 s, which no test reaches. The
    /// real one takes 5 messages in 5 s.
    pub fn rate(mut self, requests: u32, per: Duration) -> Self {
        self.rate = limits::Rate { requests, per };
        self
    }

    /// The privileged intent for message content is not granted.
    pub fn without_message_content(mut self) -> Self {
        self.content_allowed = false;
        self
    }

    /// Starts the server.
    pub async fn start(self) -> FakeDiscord {
        FakeDiscord::with(self).await
    }
}

/// What all connections share.
struct Shared {
    builder: Builder,
    address: SocketAddr,
    state: Watched<State>,
    gates: Gates<Route>,
}

impl Shared {
    /// Changes the state and wakes whoever waits for a change.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.update(change)
    }

    fn violation(&self, rule: Rule, text: String) {
        self.update(|state| state.violation(rule, text));
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    fn gateway_url(&self) -> String {
        format!("ws://{}", self.address)
    }
}

/// A running fake Discord; dropping it stops it.
pub struct FakeDiscord {
    shared: Arc<Shared>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for FakeDiscord {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeDiscord {
    /// Starts a server with the usual behaviour on a free port.
    pub async fn start() -> Self {
        Self::with(Builder::default()).await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    async fn with(builder: Builder) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen(address).await;
        let address = listener.local_addr().unwrap_or(address);
        let shared = Arc::new(Shared {
            address,
            state: Watched::new(State::new(&builder)),
            gates: Gates::default(),
            builder,
        });
        let server = tokio::spawn(serve::accept(shared.clone(), listener));
        Self { shared, server }
    }

    /// Where it listens, without a path: `http://127.0.0.1:PORT`. What goes into `api_url`.
    pub fn api_url(&self) -> String {
        self.shared.origin()
    }

    /// The gateway: `ws://127.0.0.1:PORT`.
    pub fn gateway_url(&self) -> String {
        self.shared.gateway_url()
    }

    /// The bot's token.
    pub fn token(&self) -> &str {
        &self.shared.builder.token
    }

    /// Rises with everything that happens here, for whoever looks on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.state.changes()
    }

    /// Waits until a condition on this server holds; it is looked at with everything that happens.
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let more = || {
            let arrived = self.shared.state.lock().arrived.clone();
            let violations = self.violations();
            format!("requests: {arrived:?}; violations: {violations:?}")
        };
        self.shared.state.wait(what, || condition(self).then_some(()), more).await;
    }

    /// Waits until the bot listens: it has a session and is connected.
    pub async fn wait_ready(&self) {
        self.wait_until("a session", Self::is_ready).await;
    }

    /// Waits until so many shards listen, or more.
    pub async fn wait_shards(&self, n: usize) {
        self.wait_until(&format!("{n} shards"), |discord| discord.n_ready() >= n).await;
    }

    /// Waits until so many requests of a route have arrived since the start, held ones and failed ones included.
    pub async fn wait_for(&self, route: Route, n: usize) {
        self.wait_until(&format!("{n} requests of {route:?}"), |discord| discord.arrived(route) >= n).await;
    }

    /// Waits until the bot has sent so many messages to a channel since the start. All of them.
    pub async fn wait_sent(&self, channel: u64, n: usize) -> Vec<Sent> {
        let what = format!("{n} messages in {channel}");
        self.wait_until(&what, |discord| discord.n_sent(channel) >= n).await;
        self.sent(channel)
    }

    /// Holds all requests of a route from now on, before anything is done, until the gate opens. Dropping the gate
    /// opens it.
    pub fn hold(&self, route: Route) -> Gate {
        self.shared.gates.close(route)
    }

    /// The rules that the bot broke so far.
    pub fn violations(&self) -> Vec<Violation> {
        let state = self.shared.state.lock();
        let mut violations = state.violations.clone();
        let unshown = state.world.sent.iter().filter(|sent| sent.unshown.is_some() && !sent.deleted);
        violations.extend(unshown.map(|sent| Violation {
            rule: Rule::Nonce,
            text: format!("message {} was sent again with other words, which nobody sees", sent.id),
        }));
        violations
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the bot broke rules: {violations:#?}");
    }
}

#[cfg(test)]
mod tests;
