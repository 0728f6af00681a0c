//! The channel's actor: the one writer of its conversation.
//!
//! Every change goes the same way: a pure decision names the events, the journal makes them durable, then they are
//! folded in under the write lock. Turns and runs are tasks beside the actor; what they want changed they propose.

mod accept;
mod amend;
mod closing;
mod commands;
mod deliveries;
mod expiry;
mod journal;
mod notices;
mod report;
mod restore;
mod runs;
mod sleep;
mod take;
mod turns;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::Draft;
use cairn_core::event::{Checkpoint, Event, RunOutcome};
use cairn_core::ids::{Generation, MessageId, OutboxId, RunId, TurnId};
use cairn_core::message::{Amendment, Author, Inbound};
use cairn_core::model::Usage;
use cairn_core::ports::{Admission, Refusal, StoreError};
use cairn_core::thrashing::ThrashingWatch;
use cairn_core::tier::Tier;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::handle::ChannelHandle;
use crate::runtime::{Compaction, RuntimeError};
use crate::shared::Shared;
use crate::tasks::Ended;
use crate::turn::{Cause, Run};

pub(crate) use accept::refusal;
pub(crate) use journal::Fault;

use accept::Recent;
use closing::Closing;
use turns::Current;

pub(crate) type Reply<T> = oneshot::Sender<T>;

