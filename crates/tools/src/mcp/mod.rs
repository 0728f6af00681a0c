//! Clients of servers that speak the Model Context Protocol.
//!
//! [`Servers`] is the interface to the rest of the daemon: the tools of approved servers, as pinned at their approval.
//! A server is started when it is first needed. From then on one task (`supervise`) owns its connection, notices its
//! end, and allows a restart after a pause. Everything that a server sends passes through `connection`, over either
//! transport: floods, noise and oversized messages end the connection, and its calls fail with the reason.

mod calls;
mod child;
mod connection;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod listing;
mod result;
mod server;
mod servers;
mod settings;
mod status;
mod stdio;
mod supervise;

pub use child::{LAUNCH, become_server, find as find_program};
pub use servers::{Servers, Surroundings};
pub use settings::{Reach, ServerSettings};
pub use status::{McpError, Offered};
