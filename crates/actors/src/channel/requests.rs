//! Requests from outside: messages, each accepted once and durable before it is acknowledged; amendments; commands.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::compaction::{NothingToCompact, give_up, request_manual};
use cairn_core::conversation::{Conversation, amend, undo};
use cairn_core::engine::MakeRoom;
use cairn_core::limits::Limited;
use cairn_core::notice::long_messages;
use cairn_core::window::pending_tokens;
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, RunOutcome, RunRequest, Trigger, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{Generation, LOCAL_PLATFORM, MessageId, RunId, TurnId};
use cairn_types::message::{Amendment, Author, Change, Entry, Inbound, Pending, Role, fingerprint};
use cairn_types::ports::{Admission, Answer, Mark, Refusal, Seen, StoreError};
use cairn_types::texts::Key;

use super::state::{ChannelState, Failed, answer};
use super::turns::answer_of;
use crate::failure::{self, BEHIND, ChannelFault, RuntimeError, refusal_of_store};
use crate::messages::{Compaction, CompactorMsg, Request, RoomMade, RunTicket};
use crate::subscribers::ended_stream;

/// Seconds until a full queue is worth another try.
pub(super) const BUSY_RETRY_SECS: u64 = 5;

/// Longest wait for the views to tell whether a message was seen. They may be catching up with the journal, and the open
/// turn must not wait for that.
const VIEWS_LIMIT: Duration = Duration::from_secs(5);

/// Runs requested by people that may queue behind the one under way.
const QUEUED_MAX: usize = 4;

/// Reads from the views. If they are too far behind, it is unknown whether a message is new, so the message is refused and
/// has to be sent again.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Refusal> {
    match tokio::time::timeout(VIEWS_LIMIT, work).await {
        Ok(result) => result.map_err(refusal_of_store),
        Err(_) => Err(Refusal::Unavailable(BEHIND)),
    }
}

fn limited(limited: Limited) -> Refusal {
    let Limited { retry_after_secs, words, tell } = limited;
    Refusal::Limited { retry_after_secs, words, tell }
}

impl ChannelState {
    /// Carries out a request and answers it. Dropped receivers are ignored.
    pub(super) async fn handle_request(&mut self, request: Request) -> Result<(), ChannelFault> {
        match request {
            Request::Accept { inbound, permit, reply } => {
                let admitted = answer(self.accept(&inbound).await)?;
                drop(permit);
                drop(reply.send(admitted));
            }
            Request::Amend { amendment, permit, reply } => {
                let amended = answer(self.amend(&amendment).await)?;
                drop(permit);
                drop(reply.send(amended));
            }
            Request::Claim { message, command, caller, permit, reply } => {
                let claimed = answer(self.claim(message, command, caller).await)?;
                drop(permit);
                drop(reply.send(claimed));
            }
            Request::Compact { instruction, tell, reply } => {
                drop(reply.send(answer(self.compact(instruction, tell).await)?));
            }
            Request::NewGeneration { reply } => drop(reply.send(answer(self.new_generation().await)?)),
            Request::Stop { reply } => {
                let stopped = self.stop_open_turn().await.map_err(Failed::from);
                drop(reply.send(answer(stopped)?));
            }
            Request::Undo { reply } => drop(reply.send(answer(self.undo().await)?)),
            Request::NoteDelivery { id, events, reply } => {
                drop(reply.send(answer(self.note_delivery(&id, events).await)?));
            }
            Request::AddRecording { turn, seq, events, reply } => {
                drop(reply.send(answer(self.add_recording(&turn, seq, events).await)?));
            }
            Request::RetryDelivery { id, reply } => {
                drop(reply.send(answer(self.retry_delivery(id).await)?));
            }
            Request::DropDelivery { id, reply } => drop(reply.send(answer(self.drop_delivery(id).await)?)),
            Request::SetReminder { new, reply } => {
                drop(reply.send(answer(self.set_reminder(new).await)?));
            }
            Request::CancelReminder { id, by, owner, reply } => {
                drop(reply.send(answer(self.cancel_reminder(id, by, owner).await)?));
            }
            Request::Import { said, reply } => drop(reply.send(answer(self.import(&said).await)?)),
            Request::TakeList { list, permit, reply } => {
                let admitted = answer(self.take_list(&list).await)?;
                drop(permit);
                drop(reply.send(admitted));
            }
            Request::FireDue => self.fire_due().await?,
        }
        Ok(())
    }

