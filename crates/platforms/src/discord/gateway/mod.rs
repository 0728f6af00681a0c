//! The gateway connection, over which events arrive.
//!
//! The websocket is handled here. serenity's gateway client (0.12.5) starts a task for each event, which loses their
//! order, and logs the content of unreadable events. twilight-gateway (0.18) reconnects without a pause when the
//! gateway closes at once, waits without limit for a silent one, and reads messages of any size. The tests of
//! `connection` and `shard` cover these cases; `docs/design/chat-networks.md` has the comparison. From serenity only
//! the types and the REST builders are used.
//!
//! Each shard has a task that reads frames in order and passes each to the [`Listener`], which never waits. A session
//! goes like this: check the token and the address by REST, wait for a turn (`starts`), connect, hello, identify or
//! resume, then heartbeats both ways. If a heartbeat is not acknowledged before the next is due, the connection is
//! dead. It is resumed where Discord allows it, otherwise restarted, after growing pauses; other shards are not
//! affected. [`Gateway::run`] ends only on failures that a person must fix.

mod address;
mod board;
mod close;
mod connection;
mod frame;
mod kept;
mod shard;
mod starts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::{AdapterFailure, LinkState};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use serenity::all::GuildId;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use self::board::Board;
use self::close::Next;
use self::connection::Ended;
use self::shard::{ShardRun, Stopped};
use self::starts::{Allowance, IDENTIFY_EVERY, Starts};
use super::rest::{Rest, RestError};
use crate::link::Link;
use crate::pause::Pauses;

pub(super) use self::address::Addresses;
pub use self::address::BadAddress;
pub(super) use self::close::bad_token;
pub(super) use self::connection::unreadable;
pub(super) use self::frame::{Frame, Ready};
pub(super) use self::kept::{Bot, Sessions};

/// First and longest pause before the API is asked again for the number of shards.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The status entry for session starts that run low.
const BUDGET: &str = "sessions";

/// One gateway connection; Discord divides the servers of a bot among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) id: u32,
    /// The total number of shards.
    pub(super) of: u32,
}

impl Shard {
    /// Whether this shard gets the events of a server. `None` means private chats, which arrive over shard 0 only.
    pub(super) fn hears(self, server: Option<GuildId>) -> bool {
        server.map_or(0, |server| (server.get() >> 22) % u64::from(self.of)) == u64::from(self.id)
    }
}

/// Receives the events of all shards, concurrently.
pub(super) trait Listener: Send + Sync + 'static {
    /// A new session of a shard started. Earlier messages are not delivered.
    fn ready(&self, shard: Shard, ready: &Ready);
    /// A session of an earlier run is resumed. Messages sent meanwhile are delivered, but no list of servers.
    fn resumes(&self, shard: Shard, bot: &Bot);
    /// An event. Events of one server arrive in Discord's order.
    fn heard(&self, kind: &str, data: Value);
    /// Tells [`Sessions`] whether everything received is with the runtime. The listener also does so when its work ends.
    fn settle(&self);
}

pub(super) struct Gateway {
    pub(super) rest: Arc<Rest>,
    pub(super) link: Arc<Link>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) addresses: Addresses,
    pub(super) bot_token: SecretString,
    /// The number of shards; `None`: as many as Discord recommends.
    pub(super) shards: Option<u32>,
}

/// Why the gateway address could not be obtained from the API.
#[derive(Debug)]
enum NoAnswer {
    Limited(Duration),
    Ended(Ended),
}

impl Gateway {
    /// The token without the `Bot ` prefix, as the gateway expects it.
    fn token(&self) -> &str {
        self.bot_token.expose_secret()
    }

    /// Connects all shards and keeps them connected. Returns on a failure that a person must fix.
    pub(super) async fn run<L: Listener>(self, listener: L) -> AdapterFailure {
        let (gateway, listener) = (Arc::new(self), Arc::new(listener));
        let mut refused = BTreeSet::new();
        loop {
            let allowance = match gateway.first_answer().await {
                Ok(allowance) => allowance,
                Err(failure) => return failure,
            };
            let n_shards = match number(gateway.shards, allowance.shards, &refused) {
                Ok(n_shards) => n_shards,
                Err(failure) => return failure,
            };
            if !refused.is_empty() {
                // Keeps the minimum time after the last session start.
                tokio::time::sleep(IDENTIFY_EVERY).await;
            }
            match gateway.clone().shards(n_shards, allowance, &listener).await {
                Stopped::Failed(failure) => return failure,
                Stopped::Number => {
                    tracing::warn!(
                        platform = gateway.link.platform(),
                        n_shards,
                        "Discord refuses this number of shards; asking for the recommended number"
                    );
                    gateway.link.set(LinkState::Reconnecting, Some(&passing("the number of shards changes")));
                    refused.insert(n_shards);
                }
            }
        }
    }

