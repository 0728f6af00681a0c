//! The journal in a PostgreSQL database, with a whole copy of it in the state folder of every node.
//!
//! The database orders the events, and it is the fence: one node leads at a time, by a lease, and appends. The others are
//! standbys: they copy what is appended, and one of them leads when the lease is free. All reads are from the copy.

mod append;
mod artifacts;
mod client;
mod copy;
mod database;
mod erase;
mod errors;
pub(crate) mod follow;
mod lease;
pub(crate) mod marker;
mod moving;
mod nodes;
mod orders;
mod push;
mod schema;
mod tls;

pub(crate) use append::{Following, Leading};
pub(crate) use database::Database;
pub use follow::{Standby, StandbyStatus};
pub(crate) use lease::Lease;
pub use lease::LeaseState;
pub use moving::{move_from, move_to};
pub use nodes::{DatabaseReport, report_on};
pub use push::Moved;
