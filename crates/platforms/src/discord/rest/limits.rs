//! Discord's rate limits: per bucket, and one for all requests. Nothing here waits; callers get the time to wait.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serenity::http::{LightMethod, RatelimitingBucket};

use super::LIMIT_MAX;
use super::refused::{Refusals, Refused};

/// Discord's limit on requests per second and bot, over all buckets.
const GLOBAL_PER_SECOND: u32 = 50;

/// Above this many buckets, expired ones are dropped.
const BUCKETS_MAX: usize = 4096;

/// The unit of rate limits: a route with its channel, and the method.
pub(super) type Key = (RatelimitingBucket, LightMethod);

/// A bucket's state until it is refilled.
struct Bucket {
    remaining: u32,
    until: Instant,
}

#[derive(Default)]
struct State {
    buckets: HashMap<Key, Bucket>,
    closed_until: Option<Instant>,
    /// Start of the current second, and the requests sent in it.
    second: Option<(Instant, u32)>,
    refused: Refused,
}

impl State {
    fn take_of_second(&mut self, now: Instant) -> Result<(), Duration> {
        let (since, sent) = match self.second {
            Some((since, sent)) if now.duration_since(since) < Duration::from_secs(1) => (since, sent),
            _ => (now, 0),
        };
        if sent >= GLOBAL_PER_SECOND {
            return Err(Duration::from_secs(1).saturating_sub(now.duration_since(since)));
        }
        self.second = Some((since, sent + 1));
        Ok(())
    }
}

/// All rate limits of one token.
#[derive(Default)]
pub(super) struct Limits(Mutex<State>);

impl Limits {
    pub(super) fn new(refusals: Refusals) -> Self {
        Self(Mutex::new(State { refused: Refused::new(refusals), ..State::default() }))
    }

    /// Reserves a request in the bucket. `is_global`: the bot's global limits apply, too; they do not apply to answers
    /// to interactions.
    ///
    /// # Errors
    /// The request is not allowed yet: the time to wait.
    pub(super) fn acquire(&self, key: Key, is_global: bool, now: Instant) -> Result<(), Duration> {
        let mut state = self.0.lock();
        if let Some(until) = state.closed_until.filter(|until| is_global && *until > now) {
            return Err(until - now);
        }
        if let Some(bucket) = state.buckets.get(&key).filter(|bucket| bucket.until > now)
            && bucket.remaining == 0
        {
            return Err(bucket.until - now);
        }
        if is_global {
            state.refused.wait(key, now).map_or(Ok(()), Err)?;
            state.take_of_second(now)?;
        }
        if let Some(bucket) = state.buckets.get_mut(&key).filter(|bucket| bucket.until > now) {
            bucket.remaining -= 1;
        }
        Ok(())
    }

