//! Pauses between attempts at the same thing, and before an actor that failed is started again.

use std::time::Duration;

use cairn_types::wire::backoff::{Backoff, jittered, pause_after};
use tokio::time::Instant;

use crate::lifecycle::Lifecycle;

/// The pause after the first failure.
const FIRST: Duration = Duration::from_secs(2);

/// Longest that the other side's own word is taken for: a figure beyond it is a mistake.
const ASKED_MAX: Duration = Duration::from_secs(3600);

/// Whether there is another attempt after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paced {
    Again,
    /// The runtime stops before it would be due.
    Stopping,
}

/// How long to wait after each failure: growing, with jitter, and cut short when the runtime stops.
pub(crate) struct Pace(Backoff);

impl Pace {
    /// Growing pauses, none longer than `max`.
    pub(crate) fn up_to(max: Duration) -> Self {
        Self(Backoff::new(FIRST, max))
    }

    /// The next pause, when the other side names none.
    pub(crate) fn next(&mut self) -> Duration {
        jittered(self.0.next_pause(), fastrand::f64())
    }

    /// Waits: as long as the other side asks for, or the next pause.
    pub(crate) async fn wait(&mut self, lifecycle: &Lifecycle, asked: Option<Duration>) -> Paced {
        let pause = match asked {
            Some(asked) => asked.min(ASKED_MAX),
            None => self.next(),
        };
        let due = Instant::now() + pause;
        let mut stop = lifecycle.stop_by.subscribe();
        // A runtime that stops waits for nobody who does not say how long it takes.
        let too_late = |by: &Option<Instant>| by.is_some_and(|by| asked.is_none() || by < due);
        tokio::select! {
            biased;
            _ = stop.wait_for(too_late) => Paced::Stopping,
            () = tokio::time::sleep_until(due) => Paced::Again,
        }
    }
}

/// Failures further apart than that do not add up.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Longest pause before an actor is started again.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often an actor failed of late.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    n: u32,
    last: Option<Instant>,
}

impl Crashes {
    /// Counts a failure and says how long to pause.
    pub(crate) fn pause(&mut self, base: Duration) -> Duration {
        let now = Instant::now();
        if self.last.is_none_or(|last| now - last > STABLE_AFTER) {
            self.n = 0;
        }
        self.last = Some(now);
        self.n += 1;
        pause_after(self.n, base, RESTART_PAUSE_MAX)
    }
}
