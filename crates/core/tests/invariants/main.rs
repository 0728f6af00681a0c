//! The invariants of the design over the pure core, by tables and by generated sequences.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod amended;
mod engines;
mod expired;
mod generated;
mod guide;
mod latest;
mod pruning;
mod rules;
mod sim;
mod stack;
mod waiting;
