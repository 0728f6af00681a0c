//! What the daemon's socket speaks: requests, records and errors, and how a record looks for people.
//!
//! The crate does no I/O. Commands, the page and the commands of chats show the records that it defines.

pub mod error;
pub mod lists;
pub mod message;
pub mod records;
pub mod show;
pub mod text;
