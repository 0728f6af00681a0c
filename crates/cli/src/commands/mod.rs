//! The commands that ask a daemon: a file each.

pub mod ban;
pub mod channel;
pub mod chat;
pub mod demo;
pub mod explain;
pub mod history;
pub mod import;
pub mod mcp;
pub mod memory;
pub mod node;
pub mod outbox;
pub mod pair;
pub mod private;
pub mod reload;
pub mod reminder;
pub mod search;
pub mod spend;
pub mod status;
pub mod summary;
pub mod tools;
pub mod tune;
pub mod ui;
