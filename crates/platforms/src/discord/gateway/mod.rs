//! The gateway: how events come in.
//!
//! The websocket is driven here and not by serenity, whose gateway client (0.12.5) cannot be made to keep four promises:
//! it hands every event to a task of its own, so that order is lost; it reconnects to whatever address it was given
//! first, never to the one that a session is to be resumed at, and nothing can come between a new address and the
//! token; it begins sessions without asking how many are left; and it prints a payload that it cannot read to the log
//! and forgets its number. What is used of serenity are its types and everything of REST.
//!
//! One task reads frames in order and hands each to a [`Listener`], which never waits. The course of a session: check
//! the token and the address by REST, connect, hello, identify or resume, then heartbeats both ways. A heartbeat that
//! is not acknowledged before the next is due means that the connection is dead. It is resumed where Discord allows
//! it, otherwise restarted, after growing pauses; only what a person must mend ends [`Gateway::run`].

mod address;
mod close;
mod connection;
mod frame;

use std::sync::Arc;
use std::time::Duration;

use cairn_core::ports::{AdapterFailure, LinkState};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::Instant;

use self::close::Next;
use self::connection::{Connection, Ended, connect};
use super::rest::{Rest, RestError};
use crate::link::Link;
use crate::pause::{Pauses, part_of};

pub(super) use self::address::Addresses;
pub use self::address::BadAddress;
pub(super) use self::close::bad_token;
pub(super) use self::connection::unreadable;
pub(super) use self::frame::{Frame, Ready};

/// Least time between two sessions that begin: Discord allows one in five seconds.
const IDENTIFY_EVERY: Duration = Duration::from_secs(5);

/// Before the first try that follows a failure, and longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connection that was up for so long makes the next pause short.
const STEADY: Duration = Duration::from_secs(30);

/// After so many failed connections a session is resumed where the API says: the address that it was given may be gone.
const RESUMES_MAX: u32 = 3;

/// After Discord said that too much was sent.
const SLOW_PAUSE: Duration = Duration::from_secs(30);

struct Session {
    id: String,
    seq: u64,
    address: Url,
}

pub(super) trait Listener: Send {
    /// A new session: what was said before it is not told.
    fn ready(&mut self, ready: &Ready);
    /// Something happened, in Discord's order.
    fn heard(&mut self, kind: &str, data: Value);
}

pub(super) struct Gateway {
    pub(super) rest: Arc<Rest>,
    pub(super) link: Arc<Link>,
    pub(super) addresses: Addresses,
    pub(super) bot_token: SecretString,
}

impl Gateway {
    /// The token as the gateway wants it, without a word before it.
    fn token(&self) -> &str {
        self.bot_token.expose_secret()
    }

    /// Connects, and stays connected, until it cannot go on by itself.
    pub(super) async fn run<L: Listener>(&self, listener: &mut L) -> AdapterFailure {
        let mut session: Option<Session> = None;
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut began: Option<Instant> = None;
        let mut n_failed = 0u32;
        loop {
            let resuming = session.is_some();
            let ended = self.once(&mut session, &mut began, n_failed, listener).await;
            n_failed = if ended.up_for.is_some() { 0 } else { n_failed + 1 };
            let least = match ended.next {
                Next::Fail(failure) => return failure,
                Next::Slowly => SLOW_PAUSE,
                // Discord asks for one to five seconds before a session follows one that it ended.
                Next::Fresh if resuming => Duration::from_secs(1) + part_of(Duration::from_secs(4)),
                Next::Fresh | Next::Resume => Duration::ZERO,
            };
            // Only Discord ends a session: through an outage it is kept, for what it has missed comes with it.
            if ended.next == Next::Fresh {
                session = None;
            }
            if ended.up_for.is_some_and(|time| time >= STEADY) {
                pauses.reset();
            }
            self.pause(&ended.reason, least.max(pauses.next())).await;
        }
    }

    async fn pause(&self, reason: &str, pause: Duration) {
        let failure = AdapterFailure {
            reason: reason.to_owned(),
            hint: "it is tried again by itself".to_owned(),
            lasting: false,
        };
        self.link.set(LinkState::Reconnecting, Some(&failure));
        metrics::counter!("cairn_discord_reconnects_total").increment(1);
        tracing::warn!(
            platform = "discord",
            reason,
            pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "not connected to discord; trying again"
        );
        tokio::time::sleep(pause).await;
    }

    /// One connection, with what must be known before it.
    async fn once<L: Listener>(
        &self,
        session: &mut Option<Session>,
        began: &mut Option<Instant>,
        n_failed: u32,
        listener: &mut L,
    ) -> Ended {
        let address = match session {
            Some(session) if n_failed < RESUMES_MAX => session.address.clone(),
            Some(session) => self.named().await.unwrap_or_else(|_| session.address.clone()),
            None => {
                if let Some(at) = *began {
                    tokio::time::sleep_until(at + IDENTIFY_EVERY).await;
                }
                match self.ask().await {
                    Ok(address) => {
                        *began = Some(Instant::now());
                        address
                    }
                    Err(ended) => return ended,
                }
            }
        };
        match connect(&address).await {
            Ok(socket) => Connection { socket, gateway: self, session, listener }.run().await,
            Err(reason) => Ended::new(Next::Resume, reason),
        }
    }

    /// Where the API says that the gateway is; it is not asked whether a session may begin.
    async fn named(&self) -> Result<Url, RestError> {
        let said = self.rest.gateway().await?.url;
        self.addresses.gateway(&said).map_err(|failure| RestError::Unknown(failure.reason))
    }

    /// Asks the API where the gateway is and whether a session may begin; this also tells whether the token is good.
    async fn ask(&self) -> Result<Url, Ended> {
        loop {
            let gateway = match self.rest.gateway().await {
                Ok(gateway) => gateway,
                Err(RestError::Limited { after }) => {
                    self.pause("Discord limits how often the bot may connect", after).await;
                    continue;
                }
                Err(error) => return Err(Ended::new(Next::Resume, error.to_string())),
            };
            let address = self.addresses.gateway(&gateway.url).map_err(|failure| {
                let reason = failure.reason.clone();
                Ended::new(Next::Fail(failure), reason)
            })?;
            let limit = &gateway.session_start_limit;
            if limit.remaining > 0 {
                return Ok(address);
            }
            let pause = Duration::from_millis(limit.reset_after.max(1000));
            self.pause("the bot has begun as many sessions as Discord allows in a day", pause).await;
        }
    }
}
