//! Turns: taken up one at a time, run as a task, ended by one record batch.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::{emergency, emergency_on_overflow};
use cairn_core::conversation::{Conversation, OpenTurn};
use cairn_core::event::{Event, TurnEnd, TurnOutcome};
use cairn_core::ids::{MessageId, OutboxId, Seq, TurnId};
use cairn_core::message::{Entry, Part, Pending, Role, fingerprint};
use cairn_core::model::Usage;
use cairn_core::ports::{DeliveryState, OutboxItem, StoreError, TurnFailure};
use cairn_core::window::entry_tokens;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::accept::{answer_of, failed};
use super::journal::Fault;
use super::take::next_turn;
use super::{ChannelMsg, ChannelState};
use crate::compactor::CompactorMsg;
use crate::failure;
use crate::outbox::OutboxMsg;
use crate::tasks::Ended;
use crate::turn::{self, Cause, Said, TurnArgs, draft_entry};

/// The task of the open turn.
pub(super) struct Current {
    pub(super) attempt: u64,
    token: CancellationToken,
    started: Instant,
}

/// The end of a turn on its way to the journal.
pub(super) struct Closing {
    events: Vec<Event>,
    end: TurnEnd,
    /// The words of the reply, or why there is none.
    answer: Result<String, TurnFailure>,
    messages: Vec<MessageId>,
    owed: Option<(OutboxItem, Arc<Entry>)>,
}

impl Closing {
    /// The turn that ends.
    pub(super) fn turn(&self) -> &TurnId {
        &self.end.turn
    }
}

impl ChannelState {
    /// What begins the next turn, if one is due; `extra` is about to be pending, too.
    pub(super) fn next_turn_events(&self, extra: Option<&Pending>) -> Vec<Event> {
        if self.draining || self.current.is_some() || self.unsaved.is_some() {
            return Vec::new();
        }
        let usable_tokens = self.cell.agent.settings.window.usable_tokens();
        let limit = self.shared.deps.limits.unaddressed_queue;
        self.cell.read(|conversation| {
            if conversation.open_turn.is_some() {
                return Vec::new();
            }
            let pending: Vec<&Pending> = conversation.pending.iter().chain(extra).collect();
            let Some(taken) = next_turn(self.cell.id.platform(), &pending, usable_tokens, limit) else {
                return Vec::new();
            };
            let (turn, messages) = (taken.turn, taken.messages);
            let started =
                Event::TurnStarted { turn: turn.clone(), messages, first_seq: conversation.next_seq };
            if taken.addressed {
                return vec![started];
            }
            let outcome = TurnOutcome::Unanswered;
            let end = TurnEnd { turn, outcome, model: None, usage: Usage::default(), recalled: Vec::new() };
            vec![started, Event::TurnEnded(end)]
        })
    }

    /// Runs the open turn, or begins the next one that is due.
    pub(super) async fn go_on(&mut self) -> Result<(), Fault> {
        loop {
            if self.draining || self.current.is_some() || self.unsaved.is_some() {
                return Ok(());
            }
            if let Some(open) = self.cell.read(|conversation| conversation.open_turn.clone()) {
                self.run_turn(&open);
                return Ok(());
            }
            let events = self.next_turn_events(None);
            if events.is_empty() {
                return Ok(());
            }
            if self.commit(events).await?.is_err() {
                self.try_later();
                return Ok(());
            }
        }
    }

    fn run_turn(&mut self, open: &OpenTurn) {
        self.attempts += 1;
        let attempt = self.attempts;
        let token = self.token.child_token();
        self.current = Some(Current { attempt, token: token.clone(), started: Instant::now() });
        self.cell.hub.begin(&open.messages);
        let args = TurnArgs {
            shared: Arc::clone(&self.shared),
            cell: Arc::clone(&self.cell),
            channel: self.myself.clone(),
            attempt,
        };
        let channel = self.myself.clone();
        self.shared.tasks.watch(token, turn::run(args), move |ended| {
            // A channel that has failed meanwhile takes the turn up again when it is back.
            let ended = Box::new(ended);
            let _ = channel.send_message(ChannelMsg::TurnDone { attempt, ended });
        });
    }

    fn is_current(&self, attempt: u64) -> bool {
        self.unsaved.is_none() && self.current.as_ref().is_some_and(|current| current.attempt == attempt)
    }

    /// How long the turn under way has been running.
    pub(super) fn turn_time(&self) -> Duration {
        self.current.as_ref().map(|current| current.started.elapsed()).unwrap_or_default()
    }