    /// Accepts a message, which is durable when this returns. A repeated id joins its turn or gets its stored answer.
    async fn accept(&mut self, inbound: &Inbound) -> Result<Admission, Failed<Refusal>> {
        if self.draining {
            return Err(Refusal::Unavailable("stopping").into());
        }
        let print = fingerprint(&inbound.author, &inbound.parts);
        match in_time(self.seen(&inbound.message)).await? {
            // The adapter sees the edited text of a message that it submitted before.
            Seen::Open { fingerprint: known, .. } | Seen::Ended { fingerprint: known, .. }
                if known != print && !known.is_empty() && self.is_chat() =>
            {
                self.accept_edit(inbound).await
            }
            Seen::Open { fingerprint: known, .. } | Seen::Ended { fingerprint: known, .. }
                if known != print && !self.is_chat() =>
            {
                Err(Refusal::Conflict(inbound.message.clone()).into())
            }
            Seen::Open { turn, .. } => {
                Ok(Admission { turn, progress: self.handle.subscribers.join(&inbound.message) })
            }
            Seen::Ended { turn, end, .. } => {
                match in_time(self.stored_answer(&inbound.message, &end)).await? {
                    Some(answer) => Ok(Admission { turn, progress: ended_stream(answer) }),
                    None => self.reopen(inbound, print, &turn).await,
                }
            }
            Seen::New => self.enqueue(inbound, print, None).await,
        }
    }

    /// Whether this is a chat on a network: there, messages can be edited, and none runs twice.
    fn is_chat(&self) -> bool {
        self.handle.id.platform() != LOCAL_PLATFORM
    }

    async fn accept_edit(&mut self, inbound: &Inbound) -> Result<Admission, Failed<Refusal>> {
        let change = Change::Edited {
            author: inbound.author.clone(),
            parts: inbound.parts.clone(),
            addressed: inbound.addressed,
        };
        let (channel, message) = (inbound.channel.clone(), inbound.message.clone());
        self.amend(&Amendment { channel, message, at: inbound.at, change }).await?;
        let turn = self.handle.read(Conversation::next_turn);
        Ok(Admission { turn, progress: ended_stream(Answer::Failed(failure::repeated())) })
    }

    /// Accepts a message again whose turn ended without an answer: that turn is reopened, or a new one takes its place.
    async fn reopen(
        &mut self,
        inbound: &Inbound,
        print: String,
        turn: &TurnId,
    ) -> Result<Admission, Failed<Refusal>> {
        let again = self.handle.read(|conversation| conversation.sent_again(turn, &inbound.message));
        let Some(reopened @ Event::Turn(TurnEvent::Reopened { .. })) = again else {
            return self.enqueue(inbound, print, again).await;
        };
        if self.current.is_some() || self.unsaved.is_some() {
            return Err(Refusal::Busy { retry_after_secs: BUSY_RETRY_SECS }.into());
        }
        self.check_limit(inbound).await?;
        self.journal_message(inbound, turn.clone(), vec![reopened]).await
    }

    /// Refuses a message whose author is over a limit. On a chat network the refusal is journalled: the network may deliver
    /// the message again after a restart, which resets the hour. On the local platform the sender may try again.
    pub(super) async fn check_limit(&mut self, inbound: &Inbound) -> Result<(), Failed<Refusal>> {
        if !inbound.addressed {
            return Ok(());
        }
        let Err(over) =
            self.shared.budgets.admit(&self.handle.id, &inbound.author.id, self.shared.ports.now())
        else {
            return Ok(());
        };
        if self.is_chat() {
            let refused = Event::Message(MessageEvent::Refused { message: inbound.message.clone() });
            if let Err(error) = answer(self.commit(vec![refused]).await)? {
                tracing::warn!(channel = %self.handle.id, %error, "cannot journal that a limit refused a message");
            }
        }
        Err(limited(over).into())
    }

