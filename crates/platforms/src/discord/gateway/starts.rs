//! Limits on session starts: Discord allows one per five seconds in each bucket of shards (`id % max_concurrency`), and
//! a fixed number per day.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::Url;
use serenity::all::BotGateway;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Shard;

/// Least time between two session starts in a bucket.
pub(super) const IDENTIFY_EVERY: Duration = Duration::from_secs(5);

/// How long an answer of the API is reused.
const FRESH: Duration = Duration::from_secs(60);

/// Longest pause for the daily limit.
const RESET_MAX: Duration = Duration::from_secs(24 * 3600);

/// Below this many remaining session starts the status warns; more with many shards.
const FEW_SESSIONS: u64 = 20;

/// The API's answer: the gateway address and the remaining session starts.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    pub(super) address: Url,
    /// The recommended number of shards.
    pub(super) shards: u32,
    pub(super) max_concurrency: u32,
    pub(super) remaining: u64,
    pub(super) reset_after: Duration,
}

impl Allowance {
    pub(super) fn new(address: Url, said: &BotGateway) -> Self {
        let limit = &said.session_start_limit;
        let reset_after = Duration::from_millis(limit.reset_after.max(1000)).min(RESET_MAX);
        Self {
            address,
            shards: said.shards.max(1),
            max_concurrency: u32::try_from(limit.max_concurrency).unwrap_or(u32::MAX).max(1),
            remaining: limit.remaining,
            reset_after,
        }
    }

    /// Whether so few session starts remain that operators should know, while the shards can still come back.
    pub(super) fn is_low(&self, n_shards: u32) -> bool {
        self.remaining < FEW_SESSIONS.max(2 * u64::from(n_shards))
    }
}

#[derive(Debug)]
struct Bucket {
    /// Waiting shards, first come, first served.
    turn: Arc<Semaphore>,
    /// When the last session started.
    began: Mutex<Option<Instant>>,
}

/// State that the shards of a bot share when they start sessions.
#[derive(Debug)]
pub(super) struct Starts {
    buckets: Box<[Bucket]>,
    /// The API's answer, and until when it is reused.
    known: Mutex<Option<(Allowance, Instant)>>,
    /// Lets one shard ask at a time; the others reuse its answer.
    asking: Semaphore,
}

/// A shard's turn to start a session. Its bucket is closed to other shards until it is used or dropped.
#[derive(Debug)]
pub(super) struct StartSlot<'a> {
    bucket: &'a Bucket,
    _turn: Option<OwnedSemaphorePermit>,
}

/// A shard's place in the queue of its bucket.
pub(super) type QueuedStart = BoxFuture<'static, Result<OwnedSemaphorePermit, AcquireError>>;

impl StartSlot<'_> {
    /// Records that the session starts now.
    pub(super) fn used(self) {
        *self.bucket.began.lock() = Some(Instant::now());
    }
}

impl Starts {
    pub(super) fn new(allowance: Allowance, n_shards: u32) -> Self {
        let bucket = |_| Bucket { turn: Arc::new(Semaphore::new(1)), began: Mutex::new(None) };
        let buckets = (0..allowance.max_concurrency.min(n_shards).max(1)).map(bucket).collect();
        let known = Some((allowance, Instant::now() + FRESH));
        Self { buckets, known: Mutex::new(known), asking: Semaphore::new(1) }
    }

    fn bucket(&self, shard: Shard) -> &Bucket {
        &self.buckets[shard.id as usize % self.buckets.len()]
    }

    /// Takes the next place in the queue of the shard's bucket.
    pub(super) fn queue(&self, shard: Shard) -> QueuedStart {
        let mut place = self.bucket(shard).turn.clone().acquire_owned().boxed();
        // The first poll takes the place in the queue.
        match (&mut place).now_or_never() {
            Some(turn) => std::future::ready(turn).boxed(),
            None => place,
        }
    }

    /// Waits until the shard's bucket allows a session start.
    pub(super) async fn turn(&self, shard: Shard, place: QueuedStart) -> StartSlot<'_> {
        let bucket = self.bucket(shard);
        // The semaphore is never closed.
        let turn = place.await.ok();
        let began = *bucket.began.lock();
        if let Some(began) = began {
            tokio::time::sleep_until(began + IDENTIFY_EVERY).await;
        }
        StartSlot { bucket, _turn: turn }
    }

    /// Uses up one session start of the day. `ask` is called if the API's answer is missing or too old.
    ///
    /// # Errors
    /// The error of `ask`.
    pub(super) async fn spend<E>(&self, ask: impl AsyncFnOnce() -> Result<Allowance, E>) -> Result<Spent, E> {
        let _one = self.asking.acquire().await.ok();
        let fresh = |known: &Option<(Allowance, Instant)>| {
            known.as_ref().is_some_and(|(_, until)| Instant::now() < *until)
        };
        if !fresh(&self.known.lock()) {
            let allowance = ask().await?;
            *self.known.lock() = Some((allowance, Instant::now() + FRESH));
        }
        let mut known = self.known.lock();
        Ok(match known.as_mut() {
            Some((allowance, _)) if allowance.remaining > 0 => {
                allowance.remaining -= 1;
                Spent::Yes(allowance.clone())
            }
            other => {
                let pause = other.map_or(IDENTIFY_EVERY, |(allowance, _)| allowance.reset_after);
                *known = None;
                Spent::NoneLeft(pause)
            }
        })
    }

    /// Drops the API's answer, so that it is asked again.
    pub(super) fn forget(&self) {
        *self.known.lock() = None;
    }
}

