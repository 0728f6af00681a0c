//! The invariants of the design and the shape of what is persisted.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod invariants;
mod shapes;
