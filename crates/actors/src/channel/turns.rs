//! Turns: run one at a time as a task, and ended by one batch of records, which includes the delivery to a chat. After a
//! restart, unfinished turns are resumed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::client_list::CUT_MARK;
use cairn_core::conversation::{Conversation, MAX_INTERRUPTIONS, OpenTurn};
use cairn_core::engine::MakeRoom;
use cairn_core::gather::{Arrival, wait_for_more};
use cairn_core::notice::long_messages;
use cairn_core::window::{entry_tokens, measure};
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, DeliveryEvent, Event, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{LOCAL_PLATFORM, MessageId, OutboxId, Seq, TurnId};
use cairn_types::message::{Inbound, Part, Pending, Role, ToolCall, fingerprint};
use cairn_types::model::{Finish, Usage};
use cairn_types::ports::{Answer, Mark, Reply, StoreError, Toolset, TurnFailure};
use cairn_types::texts::Key;
use cairn_types::tool::approval::ApprovalOutcome;
use cairn_types::tool::{Effect, ToolOutcome, ToolUse, logged_arguments};
use ractor::ActorProcessingErr;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::next_turn::{joining, next_turn};
use super::state::{ChannelState, Closing, Current, EndedMessage, Failed, answer};
use super::voice::{VoiceAnswer, was_spoken};
use crate::failure::{self, ChannelFault};
use crate::messages::{ChannelMsg, CompactorMsg, OutboxMsg, TurnAnswer, TurnLink, TurnResult, draft_entry};
use crate::shared::Shared;
use crate::show::Show;
use crate::tasks::Ended;
use crate::telemetry::{self, Times};
use crate::tools::effect_of;
use crate::turn::{self, Call, CallUnderWay, TurnArgs, note_id};
use crate::typing::Typing;

/// Unclean stops after which a turn is given up although its chat was told that it waits for a model. Such a turn may be
/// open for days, so it gets more chances; but it may also be what causes the crashes.
const MAX_WHILE_WAITING: u32 = 10 * MAX_INTERRUPTIONS;

/// Ended messages that a channel remembers, to answer repeats without the store.
const RECENT_KEPT: usize = 64;

/// The message that shows a draft when its turn ends; `None`: there is none, or nobody knows of one. `drafts`: draft events
/// that are not journalled yet.
fn draft_of(open: &OpenTurn, drafts: &[Event]) -> Option<MessageId> {
    let mut draft = open.draft.as_ref().and_then(|draft| draft.message.clone());
    for event in drafts {
        match event {
            Event::Delivery(DeliveryEvent::Sent { message, .. }) => draft = Some(message.clone()),
            Event::Delivery(DeliveryEvent::PutOff { .. }) => draft = None,
            _ => {}
        }
    }
    draft
}

impl ChannelState {
    /// Resumes after a restart: the open turn runs again, or goes to the dead letters; pending messages and the run follow.
    pub(super) async fn resume(&mut self) -> Result<(), ActorProcessingErr> {
        let settings = &self.handle.settings();
        self.tier = self.handle.read(|conversation| measure(conversation, settings).tier);
        self.later(self.shared.live.limits().idle_after, || ChannelMsg::Tick);
        self.expect_loss();
        self.close_ended();
        let open = self.handle.read(|conversation| conversation.open_turn.clone());
        if let Some(open) = open {
            let mut events = self.handle.read(|conversation| {
                let mut results =
                    close_calls(&*self.shared.ports.tools, conversation, "interrupted by a restart");
                stamp(conversation, &mut results);
                results
            });
            let mut interruptions = open.interruptions;
            if self.interrupted {
                interruptions += 1;
                events.push(Event::Turn(TurnEvent::Interrupted { turn: open.id.clone() }));
                tracing::warn!(channel = %self.handle.id, turn = %open.id, interruptions,
                    "a turn was interrupted by a failure; it is resumed");
            }
            // If the store is away, this actor fails before the turn runs, and restarts after a pause.
            answer(self.commit(events).await)??;
            let told = open.notes.contains(&note_id(&self.handle.id, &open.id));
            if interruptions >= if told { MAX_WHILE_WAITING } else { MAX_INTERRUPTIONS } {
                self.give_up_turn(interruptions).await?;
            }
        }
        // Its messages had been deleted before it could be ended.
        if self.handle.read(Conversation::is_withdrawn) {
            // If the store refuses the end, it is retried.
            drop(answer(self.stop_open_turn().await)?);
        }
        self.advance().await?;
        self.expire().await?;
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(())
    }

