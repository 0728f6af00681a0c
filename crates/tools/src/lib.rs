//! Tools: clients of MCP (Model Context Protocol) servers, the `fetch` tool, and the check of tool arguments against
//! schemas.

pub mod fetch;
pub mod mcp;
pub mod schema;
