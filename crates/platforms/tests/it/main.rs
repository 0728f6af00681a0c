//! The adapters against fakes that speak the wire formats over loopback sockets.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod discord;
mod question;
mod telegram;
