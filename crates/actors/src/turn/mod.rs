//! A turn: recall, assemble, ask the model, call its tools, until it answers. A cancellable task that changes nothing
//! itself: what it has to say goes to the channel's actor.

mod call;
mod calls;
mod chain;
mod simpler;
mod suspicion;

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::engine::MakeRoom;
use cairn_core::window::{Tail, question, tail_tokens};
use cairn_types::event::{Event, MemoryEvent, TurnEvent};
use cairn_types::ids::MemoryId;
use cairn_types::memory::{Memory, Reach};
use cairn_types::ports::{Recall, StoreError, TurnFailure};
use cairn_types::tool::{any_can_be_run, bound_calls};
use cairn_types::trace::FailedTry;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::CallPlace;
use crate::agent::AgentRuntime;
use crate::failure;
use crate::handle::ChannelHandle;
use crate::messages::{ChannelMsg, TurnAnswer, TurnLink, TurnResult};
use crate::shared::Shared;
use crate::show::Show;
use crate::telemetry::Times;
use crate::tools::Toolbox;
use calls::ApprovalsSoFar;
use chain::OutageWait;

pub(crate) use call::{Call, CallUnderWay, overflow};
pub(crate) use chain::note_id;
pub(crate) use suspicion::is_unexplained;

/// Longest that an answer waits for memories.
const RECALL_LIMIT: Duration = Duration::from_secs(5);

/// Answers in a row that call nothing but what there is not, until the model may only answer in words.
const MISSES_MAX: u32 = 3;

pub(crate) struct TurnArgs {
    pub(crate) shared: Shared,
    pub(crate) handle: Arc<ChannelHandle>,
    pub(crate) turn: TurnLink,
    pub(crate) show: Option<Arc<Show>>,
    pub(crate) times: Arc<Times>,
    pub(crate) call: Arc<CallUnderWay>,
    /// Whose messages it answers.
    pub(crate) authors: Vec<String>,
}

/// Runs the open turn to its answer.
pub(crate) async fn run(args: TurnArgs) -> TurnResult {
    let limit = args.shared.live.limits().turn_timeout;
    let (budget, show) = (Arc::new(Budget::new(limit)), args.show.clone());
    let turn = Turn {
        agent: args.handle.agent(),
        settings: args.handle.settings(),
        outage_wait: OutageWait::of(&args),
        budget: Arc::clone(&budget),
        approvals: Mutex::default(),
        place: None,
        waited: Duration::ZERO,
        tried: Vec::new(),
        cut: false,
        args,
    };
    let answer = tokio::select! {
        biased;
        answer = turn.run() => answer,
        () = budget.is_over() => {
            tracing::warn!(?limit, "a turn took too long; it is ended");
            Err(budget.failure())
        }
    };
    let drafts = match show {
        Some(show) => show.finish().await,
        None => Vec::new(),
    };
    TurnResult { answer, drafts }
}

struct Turn {
    args: TurnArgs,
    /// The agent as it was when the turn began.
    agent: Arc<AgentRuntime>,
    budget: Arc<Budget>,
    /// How it bears a model that does not answer.
    outage_wait: OutageWait,
    approvals: Mutex<ApprovalsSoFar>,
    /// Its person's place for the call that is being made.
    place: Option<CallPlace>,
    /// How long the next call has waited for it.
    waited: Duration,
    /// Calls that took nothing since one that did.
    tried: Vec<FailedTry>,
    /// A request was cut to fit beyond what is journalled.
    cut: bool,
    /// The agent's settings on the model that answers; narrowed when its window turns out to be smaller.
    settings: Arc<AgentSettings>,
}

