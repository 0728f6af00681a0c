//! Tools from elsewhere: clients of servers that speak the Model Context Protocol, and `fetch`; and the check of
//! calls' arguments against the schemas of tools.

pub mod fetch;
pub mod mcp;
pub mod schema;
