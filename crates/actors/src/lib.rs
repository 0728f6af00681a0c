//! Who runs when: the actors that carry out the decisions of `cairn-core` against its ports.
//!
//! ```text
//! supervisor ── router ── channel    one per conversation awake; its only writer
//!            │         └─ compactor  its sibling; starts workers, proposes runs and their results
//!            ├─ outbox               deliveries to chat networks
//!            └─ alarm                when the next reminder is due
//! ```
//! Turns and workers are watched tasks, not actors: they are cancelled by a token, and a panic in one is a result
//! like any other. [`Runtime`] is the handle to all of it. What the actors say to each other is in `messages`.

mod admission;
mod agent;
mod alarm;
mod approvals;
mod budgets;
mod channel;
mod client_tools;
mod compactor;
mod directory;
mod events;
mod failure;
mod handle;
mod lifecycle;
mod live;
mod marks;
mod messages;
mod outbox;
mod pace;
mod ports;
mod router;
mod runtime;
mod saving;
mod shared;
mod show;
mod subscribers;
mod supervisor;
mod tasks;
mod telemetry;
mod tools;
mod traces;
mod turn;
mod typing;
mod worker;

#[cfg(test)]
mod tests;

pub use agent::{AgentRuntime, EngineMaker, ModelCandidate, ModelStatus};
pub use approvals::{ApprovalDecision, ApprovalError, ApprovalTarget, Approver};
pub use events::{RuntimeEvent, RuntimeEventKind};
pub use failure::RuntimeError;
pub use messages::{Compaction, RoomMade, RunTicket};
pub use runtime::{Health, Runtime};
pub use shared::RuntimeDeps;
pub use supervisor::Liveness;
pub use tools::{BadTool, all_tools};
