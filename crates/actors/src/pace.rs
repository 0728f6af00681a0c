//! Pauses between attempts, and before a failed actor restarts.

use std::time::Duration;

use cairn_types::wire::backoff::{Backoff, jittered, pause_after};
use tokio::time::Instant;

use crate::lifecycle::Lifecycle;

/// The pause after the first failure.
const FIRST: Duration = Duration::from_secs(2);

/// A longer pause than this, asked for by the other side, counts as a mistake.
const ASKED_MAX: Duration = Duration::from_secs(3600);

/// Whether to try again after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paced {
    Again,
    /// The runtime stops before the pause is over.
    Stopping,
}

/// Growing pauses with jitter, which end early when the runtime stops.
pub(crate) struct Pace(Backoff);

impl Pace {
    /// Pauses of at most `max`.
    pub(crate) fn up_to(max: Duration) -> Self {
        Self(Backoff::new(FIRST, max))
    }

    /// The next pause, if the other side asks for none.
    pub(crate) fn next(&mut self) -> Duration {
        jittered(self.0.next_pause(), fastrand::f64())
    }

    /// Waits for as long as the other side asked, else for the next pause.
    pub(crate) async fn wait(&mut self, lifecycle: &Lifecycle, asked: Option<Duration>) -> Paced {
        let pause = match asked {
            Some(asked) => asked.min(ASKED_MAX),
            None => self.next(),
        };
        let due = Instant::now() + pause;
        let mut stop = lifecycle.stop_by.subscribe();
        // While the runtime stops, only a pause that the other side asked for and that ends in time is waited for.
        let too_late = |by: &Option<Instant>| by.is_some_and(|by| asked.is_none() || by < due);
        tokio::select! {
            biased;
            _ = stop.wait_for(too_late) => Paced::Stopping,
            () = tokio::time::sleep_until(due) => Paced::Again,
        }
    }
}

/// Failures further apart than this are counted separately.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Longest pause before a failed actor restarts.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Recent failures of an actor.
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
