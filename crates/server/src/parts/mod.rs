//! The parts of a daemon besides its actors, and how they are created from the configuration.

pub mod adapters;
pub mod agents;
pub mod background;
pub mod models;
pub mod networks;
pub mod people;
pub mod restart;
pub mod retention;
pub mod schedules;
pub mod systemd;
pub mod tools;

/// This binary, by its `/proc` link, because its file may have been replaced.
pub(crate) const OWN_BINARY: &str = "/proc/self/exe";
