//! Errors of servers.

use cairn_types::tool::Effect;
use cairn_types::tool::defs::ToolDef;

#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    pub server: String,
    pub tool: String,
    pub def: ToolDef,
    pub effect: Effect,
}

/// Why a server did not do what was asked. The text is for operators and models, and contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The configuration has no such server.
    #[error("no server `{0}` is configured; add it to [[mcp]], then `cairn reload`")]
    Unknown(String),
    /// It is not approved, or has changed since its approval.
    #[error("{reason}; an operator can look at it with `cairn mcp show {server}` and approve it")]
    Blocked { server: String, reason: String },
    /// It cannot be started or reached.
    #[error("the server `{server}` does not start: {reason}")]
    Start { server: String, reason: String },
    /// It failed recently and is not asked until a pause is over.
    #[error("the server `{server}` is down ({reason}); it is tried again in {retry_secs} s")]
    Down {
        server: String,
        reason: String,
        /// Seconds until it is tried again.
        retry_secs: u64,
    },
    /// The connection broke during a call, or the server violated the protocol.
    #[error("the server `{server}` failed: {reason}")]
    Broken { server: String, reason: String },
    #[error("the server `{server}` did not answer within {secs} s")]
    TimedOut {
        server: String,
        /// Seconds.
        secs: u64,
    },
    /// It answered with an error.
    #[error("{0}")]
    Refused(String),
}
