//! Context engines, which decide what a model sees and when the window is made smaller. Each agent names one.
//!
//! An engine is as pure as the rest of this crate: it learns what became durable, and returns requests, and events for the
//! channel to journal. Its own state must be derivable from the conversation.
//!
//! Actors ask [`due`] instead of the engine: it keeps runs away from an engine that owns compaction, so that an agent's
//! engine may change between two starts.

mod sliding;

use std::sync::Arc;

use jiff::Timestamp;

use crate::agent::AgentSettings;
use crate::compaction::{Decision, after, end_queued, give_up, next_run, relieve, relieve_on_overflow};
use crate::conversation::Conversation;
use crate::window::{AssembleError, Assembled, Tail, assemble};
use cairn_types::event::{Event, Record, RunOutcome};

pub use sliding::Sliding;

/// The default engine.
pub const STANDARD: &str = "standard";

/// The engine that drops the oldest turns and needs no model.
pub const SLIDING: &str = "sliding";

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct EngineInfo {
    /// Its name in the configuration.
    pub id: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    /// Whether it makes room by itself. It then gets no runs.
    pub owns_compaction: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakeRoom {
    /// The model is about to be called: make room by our own measure.
    Tier,
    /// The model refused a request as too large.
    Overflow,
    Manual,
}

/// A context engine; each awake channel has its own.
///
/// Every engine has to ensure (`core/tests/it/invariants/engines.rs` checks it): a request fits; turns leave as a whole,
/// and the open one never does; between two decisions the beginning of requests does not change; a new engine with the same
/// conversation decides the same.
pub trait ContextEngine: Send + Sync + 'static {
    fn info(&self) -> EngineInfo;

    /// The channel wakes with this conversation, or it was restored after a failure: earlier knowledge is void. This and
    /// the other notifications do nothing by default, which is enough for an engine that keeps no state.
    fn bootstrap(&self, _conversation: &Conversation) {}

    /// A record became durable and is folded in.
    fn ingest(&self, _conversation: &Conversation, _record: &Record) {}

    /// Records became durable together and are folded in.
    fn ingest_many(&self, conversation: &Conversation, records: &[Record]) {
        for record in records {
            self.ingest(conversation, record);
        }
    }

    /// The request for the open turn. It always fits. By default it comes from [`crate::window`].
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

    /// Makes room at once, without a model. Empty: nothing has to leave, or nothing can.
    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        now: Timestamp,
    ) -> Vec<Event>;

    /// Decides what is due after a turn, or after another change. [`Decision::Start`] from an engine that owns compaction
    /// is ignored.
    fn after_turn(&self, conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision;

    /// `/new` has started a new conversation.
    fn reset(&self, _conversation: &Conversation) {}

    /// The channel falls asleep, or the runtime stops. The engine is not called after this.
    fn dispose(&self) {}
}

/// Decides what is due in a conversation. An engine that owns compaction gets no runs: runs that another engine left, under
/// way or queued, are first cancelled, and a run that it proposes is ignored.
pub fn due(
    engine: &dyn ContextEngine,
    conversation: &Conversation,
    agent: &AgentSettings,
    now: Timestamp,
) -> Decision {
    if !engine.info().owns_compaction {
        return engine.after_turn(conversation, agent, now);
    }
    let ended = end_runs(conversation, agent, now);
    if !ended.is_empty() {
        return Decision::Apply(ended);
    }
    match engine.after_turn(conversation, agent, now) {
        Decision::Start(_) => Decision::Idle,
        decision => decision,
    }
}

const NO_RUNS: &str = "this agent's context engine makes room by itself and has no runs";

/// Cancels the run under way and all queued ones: sealed entries are live again, and whoever waits for a run is told.
/// Empty: there is none.
fn end_runs(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    if conversation.run.is_none() && conversation.queued_runs.is_empty() {
        return Vec::new();
    }
    let cancelled = RunOutcome::Cancelled;
    let mut events: Vec<Event> = give_up(conversation, agent, cancelled, NO_RUNS, now).into_iter().collect();
    loop {
        let then = after(conversation, &events);
        let Some(queued) = then.queued_runs.front() else { return events };
        events.extend(end_queued(&then, agent, queued, cancelled, NO_RUNS, now));
    }
}

/// The standard engine: summaries in a levelled stack, made by background runs, and the emergency. It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standard;

impl ContextEngine for Standard {
    fn info(&self) -> EngineInfo {
        let (name, version) = ("levelled summaries in the background", "1");
        EngineInfo { id: STANDARD, name, version, owns_compaction: false }
    }

    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        now: Timestamp,
    ) -> Vec<Event> {
        match cause {
            MakeRoom::Tier => relieve(conversation, agent, now),
            MakeRoom::Overflow => relieve_on_overflow(conversation, agent, now),
            // A run is asked for instead.
            MakeRoom::Manual => Vec::new(),
        }
    }

    fn after_turn(&self, conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision {
        next_run(conversation, agent, now)
    }
}

type Make = fn() -> Arc<dyn ContextEngine>;

/// All engines by name, the default one first.
const ENGINES: &[(&str, Make)] = &[(STANDARD, || Arc::new(Standard)), (SLIDING, || Arc::new(Sliding))];

/// Names of all engines, the default one first.
pub fn names() -> Vec<&'static str> {
    ENGINES.iter().map(|(name, _)| *name).collect()
}

/// A new engine of that name; `None`: there is none.
pub fn by_name(name: &str) -> Option<Arc<dyn ContextEngine>> {
    ENGINES.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}
