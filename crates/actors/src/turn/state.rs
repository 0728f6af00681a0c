//! What a turn works with, and how it reaches its channel: the channel journals, the turn waits for it.

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
    /// Whose messages it answers.
    pub(crate) authors: Vec<String>,
}

pub(super) struct Turn {
    pub(super) args: TurnArgs,
    /// The agent as it was when the turn began.
    pub(super) agent: Arc<AgentRuntime>,
    pub(super) budget: Arc<Budget>,
    /// How it bears a model that does not answer.
    pub(super) outage_wait: OutageWait,
    pub(super) approvals: Mutex<ApprovalsSoFar>,
    /// Its person's place for the call that is being made.
    pub(super) slot: Option<CallSlot>,
    /// How long the next call has waited for it.
    pub(super) waited: Duration,
    /// Calls that took nothing since one that did.
    pub(super) tried: Vec<FailedTry>,
    /// A request was cut to fit beyond what is journalled.
    pub(super) cut: bool,
    /// The agent's settings on the model that answers; narrowed when its window turns out to be smaller.
    pub(super) settings: Arc<AgentSettings>,
}

/// Requests for approval in this turn so far. Behind a lock, since calls of one answer wait beside each other.
#[derive(Debug, Default)]
pub(super) struct ApprovalsSoFar {
    pub(super) asked: u32,
    /// Requests that wait for an answer now.
    pub(super) open: u32,
    pub(super) unanswered: bool,
    pub(super) denied: BTreeSet<String>,
}

impl Turn {
    /// Has the channel journal something of this turn.
    pub(super) async fn step(&self, events: Vec<Event>) -> Result<(), TurnFailure> {
        self.until_journalled(|| self.args.turn.step(events.clone())).await
    }

    /// Has the channel free the window. False when nothing could leave.
    pub(super) async fn make_room(&self, cause: MakeRoom) -> Result<bool, TurnFailure> {
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

    /// Never returns: when the runtime stops, the turn stays open, and is taken up again at the next start.
    pub(super) async fn stopping(&self) {
        let mut stop = self.args.shared.lifecycle.stop_by.subscribe();
        if stop.wait_for(Option::is_some).await.is_ok() {
            self.args.turn.yield_turn();
        }
        std::future::pending::<()>().await;
    }
}

/// How long a turn may take. The clock stands still while it waits for a model that does not answer.
pub(super) struct Budget {
    limit: Duration,
    /// When it is over; none while the clock stands still.
    deadline: watch::Sender<Option<Instant>>,
    /// Why there is no answer yet, while no model answers or the store is away.
    why: Mutex<Option<TurnFailure>>,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, deadline: watch::Sender::new(Some(Instant::now() + limit)), why: Mutex::default() }
    }

    /// Notes why there is no answer yet; none: it goes on.
    pub(super) fn note(&self, why: Option<TurnFailure>) {
        *self.why.lock() = why;
    }

    /// What a turn fails with whose time is over.
    pub(super) fn failure(&self) -> TurnFailure {
        self.why.lock().clone().unwrap_or_else(|| failure::too_long(self.limit))
    }

    pub(super) fn hold(&self) {
        self.deadline.send_replace(None);
    }

    /// It restarts, if the clock stood still.
    pub(super) fn restart(&self) {
        self.deadline.send_if_modified(|deadline| {
            let held = deadline.is_none();
            deadline.get_or_insert_with(|| Instant::now() + self.limit);
            held
        });
    }

    /// Stops the clock; returns what it showed.
    pub(super) fn pause(&self) -> Option<Instant> {
        self.deadline.send_replace(None)
    }

    /// The clock goes on where it stood. One that stood still before stays so.
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
