//! The API of the daemon's socket: requests, records and errors, and how records are shown to people.
//!
//! The crate does no I/O. The command line, the page and chat commands show the records that it defines.

pub mod error;
pub mod lists;
pub mod message;
pub mod records;
pub mod show;
pub mod text;