    /// Makes up for an actor that failed between a commit and its report: ends the waiting for turns that have ended, and
    /// has the outbox look for deliveries.
    fn close_ended(&self) {
        let open: BTreeSet<MessageId> = self.handle.read(|conversation| {
            let in_turn = conversation.open_turn.iter().flat_map(|open| open.messages.iter().cloned());
            in_turn.chain(conversation.pending.iter().map(|pending| pending.message.clone())).collect()
        });
        self.handle.subscribers.close_ended(|message| open.contains(message));
        if self.interrupted && self.handle.read(|conversation| !conversation.owed.is_empty()) {
            self.shared.directory.tell_outbox(OutboxMsg::Look(self.handle.id.clone()));
        }
    }

    async fn give_up_turn(&mut self, interruptions: u32) -> Result<(), ChannelFault> {
        let Some(closing) = self.dead_lettered() else { return Ok(()) };
        tracing::error!(channel = %self.handle.id, turn = %closing.turn(), interruptions,
            "a turn was given up after repeated failures and moved to the dead letters; its messages are in the \
             history");
        answer(self.close(closing).await).map(drop)
    }

    /// The events that start the next turn, if one is due. `extra`: a message that is about to be pending.
    pub(super) fn next_turn_events(&self, extra: Option<&Pending>) -> Vec<Event> {
        if self.draining || self.current.is_some() || self.unsaved.is_some() {
            return Vec::new();
        }
        let usable_tokens = self.handle.settings().window.usable_tokens();
        let limit = self.shared.live.limits().unaddressed_queue;
        self.handle.read(|conversation| {
            if conversation.open_turn.is_some() {
                return Vec::new();
            }
            let pending: Vec<&Pending> = conversation.pending.iter().chain(extra).collect();
            let Some(batch) = next_turn(self.handle.id.platform(), &pending, usable_tokens, limit) else {
                return Vec::new();
            };
            let is_all = batch.messages.len() == pending.len();
            if is_all && wait_for_more(&pending, &self.arrivals, self.began.elapsed()).is_some() {
                return Vec::new();
            }
            let (turn, messages) = (batch.turn, batch.messages);
            let started = Event::Turn(TurnEvent::Started {
                turn: turn.clone(),
                messages,
                first_seq: conversation.next_seq,
            });
            if batch.addressed {
                return vec![started];
            }
            let outcome = TurnOutcome::Unanswered;
            let end = TurnEnd { turn, outcome, model: None, usage: Usage::default(), recalled: Vec::new() };
            vec![started, Event::Turn(TurnEvent::Ended(end))]
        })
    }

    /// Notes what may follow a message that is about to be pending.
    pub(super) fn note_arrival(&mut self, inbound: &Inbound) {
        let Self { arrivals, handle, .. } = self;
        handle.read(|conversation| {
            arrivals.retain(|id, _| conversation.pending.iter().any(|pending| pending.message == *id));
        });
        let (at, gather) = (self.began.elapsed(), inbound.gather.clone());
        self.arrivals.insert(inbound.message.clone(), Arrival { at, gather });
    }

    /// How long the pending messages still wait for more.
    pub(super) fn gathering(&self) -> Option<Duration> {
        self.handle.read(|conversation| {
            let pending: Vec<&Pending> = conversation.pending.iter().collect();
            wait_for_more(&pending, &self.arrivals, self.began.elapsed())
        })
    }