#[derive(Debug)]
pub(super) enum Spent {
    /// A session may start; the answer has the remaining starts.
    Yes(Allowance),
    /// None left for this long.
    NoneLeft(Duration),
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn allowance(shards: u32, max_concurrency: u32, remaining: u64) -> Allowance {
        let address = "wss://gateway.discord.gg".parse().expect("is an address");
        Allowance { address, shards, max_concurrency, remaining, reset_after: Duration::from_secs(3600) }
    }

    /// By shard the second at which its session begins, when it takes so long from its turn to the beginning.
    async fn begun(n_shards: u32, max_concurrency: u32, way: impl Fn(u32) -> Duration) -> Vec<u64> {
        let starts = Arc::new(Starts::new(allowance(n_shards, max_concurrency, 1000), n_shards));
        let at = Instant::now();
        let shards = (0..n_shards).map(|id| {
            let (starts, way, shard) = (starts.clone(), way(id), Shard { id, of: n_shards });
            let place = starts.queue(shard);
            async move {
                let turn = starts.turn(shard, place).await;
                tokio::time::sleep(way).await;
                turn.used();
                at.elapsed().as_secs()
            }
        });
        // Whichever task runs first: the places are those in which they queued.
        let mut shards: Vec<_> = shards.map(|shard| shard.boxed()).collect();
        shards.reverse();
        let mut begun = futures::future::join_all(shards).await;
        begun.reverse();
        begun
    }

    #[tokio::test(start_paused = true)]
    async fn each_bucket_begins_one_session_in_five_seconds_and_waits_for_no_other_bucket() {
        let quick = |_| Duration::ZERO;
        assert_eq!(begun(4, 2, quick).await, [0, 0, 5, 5]);
        assert_eq!(begun(3, 1, quick).await, [0, 5, 10]);
        assert_eq!(begun(2, 16, quick).await, [0, 0]);
        assert_eq!(begun(16, 16, quick).await, [0; 16]);
        let all = begun(64, 16, quick).await;
        assert_eq!((all[15], all[16], all[63]), (0, 5, 15));
        assert_eq!(begun(64, 1, quick).await[63], 315);
        // The five seconds count from when a session begins, not from when its shard set out.
        let slow = |id| Duration::from_secs(if id == 0 { 3 } else { 0 });
        assert_eq!(begun(4, 2, slow).await, [3, 0, 8, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_not_used_costs_the_next_one_nothing() {
        let starts = Starts::new(allowance(2, 1, 1000), 2);
        let at = Instant::now();
        let turn = async |id| {
            let shard = Shard { id, of: 2 };
            starts.turn(shard, starts.queue(shard)).await
        };
        drop(turn(0).await);
        turn(1).await.used();
        assert_eq!(at.elapsed(), Duration::ZERO);
        turn(0).await.used();
        assert_eq!(at.elapsed(), IDENTIFY_EVERY);
    }

    #[tokio::test(start_paused = true)]
    async fn the_days_sessions_are_counted_here_and_asked_for_once_a_minute() {
        let starts = Starts::new(allowance(2, 1, 2), 2);
        let asked = Mutex::new(0);
        let spend = async |left| {
            let ask = async || {
                *asked.lock() += 1;
                Ok::<_, Infallible>(allowance(2, 1, left))
            };
            match starts.spend(ask).await.expect("never fails") {
                Spent::Yes(allowance) => Ok(allowance.remaining),
                Spent::NoneLeft(pause) => Err(pause.as_secs()),
            }
        };
        assert_eq!((spend(9).await, spend(9).await), (Ok(1), Ok(0)));
        assert_eq!((spend(9).await, *asked.lock()), (Err(3600), 0), "none is begun beyond the limit");
        assert_eq!((spend(9).await, *asked.lock()), (Ok(8), 1));
        tokio::time::advance(FRESH).await;
        assert_eq!((spend(5).await, *asked.lock()), (Ok(4), 2));
        starts.forget();
        assert_eq!((spend(0).await, *asked.lock()), (Err(3600), 3));
    }

    #[test]
    fn a_low_budget_is_told_while_all_shards_can_still_come_back() {
        for (n_shards, remaining, low) in [(1, 20, false), (1, 19, true), (16, 32, false), (16, 31, true)] {
            assert_eq!(allowance(n_shards, 1, remaining).is_low(n_shards), low, "{n_shards} {remaining}");
        }
    }
}
