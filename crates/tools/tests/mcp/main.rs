//! Servers as the daemon has them: real children and real sockets.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod http;
mod stdio;
