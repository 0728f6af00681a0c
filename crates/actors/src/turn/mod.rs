//! A turn: recall, assemble, ask the model, call its tools, until it answers. A cancellable task that changes nothing
//! itself: what it has to say goes to the channel's actor.

mod call;

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::event::Event;
use cairn_core::ids::{Generation, MemoryId, Seq, TurnId};
use cairn_core::memory::{Memory, Scope};
use cairn_core::message::{Entry, Part, Role, ToolCall};
use cairn_core::model::Usage;
use cairn_core::ports::{StoreError, TurnFailure};
use cairn_core::window::{Tail, question, tail_tokens};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::cell::Cell;
use crate::channel::ChannelMsg;
use crate::failure;
use crate::shared::Shared;
use crate::tools::Toolbox;
use call::Call;

/// Longest that an answer waits for memories.
const RECALL_LIMIT: Duration = Duration::from_secs(5);

/// What a turn runs with.
pub(crate) struct TurnArgs {
    /// What all actors share.
    pub(crate) shared: Arc<Shared>,
    /// The channel.
    pub(crate) cell: Arc<Cell>,
    /// The incarnation of its actor that started this turn.
    pub(crate) channel: ActorRef<ChannelMsg>,
    /// Which attempt at a turn this is.
    pub(crate) attempt: u64,
}

/// Who says that the window is too full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Our own measure.
    Tier,
    /// The model.
    Overflow,
}

/// The answer of a turn.
#[derive(Debug)]
pub(crate) struct Said {
    /// The reply; the channel gives it its number.
    pub(crate) entry: Entry,
    /// What the provider reported of the last call.
    pub(crate) reported: Option<Event>,
    /// Tokens of all calls.
    pub(crate) usage: Usage,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
}

/// Runs the open turn to its answer.
pub(crate) async fn run(args: TurnArgs) -> Result<Said, TurnFailure> {
    let limit = args.shared.deps.limits.turn_timeout;
    let turn = Turn { settings: Arc::clone(&args.cell.agent.settings), args };
    match tokio::time::timeout(limit, turn.run()).await {
        Ok(result) => result,
        Err(_) => Err(failure::too_long(limit)),
    }
}

/// A turn under way.
struct Turn {
    args: TurnArgs,
    /// The agent's settings; narrowed when the model's window turns out to be smaller.
    settings: Arc<AgentSettings>,
}

impl Turn {
    async fn run(mut self) -> Result<Said, TurnFailure> {
        let recalled = self.recall().await?;
        let zone = TimeZone::get(&self.settings.timezone).unwrap_or_else(|error| {
            tracing::warn!(%error, "the agent's time zone is unknown; dates are shown in UTC");
            TimeZone::UTC
        });
        let tools = Toolbox::new(Arc::clone(&self.args.shared), Arc::clone(&self.args.cell));
        let model = self.args.cell.agent.model.info().id.clone();
        let mut usage = Usage::default();
        for round in 1..=self.settings.max_rounds.max(1) {
            let tail = Tail { now: self.args.shared.now(), zone: zone.clone(), recalled: recalled.clone() };
            let call = self.call(&tail).await?;
            usage += call.usage.unwrap_or_default();
            let reported = call.reported(&model);
            if call.tool_calls.is_empty() {
                return Ok(Said { entry: self.entry(call), reported, usage, model });
            }
            tracing::debug!(channel = %self.args.cell.id, round, n_calls = call.tool_calls.len(), "tools");
            let calls = call.tool_calls.clone();
            let mut events = vec![Event::EntryAdded { entry: self.entry(call) }];
            events.extend(reported);
            self.step(events).await?;
            self.args.cell.hub.paragraph();
            self.use_tools(&tools, &model, calls).await?;
        }
        Err(failure::too_many_rounds(self.settings.max_rounds))
    }

    /// Finds the memories that fit the question, and notes them.
    async fn recall(&self) -> Result<Vec<Memory>, TurnFailure> {
        let cell = &self.args.cell;
        let question = cell.read(question);
        let scopes = Scope::readable_in(&cell.id, None);
        let memories = &self.args.shared.deps.memories;
        let limit = self.settings.recall_limit;
        let recalling = memories.recall(&self.settings.id, &scopes, &question, limit);
        let recalled = match tokio::time::timeout(RECALL_LIMIT, recalling).await {
            Ok(Ok(recalled)) => recalled,
            Err(_) => {
                tracing::warn!(channel = %cell.id, limit = ?RECALL_LIMIT, "no memories were recalled in time");
                Vec::new()
            }
            Ok(Err(error)) => {
                // An answer without memories is better than none.
                tracing::warn!(channel = %cell.id, %error, "no memories were recalled");
                Vec::new()
            }
        };
        let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
        if ids.is_empty() && cell.read(|conversation| conversation.recalled.is_empty()) {
            return Ok(recalled);
        }
        let tail = Tail { now: self.args.shared.now(), zone: TimeZone::UTC, recalled };
        self.step(vec![Event::MemoriesRecalled { ids, tokens: tail_tokens(&tail) }]).await?;
        Ok(tail.recalled)
    }

    /// Calls the tools one after the other and journals all results together.
    async fn use_tools(&self, tools: &Toolbox, model: &str, calls: Vec<ToolCall>) -> Result<(), TurnFailure> {
        let hub = &self.args.cell.hub;
        let mut events = Vec::new();
        for (ordinal, call) in calls.into_iter().enumerate() {
            hub.tool(&call.name, "started");
            let used = tools.call(&call, model, ordinal).await;
            hub.tool(&call.name, if used.failed { "failed" } else { "done" });
            events.extend(used.event);
            let mut entry = draft_entry(Role::Tool, self.args.shared.now());
            entry.parts = vec![Part::text(used.text)];
            entry.tool_call_id = Some(call.id);
            events.push(Event::EntryAdded { entry });
        }
        self.step(events).await
    }

    fn entry(&self, call: Call) -> Entry {
        let mut entry = draft_entry(Role::Assistant, self.args.shared.now());
        if !call.text.is_empty() {
            entry.parts.push(Part::text(call.text));
        }
        entry.reasoning = (!call.reasoning.is_empty()).then_some(call.reasoning);
        entry.tool_calls = call.tool_calls;
        entry.quotes = call.quotes;
        entry
    }

    /// Has the channel journal something of this turn.
    async fn step(&self, events: Vec<Event>) -> Result<(), TurnFailure> {
        let attempt = self.args.attempt;
        let done = self.propose(|reply| ChannelMsg::Step { attempt, events, reply }).await;
        done.map_err(|error| failure::of_store(&error))
    }

    /// Has the channel free the window. False when nothing could leave.
    async fn relieve(&self, cause: Cause) -> Result<bool, TurnFailure> {
        let (attempt, settings) = (self.args.attempt, Arc::clone(&self.settings));
        let done = self.propose(|reply| ChannelMsg::Relieve { attempt, settings, cause, reply }).await;
        done.map_err(|error| failure::of_store(&error))
    }

    async fn propose<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> ChannelMsg,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.args.channel.send_message(message(reply)).is_err() {
            return Err(StoreError::Closed);
        }
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// An entry whose number, turn and weight the channel fills in.
pub(crate) fn draft_entry(role: Role, at: Timestamp) -> Entry {
    Entry {
        seq: Seq::default(),
        turn: TurnId::from(""),
        generation: Generation::default(),
        at,
        role,
        author: None,
        message: None,
        parts: Vec::new(),
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        quotes: false,
        tokens: 0,
    }
}
