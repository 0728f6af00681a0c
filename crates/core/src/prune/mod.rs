//! Pruning: old results of tools are sent shorter, in batches, before anything is summarised, and so are messages that are
//! larger than what the window takes or have long files. It changes what is sent, never what is kept.

mod form;
mod message;
mod plan;

pub(crate) use form::cut_notice;
pub use form::{CLEARED_NOTICE, CUT_NOTICE, as_sent};
pub(crate) use message::{FILE_BYTES, is_long_file};
pub use message::{LargeMessage, shorten, too_large};
pub(crate) use plan::overflow_target;
pub use plan::{before_call, clear_seen, cold_at, pressure, shrink_seen};
