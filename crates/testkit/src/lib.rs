//! Fakes and builders for tests. Never part of the daemon.

pub mod clock;
pub mod daemon;
pub mod discord;
pub mod disk;
pub mod gate;
pub mod home;
pub mod mcp;
pub mod model;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod rig;
pub mod runtime;
pub mod systemd;
pub mod telegram;
pub mod terminal;
pub mod tools;
pub mod watched;
