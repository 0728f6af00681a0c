//! A clock that stands still until it is set, and the time on the wall for fakes that stamp what they keep.

use cairn_types::ports::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// A clock for tests: it shows what it was set to, and moves by nothing but [`TestClock::advance`].
#[derive(Debug)]
pub struct TestClock {
    now: Mutex<Timestamp>,
}

/// What a new test clock shows: 2026-01-01T00:00:00Z.
pub const TEST_EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

impl Default for TestClock {
    fn default() -> Self {
        Self::new(TEST_EPOCH)
    }
}

impl TestClock {
    pub fn new(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock() = now;
    }

    /// Moves the clock on by a duration, saturating at the ends of time. Returns what it shows then.
    pub fn advance(&self, by: SignedDuration) -> Timestamp {
        let mut now = self.now.lock();
        let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        *now = now.checked_add(by).unwrap_or(end);
        *now
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.now.lock()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "fake servers are outside the runtime: they stamp with the true time"
)]
pub fn wall_time() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let since = SignedDuration::try_from(since).unwrap_or_default();
    Timestamp::UNIX_EPOCH.checked_add(since).unwrap_or(Timestamp::MAX)
}