impl Turn {
    async fn run(mut self) -> Result<TurnAnswer, TurnFailure> {
        self.choose().await?;
        // What is looked up for the first call is work, too.
        self.take_place().await;
        let recalled = self.recall().await?;
        let zone = TimeZone::get(&self.settings.timezone).unwrap_or_else(|error| {
            tracing::warn!(%error, "the agent's time zone is unknown; dates are shown in UTC");
            TimeZone::UTC
        });
        let Shared { ports, live, lifecycle, .. } = self.args.shared.clone();
        let tools = Toolbox::new(ports, live, lifecycle.tasks.clone(), Arc::clone(&self.args.handle));
        let mut rounds = self.settings.max_rounds.max(1);
        let (mut round, mut misses) = (0, 0);
        while round < rounds {
            round += 1;
            let last_call = round == rounds;
            let (now, recalled_now) = (self.args.shared.ports.now(), recalled.clone());
            let tail = Tail { now, zone: zone.clone(), recalled: recalled_now, last_call };
            let mut call = self.call(tail).await?;
            let (took, model) = (call.took(), call.model.clone());
            if round == rounds && !call.text.trim().is_empty() {
                // It said something, and was told that no more tools are called.
                call.tool_calls.clear();
            }
            if call.tool_calls.is_empty() {
                let (entry, added) = call.into_answer(self.args.shared.ports.now());
                if let Some(added) = added {
                    self.args.handle.subscribers.delta(&added);
                }
                return Ok(TurnAnswer { entry, took, model, cut: self.cut });
            }
            let (n_calls, left_out) = (call.tool_calls.len(), bound_calls(&mut call.tool_calls));
            tracing::debug!(channel = %self.args.handle.id, round, n_calls, "tools");
            if left_out > 0 {
                tracing::warn!(channel = %self.args.handle.id, model, n_calls, left_out,
                    "an answer makes too many calls; those left out are not run, and the model is told");
            }
            let calls = call.tool_calls.clone();
            misses = if any_can_be_run(&calls, &self.settings.tools) { 0 } else { misses + 1 };
            if misses == MISSES_MAX {
                rounds = rounds.min(round + 1);
            }
            let entry = call.into_entry(self.args.shared.ports.now());
            let mut events = vec![Event::Turn(TurnEvent::EntryAdded { entry })];
            events.extend(took);
            self.step(events).await?;
            if round == rounds {
                self.refuse(calls).await?;
                break;
            }
            self.args.handle.subscribers.paragraph();
            let times = Arc::clone(&self.args.times);
            times.of_others(self.use_tools(&tools, &model, calls, &recalled)).await?;
        }
        Err(match misses > MISSES_MAX {
            true => failure::no_such_calls(misses),
            false => failure::too_many_rounds(self.settings.max_rounds),
        })
    }

    /// Finds the memories that fit the question, and notes them.
    async fn recall(&self) -> Result<Vec<Memory>, TurnFailure> {
        let handle = &self.args.handle;
        let question = handle.read(question);
        let share = self.settings.memory.share;
        let reach =
            handle.read(|conversation| Reach::of(&handle.id, conversation.direct_with.as_deref(), share));
        let limit = self.settings.recall_limit;
        let recalling = self.args.shared.ports.store.recall(&self.settings.id, &reach, &question, limit);
        let Recall { memories: recalled, scores, near } = match tokio::time::timeout(RECALL_LIMIT, recalling)
            .await
        {
            Ok(Ok(recalled)) => recalled,
            Err(_) => {
                tracing::warn!(channel = %handle.id, limit = ?RECALL_LIMIT, "no memories were recalled in time");
                Recall::default()
            }
            Ok(Err(error)) => {
                // An answer without memories is better than none.
                tracing::warn!(channel = %handle.id, %error, "no memories were recalled");
                Recall::default()
            }
        };
        let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
        if ids.is_empty() && handle.read(|conversation| conversation.recalled.is_empty()) {
            return Ok(recalled);
        }
        let (now, zone) = (self.args.shared.ports.now(), TimeZone::UTC);
        let tail = Tail { now, zone, recalled, last_call: false };
        let event = MemoryEvent::Recalled { ids, tokens: tail_tokens(&tail), scores, near };
        self.step(vec![Event::Memory(event)]).await?;
        Ok(tail.recalled)
    }

    /// Has the channel journal something of this turn.
    async fn step(&self, events: Vec<Event>) -> Result<(), TurnFailure> {
        self.until_journalled(|| self.args.turn.step(events.clone())).await
    }

