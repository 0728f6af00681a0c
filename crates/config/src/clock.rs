//! The clock: the only place where the time is read.

use cairn_types::ports::Clock;
use jiff::Timestamp;

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else takes its time from"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
