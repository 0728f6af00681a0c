//! The invariants of the design over the pure core, by tables and by generated sequences.

mod generated;
mod rules;
mod sim;
