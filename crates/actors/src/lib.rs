//! Who runs when: the actors that carry out the decisions of `cairn-core` against its ports.
//!
//! ```text
//! supervisor ── router ── channel    one per conversation awake; its only writer
//!            │         └─ compactor  its sibling; starts workers, proposes runs and their results
//!            └─ outbox               deliveries owed to platforms
//! ```
//! Turns and workers are watched tasks, not actors: they are cancelled by a token, and a panic in one is a result
//! like any other. [`House`] is the handle to all of it.

mod admission;
mod agent;
mod approvals;
mod cell;
mod channel;
mod compactor;
mod failure;
mod figures;
mod house;
mod hub;
mod limits;
mod models;
mod notice;
mod outbox;
mod pulse;
mod router;
mod shared;
mod show;
mod span;
mod supervisor;
mod tasks;
mod tools;
mod turn;
mod worker;

#[cfg(test)]
mod tests;

pub use agent::{AgentRuntime, Candidate, EngineMaker};
pub use approvals::{Approver, Decided, Undecided, Which};
pub use house::{Compaction, Health, House, HouseDeps, HouseError, RoomMade, RunTicket};
pub use limits::HouseLimits;
pub use models::{ModelState, ModelStatus};
pub use notice::Notice;
pub use pulse::Pulse;
pub use tools::{BadTool, all_tools, builtin_tools, effect_of_builtin};
