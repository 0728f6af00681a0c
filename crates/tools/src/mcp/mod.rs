//! Clients of servers that speak the Model Context Protocol.

mod settings;
mod status;

pub use settings::{Reach, ServerSettings};
pub use status::{McpError, ServerState, ServerStatus};
