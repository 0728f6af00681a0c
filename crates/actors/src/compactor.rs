//! The compactor: watches its sibling's conversation, proposes runs that are due, has a worker carry them out, and delivers
//! the results. It changes nothing itself.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::compaction::{Decision, SummaryDraft};
use cairn_types::event::{Run, RunOutcome};
use cairn_types::ids::RunId;
use jiff::{SignedDuration, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr};
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::handle::ChannelHandle;
use crate::lifecycle::Lifecycle;
use crate::messages::{ChannelMsg, CompactorMsg, RunFailure};
use crate::shared::Shared;
use crate::tasks::Ended;
use crate::telemetry;
use crate::worker::{self, RunBudget, RunParts};

/// Longest pause between attempts.
const RETRY_MAX: SignedDuration = SignedDuration::from_mins(10);

pub(crate) struct CompactorArgs {
    parts: RunParts,
    lifecycle: Arc<Lifecycle>,
    handle: Arc<ChannelHandle>,
}

impl CompactorArgs {
    pub(crate) fn of(shared: &Shared, handle: Arc<ChannelHandle>) -> Self {
        let Shared { ports, live, budgets, lifecycle, .. } = shared.clone();
        Self { parts: RunParts { ports, live, budgets }, lifecycle, handle }
    }
}

struct Attempt {
    run: RunId,
    attempt: u32,
    /// The attempt makes a digest, without a model.
    digest: bool,
    /// The result, kept until the channel has taken it.
    result: Option<Result<SummaryDraft, RunFailure>>,
    /// Cancels the worker when the compactor ends, or when its run ends in another way.
    _cancel: DropGuard,
}

pub(crate) struct Compactor;

/// Its own state; the conversation is in the handle.
pub(crate) struct CompactorState {
    parts: RunParts,
    lifecycle: Arc<Lifecycle>,
    handle: Arc<ChannelHandle>,
    myself: ActorRef<CompactorMsg>,
    attempt: Option<Attempt>,
    /// Time and findings of the run under way.
    run_budget: Option<Arc<RunBudget>>,
    timer: Option<AbortOnDropHandle<Result<(), MessagingErr<CompactorMsg>>>>,
}

impl Actor for Compactor {
    type Msg = CompactorMsg;
    type State = CompactorState;
    type Arguments = CompactorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<CompactorMsg>,
        args: CompactorArgs,
    ) -> Result<CompactorState, ActorProcessingErr> {
        args.handle.set_compactor(myself.clone());
        Ok(CompactorState {
            parts: args.parts,
            lifecycle: args.lifecycle,
            handle: args.handle,
            myself,
            attempt: None,
            run_budget: None,
            timer: None,
        })
    }

    async fn post_start(
        &self,
        _myself: ActorRef<CompactorMsg>,
        state: &mut CompactorState,
    ) -> Result<(), ActorProcessingErr> {
        state.look();
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<CompactorMsg>,
        message: CompactorMsg,
        state: &mut CompactorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CompactorMsg::Look => state.look(),
            CompactorMsg::Ping { reply } => drop(reply.send(())),
            CompactorMsg::Resume => {
                state.deliver_result();
                state.look();
            }
            CompactorMsg::Done { run, attempt, ended } => state.done(&run, attempt, ended),
        }
        Ok(())
    }
}

