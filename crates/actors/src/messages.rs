//! The messages between the actors, and the types in them.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::client_list::ClientList;
use cairn_core::compaction::{NothingToCompact, SummaryDraft};
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::import::{Imported, PastMessage};
use cairn_core::reminder::NewReminder;
use cairn_core::store_port::Due;
use cairn_types::event::{Checkpoint, Event, RunEnd, RunOutcome};
use cairn_types::ids::{ChannelId, Generation, MessageId, OutboxId, ReminderId, RunId, Seq, TurnId};
use cairn_types::message::{Amendment, Author, Entry, Inbound, Role};
use cairn_types::model::Usage;
use cairn_types::ports::{Admission, OutboxItem, Refusal, StoreError, TurnFailure};
use cairn_types::reminder::Reminder;
use cairn_types::trace::CallTrace;
use futures::future::BoxFuture;
use jiff::Timestamp;
use ractor::{ActorId, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::budgets::Reservation;
use crate::failure::{RuntimeError, refusal};
use crate::tasks::Ended;
use crate::typing::Typing;

pub(crate) type Reply<T> = oneshot::Sender<T>;

/// A request to a channel from outside. The router passes it on and wakes the channel for it.
pub(crate) enum Request {
    Accept {
        inbound: Arc<Inbound>,
        /// Dropped when the message is in the journal, or refused.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<Admission, Refusal>>,
    },
    Compact {
        /// What the summary should attend to.
        instruction: Option<String>,
        /// Whether the chat is told the result.
        tell: bool,
        reply: Reply<Result<Compaction, RuntimeError>>,
    },
    /// Starts a new conversation.
    NewGeneration {
        reply: Reply<Result<Generation, RuntimeError>>,
    },
    /// Stops the open turn. False: there is none.
    Stop {
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// Applies an edit or a deletion of an earlier message.
    Amend {
        amendment: Arc<Amendment>,
        /// Dropped when the amendment is in the journal, or ignored.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<(), Refusal>>,
    },
    /// Journals that a command is about to run. False: it has run before.
    Claim {
        /// The id of its message or interaction.
        message: MessageId,
        command: &'static str,
        caller: Author,
        /// Dropped when the claim is in the journal.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<bool, Refusal>>,
    },
    Undo {
        reply: Reply<Result<String, RuntimeError>>,
    },
    /// Journals how a delivery goes. False: it is no longer pending, and nothing is journalled.
    NoteDelivery {
        id: OutboxId,
        events: Vec<Event>,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// Journals the recording of an answer with its delivery. False: the answer is not in the conversation any more.
    AddRecording {
        turn: TurnId,
        /// The answer's entry.
        seq: Seq,
        events: Vec<Event>,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    /// Makes a failed delivery pending again. False: it is pending already.
    RetryDelivery {
        id: OutboxId,
        reply: Reply<Result<bool, RuntimeError>>,
    },
    DropDelivery {
        id: OutboxId,
        reply: Reply<Result<(), RuntimeError>>,
    },
    SetReminder {
        new: NewReminder,
        reply: Reply<Result<Reminder, RuntimeError>>,
    },
    CancelReminder {
        id: ReminderId,
        /// `PLATFORM/USER`.
        by: String,
        /// Whose it has to be; `None`: of whomever.
        owner: Option<String>,
        reply: Reply<Result<Reminder, RuntimeError>>,
    },
    /// Imports a part of a conversation from another program.
    Import {
        said: Arc<Vec<PastMessage>>,
        reply: Reply<Result<Imported, RuntimeError>>,
    },
    /// Brings the conversation to where a client's list stands, and accepts the last message of the list.
    TakeList {
        list: Arc<ClientList>,
        /// Dropped when the message is in the journal, or refused.
        permit: Arc<OwnedSemaphorePermit>,
        reply: Reply<Result<Admission, Refusal>>,
    },
    /// Fires the reminders that are due.
    FireDue,
}

impl Request {
    /// Answers a request that cannot be passed to its channel. Dropped receivers are ignored.
    pub(crate) fn refuse(self, error: RuntimeError) {
        match self {
            Self::Accept { reply, .. } | Self::TakeList { reply, .. } => {
                drop(reply.send(Err(refusal(error))));
            }
            Self::Compact { reply, .. } => drop(reply.send(Err(error))),
            Self::NewGeneration { reply } => drop(reply.send(Err(error))),
            Self::Amend { reply, .. } => drop(reply.send(match error {
                // Nothing to amend: the channel is unknown.
                RuntimeError::NoSuchChannel(_) => Ok(()),
                error => Err(refusal(error)),
            })),
            Self::Claim { reply, .. } => drop(reply.send(Err(refusal(error)))),
            Self::Undo { reply } => drop(reply.send(Err(error))),
            Self::Stop { reply }
            | Self::NoteDelivery { reply, .. }
            | Self::AddRecording { reply, .. }
            | Self::RetryDelivery { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::DropDelivery { reply, .. } => drop(reply.send(Err(error))),
            Self::SetReminder { reply, .. } | Self::CancelReminder { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::Import { reply, .. } => drop(reply.send(Err(error))),
            // The alarm asks again.
            Self::FireDue => {}
        }
    }
}

/// Whether a request may start a channel that was never seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Yes,
    No,
}

pub(crate) enum ChannelMsg {
    /// A request from outside, passed on by the router.
    Request(Request),
    /// The turn under way has entries to journal. The channel numbers them.
    Step {
        attempt: u64,
        /// Entries and other events, journalled together.
        events: Vec<Event>,
        reply: Reply<Result<(), StoreError>>,
    },
    /// The turn under way finds the window too full.
    MakeRoom {
        attempt: u64,
        /// The settings by which the window is too full.
        settings: Arc<AgentSettings>,
        cause: MakeRoom,
        /// Whether anything left the window.
        reply: Reply<Result<bool, StoreError>>,
    },
    /// The turn under way is about to ask its model again: whatever its people have said meanwhile joins it.
    Join {
        attempt: u64,
        reply: Reply<Result<(), StoreError>>,
    },
    TurnDone {
        attempt: u64,
        ended: Box<Ended<TurnResult>>,
    },
    /// The turn under way waits for a model or a person while the runtime stops. It resumes at the next start.
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
        /// Dropped when the usage is counted.
        reservation: Option<Reservation>,
    },
    /// Retries what the store refused.
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
        /// True: it is durable, or no longer wanted.
        reply: Reply<bool>,
    },
    FailAttempt {
        run: RunId,
        attempt: u32,
        reason: String,
        /// The pause that the model's server asked for.
        retry_after_ms: Option<u64>,
    },
    GiveUpRun {
        run: RunId,
        outcome: RunOutcome,
        reason: String,
    },
    /// Checks whether a note about lost messages is due.
    TellLoss,
    /// Checks whether the channel may sleep.
    Tick,
    /// The awake channels take too much memory: sleep, unless something is under way.
    Sleep,
    /// Checks which artifacts have expired.
    Expire,
    Ping {
        reply: Reply<()>,
    },
    /// Starts no more turns; answers when none is open.
    Drain {
        done: Reply<()>,
    },
    /// Drops the task of the open turn, which resumes at the next start.
    Abandon {
        done: Reply<()>,
    },
}

/// How a turn's tasks reach their channel.
#[derive(Clone)]
pub(crate) struct TurnLink {
    /// The incarnation of the channel's actor that started the turn.
    pub(crate) channel: ActorRef<ChannelMsg>,
    /// Number of the attempt to run the turn.
    pub(crate) attempt: u64,
}

impl TurnLink {
    /// Has the channel journal events of this turn.
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

    /// Offers to end the task early, since the runtime stops and the turn only waits. A channel that is gone needs no
    /// answer.
    pub(crate) fn yield_turn(&self) {
        let _ = self.channel.send_message(ChannelMsg::Yield { attempt: self.attempt });
    }
}

/// The result of a turn's task.
#[derive(Debug)]
pub(crate) struct TurnResult {
    pub(crate) answer: Result<TurnAnswer, TurnFailure>,
    /// Draft events that are not journalled yet; they go with the turn's end.
    pub(crate) drafts: Vec<Event>,
}

#[derive(Debug)]
pub(crate) struct TurnAnswer {
    /// The reply. The channel numbers it.
    pub(crate) entry: Entry,
    /// Usage of the last call.
    pub(crate) took: Option<Event>,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
    /// A request was cut to fit: the model did not see all of the messages.
    pub(crate) cut: bool,
    /// The model chose to say nothing: the reply is not posted.
    pub(crate) silent: bool,
}

/// The result of a request for a compaction.
pub enum Compaction {
    Nothing(NothingToCompact),
    Run(RunTicket),
    /// A context engine without runs made room at once.
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
    /// Window tokens before, corrected.
    pub tokens_before: u64,
    /// Window tokens after, corrected.
    pub tokens_after: u64,
}

pub struct RunTicket {
    /// The run's id. A queued run has it reserved.
    pub run: RunId,
    pub queued: bool,
    /// The run was under way, or queued, before this request.
    pub joined: bool,
    /// The run's end; `None` if `/new` or a stop prevents it.
    pub ended: BoxFuture<'static, Option<RunEnd>>,
}

#[derive(Debug)]
pub(crate) enum CompactorMsg {
    /// The conversation changed: check what is due.
    Look,
    Ping {
        reply: Reply<()>,
    },
    /// The last result may have been lost: deliver it again.
    Resume,
    /// The worker of that attempt ended.
    Done {
        run: RunId,
        attempt: u32,
        ended: Ended<Result<SummaryDraft, RunFailure>>,
    },
}

/// Why an attempt at a run failed.
#[derive(Debug, Clone)]
pub(crate) struct RunFailure {
    pub(crate) reason: String,
    /// The pause that the model's server asked for.
    pub(crate) retry_after_ms: Option<u64>,
    /// The run's outcome, if the run ends with this; `None`: only the attempt failed.
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
    /// Passes a request to a channel, and wakes it.
    Deliver {
        channel: ChannelId,
        create: Create,
        request: Request,
    },
    /// Wakes a channel with unfinished work.
    Wake(ChannelId),
    /// A channel was read from the store.
    Woken {
        channel: ChannelId,
        /// `None`: the channel was never seen.
        restored: Result<Option<Box<Conversation>>, StoreError>,
    },
    /// A channel has nothing to do. It may sleep if no request is on its way to it.
    Idle {
        channel: ChannelId,
        who: ActorId,
        /// Requests that the actor has received.
        received: u64,
    },
    /// Starts the compactor again, after a pause.
    StartCompactor(ChannelId),
    /// A channel may take more memory than before.
    SizeChanged,
    Ping {
        reply: Reply<()>,
    },
}

pub(crate) enum OutboxMsg {
    /// Reads a channel's pending deliveries from the store: the channel restarted after a failure, or a delivery is to be
    /// retried.
    Look(ChannelId),
    /// Pending deliveries from the store, oldest first; of one channel or of all.
    Found {
        of: Option<ChannelId>,
        items: Vec<OutboxItem>,
    },
    Deliver(Box<PendingDelivery>),
    /// The task of a channel's first delivery ended.
    Finished {
        channel: ChannelId,
        id: OutboxId,
        /// It cannot continue before the next start of the daemon.
        parked: bool,
    },
    /// Removes a delivery that was dropped, and stops its task.
    Cancel {
        channel: ChannelId,
        id: OutboxId,
    },
    Ping {
        reply: Reply<()>,
    },
    /// The runtime stops: answer when no delivery is under way.
    Drain {
        done: Reply<()>,
    },
}

pub(crate) enum AlarmMsg {
    /// A reminder was set, cancelled or fired.
    Changed,
    /// A sleep is over.
    Tick,
    Found(Due),
    Ping {
        reply: Reply<()>,
    },
}

pub(crate) struct PendingDelivery {
    /// The delivery, with its progress so far.
    pub(crate) item: OutboxItem,
    pub(crate) reply: Option<Arc<Entry>>,
    /// Shows that the bot is typing; ended when the last part is sent.
    pub(crate) typing: Option<Arc<Typing>>,
}

/// An entry without number, turn and token count, which the channel sets.
pub(crate) fn draft_entry(role: Role, at: Timestamp) -> Entry {
    Entry::new(Seq::default(), &TurnId::from(""), Generation::default(), at, role)
}
