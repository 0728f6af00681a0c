//! One shard: its session, kept alive over reconnecting connections.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::AdapterFailure;
use futures::FutureExt as _;
use parking_lot::Mutex;
use reqwest::Url;

use super::board::{Board, ShardState};
use super::close::Next;
use super::connection::{Connection, Ended, connect};
use super::starts::{QueuedStart, Spent, StartSlot, Starts};
use super::{Gateway, Listener, NoAnswer, Shard, passing};
use crate::pause::{Pauses, part_of};

/// First and longest pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A connection that was up this long resets the pause.
const STEADY: Duration = Duration::from_secs(5);

/// After this many failed connections the API is asked for a new address: the known one may be gone.
const RESUMES_MAX: u32 = 3;

/// Least pause after Discord said that too much was sent.
const SLOW_PAUSE: Duration = Duration::from_secs(30);

const NONE_LEFT: &str = "the bot has begun as many sessions as Discord allows in a day";
pub(super) const LIMITED: &str = "Discord limits how often the bot may connect";
const PANICKED: &str = "a connection panicked: this is a bug in cairn; the log says where";

pub(super) struct Session {
    pub(super) id: String,
    pub(super) seq: u64,
    pub(super) address: Url,
}

/// Why a shard stopped for good.
#[derive(Debug)]
pub(super) enum Stopped {
    Failed(AdapterFailure),
    /// Discord refuses this number of shards.
    Number,
}

pub(super) struct ShardRun<L> {
    pub(super) shard: Shard,
    pub(super) gateway: Arc<Gateway>,
    pub(super) starts: Arc<Starts>,
    pub(super) board: Arc<Board>,
    pub(super) listener: Arc<L>,
    /// The queue place for the first session, taken in advance so that shards start in the order of their numbers.
    pub(super) place: Mutex<Option<QueuedStart>>,
}

/// State that a shard keeps between connections.
struct ShardProgress {
    session: Option<Session>,
    pauses: Pauses,
    n_failed: u32,
}

impl ShardProgress {
    fn new() -> Self {
        Self { session: None, pauses: Pauses::new(FIRST_PAUSE, LONGEST_PAUSE), n_failed: 0 }
    }

    /// The pause after a connection ended, before the next one.
    ///
    /// # Errors
    /// The shard must stop.
    fn after(&mut self, ended: &Ended) -> Result<Duration, Stopped> {
        self.n_failed = if ended.up_for.is_some() { 0 } else { self.n_failed + 1 };
        let least = match &ended.next {
            Next::Fail(failure) => return Err(Stopped::Failed(failure.clone())),
            Next::Number => return Err(Stopped::Number),
            Next::Slowly => SLOW_PAUSE,
            // Discord asks for one to five seconds between an invalid session and the next.
            Next::Fresh if self.session.is_some() => Duration::from_secs(1) + part_of(Duration::from_secs(4)),
            Next::Fresh | Next::Resume => Duration::ZERO,
        };
        // Only Discord ends a session. It is kept through an outage, since a resume delivers the missed events.
        if ended.next == Next::Fresh {
            self.session = None;
        }
        if ended.up_for.is_some_and(|time| time >= STEADY) {
            self.pauses.reset();
        }
        Ok(least.max(self.pauses.next()))
    }
}

impl<L: Listener> ShardRun<L> {
    /// Connects and reconnects until the shard must stop.
    pub(super) async fn run(self) -> Stopped {
        let mut progress = ShardProgress::new();
        if let Some((session, bot)) = self.gateway.sessions.of(self.shard, &self.gateway.addresses) {
            self.listener.resumes(self.shard, &bot);
            progress.session = Some(session);
            *self.place.lock() = None;
        }
        loop {
            let once = AssertUnwindSafe(self.once(&mut progress.session, progress.n_failed)).catch_unwind();
            let ended = once.await.unwrap_or_else(|_panic| Ended::new(Next::Fresh, PANICKED));
            match progress.after(&ended) {
                Ok(pause) => {
                    if progress.session.is_none() {
                        self.gateway.sessions.ended(self.shard);
                    }
                    if progress.n_failed >= RESUMES_MAX {
                        self.starts.forget();
                    }
                    self.pause(&ended.reason, pause).await;
                }
                Err(stopped) => return stopped,
            }
        }
    }

