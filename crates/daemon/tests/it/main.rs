//! The real binary from outside: what users, scripts and chats rely on.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod artifacts;
mod chats;
mod compaction;
mod discord;
mod e2e;
mod faults;
mod forget;
mod load;
mod service;
mod sight;
mod structure;
mod telegram;
mod tools;