    /// Runs the open turn, or starts the next one that is due.
    pub(super) async fn advance(&mut self) -> Result<(), ChannelFault> {
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
                let wait = self.gathering();
                self.show_gathering(wait.is_some());
                if let Some(wait) = wait {
                    self.later(wait, || ChannelMsg::Retry);
                }
                return Ok(());
            }
            if answer(self.commit(events).await)?.is_err() {
                self.retry_later();
                return Ok(());
            }
        }
    }

    /// Shows typing as soon as a message that gets an answer is accepted, while its turn waits for more of it.
    fn show_gathering(&mut self, waits: bool) {
        let awaited =
            waits && self.handle.read(|conversation| conversation.pending.iter().any(|one| one.addressed));
        if !awaited {
            self.gathering_typing = None;
        } else if self.gathering_typing.is_none()
            && let Some(platform) = self.shared.ports.platform(&self.handle.id)
        {
            let tasks = &self.shared.lifecycle.tasks;
            self.gathering_typing = Some(Typing::begin(tasks, platform, self.handle.id.clone()));
        }
    }

    fn run_turn(&mut self, open: &OpenTurn) {
        self.attempts += 1;
        let attempt = self.attempts;
        let token = self.token.child_token();
        self.handle.subscribers.begin(&open.messages);
        let turn = TurnLink { channel: self.myself.clone(), attempt };
        let span = telemetry::turn_span(&self.handle.id, &open.id);
        let typing = self.gathering_typing.take();
        let show = span.in_scope(|| {
            let token = self.token.child_token();
            let Shared { ports, lifecycle, .. } = &self.shared;
            Show::begin(ports, &lifecycle.tasks, &self.handle, &turn, open, token, typing).map(Arc::new)
        });
        let (times, call) = (Arc::<Times>::default(), Arc::<CallUnderWay>::default());
        let authors = self.handle.read(|conversation| authors_of(conversation, open));
        let args = TurnArgs {
            shared: self.shared.clone(),
            handle: Arc::clone(&self.handle),
            turn,
            show: show.clone(),
            times: Arc::clone(&times),
            call: Arc::clone(&call),
            authors: authors.clone(),
            client: self.handle.client_tools(),
        };
        self.mark(&open.asked, Some(Mark::Seen), Some(Mark::Working));
        let started = Instant::now();
        self.current = Some(Current { attempt, token: token.clone(), started, times, call, authors, show });
        let channel = self.myself.clone();
        span.in_scope(|| tracing::debug!("a turn is taken up"));
        self.shared.lifecycle.tasks.watch(token, turn::run(args).instrument(span), move |ended| {
            // A channel that has failed meanwhile resumes the turn when it restarts.
            let ended = Box::new(ended);
            let _ = channel.send_message(ChannelMsg::TurnDone { attempt, ended });
        });
    }

    fn is_current(&self, attempt: u64) -> bool {
        self.unsaved.is_none() && self.current.as_ref().is_some_and(|current| current.attempt == attempt)
    }

    /// How long the turn under way has run.
    pub(super) fn turn_time(&self) -> Duration {
        self.current.as_ref().map(|current| current.started.elapsed()).unwrap_or_default()
    }

    /// How long the turn under way has run, and where the time went; `None`: there is none.
    pub(super) fn turn_times(&self) -> Option<(Duration, &Times)> {
        self.current.as_ref().map(|current| (current.started.elapsed(), current.times.as_ref()))
    }

    /// Journals events of the turn under way, and numbers the entries among them.
    pub(super) async fn step(
        &mut self,
        attempt: u64,
        mut events: Vec<Event>,
    ) -> Result<(), Failed<StoreError>> {
        if !self.is_current(attempt) {
            return Err(Failed::Refused(StoreError::Closed));
        }
        self.handle.read(|conversation| stamp(conversation, &mut events));
        self.commit(events.clone()).await?;
        let is_stored = |event: &Event| matches!(event, Event::Artifact(ArtifactEvent::Stored { .. }));
        self.has_stored |= events.iter().any(is_stored);
        if let Some(current) = &self.current {
            current.call.journalled(&events);
        }
        Ok(())
    }

    /// Adds pending messages by the turn's own people to the turn. An album joins once it is complete.
    pub(super) async fn join(&mut self, attempt: u64) -> Result<(), Failed<StoreError>> {
        if !self.is_current(attempt) {
            return Err(Failed::Refused(StoreError::Closed));
        }
        let settings = self.handle.settings();
        if self.draining || !settings.mid_turn_messages || self.handle.id.platform() == LOCAL_PLATFORM {
            return Ok(());
        }
        let now = self.began.elapsed();
        let is_part = |message: &&Pending| {
            self.arrivals.get(&message.message).is_some_and(|arrival| arrival.gather.album.is_some())
        };
        let joined = self.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let pending: Vec<&Pending> = conversation.pending.iter().collect();
            let parts: Vec<&Pending> = pending.iter().copied().filter(is_part).collect();
            if wait_for_more(&parts, &self.arrivals, now).is_some() {
                return None;
            }
            let asked = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
            let taken =
                asked.filter(|entry| entry.role == Role::User).map(|entry| u64::from(entry.tokens)).sum();
            let people = authors_of(conversation, open);
            let messages = joining(&pending, &people, taken, settings.window.usable_tokens());
            let (turn, first_seq) = (open.id.clone(), conversation.next_seq);
            let joined = TurnEvent::Joined { turn, messages: messages.clone(), first_seq };
            (!messages.is_empty()).then_some((joined, messages))
        });
        let Some((joined, messages)) = joined else { return Ok(()) };
        tracing::debug!(channel = %self.handle.id, "pending messages join the turn");
        self.commit(vec![Event::Turn(joined)]).await?;
        let asked = self.handle.read(|conversation| Some(conversation.open_turn.as_ref()?.asked.clone()));
        let asked = asked.unwrap_or_default();
        let asked: Vec<MessageId> = messages.into_iter().filter(|message| asked.contains(message)).collect();
        self.mark(&asked, Some(Mark::Seen), Some(Mark::Working));
        Ok(())
    }

    /// The emergency: synchronous, without a model, whether or not a run is under way. True: something left the window.
    pub(super) async fn make_room(
        &mut self,
        attempt: u64,
        settings: &AgentSettings,
        cause: MakeRoom,
    ) -> Result<bool, Failed<StoreError>> {
        if !self.is_current(attempt) {
            return Err(Failed::Refused(StoreError::Closed));
        }
        let conversation = self.handle.snapshot();
        let events = self.handle.engine.compact(&conversation, settings, cause, self.shared.ports.now());
        drop(conversation);
        let made_room = !events.is_empty();
        let committed = self.commit(events).await;
        if !matches!(committed, Err(Failed::Fault(_))) {
            self.handle.tell_compactor(CompactorMsg::Look);
        }
        committed.map(|()| made_room)
    }

    /// Ends the turn after its task has ended, in whichever way.
    pub(super) async fn turn_done(
        &mut self,
        attempt: u64,
        ended: Ended<TurnResult>,
    ) -> Result<(), ChannelFault> {
        if !self.is_current(attempt) {
            return Ok(());
        }
        let closing = match ended {
            Ended::Done(TurnResult { answer: Ok(answer), drafts }) => self.answered(answer, drafts),
            Ended::Done(TurnResult { answer: Err(failure), drafts }) => self.failed(failure, drafts),
            Ended::Panicked(message) => {
                let turn = self
                    .handle
                    .read(|conversation| conversation.open_turn.as_ref().map(|open| open.id.clone()));
                tracing::error!(channel = %self.handle.id, turn = turn.as_ref().map(tracing::field::display),
                    "a turn panicked; please report it");
                let drafts = self.end_show().await;
                self.failed(failure::panicked(&message), drafts)
            }
            Ended::Cancelled => {
                self.current = None;
                self.tell_drained();
                return Ok(());
            }
        };
        match closing {
            Some(closing) => answer(self.close(closing).await).map(drop),
            None => {
                self.current = None;
                Ok(())
            }
        }
    }

    /// Journals the end of the open turn, answers its waiters, and starts the next turn. If the store refuses it, it is
    /// retried.
    async fn close(&mut self, closing: Closing) -> Result<(), Failed<StoreError>> {
        let prints = self.handle.read(|conversation| fingerprints_of(conversation, &closing.messages));
        let asked = self.handle.read(|conversation| Some(conversation.open_turn.as_ref()?.asked.clone()));
        if let Err(failed) = self.commit(closing.events.clone()).await {
            if matches!(failed, Failed::Refused(_)) {
                self.unsaved = Some(closing);
                self.retry_later();
            }
            return Err(failed);
        }
        self.current = None;
        self.remember(prints, &closing.end);
        let is_failed = matches!(closing.end.outcome, TurnOutcome::Failed { .. } | TurnOutcome::DeadLettered);
        self.mark(&asked.unwrap_or_default(), Some(Mark::Working), is_failed.then_some(Mark::Failed));
        if let Some(voice) = closing.voice.clone() {
            self.speak(voice);
        }
        self.handle.subscribers.end(&closing.messages, |message| match &closing.answer {
            Ok(reply) => {
                answer_of(message, &closing.end, reply.clone(), closing.finish, closing.notice.clone())
            }
            Err(failure) => Answer::Failed(failure.clone()),
        });
        self.advance().await?;
        self.tell_drained();
        // By days they expire once a day. Room may be short at once.
        if std::mem::take(&mut self.has_stored) && self.handle.settings().result_guard.artifact_mib > 0 {
            self.expire_due().await?;
        }
        Ok(())
    }

    /// Cancels the open turn's task and ends the turn. False: there is none.
    pub(super) async fn stop_open_turn(&mut self) -> Result<bool, Failed<StoreError>> {
        if self.unsaved.is_some() {
            return Ok(false);
        }
        if let Some(current) = &self.current {
            current.token.cancel();
        }
        let drafts = self.end_show().await;
        match self.stopped(drafts) {
            Some(closing) => self.close(closing).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Ends typing and drafts of the turn under way. Returns draft events to journal.
    async fn end_show(&self) -> Vec<Event> {
        match self.current.as_ref().and_then(|current| current.show.clone()) {
            Some(show) => show.cut_short().await,
            None => Vec::new(),
        }
    }

    /// The typing indicator, for the delivery that ends it.
    pub(super) fn typing(&self) -> Option<Arc<Typing>> {
        Some(self.current.as_ref()?.show.as_ref()?.typing())
    }

    /// The authors of the messages that the turn under way answers.
    pub(super) fn authors(&self) -> &[String] {
        self.current.as_ref().map(|current| current.authors.as_slice()).unwrap_or_default()
    }

    /// Ends the task of a turn that only waits, since the runtime stops.
    pub(super) fn yield_turn(&mut self, attempt: u64) {
        if self.draining && self.is_current(attempt) {
            self.cancel_turn();
            self.tell_drained();
        }
    }

    /// Cancels the task of the open turn. The turn stays open.
    pub(super) fn cancel_turn(&mut self) {
        if let Some(current) = self.current.take() {
            current.token.cancel();
        }
    }

    /// Retries what the store refused, after a pause, or looks whether messages still wait for more.
    pub(super) fn retry_later(&mut self) {
        self.later(self.shared.live.limits().store_retry_pause, || ChannelMsg::Retry);
    }

    pub(super) async fn retry(&mut self) -> Result<(), ChannelFault> {
        match self.unsaved.take() {
            Some(closing) => answer(self.close(closing).await).map(drop),
            None => self.advance().await,
        }
    }

    /// Remembers that the turn of these messages ended.
    pub(super) fn remember(&mut self, messages: Vec<(MessageId, String)>, end: &TurnEnd) {
        for (message, fingerprint) in messages {
            if self.recent.len() == RECENT_KEPT {
                self.recent.pop_front();
            }
            self.recent.retain(|recent| recent.message != message);
            self.recent.push_back(EndedMessage { message, fingerprint, end: end.clone() });
        }
    }

    /// The end of a turn with a reply. In a chat the reply replaces the draft, if there is one. Silence posts nothing.
    fn answered(&self, answer: TurnAnswer, drafts: Vec<Event>) -> Option<Closing> {
        let delivers = self.handle.id.platform() != LOCAL_PLATFORM;
        let settings = self.handle.settings();
        if let Some(current) = &self.current {
            // The answer includes its call's usage, which must not be counted twice.
            drop(current.call.take());
        }
        let said_before = self.handle.shown_so_far();
        self.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let (silent, posts) = (answer.silent, delivers && !answer.silent);
            let notice = long_messages(conversation, &settings, &open.messages, answer.cut);
            let draft = draft_of(open, &drafts);
            let mut events = drafts;
            events.extend(close_calls(
                &*self.shared.ports.tools,
                conversation,
                "the turn went on without it",
            ));
            let (reply, finish) = (answer.entry.text(), answer.entry.finish);
            events.push(Event::Turn(TurnEvent::EntryAdded { entry: answer.entry }));
            let usage = open.usage + taken(answer.took.as_ref());
            events.extend(answer.took);
            stamp(conversation, &mut events);
            let seq = events.iter().find_map(|event| match event {
                Event::Turn(TurnEvent::EntryAdded { entry }) if entry.role == Role::Assistant => {
                    Some(entry.seq)
                }
                _ => None,
            })?;
            let outcome = if silent { TurnOutcome::Silent } else { TurnOutcome::Answered { reply: seq } };
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome,
                model: Some(answer.model),
                usage,
                recalled: conversation.recalled.clone(),
            };
            if silent {
                tracing::debug!(channel = %conversation.channel, turn = %open.id,
                    "the model chose to say nothing: no answer is posted");
                events.extend(last_draft(conversation, open, seq, draft.clone(), said_before));
            }
            if posts {
                let id = OutboxId::from(format!("{}:{seq}", conversation.channel));
                events.push(intent(open, id, seq, None, draft));
            }
            events.push(Event::Turn(TurnEvent::Ended(end.clone())));
            let messages = open.messages.clone();
            let speaks = posts && self.shared.ports.speaker.is_some() && was_spoken(conversation, open);
            let voice = speaks.then(|| VoiceAnswer {
                turn: open.id.clone(),
                seq,
                words: reply.clone(),
                reply_to: open.reply_to.clone(),
            });
            let (reply, finish, notice) =
                if silent { (String::new(), None, None) } else { (reply, finish, notice) };
            Some(Closing { events, end, answer: Ok(reply), finish, notice, messages, voice })
        })
    }

    /// The end of a turn that failed. In a chat a note says so.
    fn failed(&self, failure: TurnFailure, drafts: Vec<Event>) -> Option<Closing> {
        let outcome = TurnOutcome::Failed { code: failure.code.clone(), message: failure.message.clone() };
        let note = Some(self.handle.say(failure::note(&failure.code)));
        self.unanswered(outcome, failure, "the turn failed", note, drafts)
    }

    /// The end of a turn that a command stopped. The command's answer says so; only a draft gets a mark.
    fn stopped(&self, drafts: Vec<Event>) -> Option<Closing> {
        let draft = self
            .handle
            .read(|conversation| conversation.open_turn.as_ref().map(|open| draft_of(open, &drafts)));
        let note = draft.flatten().is_some().then(|| {
            let (shown, mark) = (self.handle.shown_so_far(), self.handle.say(Key::StoppedMark));
            format!("{shown}\n\n*{mark}*").trim_start().to_owned()
        });
        let call_result = "the turn was stopped";
        self.unanswered(TurnOutcome::Stopped, failure::stopped(), call_result, note, drafts)
    }

    /// The end of a turn that was given up.
    fn dead_lettered(&self) -> Option<Closing> {
        let failure = failure::dead_letter();
        let note = Some(self.handle.say(failure::note(&failure.code)));
        self.unanswered(TurnOutcome::DeadLettered, failure, "the turn was given up", note, Vec::new())
    }

    /// The end of a turn without a reply, with its partial text and usage. `note`: the text for the chat.
    fn unanswered(
        &self,
        outcome: TurnOutcome,
        failure: TurnFailure,
        call_result: &str,
        note: Option<String>,
        drafts: Vec<Event>,
    ) -> Option<Closing> {
        let delivers = self.handle.id.platform() != LOCAL_PLATFORM;
        let call = self.current.as_ref().and_then(|current| current.call.take());
        let (now, mark) = (self.shared.ports.now(), format!("{CUT_MARK}{call_result}]"));
        self.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let draft = draft_of(open, &drafts);
            let mut events = drafts;
            events.extend(close_calls(&*self.shared.ports.tools, conversation, call_result));
            let took = call.as_ref().and_then(Call::ended);
            let usage = open.usage + taken(took.as_ref());
            let model = call.as_ref().map(|call| call.model.clone()).or_else(|| open.model.clone());
            let words = call.and_then(|call| call.cut_short(&mark, now));
            events.extend(words.map(|entry| Event::Turn(TurnEvent::EntryAdded { entry })));
            events.extend(took);
            stamp(conversation, &mut events);
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome,
                model,
                usage,
                recalled: conversation.recalled.clone(),
            };
            if let Some(note) = note.filter(|_| delivers) {
                let id = OutboxId::from(format!("{}:{}:end", conversation.channel, open.id));
                events.push(intent(open, id, newest(conversation), Some(note), draft));
            }
            events.push(Event::Turn(TurnEvent::Ended(end.clone())));
            let messages = open.messages.clone();
            let (finish, notice, voice) = (None, None, None);
            Some(Closing { events, end, answer: Err(failure), finish, notice, messages, voice })
        })
    }
}