    /// Makes a new message pending. `before`: an event to journal before it.
    async fn enqueue(
        &mut self,
        inbound: &Inbound,
        print: String,
        before: Option<Event>,
    ) -> Result<Admission, Failed<Refusal>> {
        let n_pending = self.handle.read(|conversation| conversation.pending.len());
        if n_pending >= self.shared.live.limits().channel_queue {
            return Err(Refusal::Busy { retry_after_secs: BUSY_RETRY_SECS }.into());
        }
        self.check_limit(inbound).await?;
        self.enqueue_within_limits(inbound, print, before).await
    }

    /// Makes a new message pending, for which there is room and whose author is within the limits.
    pub(super) async fn enqueue_within_limits(
        &mut self,
        inbound: &Inbound,
        print: String,
        before: Option<Event>,
    ) -> Result<Admission, Failed<Refusal>> {
        let kept = self.keep_recordings(inbound).await;
        let turn = self.handle.read(Conversation::next_turn);
        let mut pending = Pending {
            message: inbound.message.clone(),
            turn: turn.clone(),
            at: inbound.at,
            author: inbound.author.clone(),
            parts: inbound.parts.clone(),
            addressed: inbound.addressed,
            direct: inbound.direct,
            chat_name: self.new_name(inbound),
            language: self.new_language(inbound),
            provenance: inbound.provenance.clone(),
            spoken: inbound.spoken,
            reminder: None,
            fingerprint: print,
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        self.note_arrival(inbound);
        // An idle channel starts the turn in the same batch: one sync for both.
        let begun = self.next_turn_events(Some(&pending));
        let mut events: Vec<Event> = before.into_iter().collect();
        events.push(Event::Message(MessageEvent::Accepted(pending)));
        // Behind their message, so that whoever reads the journal knows whose they are.
        events.extend(kept);
        events.extend(begun);
        self.journal_message(inbound, turn, events).await
    }

    /// The name of the chat, where it is not known by it yet.
    fn new_name(&self, inbound: &Inbound) -> Option<String> {
        let name = inbound.chat_name.as_ref()?;
        let is_known = self.handle.read(|conversation| conversation.name.as_ref() == Some(name));
        (!is_known).then(|| {
            tracing::debug!(channel = %self.handle.id, name, "a chat has this name");
            name.clone()
        })
    }

    /// The language of the place, where it is another than before; empty: it has none of its own any more.
    fn new_language(&self, inbound: &Inbound) -> Option<String> {
        let is_known = self.handle.read(|conversation| conversation.language == inbound.language);
        (!is_known).then(|| inbound.language.clone().unwrap_or_default())
    }

    /// Commits a message. Its waiter joins first, since the turn may end soon.
    async fn journal_message(
        &mut self,
        inbound: &Inbound,
        turn: TurnId,
        events: Vec<Event>,
    ) -> Result<Admission, Failed<Refusal>> {
        let progress = self.handle.subscribers.join(&inbound.message);
        self.commit(events).await?;
        metrics::counter!("cairn_accepted_total").increment(1);
        if inbound.addressed {
            self.mark(std::slice::from_ref(&inbound.message), None, Some(Mark::Seen));
        }
        self.advance().await?;
        Ok(Admission { turn, progress })
    }

    /// What is known of a message, from the conversation or else from the store.
    async fn seen(&self, message: &MessageId) -> Result<Seen, StoreError> {
        let open = self.handle.read(|conversation| {
            if let Some(pending) = conversation.pending.iter().find(|pending| pending.message == *message) {
                let (turn, fingerprint) = (pending.turn.clone(), pending.fingerprint.clone());
                return Some(Seen::Open { turn, fingerprint });
            }
            let open = conversation.open_turn.as_ref().filter(|open| open.messages.contains(message))?;
            let of_turn =
                |entry: &&Arc<Entry>| entry.turn == open.id && entry.message.as_ref() == Some(message);
            let entry = conversation.live.iter().rev().find(of_turn)?;
            let fingerprint = fingerprint(entry.author.as_ref()?, &entry.parts);
            Some(Seen::Open { turn: open.id.clone(), fingerprint })
        });
        if let Some(open) = open {
            return Ok(open);
        }
        if let Some(recent) = self.recent.iter().rev().find(|recent| recent.message == *message) {
            let (end, fingerprint) = (Box::new(recent.end.clone()), recent.fingerprint.clone());
            return Ok(Seen::Ended { turn: end.turn.clone(), fingerprint, end });
        }
        match self.shared.ports.store.seen(&self.handle.id, message).await? {
            // Open in the store but not here: `/new` has archived its turn meanwhile.
            Seen::New | Seen::Open { .. } => Ok(Seen::New),
            ended @ Seen::Ended { .. } => Ok(ended),
        }
    }

    /// The stored answer to a message whose turn has ended; `None`: it runs again.
    async fn stored_answer(&self, message: &MessageId, end: &TurnEnd) -> Result<Option<Answer>, StoreError> {
        let (reply, finish) = match &end.outcome {
            TurnOutcome::Failed { code, message } if self.is_chat() => {
                return Ok(Some(Answer::Failed(failure::stored(code, message))));
            }
            TurnOutcome::Stopped if self.is_chat() => return Ok(Some(Answer::Failed(failure::stopped()))),
            TurnOutcome::Failed { .. } | TurnOutcome::Stopped => return Ok(None),
            TurnOutcome::DeadLettered => return Ok(Some(Answer::Failed(failure::dead_letter()))),
            TurnOutcome::Unanswered | TurnOutcome::Silent => (String::new(), None),
            TurnOutcome::Answered { reply } => {
                let entries = self.shared.ports.store.entries(&self.handle.id, *reply, *reply, 1).await?;
                match entries.first() {
                    Some(entry) if entry.is_expired() => return Ok(Some(Answer::Failed(failure::expired()))),
                    Some(entry) => (entry.text(), entry.finish),
                    None if self.is_chat() => return Ok(Some(Answer::Failed(failure::lost()))),
                    None => return Ok(None),
                }
            }
        };
        let settings = self.handle.settings();
        let of_message = std::slice::from_ref(message);
        let notice =
            self.handle.read(|conversation| long_messages(conversation, &settings, of_message, false));
        Ok(Some(answer_of(message, end, reply, finish, notice)))
    }

    /// Applies an edit or a deletion of an earlier message, or a reaction to one. It is durable when this returns.
    async fn amend(&mut self, amendment: &Amendment) -> Result<(), Failed<Refusal>> {
        if self.draining {
            return Err(Refusal::Unavailable("stopping").into());
        }
        let entries = match amendment.change {
            // It is to a message of the bot, which the conversation knows.
            Change::Reacted { .. } => Vec::new(),
            Change::Edited { .. } | Change::Deleted => {
                in_time(self.shared.ports.store.entries_of(&self.handle.id, &amendment.message)).await?
            }
        };
        let Some(event) = self.handle.read(|conversation| amend(conversation, amendment, &entries)) else {
            return Ok(());
        };
        self.check_edit_limit(&event, amendment)?;
        let change = match amendment.change {
            Change::Edited { .. } => "edited",
            Change::Deleted => "deleted",
            Change::Reacted { .. } => "reacted",
        };
        metrics::counter!("cairn_amendments_total", "change" => change).increment(1);
        let mut events = vec![event];
        if matches!(amendment.change, Change::Deleted) {
            events.extend(self.withdrawn_recordings(&amendment.message).await?);
        }
        let withdraws = events.len() > 1;
        self.commit(events).await?;
        if withdraws {
            self.remove_expired();
        }
        if self.handle.read(Conversation::is_withdrawn) && self.stop_open_turn().await? {
            tracing::info!(channel = %self.handle.id, "a turn was stopped: its question was deleted");
        }
        // The edit may address the message to the bot.
        self.advance().await?;
        Ok(())
    }

    /// Counts an edit that first addresses the bot like a message that does.
    fn check_edit_limit(&self, event: &Event, amendment: &Amendment) -> Result<(), Refusal> {
        let Event::Message(MessageEvent::Edited { message, addressed: true, .. }) = event else {
            return Ok(());
        };
        let Change::Edited { author, .. } = &amendment.change else { return Ok(()) };
        let was_addressed = self.handle.read(|conversation| {
            let pending = conversation.pending.iter().find(|pending| pending.message == *message);
            pending.is_some_and(|pending| pending.addressed)
        });
        if was_addressed {
            return Ok(());
        }
        self.shared.budgets.admit(&self.handle.id, &author.id, self.shared.ports.now()).map_err(limited)
    }

    /// Journals that a command is about to run. False: it has run before.
    async fn claim(
        &mut self,
        message: MessageId,
        command: &'static str,
        caller: Author,
    ) -> Result<bool, Failed<Refusal>> {
        if self.draining {
            return Err(Refusal::Unavailable("stopping").into());
        }
        if in_time(self.seen(&message)).await? != Seen::New {
            return Ok(false);
        }
        let taken =
            Event::Message(MessageEvent::CommandTaken { message, command: command.to_owned(), caller });
        metrics::counter!("cairn_commands_total", "command" => command).increment(1);
        self.commit(vec![taken]).await?;
        Ok(true)
    }

    /// Starts a compaction, or queues one behind the run under way. If that run leaves nothing to compact and has the same
    /// instruction, it is joined instead. An engine without runs makes room at once. `tell`: the chat is told the result.
    async fn compact(
        &mut self,
        instruction: Option<String>,
        tell: bool,
    ) -> Result<Compaction, Failed<RuntimeError>> {
        if self.handle.engine.info().owns_compaction {
            return self.make_room_now().await;
        }
        let now = self.shared.ports.now();
        let settings = &self.handle.settings();
        self.shared.budgets.admit_spend(now).map_err(|limited| RuntimeError::Limited(limited.words))?;
        if let Some(run) = self.handle.read(|conversation| queued_already(conversation, &instruction)) {
            return Ok(Compaction::Run(self.ticket(run, true, true)));
        }
        if self.handle.read(|conversation| conversation.queued_runs.len()) >= QUEUED_MAX {
            return Err(RuntimeError::Limited(Key::CompactTooMany.with("n", QUEUED_MAX)).into());
        }
        let asked =
            self.handle.read(|conversation| request_manual(conversation, settings, instruction, tell, now));
        let Some(event) = asked else { return Ok(self.run_under_way(tell)) };
        self.commit(vec![event]).await?;
        // Requested runs queue before all others, so the id is known already.
        let (n_queued, run) = self.handle.read(|conversation| {
            let n_queued = conversation.queued_runs.len() as u64;
            (n_queued, RunId::from(format!("r{}", conversation.runs + n_queued)))
        });
        let ticket = self.ticket(run, n_queued > 0, false);
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(Compaction::Run(ticket))
    }

    fn ticket(&self, run: RunId, queued: bool, joined: bool) -> RunTicket {
        let ended = self.handle.subscribers.join_run(&run);
        RunTicket { run, queued, joined, ended }
    }

    fn run_under_way(&mut self, tell: bool) -> Compaction {
        let run = self.handle.read(|conversation| conversation.run.as_ref().map(|run| run.id.clone()));
        let Some(run) = run else { return self.nothing_to_compact() };
        if tell {
            self.asked_for.insert(run.clone());
        }
        Compaction::Run(self.ticket(run, false, true))
    }

    async fn make_room_now(&mut self) -> Result<Compaction, Failed<RuntimeError>> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let conversation = self.handle.snapshot();
        let events = self.handle.engine.compact(&conversation, &settings, MakeRoom::Manual, now);
        drop(conversation);
        let made = events.iter().find_map(|event| match event {
            Event::Compaction(CompactionEvent::WindowSlid {
                messages, tokens_before, tokens_after, ..
            }) => Some(RoomMade {
                messages: *messages,
                tokens_before: *tokens_before,
                tokens_after: *tokens_after,
            }),
            _ => None,
        });
        self.commit(events).await?;
        Ok(made.map_or_else(|| self.nothing_to_compact(), Compaction::Made))
    }

