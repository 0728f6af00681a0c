//! The actors over fakes of all ports, with tokio's clock paused: no test waits for time or touches the world.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod commands;
mod common;
mod emergencies;
mod outbox;
mod restarts;
mod runs;
mod sleep;
mod tools;
