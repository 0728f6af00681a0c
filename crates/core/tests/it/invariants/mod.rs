//! The invariants of the design over the pure core, by tables and by generated sequences.

mod amended;
mod engines;
mod expired;
mod facts;
mod generated;
mod guide;
mod latest;
mod long;
mod planted;
mod pruning;
mod reactions;
mod rules;
mod sim;
mod stack;
mod waiting;