impl CompactorState {
    /// Starts the worker of the run under way, or proposes a run that is due.
    fn look(&mut self) {
        self.timer = None;
        let now = self.parts.ports.now();
        // An engine without runs ends a run that another engine left.
        let has_runs = !self.handle.engine.info().owns_compaction;
        let run = self.handle.read(|conversation| conversation.run.clone()).filter(|_| has_runs);
        let Some(run) = run else {
            // A run that ended in another way (`/new`, superseded) cancels its worker.
            self.attempt = None;
            let settings = &self.handle.settings();
            match self.handle.read(|conversation| self.handle.due(conversation, settings, now)) {
                Decision::Idle => {}
                Decision::WaitUntil(until) => self.look_at(until, now),
                Decision::Start(_) | Decision::Apply(_) => self.handle.tell_channel(ChannelMsg::Propose),
            }
            return;
        };
        let known = |attempt: &Attempt| attempt.run == run.id && attempt.attempt == run.attempt;
        if self.attempt.as_ref().is_some_and(known) {
            return;
        }
        // Further away only after the clock was set back.
        match run.retry_at.filter(|at| *at > now && at.duration_since(now) <= RETRY_MAX) {
            Some(at) => self.look_at(at, now),
            None => self.start(run),
        }
    }

    fn look_at(&mut self, at: Timestamp, now: Timestamp) {
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        // A little more, so that a clock that counts milliseconds has surely passed the time.
        let wait = wait + Duration::from_millis(1);
        let timer = self.myself.send_after(wait, || CompactorMsg::Look);
        self.timer = Some(AbortOnDropHandle::new(timer));
    }

    fn start(&mut self, run: Run) {
        let token = self.lifecycle.tasks.token();
        let limits = &self.handle.settings().compaction;
        let digest = run.attempt > limits.max_attempts;
        let run_budget = match self.run_budget.take().filter(|run_budget| run_budget.run == run.id) {
            Some(run_budget) => run_budget,
            None => Arc::new(RunBudget::new(run.id.clone(), Duration::from_secs(limits.timeout_secs))),
        };
        self.run_budget = Some(Arc::clone(&run_budget));
        self.attempt = Some(Attempt {
            run: run.id.clone(),
            attempt: run.attempt,
            digest,
            result: None,
            _cancel: token.clone().drop_guard(),
        });
        let (id, attempt) = (run.id.clone(), run.attempt);
        let myself = self.myself.clone();
        let span = telemetry::run_span(&self.handle.id, &run.id);
        let work = worker::run(self.parts.clone(), Arc::clone(&self.handle), run, run_budget, digest);
        self.lifecycle.tasks.watch(token, work.instrument(span), move |ended| {
            // A compactor that is gone starts the attempt again when it is back.
            let _ = myself.send_message(CompactorMsg::Done { run: id, attempt, ended });
        });
    }

    fn done(&mut self, run: &RunId, attempt: u32, ended: Ended<Result<SummaryDraft, RunFailure>>) {
        let known = |current: &&mut Attempt| current.run == *run && current.attempt == attempt;
        let Some(current) = self.attempt.as_mut().filter(known) else { return };
        current.result = match ended {
            Ended::Done(result) => Some(result),
            Ended::Panicked(_) => {
                tracing::error!(channel = %self.handle.id, %run, "a worker panicked; please report it");
                Some(Err(RunFailure::attempt("the worker panicked; the log says where".to_owned())))
            }
            Ended::Cancelled => None,
        };
        self.deliver_result();
    }

    /// Sends the result of the attempt to the channel.
    fn deliver_result(&self) {
        let Some(current) = &self.attempt else { return };
        let run = current.run.clone();
        let message = match current.result.clone() {
            None => return,
            Some(Ok(draft)) => ChannelMsg::FinishRun { run, draft },
            Some(Err(RunFailure { outcome: Some(outcome), reason, .. })) => {
                ChannelMsg::GiveUpRun { run, outcome, reason }
            }
            // Not even the digest could be made: the run ends, and the next one after a pause may do better.
            Some(Err(RunFailure { reason, .. })) if current.digest => {
                ChannelMsg::GiveUpRun { run, outcome: RunOutcome::Failed, reason }
            }
            Some(Err(RunFailure { reason, retry_after_ms, .. })) => {
                ChannelMsg::FailAttempt { run, attempt: current.attempt, reason, retry_after_ms }
            }
        };
        self.handle.tell_channel(message);
    }
}
