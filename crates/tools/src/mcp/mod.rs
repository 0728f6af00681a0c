//! Clients of servers that speak the Model Context Protocol.
//!
//! [`Servers`] is what the rest of the daemon sees: the tools of approved servers, from what was pinned at their approval. A
//! server is started when it is first needed; one task (`life`) owns its connection from then on, notices its end, and has
//! it started again after a pause. What a server says passes through `wire` in either transport: floods, noise and
//! messages without bounds end the connection, with a reason that its calls fail with.

mod calls;
mod child;
mod http;
mod inspection;
mod launch;
mod life;
mod lines;
mod listing;
mod result;
mod schema;
mod server;
mod servers;
mod settings;
mod sse;
mod status;
mod stderr;
mod tool;
mod wire;

pub use child::find as find_program;
pub use inspection::{Inspection, Offered, Rejected};
pub use launch::{LAUNCH, become_server};
pub use servers::{Servers, Surroundings};
pub use settings::{Reach, ServerSettings};
pub use status::{McpError, ServerState, ServerStatus};
