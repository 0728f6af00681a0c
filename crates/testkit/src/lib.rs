//! Fakes and builders for tests, and the tools that measure. Never part of the daemon.

pub mod chats;
pub mod clock;
pub mod daemon;
pub mod discord;
pub mod disk;
pub mod endure;
pub mod estimate;
pub mod faults;
pub mod gate;
pub mod home;
pub mod house;
pub mod kills;
pub mod load;
pub mod locomo;
pub mod mcp;
pub mod model;
mod moments;
pub mod systemd;
pub mod telegram;
pub mod tools;
pub mod watched;