/// The reply to one message of a turn.
pub(super) fn answer_of(
    message: &MessageId,
    end: &TurnEnd,
    reply: String,
    finish: Option<Finish>,
    notice: Option<String>,
) -> Answer {
    Answer::Reply(Reply {
        turn: end.turn.clone(),
        message: message.clone(),
        reply,
        model: end.model.clone().unwrap_or_default(),
        usage: end.usage,
        recalled: end.recalled.clone(),
        finish,
        notice,
    })
}

/// The delivery for the open turn's chat. `edits`: the message that it replaces.
fn intent(open: &OpenTurn, id: OutboxId, seq: Seq, note: Option<String>, edits: Option<MessageId>) -> Event {
    let (turn, reply_to) = (open.id.clone(), open.reply_to.clone());
    Event::Delivery(DeliveryEvent::Intended {
        id,
        turn,
        seq,
        note,
        approval: None,
        reply_to,
        edits,
        draft: false,
        files: Vec::new(),
    })
}

/// The delivery that leaves a draft as what the model said before it called tools and then fell silent; `None`: the chat shows
/// no draft.
fn last_draft(
    conversation: &Conversation,
    open: &OpenTurn,
    seq: Seq,
    draft: Option<MessageId>,
    said: String,
) -> Option<Event> {
    let id = OutboxId::from(format!("{}:{}:end", conversation.channel, open.id));
    let is_there = draft.is_some() && !said.trim().is_empty();
    is_there.then(|| intent(open, id, seq, Some(said.trim().to_owned()), draft))
}

