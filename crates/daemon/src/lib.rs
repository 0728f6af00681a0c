//! The daemon behind the binary `cairn`: configuration, command line, admin API, wiring.

pub mod admin;
pub mod arenas;
pub mod cli;
pub mod clock;
pub mod config;
pub mod records;
pub mod roster;
pub mod socket;
pub mod sse;
pub mod telemetry;
pub mod wiring;
