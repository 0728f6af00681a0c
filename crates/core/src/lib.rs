//! Every decision of Cairn, pure: no I/O, no clock, no random source.
//!
//! Everything here is a function of its arguments: [`conversation`] folds journal events into state, [`window`]
//! assembles requests from it, [`compaction`] decides what to seal, commit and drop, [`summary`] keeps the stack,
//! [`memory`] decides what a save does. Actors and adapters carry the decisions out.

pub mod agent;
pub mod answer_text;
pub mod artifact;
pub mod awake;
pub mod builtin_tools;
pub mod chain;
pub mod client_list;
pub mod compaction;
pub mod conversation;
pub mod cues;
pub mod digest;
pub mod engine;
pub mod erasure;
pub mod excerpt;
pub mod gather;
pub mod import;
pub mod limits;
pub mod memory;
pub mod notice;
pub mod prune;
pub mod registry;
pub mod reminder;
pub mod result_guard;
pub mod retention;
pub mod settings;
pub mod shares;
pub mod silence;
pub mod spend;
pub mod store_port;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod thrashing;
pub mod trace;
pub mod trust;
pub mod tune;
pub mod turn;
pub mod usage_watch;
pub mod window;
pub mod window_size;
pub mod withheld;