pub(crate) enum ChannelMsg {
    Accept {
        inbound: Arc<Inbound>,
        /// Returned when the message is in the journal, or refused.
        credit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<Admission, Refusal>>,
    },
    Compact {
        /// What the summary is to attend to.
        instruction: Option<String>,
        tell: bool,
        reply: Reply<Result<Compaction, RuntimeError>>,
    },
    /// Begin a new generation.
    NewGeneration {
        reply: Reply<Result<Generation, RuntimeError>>,
    },
    Stop {
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// Take a change of an earlier message in.
    Amend {
        amendment: Arc<Amendment>,
        /// Returned when it is in the journal, or passed over.
        credit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<(), Refusal>>,
    },
    Claim {
        /// The id of its message or interaction.
        message: MessageId,
        command: &'static str,
        caller: Author,
        /// Returned when it is in the journal.
        credit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<bool, Refusal>>,
    },
    Undo {
        reply: Reply<Result<TurnId, RuntimeError>>,
    },
    Post {
        id: OutboxId,
        events: Vec<Event>,
        /// False: it is owed no longer, and nothing was noted.
        reply: Reply<Result<bool, RuntimeError>>,
    },
    Retry {
        id: OutboxId,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    Drop {
        id: OutboxId,
        reply: Reply<Result<(), RuntimeError>>,
    },
    /// The turn under way has entries to journal; their numbers are given here.
    Step {
        attempt: u64,
        /// The entries and what goes with them.
        events: Vec<Event>,
        reply: Reply<Result<(), StoreError>>,
    },
    /// The turn under way finds the window too full.
    Relieve {
        attempt: u64,
        /// The settings by which it is too full.
        settings: Arc<AgentSettings>,
        cause: Cause,
        /// Whether anything left the window.
        reply: Reply<Result<bool, StoreError>>,
    },
    TurnDone {
        attempt: u64,
        ended: Box<Ended<Run>>,
    },
    /// The turn under way waits for a model, and the runtime stops: it is taken up again at the next start.
    Yield {
        attempt: u64,
    },
    /// A run used tokens.
    Spent {
        /// The model, by its id in the configuration.
        model: String,
        /// The tokens.
        usage: Usage,
    },
    /// What the store refused is tried again.
    TryAgain,
    /// The compactor finds that a run is due.
    Propose,
    /// An attempt of a run has a result.
    Finish {
        run: RunId,
        draft: Draft,
    },
    Checkpoint {
        run: RunId,
        checkpoint: Box<Checkpoint>,
        /// Whether it is durable, or no longer wanted.
        reply: Reply<bool>,
    },
    FailAttempt {
        run: RunId,
        attempt: u32,
        reason: String,
        /// What the model's server asks us to wait.
        retry_after_ms: Option<u64>,
    },
    GiveUp {
        run: RunId,
        outcome: RunOutcome,
        reason: String,
    },
    /// Look whether the chat is to be told that something was lost from view.
    TellLoss,
    /// Look whether the channel may sleep.
    Tick,
    Expire,
    Ping {
        reply: Reply<()>,
    },
    /// Start no more turns; answer when none is open.
    Drain {
        done: Reply<()>,
    },
    /// Drop the open turn; it is taken up again at the next start.
    Abandon {
        done: Reply<()>,
    },
}

impl ChannelMsg {
    /// It came by the router, which counts it.
    fn is_delivered(&self) -> bool {
        matches!(
            self,
            Self::Accept { .. }
                | Self::Compact { .. }
                | Self::NewGeneration { .. }
                | Self::Stop { .. }
                | Self::Amend { .. }
                | Self::Claim { .. }
                | Self::Undo { .. }
                | Self::Post { .. }
                | Self::Retry { .. }
                | Self::Drop { .. }
        )
    }

    /// Answers a message that cannot be handed to its channel. Who does not listen any more does not mind.
    pub(crate) fn refuse(self, error: RuntimeError) {
        match self {
            Self::Accept { reply, inbound, .. } => {
                drop(reply.send(Err(accept::refusal(error, &inbound.channel))));
            }
            Self::Compact { reply, .. } => drop(reply.send(Err(error))),
            Self::NewGeneration { reply } => drop(reply.send(Err(error))),
            Self::Stop { reply } => drop(reply.send(Err(error))),
            Self::Amend { reply, amendment, .. } => drop(reply.send(match error {
                // A change of a message that nobody knows.
                RuntimeError::NoSuchChannel(_) => Ok(()),
                error => Err(accept::refusal(error, &amendment.channel)),
            })),
            Self::Claim { reply, caller: _, .. } => drop(reply.send(Err(accept::refusal_of_command(error)))),
            Self::Undo { reply } => drop(reply.send(Err(error))),
            Self::Post { reply, .. } | Self::Retry { reply, .. } => drop(reply.send(Err(error))),
            Self::Drop { reply, .. } => drop(reply.send(Err(error))),
            Self::Step { .. }
            | Self::Relieve { .. }
            | Self::TurnDone { .. }
            | Self::Yield { .. }
            | Self::Spent { .. }
            | Self::TryAgain
            | Self::Propose
            | Self::Finish { .. }
            | Self::Checkpoint { .. }
            | Self::FailAttempt { .. }
            | Self::GiveUp { .. }
            | Self::TellLoss
            | Self::Tick
            | Self::Expire
            | Self::Ping { .. }
            | Self::Drain { .. }
            | Self::Abandon { .. } => {}
        }
    }
}

/// What a channel's actor starts with.
pub(crate) struct ChannelArgs {
    /// What all actors share.
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: Arc<ChannelHandle>,
    /// A turn found open was cut short by a crash.
    pub(crate) interrupted: bool,
    /// Cancels the tasks of this incarnation.
    pub(crate) token: CancellationToken,
}

pub(crate) struct Channel;

/// What the actor knows beside the conversation.
pub(crate) struct ChannelState {
    shared: Arc<Shared>,
    handle: Arc<ChannelHandle>,
    myself: ActorRef<ChannelMsg>,
    interrupted: bool,
    token: CancellationToken,
    /// A router that fails takes its channels down without their knowing: the tasks go with the state.
    _cancel: DropGuard,
    /// Messages that came by the router.
    received: u64,
    /// The router was told that this channel may sleep: nothing new may begin meanwhile.
    falling: bool,
    last_active: Instant,
    current: Option<Current>,
    attempts: u64,
    /// The end of a turn that the store refused for now.
    unsaved: Option<Closing>,
    /// Messages whose turns ended lately.
    recent: VecDeque<Recent>,
    tier: Tier,
    thrashing: ThrashingWatch,
    /// The tier at which the run under way began.
    run_tier: Option<Tier>,
    draining: bool,
    drained: Vec<Reply<()>>,
    /// Runs that began by themselves and that somebody in the chat has asked for since.
    told_of: BTreeSet<RunId>,
    /// Last record of the head that was kept last.
    snapshot_n: u64,
    since_snapshot: usize,
}

impl Actor for Channel {
    type Msg = ChannelMsg;
    type State = ChannelState;
    type Arguments = ChannelArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<ChannelMsg>,
        args: ChannelArgs,
    ) -> Result<ChannelState, ActorProcessingErr> {
        args.handle.set_channel(myself.clone());
        let run_tier = args.handle.read(|conversation| conversation.run.as_ref().map(|run| run.tier));
        Ok(ChannelState {
            snapshot_n: args.handle.read(|conversation| conversation.last_n),
            shared: args.shared,
            handle: args.handle,
            myself,
            interrupted: args.interrupted,
            _cancel: args.token.clone().drop_guard(),
            token: args.token,
            received: 0,
            falling: false,
            last_active: Instant::now(),
            current: None,
            attempts: 0,
            unsaved: None,
            recent: VecDeque::new(),
            tier: Tier::Calm,
            thrashing: ThrashingWatch::default(),
            run_tier,
            draining: false,
            drained: Vec::new(),
            told_of: BTreeSet::new(),
            since_snapshot: 0,
        })
    }

    async fn post_start(
        &self,
        _myself: ActorRef<ChannelMsg>,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        state.take_up().await
    }

    async fn handle(
        &self,
        _myself: ActorRef<ChannelMsg>,
        message: ChannelMsg,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        if message.is_delivered() {
            state.received += 1;
            state.stir();
        }
        match message {
            ChannelMsg::Accept { inbound, credit, reply } => {
                let admitted = state.accept(&inbound).await?;
                drop(credit);
                drop(reply.send(admitted));
            }
            ChannelMsg::Compact { instruction, tell, reply } => {
                drop(reply.send(state.compact(instruction, tell).await?));
            }
            ChannelMsg::NewGeneration { reply } => drop(reply.send(state.new_generation().await?)),
            ChannelMsg::Stop { reply } => drop(reply.send(state.stop_turn().await?)),
            ChannelMsg::Amend { amendment, credit, reply } => {
                let amended = state.amend(&amendment).await?;
                drop(credit);
                drop(reply.send(amended));
            }
            ChannelMsg::Claim { message, command, caller, credit, reply } => {
                let claimed = state.claim(message, command, caller).await?;
                drop(credit);
                drop(reply.send(claimed));
            }
            ChannelMsg::Undo { reply } => drop(reply.send(state.undo().await?)),
            ChannelMsg::Post { id, events, reply } => drop(reply.send(state.post(&id, events).await?)),
            ChannelMsg::Retry { id, reply } => drop(reply.send(state.retry_delivery(id).await?)),
            ChannelMsg::Drop { id, reply } => drop(reply.send(state.drop_delivery(id).await?)),
            ChannelMsg::Step { attempt, events, reply } => {
                drop(reply.send(state.step(attempt, events).await?));
            }
            ChannelMsg::Relieve { attempt, settings, cause, reply } => {
                drop(reply.send(state.relieve(attempt, &settings, cause).await?));
            }
            ChannelMsg::TurnDone { attempt, ended } => state.turn_done(attempt, *ended).await?,
            ChannelMsg::Yield { attempt } => state.yield_turn(attempt),
            ChannelMsg::Spent { model, usage } => state.spent(model, usage).await?,
            ChannelMsg::TryAgain => state.try_again().await?,
            ChannelMsg::Propose => state.propose().await?,
            ChannelMsg::Finish { run, draft } => state.finish_run(&run, draft).await?,
            ChannelMsg::Checkpoint { run, checkpoint, reply } => {
                let journalled = state.checkpoint(&run, *checkpoint).await?;
                // A worker that is gone does not mind.
                let _ = reply.send(journalled);
            }
            ChannelMsg::FailAttempt { run, attempt, reason, retry_after_ms } => {
                state.fail_attempt(&run, attempt, &reason, retry_after_ms).await?;
            }
            ChannelMsg::GiveUp { run, outcome, reason } => state.give_up(&run, outcome, &reason).await?,
            ChannelMsg::TellLoss => state.tell_loss().await?,
            ChannelMsg::Tick => state.tick(),
            ChannelMsg::Expire => state.expire().await?,
            ChannelMsg::Ping { reply } => drop(reply.send(())),
            ChannelMsg::Drain { done } => state.drain(done),
            ChannelMsg::Abandon { done } => {
                state.abandon();
                let _ = done.send(());
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<ChannelMsg>,
        state: &mut ChannelState,
    ) -> Result<(), ActorProcessingErr> {
        state.keep_snapshot();
        Ok(())
    }
}
