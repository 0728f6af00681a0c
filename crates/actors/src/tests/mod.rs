//! The actors over fakes of all ports, with tokio's clock paused: no test waits for time or touches the world.

mod answers;
mod artifacts;
mod changes;
mod commands;
mod common;
mod emergencies;
mod kills;
mod outage;
mod outbox;
mod restarts;
mod runs;
mod shows;
mod sleep;
mod tools;
