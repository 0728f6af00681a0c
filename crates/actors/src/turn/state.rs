//! The state of a turn, and its link to the channel, which journals the turn's events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::engine::MakeRoom;
use cairn_types::event::Event;
use cairn_types::ports::{StoreError, TurnFailure};
use cairn_types::trace::FailedTry;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::outage::OutageWait;
use super::under_way::CallUnderWay;
use crate::admission::CallSlot;
use crate::agent::AgentRuntime;
use crate::client_tools::ClientTools;
use crate::failure;
use crate::handle::ChannelHandle;
use crate::messages::{ChannelMsg, TurnLink};
use crate::shared::Shared;
use crate::show::Show;
use crate::telemetry::Times;

pub(crate) struct TurnArgs {
    pub(crate) shared: Shared,
    pub(crate) handle: Arc<ChannelHandle>,
    pub(crate) turn: TurnLink,
    pub(crate) show: Option<Arc<Show>>,
    pub(crate) times: Arc<Times>,
    pub(crate) call: Arc<CallUnderWay>,
    /// The authors of the messages that it answers.
    pub(crate) authors: Vec<String>,
    /// The tools of the client that waits for it.
    pub(crate) client: Option<Arc<ClientTools>>,
}

impl TurnArgs {
    /// Settings with the tools of the client.
    pub(super) fn with_client_tools(&self, settings: Arc<AgentSettings>) -> Arc<AgentSettings> {
        match &self.client {
            Some(client) => client.added_to(settings),
            None => settings,
        }
    }
}

pub(super) struct Turn {
    pub(super) args: TurnArgs,
    /// The agent as it was at the start of the turn.
    pub(super) agent: Arc<AgentRuntime>,
    pub(super) budget: Arc<Budget>,
    /// How it waits while no model answers.
    pub(super) outage_wait: OutageWait,
    pub(super) approvals: Mutex<ApprovalsSoFar>,
    /// The slot for the call that is being made.
    pub(super) slot: Option<CallSlot>,
    /// The price of a first call was reserved.
    pub(super) has_begun: bool,
    /// How long the next call has waited for a slot, or for the day's money.
    pub(super) waited: Duration,
    /// Calls that used nothing, since the last one that did.
    pub(super) tried: Vec<FailedTry>,
    /// A request was cut to fit, and that is not journalled yet.
    pub(super) cut: bool,
    /// The agent's settings on the current model, narrowed if its window turns out to be smaller.
    pub(super) settings: Arc<AgentSettings>,
}

/// Requests for approval in this turn so far. They are behind a lock, since the calls of one answer wait concurrently.
#[derive(Debug, Default)]
pub(super) struct ApprovalsSoFar {
    pub(super) asked: u32,
    /// Requests that wait for an answer.
    pub(super) open: u32,
    /// The turn's deadline and the time since which its clock stands still, while requests are open.
    pub(super) held: Option<(Option<Instant>, Instant)>,
    pub(super) unanswered: bool,
    pub(super) denied: BTreeSet<String>,
}

impl Turn {
    /// Has the channel journal events of this turn.
    pub(super) async fn step(&self, events: Vec<Event>) -> Result<(), TurnFailure> {
        self.until_journalled(|| self.args.turn.step(events.clone())).await
    }

    /// Has the channel take up what the turn's people have said meanwhile.
    pub(super) async fn join(&self) -> Result<(), TurnFailure> {
        let attempt = self.args.turn.attempt;
        self.until_journalled(|| self.args.turn.propose(|reply| ChannelMsg::Join { attempt, reply })).await
    }

    /// The settings of the turn's agent on the model that answers here, as they are in this conversation.
    pub(super) fn serving_settings(&self) -> Arc<AgentSettings> {
        let settings = self.args.handle.read(|conversation| self.agent.serving_settings(conversation));
        self.args.with_client_tools(settings)
    }

    /// The settings by which the history makes room: those on the current model, or on the one that it stands in for.
    pub(super) fn kept_by(&self) -> Arc<AgentSettings> {
        let kept = self.args.handle.read(|conversation| self.agent.settings(conversation));
        if kept.model == self.settings.model { Arc::clone(&self.settings) } else { kept }
    }

    /// Has the channel make room in the window. False: nothing could leave.
    pub(super) async fn make_room(&self, cause: MakeRoom) -> Result<bool, TurnFailure> {
        let attempt = self.args.turn.attempt;
        let kept = self.kept_by();
        let ask = || {
            let settings = Arc::clone(&kept);
            let message = move |reply| ChannelMsg::MakeRoom { attempt, settings, cause, reply };
            self.args.turn.propose(message)
        };
        self.until_journalled(ask).await
    }

    /// Asks the channel, and retries after a pause while the store is away, for at most the time limit of a turn. It also
    /// waits if the database refuses writes until an operator intervenes: meanwhile the end of a failed turn could not be
    /// journalled either, so failing at once would lose the answer.
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

    /// Waits for the runtime to stop, offers to end the task, and never returns. The turn stays open and resumes at the
    /// next start.
    pub(super) async fn stopping(&self) {
        let mut stop = self.args.shared.lifecycle.stop_by.subscribe();
        if stop.wait_for(Option::is_some).await.is_ok() {
            self.args.turn.yield_turn();
        }
        std::future::pending::<()>().await;
    }
}

/// The time limit of a turn. The clock stands still while the turn waits for a model that does not answer, for a person's
/// approval, or for its share of calls and money.
pub(super) struct Budget {
    limit: Duration,
    /// `None`: the clock stands still.
    deadline: watch::Sender<Option<Instant>>,
    /// Why there is no answer yet, while no model answers or the store is away.
    why: Mutex<Option<TurnFailure>>,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, deadline: watch::Sender::new(Some(Instant::now() + limit)), why: Mutex::default() }
    }

    /// Notes why there is no answer yet; `None`: the turn continues.
    pub(super) fn note(&self, why: Option<TurnFailure>) {
        *self.why.lock() = why;
    }

    /// The failure of a turn whose time is over.
    pub(super) fn failure(&self) -> TurnFailure {
        self.why.lock().clone().unwrap_or_else(|| failure::too_long(self.limit))
    }

    pub(super) fn hold(&self) {
        self.deadline.send_replace(None);
    }

    /// Restarts the clock with the whole limit, if it stood still.
    pub(super) fn restart(&self) {
        self.deadline.send_if_modified(|deadline| {
            let held = deadline.is_none();
            deadline.get_or_insert_with(|| Instant::now() + self.limit);
            held
        });
    }

    /// Stops the clock. Returns its deadline.
    pub(super) fn pause(&self) -> Option<Instant> {
        self.deadline.send_replace(None)
    }

    /// Continues with a deadline from [`Budget::pause`]. `None`: the clock stood still before, and stays so.
    pub(super) fn resume(&self, deadline: Option<Instant>, waited: Duration) {
        self.deadline.send_replace(deadline.map(|at| at + waited));
    }

    pub(super) async fn is_over(&self) {
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
                // The sender is a field of this, so it is there.
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
