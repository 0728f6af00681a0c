//! The parts of a running daemon: its background tasks, its HTTP API, and the chat commands.
//!
//! The crate `daemon` connects them.

pub mod api;
pub mod chat;
pub mod http;
pub mod messages;
pub mod metrics;
pub mod openai;
pub mod parts;
pub mod reload;
