//! Types that all crates share: ids, text, tokens, messages, memories, tools, events, call traces, and the ports that
//! adapters implement. No I/O, no clock, no random source. Decisions about a conversation are made in `cairn-core`.

pub mod command;
pub mod event;
pub mod ids;
pub mod memory;
pub mod message;
pub mod model;
pub mod people;
pub mod ports;
pub mod provider_state;
pub mod reminder;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
pub mod testing;
pub mod text;
pub mod texts;
pub mod tier;
pub mod tokens;
pub mod tool;
pub mod trace;
pub mod window_bounds;
pub mod wire;
