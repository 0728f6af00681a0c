//! Tools: clients of MCP (Model Context Protocol) servers, the tools `fetch` and
//! `web_search`, and the check of tool arguments against
//! schemas.

pub mod fetch;
pub mod mcp;
pub mod schema;
pub mod search;
