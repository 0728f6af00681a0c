//! Calls that may never return: into sled, into tantivy, into a disk. Who waits for one looks here how long it lasts.

use std::collections::HashMap;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The calls under way, by thread. A thread is in one call at a time.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<HashMap<ThreadId, Instant>>);

impl Calls {
    pub(crate) fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        let under_way = UnderWay(self, std::thread::current().id());
        self.0.lock().insert(under_way.1, Instant::now());
        call()
    }

    /// How long the longest of them has lasted.
    pub(crate) fn longest(&self) -> Duration {
        self.0.lock().values().map(Instant::elapsed).max().unwrap_or_default()
    }
}

/// Also ends when the call panics.
struct UnderWay<'a>(&'a Calls, ThreadId);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_known_until_it_returns_or_panics() {
        let calls = Calls::default();
        let wait = Duration::from_millis(2);
        calls.within(|| {
            while calls.longest() < wait {
                std::thread::yield_now();
            }
        });
        assert_eq!(calls.longest(), Duration::ZERO);
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| calls.within(|| panic!("no"))));
        assert!(panicked.is_err());
        assert_eq!(calls.longest(), Duration::ZERO);
    }
}