    /// Runs `n_shards` shards until one of them stops for good.
    async fn shards<L: Listener>(
        self: Arc<Self>,
        n_shards: u32,
        allowance: Allowance,
        listener: &Arc<L>,
    ) -> Stopped {
        tracing::info!(
            platform = self.link.platform(),
            n_shards,
            recommended = allowance.shards,
            max_concurrency = allowance.max_concurrency,
            sessions_left = allowance.remaining,
            "connecting to Discord"
        );
        let starts = Arc::new(Starts::new(allowance, n_shards));
        let board = Arc::new(Board::new(self.link.clone(), n_shards));
        let mut shards = JoinSet::new();
        for id in 0..n_shards {
            let shard = Shard { id, of: n_shards };
            let (gateway, starts, board) = (self.clone(), starts.clone(), board.clone());
            let place = Mutex::new(Some(starts.queue(shard)));
            let listener = listener.clone();
            let run = ShardRun { shard, gateway, starts, board, listener, place }.run();
            shards.spawn(run.in_current_span());
        }
        let first = shards.join_next().await;
        shards.shutdown().await;
        match first {
            Some(Ok(stopped)) => stopped,
            Some(Err(_)) | None => Stopped::Failed(passing("a shard ended: this is a bug in cairn")),
        }
    }

    /// Asks the API for the gateway address until it answers.
    async fn first_answer(&self) -> Result<Allowance, AdapterFailure> {
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let (reason, after) = match self.ask().await {
                Ok(allowance) => return Ok(allowance),
                Err(NoAnswer::Limited(after)) => (shard::LIMITED.to_owned(), after),
                Err(NoAnswer::Ended(Ended { next: Next::Fail(failure), .. })) => return Err(failure),
                Err(NoAnswer::Ended(ended)) => (ended.reason, pauses.next()),
            };
            self.link.set(LinkState::Reconnecting, Some(&passing(&reason)));
            tracing::warn!(
                platform = self.link.platform(),
                reason,
                "cannot get the address of Discord's gateway; trying again"
            );
            tokio::time::sleep(after).await;
        }
    }

    /// Asks the API for the gateway address and the remaining session starts. This also checks the token.
    async fn ask(&self) -> Result<Allowance, NoAnswer> {
        let said = match self.rest.gateway().await {
            Ok(said) => said,
            Err(RestError::Limited { after }) => return Err(NoAnswer::Limited(after)),
            Err(error) => return Err(NoAnswer::Ended(Ended::new(Next::Resume, error.to_string()))),
        };
        let address = self.addresses.gateway(&said.url).map_err(|failure| {
            let reason = failure.reason.clone();
            NoAnswer::Ended(Ended::new(Next::Fail(failure), reason))
        })?;
        Ok(Allowance::new(address, &said))
    }

    /// Records the remaining session starts in the metrics, and in the status if they run low.
    fn tell_of_budget(&self, left: &Allowance, n_shards: u32) {
        metrics::gauge!("cairn_discord_sessions_left", "platform" => self.link.platform())
            .set(left.remaining as f64);
        if !left.is_low(n_shards) {
            self.link.clear(BUDGET);
            return;
        }
        let hours = left.reset_after.as_secs().div_ceil(3600);
        let reason = format!(
            "Discord lets the bot begin {} more sessions in the next {hours} h; find out what ends them so often",
            left.remaining
        );
        if self.link.trouble(BUDGET, &reason) {
            tracing::warn!(
                platform = self.link.platform(),
                sessions_left = left.remaining,
                reset_secs = left.reset_after.as_secs(),
                "few session starts are left today"
            );
        }
    }
}

/// The number of shards to use. `refused`: numbers that Discord has refused.
///
/// # Errors
/// The only candidate was refused.
fn number(configured: Option<u32>, recommended: u32, refused: &BTreeSet<u32>) -> Result<u32, AdapterFailure> {
    let n_shards = configured.unwrap_or(recommended);
    if !refused.contains(&n_shards) {
        return Ok(n_shards);
    }
    let hint = match configured {
        Some(_) => {
            format!("leave `shards` out, or set it to {recommended} as Discord recommends; then restart")
        }
        None => "Discord is asked again in some minutes; if it lasts, set `shards` to more".to_owned(),
    };
    Err(AdapterFailure {
        reason: format!("Discord refuses {n_shards} shards: the bot is in too many servers for so few"),
        hint,
        lasting: true,
    })
}

/// A failure that is retried automatically.
fn passing(reason: &str) -> AdapterFailure {
    AdapterFailure {
        reason: reason.to_owned(),
        hint: "it is tried again by itself".to_owned(),
        lasting: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_one_shards_and_private_chats_are_the_firsts() {
        // Discord's formula: (id >> 22) % number of shards.
        let server = |n: u64| Some(GuildId::new(n << 22 | 5));
        for (server, of, id) in [(None, 4, 0), (server(7), 4, 3), (server(8), 4, 0), (server(7), 1, 0)] {
            let heard: Vec<u32> = (0..of).filter(|id| Shard { id: *id, of }.hears(server)).collect();
            assert_eq!(heard, [id], "{server:?} of {of}");
        }
    }

    #[test]
    fn a_number_that_was_refused_is_not_tried_again() {
        let refused = |numbers: &[u32]| numbers.iter().copied().collect::<BTreeSet<u32>>();
        assert_eq!(number(None, 4, &refused(&[])), Ok(4));
        assert_eq!(number(Some(2), 4, &refused(&[])), Ok(2));
        assert_eq!(number(None, 8, &refused(&[4])), Ok(8));
        let told = number(Some(2), 4, &refused(&[2])).expect_err("is refused");
        assert!(told.lasting && told.hint.contains("set it to 4"), "{told}");
        let asked = number(None, 4, &refused(&[4])).expect_err("is refused");
        assert!(
            asked.lasting && asked.reason.contains("refuses 4 shards") && asked.hint.contains("asked again")
        );
    }
}