    /// Updates a bucket from the headers of an answer.
    pub(super) fn learn(&self, key: Key, headers: &HeaderMap, now: Instant) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        let (Some(remaining), Some(after)) =
            (number("x-ratelimit-remaining"), number("x-ratelimit-reset-after"))
        else {
            return;
        };
        let Ok(after) = Duration::try_from_secs_f64(after) else { return };
        let after = after.min(LIMIT_MAX);
        // A clamped whole number, so the cast is exact.
        let remaining = remaining.clamp(0.0, f64::from(u32::MAX)) as u32;
        let mut state = self.0.lock();
        if state.buckets.len() >= BUCKETS_MAX {
            state.buckets.retain(|_, bucket| bucket.until > now);
        }
        let until = now + after;
        let bucket = state.buckets.entry(key).or_insert(Bucket { remaining, until });
        // Answers may arrive out of order: within a window the lowest count is kept.
        let same_window = bucket.until > now && bucket.until + Duration::from_millis(50) >= until;
        bucket.remaining = if same_window { bucket.remaining.min(remaining) } else { remaining };
        bucket.until = until;
    }

    /// Counts a refused request. Returns true when the count reaches [`super::REFUSED_MAX`].
    pub(super) fn refused(&self, key: Key, now: Instant) -> bool {
        self.0.lock().refused.add(key, now)
    }

    /// Refused requests within the window.
    pub(super) fn n_refused(&self, now: Instant) -> u64 {
        self.0.lock().refused.in_window(now)
    }

    /// Closes a bucket, or with `global` all of them, after a 429.
    pub(super) fn close(&self, key: Key, after: Duration, global: bool, now: Instant) {
        let mut state = self.0.lock();
        let until = now + after.min(LIMIT_MAX);
        if global {
            state.closed_until = Some(state.closed_until.map_or(until, |known| known.max(until)));
        } else {
            state.buckets.insert(key, Bucket { remaining: 0, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use serenity::all::ChannelId;
    use serenity::http::Route;

    use super::*;

    fn key(channel: u64) -> Key {
        let route = Route::ChannelMessages { channel_id: ChannelId::new(channel) };
        (route.ratelimiting_bucket(), LightMethod::Post)
    }

    fn headers(remaining: &str, after: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining", remaining.parse().expect("is a header"));
        headers.insert("x-ratelimit-reset-after", after.parse().expect("is a header"));
        headers
    }

    #[test]
    fn an_exhausted_bucket_holds_its_own_channel_back_and_no_other() {
        let (limits, now) = (Limits::default(), Instant::now());
        limits.learn(key(1), &headers("1", "2.5"), now);
        assert_eq!(limits.acquire(key(1), true, now), Ok(()));
        assert_eq!(limits.acquire(key(1), true, now), Err(Duration::from_millis(2500)));
        assert_eq!(limits.acquire(key(2), true, now), Ok(()));
        assert_eq!(limits.acquire(key(1), true, now + Duration::from_millis(2500)), Ok(()));
    }

    #[test]
    fn a_global_limit_holds_everything_back() {
        let (limits, now) = (Limits::default(), Instant::now());
        limits.close(key(1), Duration::from_secs(3), true, now);
        assert_eq!(limits.acquire(key(2), true, now), Err(Duration::from_secs(3)));
        assert_eq!(limits.acquire(key(2), true, now + Duration::from_secs(3)), Ok(()));
        assert_eq!(limits.acquire(key(3), false, now), Ok(()), "an answer to an interaction");
    }

    #[test]
    fn fifty_requests_a_second_are_not_exceeded() {
        let (limits, now) = (Limits::default(), Instant::now());
        for channel in 1..=50 {
            assert_eq!(limits.acquire(key(channel), true, now), Ok(()));
        }
        assert_eq!(limits.acquire(key(51), true, now), Err(Duration::from_secs(1)));
        assert_eq!(limits.acquire(key(51), true, now + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn a_late_answer_gives_no_place_back_within_its_window() {
        let (limits, now) = (Limits::default(), Instant::now());
        limits.learn(key(1), &headers("0", "2"), now);
        limits.learn(key(1), &headers("1", "2"), now);
        assert!(limits.acquire(key(1), true, now).is_err());
    }

    #[test]
    fn no_limit_is_believed_for_longer_than_an_hour() {
        let (limits, now) = (Limits::default(), Instant::now());
        limits.learn(key(1), &headers("0", "1e18"), now);
        assert_eq!(limits.acquire(key(1), true, now), Err(LIMIT_MAX));
        limits.close(key(2), Duration::MAX, false, now);
        assert_eq!(limits.acquire(key(2), true, now), Err(LIMIT_MAX));
    }

    #[test]
    fn headers_that_make_no_sense_are_passed_over() {
        let (limits, now) = (Limits::default(), Instant::now());
        limits.learn(key(1), &headers("0", "-1"), now);
        limits.learn(key(1), &headers("0", "NaN"), now);
        limits.learn(key(1), &headers("none", "5"), now);
        assert_eq!(limits.acquire(key(1), true, now), Ok(()));
    }
}
