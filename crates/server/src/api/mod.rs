//! The admin API: all calls on the socket except messages and chat commands.
//!
//! It serves a running daemon and, without a runtime, commands that open the store for reading.

pub mod channels;
pub mod daemon;
pub mod empty_state;
pub mod explain;
pub mod explain_run;
mod figures;
pub mod files;
pub mod history;
mod imports;
pub mod memories;
pub mod nodes;
pub mod outbox;
pub mod page_access;
mod page_links;
pub mod people;
pub mod reminders;
mod routes;
pub mod search;
mod shared;
pub mod spend;
pub mod statuses;
mod store;
pub mod store_jobs;
pub mod summaries;
pub mod tools;
mod watch;

pub use reminders::ReminderParams;
pub use routes::{router, routers, with_fallbacks};
pub(crate) use shared::runtime_error;
pub use shared::{Admin, Body, Channel, ListParams, Page, Params, Segment, Shared, backup_error};
