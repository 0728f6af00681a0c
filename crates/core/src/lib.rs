//! Every decision of Cairn, pure: no I/O, no clock, no random source.
//!
//! Everything here is a function of its arguments: [`conversation`] folds journal events into state, [`window`]
//! assembles requests from it, [`compaction`] decides what to seal, commit and drop, [`summary`] keeps the stack,
//! [`memory`] decides what a save does. Actors and adapters carry the decisions out.

pub mod access;
pub mod agent;
pub mod answer_text;
pub mod approval;
pub mod artifact;
pub mod awake;
pub mod backoff;
pub mod body;
pub mod chain;
pub mod command;
pub mod compaction;
pub mod conversation;
pub mod digest;
pub mod edges;
pub mod engine;
pub mod erasure;
pub mod event;
pub mod history;
pub mod ids;
pub mod limits;
pub mod mcp;
pub mod memory;
pub mod message;
pub mod model;
pub mod notice;
pub mod pairing_store;
pub mod ports;
pub mod provider_state;
pub mod prune;
pub mod result_guard;
pub mod retention;
pub mod sentences;
pub mod settings;
pub mod shares;
pub mod spend;
pub mod sse;
pub mod summary;
#[cfg(test)]
mod testing;
mod text;
pub mod thrashing;
pub mod tier;
pub mod tokens;
pub mod tool;
pub mod tool_defs;
pub mod trace;
pub mod trust;
pub mod tune;
pub mod turn;
pub mod usage_watch;
pub mod when;
pub mod window;
pub mod window_bounds;
pub mod withheld;
pub mod words;
