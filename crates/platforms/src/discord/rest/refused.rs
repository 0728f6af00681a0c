//! Counts refused requests: 401, 403, and 429 except for shared limits. Discord blocks an IP address with 10,000 of
//! them in ten minutes, for every bot behind it, so all bots of a daemon are counted together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::Key;

/// The period over which Discord counts.
const WINDOW: Duration = Duration::from_secs(600);

/// Refusals within this time share one counter.
const STEP: Duration = Duration::from_secs(60);

/// From this count on, requests of a kind that was refused within the window wait. It is a tenth of Discord's limit:
/// other bots and programs may share the address, and no healthy bot gets near it.
pub(crate) const REFUSED_MAX: u64 = 1_000;

/// From this count on, all requests wait: half of Discord's limit.
pub(crate) const STOP_AT: u64 = 5_000;

/// At this many kinds of requests those refused before the window are dropped. If none can be dropped, new kinds are
/// not recorded.
const KEYS_MAX: usize = 10_000;

/// Recent refusals of all bots that share it: counters with their start, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<VecDeque<(Instant, u64)>>>);

/// Recent refusals of one bot. Nothing here waits; callers get the time to wait.
#[derive(Debug, Default)]
pub(super) struct Refused {
    all: Refusals,
    /// When each kind of request was last refused.
    last: HashMap<Key, Instant>,
}

impl Refused {
    pub(super) fn new(all: Refusals) -> Self {
        Self { all, last: HashMap::new() }
    }

    /// Counts a refusal. Returns true when the count reaches [`REFUSED_MAX`].
    pub(super) fn add(&mut self, key: Key, now: Instant) -> bool {
        let n = self.all.add(now);
        if self.last.len() >= KEYS_MAX {
            self.last.retain(|_, at| now.duration_since(*at) < WINDOW);
        }
        if self.last.len() < KEYS_MAX {
            self.last.insert(key, now);
        }
        n == REFUSED_MAX
    }

    /// How long a request must wait; `None`: it may be sent.
    pub(super) fn wait(&self, key: Key, now: Instant) -> Option<Duration> {
        let (n, oldest) = self.all.now(now);
        let was_refused = || self.last.get(&key).is_some_and(|at| now.duration_since(*at) < WINDOW);
        let waits = n >= STOP_AT || (n >= REFUSED_MAX && was_refused());
        let oldest = oldest?;
        waits.then(|| (oldest + WINDOW + STEP).saturating_duration_since(now))
    }

    pub(super) fn in_window(&self, now: Instant) -> u64 {
        self.all.now(now).0
    }
}

impl Refusals {
    /// Counts a refusal. Returns the new count.
    fn add(&self, now: Instant) -> u64 {
        let mut steps = self.0.lock();
        match steps.back_mut() {
            Some((since, n)) if now.duration_since(*since) < STEP => *n += 1,
            _ => steps.push_back((now, 1)),
        }
        count(&mut steps, now)
    }

    /// The count, and the time of the oldest counter.
    fn now(&self, now: Instant) -> (u64, Option<Instant>) {
        let mut steps = self.0.lock();
        (count(&mut steps, now), steps.front().map(|(since, _)| *since))
    }
}

/// Drops counters whose last refusal is outside the window, and sums up the rest.
fn count(steps: &mut VecDeque<(Instant, u64)>, now: Instant) -> u64 {
    let is_old = |(since, _): &(Instant, u64)| now.duration_since(*since) >= WINDOW + STEP;
    while steps.front().is_some_and(is_old) {
        steps.pop_front();
    }
    steps.iter().map(|(_, n)| n).sum()
}

#[cfg(test)]
mod tests {
    use serenity::all::ChannelId;
    use serenity::http::{LightMethod, Route};

    use super::*;

    fn key(channel: u64) -> Key {
        let route = Route::ChannelMessages { channel_id: ChannelId::new(channel) };
        (route.ratelimiting_bucket(), LightMethod::Post)
    }

    /// So many refusals of one kind of request.
    fn refused(n: u64, now: Instant) -> Refused {
        let mut refused = Refused::default();
        for one in 1..=n {
            assert_eq!(refused.add(key(1), now), one == REFUSED_MAX, "{one}");
        }
        refused
    }

    #[test]
    fn what_was_refused_waits_once_there_are_too_many_and_the_rest_goes_on() {
        let now = Instant::now();
        assert_eq!(refused(REFUSED_MAX - 1, now).wait(key(1), now), None);
        let many = refused(REFUSED_MAX, now);
        assert_eq!(many.wait(key(1), now), Some(WINDOW + STEP));
        assert_eq!(many.wait(key(2), now), None);
        let later = now + WINDOW + STEP;
        assert_eq!(many.in_window(later - STEP), REFUSED_MAX, "none is forgotten too early");
        assert_eq!((many.wait(key(1), later), many.in_window(later)), (None, 0));
    }

    #[test]
    fn the_bots_of_a_daemon_count_together_and_each_waits_with_what_was_refused_to_it() {
        let now = Instant::now();
        let all = Refusals::default();
        let (mut one, mut other) = (Refused::new(all.clone()), Refused::new(all));
        for _ in 0..REFUSED_MAX / 2 {
            one.add(key(1), now);
            other.add(key(2), now);
        }
        assert_eq!((one.in_window(now), other.in_window(now)), (REFUSED_MAX, REFUSED_MAX));
        assert_eq!((one.wait(key(1), now), one.wait(key(2), now)), (Some(WINDOW + STEP), None));
        assert_eq!((other.wait(key(1), now), other.wait(key(2), now)), (None, Some(WINDOW + STEP)));
    }

    #[test]
    fn far_below_what_discord_takes_everything_stops() {
        let now = Instant::now();
        let all = refused(STOP_AT, now);
        assert_eq!(all.wait(key(2), now), Some(WINDOW + STEP));
    }
}