    /// Journals entries of the turn under way.
    pub(super) async fn step(
        &mut self,
        attempt: u64,
        mut events: Vec<Event>,
    ) -> Result<Result<(), StoreError>, Fault> {
        if !self.is_current(attempt) {
            return Ok(Err(StoreError::Closed));
        }
        self.cell.read(|conversation| stamp(conversation, &mut events));
        self.commit(events).await
    }

    /// The emergency: synchronous, without a model, whether or not a run is under way.
    pub(super) async fn relieve(
        &mut self,
        attempt: u64,
        settings: &AgentSettings,
        cause: Cause,
    ) -> Result<Result<bool, StoreError>, Fault> {
        if !self.is_current(attempt) {
            return Ok(Err(StoreError::Closed));
        }
        let conversation = self.cell.snapshot();
        let events = match cause {
            Cause::Tier => emergency(&conversation, settings),
            Cause::Overflow => emergency_on_overflow(&conversation, settings),
        };
        drop(conversation);
        let relieved = !events.is_empty();
        let result = self.commit(events).await?.map(|()| relieved);
        self.cell.tell_compactor(CompactorMsg::Look);
        Ok(result)
    }

    /// The turn's task ended, in whichever way.
    pub(super) async fn turn_done(
        &mut self,
        attempt: u64,
        ended: Ended<Result<Said, TurnFailure>>,
    ) -> Result<(), Fault> {
        if !self.is_current(attempt) {
            return Ok(());
        }
        let closing = match ended {
            Ended::Done(Ok(said)) => self.answered(said),
            Ended::Done(Err(failure)) => {
                let outcome =
                    TurnOutcome::Failed { code: failure.code.clone(), message: failure.message.clone() };
                self.unanswered(outcome, failure, "not run: the turn failed")
            }
            Ended::Panicked(message) => {
                tracing::error!(channel = %self.cell.id, message, "a turn panicked; please report it");
                let failure = failure::panicked(&message);
                let outcome =
                    TurnOutcome::Failed { code: failure.code.clone(), message: failure.message.clone() };
                self.unanswered(outcome, failure, "not run: the turn failed")
            }
            Ended::Cancelled => {
                self.current = None;
                self.tell_drained();
                return Ok(());
            }
        };
        match closing {
            Some(closing) => self.close(closing).await.map(drop),
            None => {
                self.current = None;
                Ok(())
            }
        }
    }