/// The usage in an event; none: zero.
fn taken(took: Option<&Event>) -> Usage {
    match took {
        Some(Event::Turn(TurnEvent::UsageReported { usage, .. })) => *usage,
        _ => Usage::default(),
    }
}

/// The number of the newest entry.
fn newest(conversation: &Conversation) -> Seq {
    Seq(conversation.next_seq.0.saturating_sub(1))
}

/// Sets number, turn, generation, time and token count of the entries among the events.
fn stamp(conversation: &Conversation, events: &mut [Event]) {
    let Some(open) = &conversation.open_turn else { return };
    let mut seq: Seq = conversation.next_seq;
    for event in events {
        if let Event::Turn(TurnEvent::EntryAdded { entry }) = event {
            entry.seq = seq;
            entry.turn = open.id.clone();
            entry.generation = conversation.generation;
            entry.at = conversation.answer_time(entry.at);
            entry.tokens = entry_tokens(entry);
            seq = seq.next();
        }
    }
}

/// Adds a result for each call of the open turn that has none. A call that may have been carried out says so. Open requests
/// for approval become void. `reason`: why the calls end here.
fn close_calls(tools: &dyn Toolset, conversation: &Conversation, reason: &str) -> Vec<Event> {
    let Some(open) = &conversation.open_turn else { return Vec::new() };
    let mut open_calls: Vec<&ToolCall> = Vec::new();
    let mut caused_by = BTreeSet::new();
    for entry in conversation.live.iter().filter(|entry| entry.turn == open.id) {
        caused_by.extend(entry.author.iter().map(|author| author.id.clone()));
        open_calls.extend(&entry.tool_calls);
        open_calls.retain(|call| entry.tool_call_id.as_deref() != Some(call.id.as_str()));
    }
    let mut events = Vec::new();
    for call in open_calls {
        let approval = open.approvals.iter().find(|approval| approval.call == call.id);
        let effect = effect_of(tools, &call.name);
        let text = if effect == Effect::Changes && approval.is_none() {
            format!("cut short: {reason}; whether it was carried out is not known: look before you repeat it")
        } else {
            format!("not run: {reason}")
        };
        let mut entry = draft_entry(Role::Tool, conversation.last_at);
        entry.parts = vec![Part::text(format!("[{text}]"))];
        entry.tool_call_id = Some(call.id.clone());
        events.push(Event::Turn(TurnEvent::ToolUsed(ToolUse {
            turn: open.id.clone(),
            call: call.id.clone(),
            tool: call.name.clone(),
            effect,
            caused_by: caused_by.clone(),
            arguments: logged_arguments(&call.arguments),
            outcome: ToolOutcome::Stopped,
            error: Some(text),
            duration_ms: 0,
            bytes: 0,
            approval: approval.map(|approval| approval.id.clone()),
            allowed_by: None,
        })));
        events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
    }
    events.extend(open.approvals.iter().map(|approval| {
        Event::Approval(ApprovalEvent::Settled {
            id: approval.id.clone(),
            outcome: ApprovalOutcome::Void,
            by: None,
        })
    }));
    events
}

/// The fingerprints of these messages, if their entries are in the window.
fn fingerprints_of(conversation: &Conversation, messages: &[MessageId]) -> Vec<(MessageId, String)> {
    let turn: Option<&TurnId> = conversation.open_turn.as_ref().map(|open| &open.id);
    let of_turn = conversation.live.iter().rev().take_while(|entry| Some(&entry.turn) == turn);
    of_turn
        .filter_map(|entry| {
            let message = entry.message.as_ref().filter(|message| messages.contains(message))?;
            Some((message.clone(), fingerprint(entry.author.as_ref()?, &entry.parts)))
        })
        .collect()
}

/// The authors of the messages that the turn answers.
fn authors_of(conversation: &Conversation, open: &OpenTurn) -> Vec<String> {
    let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
    of_turn.filter_map(|entry| Some(entry.author.as_ref()?.id.clone())).collect()
}
