//! The actors over fakes of all ports, with tokio's clock paused: no test waits for time or touches the world.

mod answers;
mod approvals;
mod artifacts;
mod away;
mod chain;
mod changes;
mod clocks;
mod commands;
mod common;
mod cut;
mod emergencies;
mod engines;
mod fairness;
mod kills;
mod liveness;
mod long;
mod notices;
mod outage;
mod outbox;
mod refusals;
mod restarts;
mod runs;
mod shows;
pub(crate) mod sim;
mod sleep;
mod stages;
mod tools;
