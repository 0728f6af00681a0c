//! The parts of a daemon that run beside its actors, and what they are made of.

pub mod adapters;
pub mod agents;
pub mod background;
pub mod models;
pub mod networks;
pub mod people;
pub mod restart;
pub mod retention;
pub mod systemd;
pub mod tools;