    fn nothing_to_compact(&self) -> Compaction {
        let settings = &self.handle.settings();
        let why = self.handle.read(|conversation| NothingToCompact::of(conversation, settings));
        Compaction::Nothing(why)
    }

    /// Archives everything and starts a new conversation.
    async fn new_generation(&mut self) -> Result<Generation, Failed<RuntimeError>> {
        if self.unsaved.is_some() {
            self.retry().await?;
        }
        if let Some(closing) = &self.unsaved {
            tracing::debug!(channel = %self.handle.id, turn = %closing.turn(), "the store is not well yet");
            return Err(RuntimeError::Interrupted(self.handle.id.clone()).into());
        }
        // No turn starts between the end of this generation and the next.
        let was_draining = std::mem::replace(&mut self.draining, true);
        let result = self.archive_all().await;
        self.draining = was_draining;
        let generation = answer(result)?;
        self.advance().await?;
        Ok(generation?)
    }

    async fn archive_all(&mut self) -> Result<Generation, Failed<RuntimeError>> {
        self.stop_open_turn().await?;
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let (cancelled, generation) = self.handle.read(|conversation| {
            let reason = "a new session started";
            let cancelled = give_up(conversation, &settings, RunOutcome::Cancelled, reason, now);
            (cancelled, Generation(conversation.generation.0 + 1))
        });
        let mut events: Vec<Event> = cancelled.into_iter().collect();
        events.push(Event::Turn(TurnEvent::SessionStarted { generation }));
        self.commit(events).await?;
        self.handle.subscribers.forget_runs();
        self.handle.read(|conversation| self.handle.engine.reset(conversation));
        self.handle.tell_compactor(CompactorMsg::Look);
        tracing::info!(channel = %self.handle.id, generation = generation.0, "a new session started");
        Ok(generation)
    }

