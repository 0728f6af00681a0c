//! What is seen of a daemon from outside: its log, which tells nobody's words, and its metrics.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod board;
mod canary;
mod exposition;
mod figures;
mod lines;
mod rig;
