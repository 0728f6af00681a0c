//! Turns: taken up one at a time, run as a task, ended by one record batch.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::conversation::{Conversation, OpenTurn};
use cairn_core::engine::MakeRoom;
use cairn_core::event::{Event, TurnEnd, TurnEvent, TurnOutcome};
use cairn_core::message::Pending;
use cairn_core::model::Usage;
use cairn_core::ports::StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::accept::{answer_of, failed};
use super::closing::{Closing, prints_of, stamp};
use super::journal::Fault;
use super::take::next_turn;
use super::{ChannelMsg, ChannelState};
use crate::compactor::CompactorMsg;
use crate::failure;
use crate::figures::Times;
use crate::show::{Show, TurnLink, Typing};
use crate::span;
use crate::tasks::Ended;
use crate::turn::{self, Cause, Run, TurnArgs};

pub(super) struct Current {
    pub(super) attempt: u64,
    token: CancellationToken,
    started: Instant,
    times: Arc<Times>,
    authors: Vec<String>,
    /// What the chat sees of it meanwhile.
    show: Option<Arc<Show>>,
}

impl ChannelState {
    /// What begins the next turn, if one is due; `extra` is about to be pending, too.
    pub(super) fn next_turn_events(&self, extra: Option<&Pending>) -> Vec<Event> {
        if self.draining || self.current.is_some() || self.unsaved.is_some() {
            return Vec::new();
        }
        let usable_tokens = self.handle.settings().window.usable_tokens();
        let limit = self.shared.limits().unaddressed_queue;
        self.handle.read(|conversation| {
            if conversation.open_turn.is_some() {
                return Vec::new();
            }
            let pending: Vec<&Pending> = conversation.pending.iter().chain(extra).collect();
            let Some(taken) = next_turn(self.handle.id.platform(), &pending, usable_tokens, limit) else {
                return Vec::new();
            };
            let (turn, messages) = (taken.turn, taken.messages);
            let started = Event::Turn(TurnEvent::Started {
                turn: turn.clone(),
                messages,
                first_seq: conversation.next_seq,
            });
            if taken.addressed {
                return vec![started];
            }
            let outcome = TurnOutcome::Unanswered;
            let end = TurnEnd { turn, outcome, model: None, usage: Usage::default(), recalled: Vec::new() };
            vec![started, Event::Turn(TurnEvent::Ended(end))]
        })
    }

    /// Runs the open turn, or begins the next one that is due.
    pub(super) async fn go_on(&mut self) -> Result<(), Fault> {
        loop {
            if self.draining || self.current.is_some() || self.unsaved.is_some() {
                return Ok(());
            }
            if let Some(open) = self.handle.read(|conversation| conversation.open_turn.clone()) {
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
        self.handle.subscribers.begin(&open.messages);
        let turn = TurnLink { channel: self.myself.clone(), attempt };
        let span = span::turn(&self.handle, &open.id);
        let show = span.in_scope(|| {
            let token = self.token.child_token();
            Show::begin(&self.shared, &self.handle, &turn, open, token).map(Arc::new)
        });
        let times = Arc::<Times>::default();
        let args = TurnArgs {
            shared: Arc::clone(&self.shared),
            handle: Arc::clone(&self.handle),
            turn,
            show: show.clone(),
            times: Arc::clone(&times),
        };
        let authors = self.handle.read(|conversation| authors_of(conversation, open));
        self.current =
            Some(Current { attempt, token: token.clone(), started: Instant::now(), times, authors, show });
        let channel = self.myself.clone();
        span.in_scope(|| tracing::debug!("a turn is taken up"));
        self.shared.tasks.watch(token, turn::run(args).instrument(span), move |ended| {
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

    /// The same with where it went; none when no turn is under way.
    pub(super) fn turn_times(&self) -> Option<(Duration, &Times)> {
        self.current.as_ref().map(|current| (current.started.elapsed(), current.times.as_ref()))
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
        self.handle.read(|conversation| stamp(conversation, &mut events));
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
        let conversation = self.handle.snapshot();
        let cause = match cause {
            Cause::Tier => MakeRoom::Tier,
            Cause::Overflow => MakeRoom::Overflow,
        };
        let events = self.handle.engine.compact(&conversation, settings, cause, self.shared.now());
        drop(conversation);
        let relieved = !events.is_empty();
        let result = self.commit(events).await?.map(|()| relieved);
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(result)
    }

    /// The turn's task ended, in whichever way.
    pub(super) async fn turn_done(&mut self, attempt: u64, ended: Ended<Run>) -> Result<(), Fault> {
        if !self.is_current(attempt) {
            return Ok(());
        }
        let closing = match ended {
            Ended::Done(Run { result: Ok(said), shown }) => self.answered(said, shown),
            Ended::Done(Run { result: Err(failure), shown }) => self.failed(failure, shown),
            Ended::Panicked(message) => {
                let turn = self
                    .handle
                    .read(|conversation| conversation.open_turn.as_ref().map(|open| open.id.clone()));
                tracing::error!(channel = %self.handle.id, turn = turn.as_ref().map(tracing::field::display),
                    "a turn panicked; please report it");
                let shown = self.unshow().await;
                self.failed(failure::panicked(&message), shown)
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

    /// Journals the end of the open turn, tells who waits, and goes on. What the store refuses is tried again.
    pub(super) async fn close(&mut self, closing: Closing) -> Result<Result<(), StoreError>, Fault> {
        let prints = self.handle.read(|conversation| prints_of(conversation, &closing.messages));
        if let Err(error) = self.commit(closing.events.clone()).await? {
            self.unsaved = Some(closing);
            self.try_later();
            return Ok(Err(error));
        }
        self.current = None;
        self.remember(prints, &closing.end);
        self.handle.subscribers.end(&closing.messages, |message| match &closing.answer {
            Ok(reply) => answer_of(message, &closing.end, reply.clone(), closing.notice.clone()),
            Err(failure) => failed(failure),
        });
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
        let shown = self.unshow().await;
        match self.stopped(shown) {
            Some(closing) => Ok(self.close(closing).await?.map(|()| true)),
            None => Ok(Ok(false)),
        }
    }

    /// Ends what the chat sees of the turn under way before its answer; what came of it is still to be journalled.
    async fn unshow(&self) -> Vec<Event> {
        match self.current.as_ref().and_then(|current| current.show.clone()) {
            Some(show) => show.cut_short().await,
            None => Vec::new(),
        }
    }

    /// What shows that the bot is typing, for the delivery that ends it.
    pub(super) fn typing(&self) -> Option<Arc<Typing>> {
        Some(self.current.as_ref()?.show.as_ref()?.typing())
    }

    /// The people whom the turn under way answers.
    pub(super) fn authors(&self) -> &[String] {
        self.current.as_ref().map(|current| current.authors.as_slice()).unwrap_or_default()
    }

    /// The turn under way has nothing to do before the runtime stops.
    pub(super) fn yield_turn(&mut self, attempt: u64) {
        if self.draining && self.is_current(attempt) {
            self.cancel_turn();
            self.tell_drained();
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
        self.myself.send_after(self.shared.limits().store_retry_pause, || ChannelMsg::TryAgain);
    }

    pub(super) async fn try_again(&mut self) -> Result<(), Fault> {
        match self.unsaved.take() {
            Some(closing) => self.close(closing).await.map(drop),
            None => self.go_on().await,
        }
    }
}

/// Who wrote the messages that the turn is to answer.
fn authors_of(conversation: &Conversation, open: &OpenTurn) -> Vec<String> {
    let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
    of_turn.filter_map(|entry| Some(entry.author.as_ref()?.id.clone())).collect()
}
