//! The journal: an append-only file of events, in segments. The truth; all else in the store derives from it.

pub(crate) mod line;
pub(crate) mod mark;
pub(crate) mod open;
pub(crate) mod packed;
pub(crate) mod quarantine;
pub(crate) mod reader;
pub(crate) mod rewrite;
pub(crate) mod segment;
mod sequencer;
mod writer;

pub(crate) use sequencer::{Alone, Batch, Sequencer};
pub(crate) use writer::{Appender, Copied, Durable, Writer};