    fn answered(&self, said: Said) -> Option<Closing> {
        let delivers = self.shared.platform(&self.cell.id).is_some();
        self.cell.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let mut events = close_calls(conversation, "not run: the turn went on without it");
            let answer = said.entry.text();
            events.push(Event::EntryAdded { entry: said.entry });
            events.extend(said.reported);
            stamp(conversation, &mut events);
            let entry = events.iter().find_map(|event| match event {
                Event::EntryAdded { entry } if entry.role == Role::Assistant => Some(entry.clone()),
                _ => None,
            })?;
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome: TurnOutcome::Answered { reply: entry.seq },
                model: Some(said.model),
                usage: said.usage,
                recalled: conversation.recalled.clone(),
            };
            events.push(Event::TurnEnded(end.clone()));
            let owed = delivers.then(|| {
                let id = OutboxId::from(format!("{}:{}", conversation.channel, entry.seq));
                let (turn, seq) = (open.id.clone(), entry.seq);
                let reply_to = open.reply_to.clone();
                events.push(Event::OutboxIntended {
                    id: id.clone(),
                    turn: turn.clone(),
                    seq,
                    note: None,
                    reply_to: reply_to.clone(),
                    edits: None,
                    draft: false,
                });
                let item = OutboxItem {
                    id,
                    channel: conversation.channel.clone(),
                    turn,
                    seq,
                    at: self.shared.now(),
                    note: None,
                    reply_to,
                    edits: None,
                    sent: Vec::new(),
                    attempted_at: None,
                    state: DeliveryState::Owed,
                };
                (item, Arc::new(entry))
            });
            Some(Closing { events, end, answer: Ok(answer), messages: open.messages.clone(), owed })
        })
    }

    /// The end of a turn without a reply.
    pub(super) fn unanswered(
        &self,
        outcome: TurnOutcome,
        failure: TurnFailure,
        call_result: &str,
    ) -> Option<Closing> {
        self.cell.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let mut events = close_calls(conversation, call_result);
            stamp(conversation, &mut events);
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome,
                model: None,
                usage: Usage::default(),
                recalled: conversation.recalled.clone(),
            };
            events.push(Event::TurnEnded(end.clone()));
            Some(Closing { events, end, answer: Err(failure), messages: open.messages.clone(), owed: None })
        })
    }

    /// Journals the end of the open turn, tells who waits, and goes on. What the store refuses is tried again.
    pub(super) async fn close(&mut self, closing: Closing) -> Result<Result<(), StoreError>, Fault> {
        let prints = self.cell.read(|conversation| prints_of(conversation, &closing.messages));
        if let Err(error) = self.commit(closing.events.clone()).await? {
            self.unsaved = Some(closing);
            self.try_later();
            return Ok(Err(error));
        }
        self.current = None;
        self.remember(prints, &closing.end);
        self.cell.hub.end(&closing.messages, |message| match &closing.answer {
            Ok(reply) => answer_of(message, &closing.end, reply.clone()),
            Err(failure) => failed(failure),
        });
        if let Some((item, reply)) = closing.owed {
            self.shared.tell_outbox(OutboxMsg::Owe { item, reply: Some(reply) });
        }
        self.go_on().await?;
        self.tell_drained();
        Ok(Ok(()))
    }

    /// Stops the task of the open turn and ends the turn.
    pub(super) async fn stop_open_turn(&mut self) -> Result<Result<bool, StoreError>, Fault> {
        if self.unsaved.is_some() {
            return Ok(Ok(false));
        }
        if let Some(current) = &self.current {
            current.token.cancel();
        }
        match self.unanswered(TurnOutcome::Stopped, failure::stopped(), "not run: the turn was stopped") {
            Some(closing) => Ok(self.close(closing).await?.map(|()| true)),
            None => Ok(Ok(false)),
        }
    }

    /// Cancels the task of the open turn, which stays open.
    pub(super) fn cancel_turn(&mut self) {
        if let Some(current) = self.current.take() {
            current.token.cancel();
        }
    }

    /// Tries again, later, what the store refused.
    pub(super) fn try_later(&self) {
        self.myself.send_after(self.shared.deps.limits.store_retry_pause, || ChannelMsg::TryAgain);
    }

    pub(super) async fn try_again(&mut self) -> Result<(), Fault> {
        match self.unsaved.take() {
            Some(closing) => self.close(closing).await.map(drop),
            None => self.go_on().await,
        }
    }
}

/// Gives the entries among the events their numbers, turn, time and weight.
pub(super) fn stamp(conversation: &Conversation, events: &mut [Event]) {
    let Some(open) = &conversation.open_turn else { return };
    let mut seq: Seq = conversation.next_seq;
    for event in events {
        if let Event::EntryAdded { entry } = event {
            entry.seq = seq;
            entry.turn = open.id.clone();
            entry.generation = conversation.generation;
            entry.at = conversation.answer_time(entry.at);
            entry.tokens = entry_tokens(entry);
            seq = seq.next();
        }
    }
}

/// Results for the calls of the open turn that have none: no call stays without one.
pub(super) fn close_calls(conversation: &Conversation, text: &str) -> Vec<Event> {
    let Some(open) = &conversation.open_turn else { return Vec::new() };
    let mut owed: Vec<&str> = Vec::new();
    for entry in conversation.live.iter().filter(|entry| entry.turn == open.id) {
        owed.extend(entry.tool_calls.iter().map(|call| call.id.as_str()));
        owed.retain(|id| entry.tool_call_id.as_deref() != Some(*id));
    }
    let result = |id: &str| {
        let mut entry = draft_entry(Role::Tool, conversation.last_at);
        entry.parts = vec![Part::text(format!("[{text}]"))];
        entry.tool_call_id = Some(id.to_owned());
        Event::EntryAdded { entry }
    };
    owed.into_iter().map(result).collect()
}

/// The messages with their fingerprints, as far as their entries are in the window.
fn prints_of(conversation: &Conversation, messages: &[MessageId]) -> Vec<(MessageId, String)> {
    let turn: Option<&TurnId> = conversation.open_turn.as_ref().map(|open| &open.id);
    let of_turn = conversation.live.iter().rev().take_while(|entry| Some(&entry.turn) == turn);
    of_turn
        .filter_map(|entry| {
            let message = entry.message.as_ref().filter(|message| messages.contains(message))?;
            Some((message.clone(), fingerprint(entry.author.as_ref()?, &entry.parts)))
        })
        .collect()
}