    /// Has the channel free the window. False when nothing could leave.
    async fn make_room(&self, cause: MakeRoom) -> Result<bool, TurnFailure> {
        let attempt = self.args.turn.attempt;
        let ask = || {
            let settings = Arc::clone(&self.settings);
            let message = move |reply| ChannelMsg::MakeRoom { attempt, settings, cause, reply };
            self.args.turn.propose(message)
        };
        self.until_journalled(ask).await
    }

    /// Asks the channel again after each pause while the store is away. The turn keeps what it has and waits, for as long as
    /// a turn may take. So it does where the database refuses for good, until somebody mends that: while it does, the end of
    /// a turn that failed could not be journalled either, so failing at once would tell nobody and lose the answer.
    async fn until_journalled<T, F>(&self, ask: impl Fn() -> F) -> Result<T, TurnFailure>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let (limits, began) = (self.args.shared.live.limits(), Instant::now());
        let mut waited = false;
        loop {
            match ask().await {
                Err(error) if error.is_transient() && began.elapsed() < limits.turn_timeout => {
                    self.budget.note(Some(failure::of_store(&error)));
                    if !std::mem::replace(&mut waited, true) {
                        let why = format!("{error}; waiting until it takes the answer");
                        self.args.handle.subscribers.waits(&why);
                    }
                    tokio::time::sleep(limits.store_retry_pause).await;
                }
                done => {
                    if waited {
                        self.budget.note(None);
                    }
                    return done.map_err(|error| failure::of_store(&error));
                }
            }
        }
    }
}

/// How long a turn may take. The clock stands still while it waits for a model that does not answer.
struct Budget {
    limit: Duration,
    /// When it is over; none while the clock stands still.
    deadline: watch::Sender<Option<Instant>>,
    /// Why there is no answer yet, while no model answers or the store is away.
    why: Mutex<Option<TurnFailure>>,
}

impl Budget {
    fn new(limit: Duration) -> Self {
        Self { limit, deadline: watch::Sender::new(Some(Instant::now() + limit)), why: Mutex::default() }
    }

    /// Notes why there is no answer yet; none: it goes on.
    fn note(&self, why: Option<TurnFailure>) {
        *self.why.lock() = why;
    }

    /// What a turn fails with whose time is over.
    fn failure(&self) -> TurnFailure {
        self.why.lock().clone().unwrap_or_else(|| failure::too_long(self.limit))
    }

    fn hold(&self) {
        self.deadline.send_replace(None);
    }

    /// It restarts, if the clock stood still.
    fn go_on(&self) {
        self.deadline.send_if_modified(|deadline| {
            let held = deadline.is_none();
            deadline.get_or_insert_with(|| Instant::now() + self.limit);
            held
        });
    }

    /// Stops the clock; returns what it showed.
    fn pause(&self) -> Option<Instant> {
        self.deadline.send_replace(None)
    }

    /// The clock goes on where it stood. One that stood still before stays so.
    fn resume(&self, deadline: Option<Instant>, waited: Duration) {
        self.deadline.send_replace(deadline.map(|at| at + waited));
    }

    async fn is_over(&self) {
        let mut changes = self.deadline.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            let over = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender is this.
                _ = changes.changed() => {}
                () = over => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_share_neither_takes_of_a_turns_time_nor_adds_to_it() {
        let budget = Budget::new(Duration::from_secs(60));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let (deadline, since) = (budget.pause(), Instant::now());
        tokio::time::sleep(Duration::from_secs(100)).await;
        budget.resume(deadline, since.elapsed());
        let began = Instant::now();
        budget.is_over().await;
        assert_eq!(began.elapsed().as_secs(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_stood_still_before_a_wait_stands_still_after_it() {
        let budget = Budget::new(Duration::from_secs(60));
        budget.hold();
        let deadline = budget.pause();
        budget.resume(deadline, Duration::from_secs(1));
        assert!(tokio::time::timeout(Duration::from_secs(3600), budget.is_over()).await.is_err());
    }
}
