//! Clients of servers that speak the Model Context Protocol.
//!
//! [`Servers`] is what the rest of the daemon sees: the tools of approved servers, from what was pinned at their approval. A
//! server is started when it is first needed; one task (`supervise`) owns its connection from then on, notices its end, and
//! has it started again after a pause. What a server says passes through `connection` in either transport: floods, noise and
//! messages without bounds end the connection, with a reason that its calls fail with.

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
