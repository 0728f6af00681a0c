//! A fake Telegram: the Bot API over loopback TCP, in its own wire format.
//!
//! It refuses what the real one would refuse, and records what a bot must not do beyond that: see [`Violation`].
//! People, groups and topics are made by the test, talk when it says so, and see what the bot sends. Requests can be
//! made to fail ([`Fault`]) or held ([`FakeTelegram::hold`]), and their arrival awaited without a sleep.
//!
//! ```no_run
//! # async fn run() {
//! use cairn_testkit::telegram::{FakeTelegram, Say};
//!
//! let telegram = FakeTelegram::start().await;
//! let alice = telegram.person("Alice");
//! let hut = telegram.group("Hut");
//! // … point a configuration at `telegram.api_url()` and `telegram.token()`, start the daemon …
//! telegram.say(alice.id, &alice, "hello"); // privately
//! telegram.say(hut, &alice, Say::text("who is here?").mention());
//! let sent = telegram.wait_sent(hut, 1).await;
//! assert_eq!(sent[0].text, "echo: who is here?");
//! telegram.assert_clean();
//! # }
//! ```

mod buttons;
mod entities;
mod fault;
mod hook;
mod markdown;
mod methods;
mod people;
mod poll;
mod rules;
mod say;
mod send;
mod serve;
mod upload;
mod watch;
mod wire;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::clock::wall_time;
use crate::gate::Gates;
use crate::watched::{Watched, listen};
pub use buttons::Told;
pub use fault::{Fault, Stage};
pub use rules::{Rule, Violation};
pub use say::{Attachment, Say};
pub use upload::Uploaded;
pub use watch::Meanwhile;
pub use world::Person;

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its number, from 0, over all methods.
    pub n: usize,
    /// The method, as the bot wrote it.
    pub method: String,
    pub params: Value,
}

/// Something that can be seen in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act {
    pub chat: i64,
    pub thread: Option<i64>,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A person said something; the message.
    Said(i64),
    Typing,
    Sent(i64),
    Edited(i64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub id: i64,
    pub chat: i64,
    pub thread: Option<i64>,
    pub reply_to: Option<i64>,
    pub text: String,
    /// Its entities now: those that the bot gave and those that the server found.
    pub entities: Vec<Value>,
    /// Texts that it was changed to, in order; the last is that of now.
    pub edits: Vec<String>,
    /// The buttons under it now: what they say and what they carry.
    pub buttons: Vec<(String, String)>,
}

impl Sent {
    /// The words with their entities as Markdown, for people to look at.
    pub fn markdown(&self) -> String {
        markdown::render(&self.text, &self.entities)
    }
}

/// How a fake Telegram behaves. Made by [`FakeTelegram::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    reads_all: bool,
    limit_rates: bool,
    token: String,
    username: String,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            reads_all: true,
            limit_rates: false,
            token: "7000000001:AAFakeTokenOfAFakeBot_0123456789abcd".to_owned(),
            username: "cairn_test_bot".to_owned(),
        }
    }
}

impl Builder {
    /// Privacy mode: the bot is told only of group messages that concern it.
    pub fn privacy(mut self) -> Self {
        self.reads_all = false;
        self
    }

    /// Refuses more than one message per second and chat, and more than 20 per minute and group.
    pub fn limit_rates(mut self) -> Self {
        self.limit_rates = true;
        self
    }

    /// Another bot than the usual one: its token, `ID:SECRET`, and its name behind `@`.
    pub fn bot(mut self, token: &str, username: &str) -> Self {
        (self.token, self.username) = (token.to_owned(), username.to_owned());
        self
    }

    /// Starts the server.
    pub async fn start(self) -> FakeTelegram {
        FakeTelegram::with(self).await
    }
}

/// What all requests share.
pub(crate) struct Shared {
    builder: Builder,
    token: String,
    state: Watched<world::State>,
    gates: Gates<(String, Stage)>,
}

impl Shared {
    /// Changes the state and wakes whoever waits for a change.
    fn update<T>(&self, change: impl FnOnce(&mut world::State) -> T) -> T {
        self.state.update(change)
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    wall_time().as_second()
}

/// A running fake Telegram; dropping it stops it.
pub struct FakeTelegram {
    shared: Arc<Shared>,
    address: SocketAddr,
    server: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for FakeTelegram {
    fn drop(&mut self) {
        self.go_down();
    }
}

impl FakeTelegram {
    /// Starts a server with the usual behaviour on a free port: privacy mode off, no limits on rates.
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
        let token = builder.token.clone();
        let id = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(1);
        let username = Some(builder.username.clone());
        let bot = Person { id, name: "Cairn".to_owned(), username, is_bot: true };
        let state = Watched::new(world::State::new(bot));
        let shared = Arc::new(Shared { builder, token, state, gates: Gates::default() });
        let telegram = Self { shared, address, server: Mutex::new(None) };
        telegram.run(listener);
        telegram
    }

    fn run(&self, listener: TcpListener) {
        let shared = self.shared.clone();
        let server = tokio::spawn(async move {
            tokio::select! {
                never = serve::serve(listener, shared.clone()) => match never {},
                never = hook::deliver(shared) => match never {},
            }
        });
        *self.server.lock() = Some(server);
    }

    /// Goes away: connections break, new ones are refused.
    pub fn go_down(&self) {
        if let Some(server) = self.server.lock().take() {
            server.abort();
        }
    }

    /// Is there again, at the same address, and knows all that it knew.
    pub async fn come_back(&self) {
        self.go_down();
        self.run(listen(self.address).await);
    }

    /// What goes into `api_url`: `http://127.0.0.1:PORT`.
    pub fn api_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bot's token.
    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// The bot's name behind `@`.
    pub fn username(&self) -> &str {
        &self.shared.builder.username
    }

    /// The bot as people see it, for mentions.
    pub fn bot(&self) -> Person {
        self.shared.state.lock().bot.clone()
    }
}

#[cfg(test)]
mod tests;
