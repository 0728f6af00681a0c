//! What the actors say to each other, and what goes with it.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::{NothingToCompact, SummaryDraft};
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_types::event::{Checkpoint, Event, RunEnd, RunOutcome};
use cairn_types::ids::{ChannelId, Generation, MessageId, OutboxId, RunId, Seq, TurnId};
use cairn_types::message::{Amendment, Author, Entry, Inbound, Provenance, Role};
use cairn_types::model::Usage;
use cairn_types::ports::{Admission, OutboxItem, Refusal, StoreError, TurnFailure};
use cairn_types::trace::CallTrace;
use futures::future::BoxFuture;
use jiff::Timestamp;
use ractor::{ActorId, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::failure::{RuntimeError, refusal};
use crate::tasks::Ended;
use crate::typing::Typing;

pub(crate) type Reply<T> = oneshot::Sender<T>;

/// What a channel is asked for from outside. It goes by the router, which wakes the channel for it.
pub(crate) enum Request {
    Accept {
        inbound: Arc<Inbound>,
        /// Returned when the message is in the journal, or refused.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<Admission, Refusal>>,
    },
    Compact {
        /// What the summary is to attend to.
        instruction: Option<String>,
        /// The chat is told how it ends.
        tell: bool,
        reply: Reply<Result<Compaction, RuntimeError>>,
    },
    /// Start a new conversation.
    NewGeneration {
        reply: Reply<Result<Generation, RuntimeError>>,
    },
    /// Stop the open turn. False: there is none.
    Stop {
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// Take a change of an earlier message in.
    Amend {
        amendment: Arc<Amendment>,
        /// Returned when it is in the journal, or passed over.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<(), Refusal>>,
    },
    /// Note that a command is about to be run. False: it was run before.
    Claim {
        /// The id of its message or interaction.
        message: MessageId,
        command: &'static str,
        caller: Author,
        /// Returned when it is in the journal.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<bool, Refusal>>,
    },
    Undo {
        reply: Reply<Result<TurnId, RuntimeError>>,
    },
    /// Note how a delivery goes. False: it is pending no longer, and nothing was noted.
    NoteDelivery {
        id: OutboxId,
        events: Vec<Event>,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// False: the delivery is under way.
    RetryDelivery {
        id: OutboxId,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    DropDelivery {
        id: OutboxId,
        reply: Reply<Result<(), RuntimeError>>,
    },
}

impl Request {
    /// Answers what cannot be handed to its channel. Who does not listen any more does not mind.
    pub(crate) fn refuse(self, error: RuntimeError) {
        match self {
            Self::Accept { reply, .. } => drop(reply.send(Err(refusal(error)))),
            Self::Compact { reply, .. } => drop(reply.send(Err(error))),
            Self::NewGeneration { reply } => drop(reply.send(Err(error))),
            Self::Amend { reply, .. } => drop(reply.send(match error {
                // A change of a message that nobody knows.
                RuntimeError::NoSuchChannel(_) => Ok(()),
                error => Err(refusal(error)),
            })),
            Self::Claim { reply, .. } => drop(reply.send(Err(refusal(error)))),
            Self::Undo { reply } => drop(reply.send(Err(error))),
            Self::Stop { reply } | Self::NoteDelivery { reply, .. } | Self::RetryDelivery { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::DropDelivery { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

/// Whether a request may begin a channel that was never seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

pub(crate) enum ChannelMsg {
    /// From outside, by way of the router.
    Request(Request),
    /// The turn under way has entries to journal; their numbers are given here.
    Step {
        attempt: u64,
        /// The entries and what goes with them.
        events: Vec<Event>,
        reply: Reply<Result<(), StoreError>>,
    },
    /// The turn under way finds the window too full.
    MakeRoom {
        attempt: u64,
        /// The settings by which it is too full.
        settings: Arc<AgentSettings>,
        cause: MakeRoom,
        /// Whether anything left the window.
        reply: Reply<Result<bool, StoreError>>,
    },
    TurnDone {
        attempt: u64,
        ended: Box<Ended<TurnResult>>,
    },
    /// The turn under way waits for a model or a person, and the runtime stops: it is taken up again at the next start.
    Yield {
        attempt: u64,
    },
    /// A run used tokens.
    Spent {
        /// The model, by its id in the configuration.
        model: String,
        usage: Usage,
        is_estimate: bool,
        trace: Option<Box<CallTrace>>,
    },
    /// What the store refused is tried again.
    Retry,
    /// The compactor finds that a run is due.
    Propose,
    /// An attempt of a run has a result.
    FinishRun {
        run: RunId,
        draft: SummaryDraft,
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
    GiveUpRun {
        run: RunId,
        outcome: RunOutcome,
        reason: String,
    },
    /// Look whether the chat is to be told that something was lost from view.
    TellLoss,
    /// Look whether the channel may sleep.
    Tick,
    /// The channels awake take too much memory: fall asleep, if nothing is under way.
    Sleep,
    /// Look which artifacts have expired.
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

/// How those who work for a turn reach their channel.
#[derive(Clone)]
pub(crate) struct TurnLink {
    /// The incarnation of the channel's actor that started the turn.
    pub(crate) channel: ActorRef<ChannelMsg>,
    /// Which attempt at a turn this is.
    pub(crate) attempt: u64,
}

impl TurnLink {
    /// Has the channel journal something of this turn.
    pub(crate) async fn step(&self, events: Vec<Event>) -> Result<(), StoreError> {
        let attempt = self.attempt;
        self.propose(|reply| ChannelMsg::Step { attempt, events, reply }).await
    }

    pub(crate) async fn propose<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> ChannelMsg,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.channel.send_message(message(reply)).is_err() {
            return Err(StoreError::Closed);
        }
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// The runtime stops, and the turn has nothing to do before. A channel that is gone has no need of it.
    pub(crate) fn yield_turn(&self) {
        let _ = self.channel.send_message(ChannelMsg::Yield { attempt: self.attempt });
    }
}

/// What the task of a turn came to.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) answer: Result<TurnAnswer, TurnFailure>,
    /// What came of drafts, to be journalled with the end.
    pub(crate) drafts: Vec<Event>,
}

#[derive(Debug)]
pub(crate) struct TurnAnswer {
    /// The reply; the channel gives it its number.
    pub(crate) entry: Entry,
    /// What the last call took.
    pub(crate) took: Option<Event>,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
    /// A request was cut to fit: the model did not see all of the messages.
    pub(crate) cut: bool,
}

/// What a request for a compaction leads to.
pub enum Compaction {
    Nothing(NothingToCompact),
    Run(RunTicket),
    /// Room was made at once: by a context engine without runs.
    Made(RoomMade),
}

impl Compaction {
    pub fn run(self) -> Option<RunTicket> {
        match self {
            Self::Run(ticket) => Some(ticket),
            Self::Nothing(_) | Self::Made(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomMade {
    pub messages: u64,
    /// Window tokens before, after correction.
    pub tokens_before: u64,
    /// Window tokens after, after correction.
    pub tokens_after: u64,
}

pub struct RunTicket {
    /// The run; of one that is queued behind another, the id that it will have.
    pub run: RunId,
    pub queued: bool,
    /// It was under way, or queued, before it was asked for.
    pub joined: bool,
    /// Its end. `None` when it never will be: `/new`, or the daemon stopped first.
    pub ended: BoxFuture<'static, Option<RunEnd>>,
}

#[derive(Debug)]
pub(crate) enum CompactorMsg {
    /// Something changed: look whether there is something to do.
    Look,
    Ping {
        reply: Reply<()>,
    },
    /// What was proposed last may have been lost: propose it again.
    Resume,
    /// The worker of that attempt ended.
    Done {
        run: RunId,
        attempt: u32,
        ended: Ended<Result<SummaryDraft, RunFailure>>,
    },
}

/// Why an attempt at a run has made nothing.
#[derive(Debug, Clone)]
pub(crate) struct RunFailure {
    pub(crate) reason: String,
    /// What the model's server asks us to wait.
    pub(crate) retry_after_ms: Option<u64>,
    /// The run ends with this; otherwise only the attempt has failed.
    pub(crate) outcome: Option<RunOutcome>,
}

impl RunFailure {
    /// The attempt failed; the next may succeed.
    pub(crate) fn attempt(reason: String) -> Self {
        Self { reason, retry_after_ms: None, outcome: None }
    }

    /// The run ends.
    pub(crate) fn end(outcome: RunOutcome, reason: String) -> Self {
        Self { reason, retry_after_ms: None, outcome: Some(outcome) }
    }
}

pub(crate) enum RouterMsg {
    /// Hand a request to a channel, waking it.
    Deliver {
        channel: ChannelId,
        create: Create,
        request: Request,
    },
    /// Wake a channel that has something unfinished.
    Wake(ChannelId),
    /// A channel was read from the store.
    Woken {
        channel: ChannelId,
        /// What was read; `None` when it was never seen.
        restored: Result<Option<Box<Conversation>>, StoreError>,
    },
    /// A channel has nothing to do and may sleep, when nothing is on its way to it.
    Idle {
        channel: ChannelId,
        who: ActorId,
        /// Requests that the actor has taken.
        received: u64,
    },
    /// The pause after a compactor's failure is over.
    StartCompactor(ChannelId),
    /// A channel has ended a turn or a run, and may take more memory than before.
    SizeChanged,
    Ping {
        reply: Reply<()>,
    },
}

pub(crate) enum OutboxMsg {
    /// Look in the store for what is a channel's: it failed, and may have told nothing of what it journalled, or a delivery is to
    /// be tried again.
    Look(ChannelId),
    /// What the store says is pending, oldest first; of one channel or of all.
    Found {
        of: Option<ChannelId>,
        items: Vec<OutboxItem>,
    },
    Deliver(Box<PendingDelivery>),
    /// The first delivery of a channel is over, or cannot go on now.
    Finished {
        channel: ChannelId,
        id: OutboxId,
        /// It cannot go on in this run of the daemon.
        parked: bool,
    },
    /// Stops a delivery that was dropped.
    Cancel {
        channel: ChannelId,
        id: OutboxId,
    },
    Ping {
        reply: Reply<()>,
    },
    /// The runtime stops: answer when nothing is on its way any more.
    Drain {
        done: Reply<()>,
    },
}

pub(crate) struct PendingDelivery {
    /// What is to be sent, and what of it is there.
    pub(crate) item: OutboxItem,
    pub(crate) reply: Option<Arc<Entry>>,
    /// Shows that the bot is typing, until the last part is sent.
    pub(crate) typing: Option<Arc<Typing>>,
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
        provider_state: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        provenance: Provenance::default(),
        quotes: false,
        finish: None,
        tokens: 0,
    }
}