    async fn pause(&self, reason: &str, pause: Duration) {
        self.board.set(self.shard, ShardState::Down(passing(reason)));
        metrics::counter!("cairn_discord_reconnects_total").increment(1);
        tracing::warn!(
            platform = self.gateway.link.platform(),
            shard = self.shard.id,
            reason,
            pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "not connected to Discord; trying again"
        );
        tokio::time::sleep(pause).await;
    }

    /// One connection, including the lookups before it.
    async fn once(&self, session: &mut Option<Session>, n_failed: u32) -> Ended {
        let (turn, address) = match session {
            Some(session) if n_failed < RESUMES_MAX => (None, session.address.clone()),
            Some(session) => match self.gateway.ask().await {
                Ok(allowance) => (None, allowance.address),
                Err(_) => (None, session.address.clone()),
            },
            None => match self.may_begin().await {
                Ok((turn, address)) => (Some(turn), address),
                Err(ended) => return ended,
            },
        };
        match connect(&address).await {
            Ok(socket) => Connection { socket, of: self, session, turn }.run().await,
            Err(reason) => Ended::new(Next::Resume, reason),
        }
    }

    /// Waits for a turn to start a session, and asks the API for the address, which also checks the token.
    async fn may_begin(&self) -> Result<(StartSlot<'_>, Url), Ended> {
        loop {
            let place = self.place.lock().take();
            let place = place.unwrap_or_else(|| self.starts.queue(self.shard));
            let turn = self.starts.turn(self.shard, place).await;
            let (reason, after) = match self.starts.spend(async || self.gateway.ask().await).await {
                Ok(Spent::Yes(left)) => {
                    self.gateway.tell_of_budget(&left, self.shard.of);
                    return Ok((turn, left.address));
                }
                Ok(Spent::NoneLeft(after)) => (NONE_LEFT, after),
                Err(NoAnswer::Limited(after)) => (LIMITED, after),
                Err(NoAnswer::Ended(ended)) => return Err(ended),
            };
            self.pause(reason, after).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(next: Next, up_for: Option<u64>) -> Ended {
        Ended { up_for: up_for.map(Duration::from_secs), ..Ended::new(next, "") }
    }

    fn with_session() -> ShardProgress {
        let address = "wss://gateway.discord.gg".parse().expect("is an address");
        ShardProgress {
            session: Some(Session { id: String::new(), seq: 7, address }),
            ..ShardProgress::new()
        }
    }

    #[test]
    fn connections_that_end_at_once_follow_each_other_ever_more_slowly() {
        let mut progress = with_session();
        let pauses: Vec<_> =
            (0..10).map(|_| progress.after(&ended(Next::Resume, None)).expect("goes on")).collect();
        assert!(pauses.iter().all(|pause| *pause >= FIRST_PAUSE / 2), "{pauses:?}");
        assert!(pauses[9] >= LONGEST_PAUSE / 2 && pauses[9] <= LONGEST_PAUSE, "{pauses:?}");
        progress.after(&ended(Next::Resume, Some(STEADY.as_secs()))).expect("goes on");
        assert!(progress.after(&ended(Next::Resume, None)).expect("goes on") <= FIRST_PAUSE * 2);
    }

    #[test]
    fn connections_that_are_cut_again_and_again_are_resumed_at_once() {
        let mut progress = with_session();
        for _ in 0..20 {
            let pause = progress.after(&ended(Next::Resume, Some(15))).expect("goes on");
            assert!(pause <= FIRST_PAUSE, "{pause:?}");
        }
    }

    #[test]
    fn a_session_is_kept_while_it_may_be_resumed() {
        let mut progress = with_session();
        progress.after(&ended(Next::Resume, Some(1))).expect("goes on");
        progress.after(&ended(Next::Resume, None)).expect("goes on");
        assert!(progress.after(&ended(Next::Slowly, None)).expect("goes on") >= SLOW_PAUSE);
        assert!(progress.session.is_some());
        progress.after(&ended(Next::Resume, None)).expect("goes on");
        assert!(progress.session.is_some(), "through an outage, too");
        let mut progress = with_session();
        assert!(progress.after(&ended(Next::Fresh, Some(1))).expect("goes on") >= Duration::from_secs(1));
        assert!(progress.session.is_none());
        assert!(matches!(progress.after(&ended(Next::Number, None)), Err(Stopped::Number)));
    }
}
