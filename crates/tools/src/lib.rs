//! Tools from elsewhere: clients of servers that speak the Model Context Protocol, and `fetch`.

pub mod fetch;
pub mod mcp;
