//! The routes of messages, each as one call.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod messages;
