//! Context engines: who decides what a model gets to see, and when the window is made smaller. Chosen per agent, by name.
//!
//! An engine is as pure as all of this crate: it is told what became durable, and answers with requests and with events
//! that the channel journals. What it keeps beside the conversation it must be able to make again from it.
//!
//! Actors ask [`due`], not the engine itself, what is to be done: it keeps runs away from an engine that owns compaction,
//! so that an agent's engine may be changed from one start to the next.

mod handover;
mod sliding;
mod standard;

use std::sync::Arc;

use jiff::Timestamp;

use crate::agent::AgentSettings;
use crate::compaction::Decision;
use crate::conversation::Conversation;
use crate::event::{Event, Record};
use crate::window::{AssembleError, Assembled, Tail, assemble};

pub use sliding::Sliding;
pub use standard::Standard;

/// The engine that agents have who name none.
pub const STANDARD: &str = "standard";

/// The engine that drops the oldest turns and needs no model for it.
pub const SLIDING: &str = "sliding";

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct EngineInfo {
    /// By which the configuration names it.
    pub id: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    /// It makes room by itself: it gets no runs.
    pub owns_compaction: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakeRoom {
    /// The model is about to be called: what is due by our own measure.
    Tier,
    /// The model refused a request as too large.
    Overflow,
    Manual,
}

/// A context engine, one for each channel that is awake.
///
/// What holds for every engine, whatever it does (`core/tests/invariants/engines.rs` checks it of each): a request fits;
/// turns leave whole, and the open one never does; between two decisions the beginning of requests stays as it is; a
/// fresh engine with the same conversation decides the same.
pub trait ContextEngine: Send + Sync + 'static {
    fn info(&self) -> EngineInfo;

    /// The channel wakes with this conversation, or it was restored after a failure: whatever was known before is void. As
    /// all that tells an engine of something, nothing by itself: an engine whose knowledge is the conversation needs none of
    /// it.
    fn bootstrap(&self, _conversation: &Conversation) {}

    /// A record became durable and is folded in.
    fn ingest(&self, _conversation: &Conversation, _record: &Record) {}

    /// Records became durable together and are folded in.
    fn ingest_many(&self, conversation: &Conversation, records: &[Record]) {
        for record in records {
            self.ingest(conversation, record);
        }
    }

    /// The request for the open turn. It always fits. By itself the one of [`crate::window`].
    ///
    /// # Errors
    /// System prompt and tools alone do not fit.
    fn assemble(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        tail: &Tail,
    ) -> Result<Assembled, AssembleError> {
        assemble(conversation, agent, tail)
    }

    /// Makes room at once, without a model. Empty when nothing is to leave, or nothing can.
    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        now: Timestamp,
    ) -> Vec<Event>;

    /// What is due after a turn, or whenever something changed. [`Decision::Start`] of an engine that owns compaction is
    /// passed over.
    fn after_turn(&self, conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision;

    /// `/new`: the conversation restarts.
    fn reset(&self, _conversation: &Conversation) {}

    /// The channel falls asleep, or the runtime stops. Nothing is asked of the engine after it.
    fn dispose(&self) {}
}

/// What is due in a conversation. An engine that owns compaction gets no runs: those that another engine left, under way
/// or queued, end as cancelled first, and a run that it proposes is passed over.
pub fn due(
    engine: &dyn ContextEngine,
    conversation: &Conversation,
    agent: &AgentSettings,
    now: Timestamp,
) -> Decision {
    if !engine.info().owns_compaction {
        return engine.after_turn(conversation, agent, now);
    }
    let ended = handover::end_runs(conversation, agent, now);
    if !ended.is_empty() {
        return Decision::Apply(ended);
    }
    match engine.after_turn(conversation, agent, now) {
        Decision::Start(_) => Decision::Idle,
        decision => decision,
    }
}

type Make = fn() -> Arc<dyn ContextEngine>;

/// All engines by name, the default one first.
const ENGINES: &[(&str, Make)] = &[(STANDARD, || Arc::new(Standard)), (SLIDING, || Arc::new(Sliding))];

/// Names of all engines, the default one first.
pub fn names() -> Vec<&'static str> {
    ENGINES.iter().map(|(name, _)| *name).collect()
}

/// A fresh engine of that name; `None` when there is none.
pub fn by_name(name: &str) -> Option<Arc<dyn ContextEngine>> {
    ENGINES.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}