    /// Takes the last turn back. An open turn is stopped first and counts as the last one. Returns the text of its first
    /// message.
    async fn undo(&mut self) -> Result<String, Failed<RuntimeError>> {
        if self.unsaved.is_some() {
            return Err(RuntimeError::Interrupted(self.handle.id.clone()).into());
        }
        // Pending messages start a turn only after that.
        let was_draining = std::mem::replace(&mut self.draining, true);
        let result = self.take_back().await;
        self.draining = was_draining;
        let said = answer(result)?;
        self.advance().await?;
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(said?)
    }

    async fn take_back(&mut self) -> Result<String, Failed<RuntimeError>> {
        self.stop_open_turn().await?;
        let event =
            self.handle.read(undo).map_err(|error| RuntimeError::NothingToUndo(error.told().into()))?;
        let Event::Turn(TurnEvent::Undone { turn, .. }) = &event else {
            return Err(RuntimeError::NothingToUndo(Key::UndoNothing.into()).into());
        };
        let turn = turn.clone();
        let said = self.handle.read(|conversation| {
            let of_turn = |entry: &&Arc<Entry>| entry.turn == turn && entry.role == Role::User;
            conversation.live.iter().find(of_turn).map(|entry| entry.text()).unwrap_or_default()
        });
        self.commit(vec![event]).await?;
        tracing::info!(channel = %self.handle.id, %turn, "a turn was undone");
        Ok(said)
    }
}

/// A queued run with the same instruction.
fn queued_already(conversation: &Conversation, instruction: &Option<String>) -> Option<RunId> {
    let is_same =
        |queued: &RunRequest| queued.trigger == Trigger::Manual && queued.instruction == *instruction;
    let idx = conversation.queued_runs.iter().position(is_same)?;
    Some(RunId::from(format!("r{}", conversation.runs + idx as u64 + 1)))
}
