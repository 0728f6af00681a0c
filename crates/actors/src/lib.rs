//! Who runs when: the actors that carry out the decisions of `cairn-core` against its ports.
//!
//! ```text
//! supervisor ── router ── channel    one per conversation awake; its only writer
//!            │         └─ compactor  its sibling; starts workers, proposes runs and their results
//!            └─ outbox               deliveries owed to platforms
//! ```
//! Turns and workers are watched tasks, not actors: they are cancelled by a token, and a panic in one is a result
//! like any other. [`Runtime`] is the handle to all of it.

mod admission;
mod agent;
mod approvals;
mod channel;
mod compactor;
mod failure;
mod figures;
mod handle;
mod limits;
mod liveness;
mod models;
mod notice;
mod outbox;
mod router;
mod runtime;
mod shared;
mod show;
mod span;
mod subscribers;
mod supervisor;
mod tasks;
mod tools;
mod turn;
mod worker;

#[cfg(test)]
mod tests;

pub use agent::{AgentRuntime, Candidate, EngineMaker};
pub use approvals::{Approver, Decided, Undecided, Which};
pub use limits::HouseLimits;
pub use liveness::Liveness;
pub use models::{ModelState, ModelStatus};
pub use notice::Notice;
pub use runtime::{Compaction, Health, RoomMade, RunTicket, Runtime, RuntimeDeps, RuntimeError};
pub use tools::{BadTool, all_tools, builtin_tools, effect_of_builtin};
