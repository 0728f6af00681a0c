//! A running daemon: its parts, its HTTP calls, and the commands of chats.
//!
//! The crate `daemon` puts the parts together.

pub mod api;
pub mod chat;
pub mod http;
pub mod messages;
pub mod metrics;
pub mod parts;
pub mod reload;
