//! Requests that count against the bot: those that get 401, 403, or 429 for a limit of its own. Discord shuts out an address
//! that makes 10,000 of them in ten minutes, with every bot behind it: the bots of a daemon count together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::limits::Key;

/// Discord counts over so long.
const WINDOW: Duration = Duration::from_secs(600);

/// The counts of so long are kept together.
const STEP: Duration = Duration::from_secs(60);

/// From here on what was refused in the window is not tried again within it. A tenth of what Discord takes: other bots and
/// other programs may share the address, and no healthy bot comes near.
pub(crate) const REFUSED_MAX: u64 = 1_000;

/// From here on nothing is asked any more: half of what Discord takes.
pub(crate) const STOP_AT: u64 = 5_000;

/// At so many kinds of requests those that were refused before the window are forgotten. If none was, new kinds are not noted.
const KEYS_MAX: usize = 10_000;

/// How many requests of late were refused to all bots that share it: since when, and how many, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<VecDeque<(Instant, u64)>>>);

/// What was refused of late to one of the bots. Nothing here waits; it says how long to.
#[derive(Debug, Default)]
pub(super) struct Refused {
    all: Refusals,
    /// When each kind of request was refused last.
    last: HashMap<Key, Instant>,
}

impl Refused {
    pub(super) fn new(all: Refusals) -> Self {
        Self { all, last: HashMap::new() }
    }

    /// One more. True: with this one there are too many.
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

    /// How long a request must wait so that it does not add to them; none: it may go.
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
    /// One more; how many there are with it.
    fn add(&self, now: Instant) -> u64 {
        let mut steps = self.0.lock();
        match steps.back_mut() {
            Some((since, n)) if now.duration_since(*since) < STEP => *n += 1,
            _ => steps.push_back((now, 1)),
        }
        count(&mut steps, now)
    }

    /// How many there are, and since when.
    fn now(&self, now: Instant) -> (u64, Option<Instant>) {
        let mut steps = self.0.lock();
        (count(&mut steps, now), steps.front().map(|(since, _)| *since))
    }
}

/// A step counts until its last request is old enough.
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
