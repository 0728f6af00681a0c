//! Rate limits: buckets with their headers, and refusals that a test scripts.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::Route;
use crate::clock::wall_time;

/// Requests that were on their way when a refusal left are not counted as going on.
const GRACE: Duration = Duration::from_millis(100);

/// How many requests a bucket takes in how much time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) requests: u32,
    pub(super) per: Duration,
}

#[derive(Debug)]
struct Bucket {
    left: u32,
    until: Instant,
}

#[derive(Debug)]
struct Block {
    since: Instant,
    until: Instant,
}

/// A bucket: a route and the channel, or whatever else it is counted by.
type Key = (Route, u64);

#[derive(Debug, Default)]
pub(super) struct Limits {
    buckets: HashMap<Key, Bucket>,
    blocks: HashMap<Key, Block>,
    global: Option<Block>,
    scripted: HashMap<Route, VecDeque<Duration>>,
    scripted_global: Option<Duration>,
    /// Requests that got a 429.
    pub(super) refused: usize,
}

/// A request is refused for so long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) after: Duration,
    pub(super) global: bool,
    /// It came although the client knew.
    pub(super) defiant: bool,
}

impl Limits {
    pub(super) fn script(&mut self, route: Route, after: Duration) {
        self.scripted.entry(route).or_default().push_back(after);
    }

    pub(super) fn script_global(&mut self, after: Duration) {
        self.scripted_global = Some(after);
    }

    /// Counts a request: the headers of its answer, and whether it must wait.
    pub(super) fn take(&mut self, key: Key, rate: Rate) -> (Vec<(&'static str, String)>, Option<Wait>) {
        let now = Instant::now();
        let bucket = self.buckets.entry(key).or_insert(Bucket { left: rate.requests, until: now + rate.per });
        if now >= bucket.until {
            *bucket = Bucket { left: rate.requests, until: now + rate.per };
        }
        let full = bucket.left == 0;
        bucket.left = bucket.left.saturating_sub(1);
        let (left, until) = (bucket.left, bucket.until);
        let wait = self.wait(key, now, full.then(|| until - now));
        self.refused += usize::from(wait.is_some());
        let reset_after = wait.map_or(until - now, |wait| wait.after).as_secs_f64();
        let reset = wall_time().as_millisecond() as f64 / 1000.0 + reset_after;
        let left = if wait.is_some() { 0 } else { left };
        let mut headers = vec![
            ("x-ratelimit-limit", rate.requests.to_string()),
            ("x-ratelimit-remaining", left.to_string()),
            ("x-ratelimit-reset", format!("{reset:.3}")),
            ("x-ratelimit-reset-after", format!("{reset_after:.3}")),
            ("x-ratelimit-bucket", format!("{:08x}", 0x5eed_0000_u32 + key.0 as u32)),
        ];
        if let Some(wait) = wait {
            headers.push(("retry-after", wait.after.as_secs_f64().ceil().to_string()));
            headers.push(("x-ratelimit-scope", if wait.global { "global" } else { "user" }.to_owned()));
            if wait.global {
                headers.push(("x-ratelimit-global", "true".to_owned()));
            }
        }
        (headers, wait)
    }

    fn wait(&mut self, key: Key, now: Instant, full: Option<Duration>) -> Option<Wait> {
        let blocked = |block: &Block, global| {
            let defiant = now > block.since + GRACE;
            (now < block.until).then(|| Wait { after: block.until - now, global, defiant })
        };
        if let Some(wait) = self.global.as_ref().and_then(|block| blocked(block, true)) {
            return Some(wait);
        }
        if let Some(wait) = self.blocks.get(&key).and_then(|block| blocked(block, false)) {
            return Some(wait);
        }
        if let Some(after) = self.scripted_global.take() {
            self.global = Some(Block { since: now, until: now + after });
            return Some(Wait { after, global: true, defiant: false });
        }
        let scripted = self.scripted.get_mut(&key.0).and_then(VecDeque::pop_front);
        let after = scripted.or(full)?;
        self.blocks.insert(key, Block { since: now, until: now + after });
        Some(Wait { after, global: false, defiant: false })
    }
}
