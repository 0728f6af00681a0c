//! One model call within a turn: a request that fits, rebuilt for each try, and its answer streamed to waiters. Messages
//! that are larger than the window are stored as artifacts and sent shortened, and their author is told.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::artifact::next_id;
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::notice;
use cairn_core::prune::{LargeMessage, shorten, too_large};
use cairn_core::silence::is_silence;
use cairn_core::trust::memory_provenance;
use cairn_core::window::{AssembleError, Assembled, Tail};
use cairn_types::ids::Seq;
use cairn_types::message::{Artifact, Entry, Provenance, Role};
use cairn_types::model::{Attempt, ChatRequest, Finish, ModelError, ModelEvent};
use cairn_types::ports::TurnFailure;
use cairn_types::trace::FailedTry;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::time::Instant;

use super::state::Turn;
use super::tries::Tries;
use super::under_way::{Call, CallUnderWay};
use crate::admission::CallSlot;
use crate::agent::OFFLINE;
use crate::handle::ChannelHandle;
use crate::shared::Shared;
use crate::show::Show;
use crate::tasks::off_thread;
use crate::tools::guard::{Content, keep};
use crate::traces::{TextKeeper, TraceBuilder};
use crate::{failure, telemetry};

impl Turn {
    /// Calls the model, or others of the chain, until one gives a complete answer or all fail.
    pub(super) async fn call(&mut self, mut tail: Tail) -> Result<Call, TurnFailure> {
        let mut tries = Tries::new(&self.args.shared.live.limits());
        loop {
            self.take_slot().await;
            let (at_n, assembled) = match self.assembled(&tail).await? {
                Ok(assembled) => assembled,
                Err(_) if self.no_room(&mut tries).await? => continue,
                Err(error) => return Err(failure::no_room(&error)),
            };
            let tokens = assembled.tokens;
            if self.reserve(tokens).await? {
                // The conversation may have changed meanwhile.
                tail.now = self.args.shared.ports.now();
                continue;
            }
            self.tell_cut(&assembled.shortened).await?;
            if self.args.handle.read(|conversation| conversation.deleted_n > at_n) {
                continue;
            }
            self.begin_call(&assembled, at_n, &tail);
            let request = ChatRequest { attempt: tries.attempt(), ..assembled.request };
            let (times, model) = (Arc::clone(&self.args.times), self.settings.model.clone());
            let (handle, show) = (Arc::clone(&self.args.handle), self.args.show.clone());
            let keeper = TextKeeper::of_answers(&self.args.shared.ports, &self.settings);
            let events = handle.read(|conversation| Arc::clone(&self.agent.serving(conversation).model));
            let events = events.stream(request);
            let request = stream(handle, show, Arc::clone(&self.args.call), keeper, events);
            let work = async move { times.of_model(timed(model, request)).await };
            match self.with_outage_note(work).await? {
                Ok(call) => {
                    self.tell_withheld(&tries).await?;
                    self.outage_over();
                    let as_it_was = call.n_sent <= 1 && tries.attempt() == Attempt::Whole;
                    let taken = if as_it_was { tokens } else { 0 };
                    self.args.shared.live.models.answered(&self.settings.model, taken);
                    self.size_proved(as_it_was, &mut tries).await?;
                    self.slot = None;
                    self.tried.clear();
                    if let Some(reported) = call.cut() {
                        self.learn_cut(reported, tokens, call.watch.believed()).await?;
                    }
                    return Ok(call);
                }
                Err(error) => {
                    // A call that waits for a model needs no slot.
                    self.slot = None;
                    let took = self.args.call.note(|call| {
                        call.is_refused = call.came_to_nothing(&error);
                        call.trace.failure = Some(error.code().to_owned());
                        call.took()
                    });
                    match took.flatten() {
                        Some(took) => {
                            self.tried.clear();
                            self.step(vec![took]).await?;
                        }
                        None => FailedTry::note(&mut self.tried, &self.settings.model, error.code()),
                    }
                    self.args.call.reserve(None);
                    self.prepare_retry(error, tokens, &mut tries).await?;
                }
            }
            tail.now = self.args.shared.ports.now();
        }
    }

    fn begin_call(&mut self, assembled: &Assembled, at_n: u64, tail: &Tail) {
        let model = self.settings.model.clone();
        let (provenance, watch, taken) = self.args.handle.read(|conversation| {
            let mut provenance = Provenance::default();
            tail.recalled.iter().for_each(|memory| provenance.join(&memory_provenance(memory, conversation)));
            let watch = conversation.usage_watches.get(&model).cloned().unwrap_or_default();
            (provenance, watch, conversation.bounds.get(&model).map_or(0, |bounds| bounds.taken))
        });
        self.args.call.begin(Call {
            set_window: self.configured(&model).set_tokens(),
            window: Some(self.settings.window),
            taken,
            watch,
            model,
            provenance,
            is_free: self.settings.model == OFFLINE,
            trace: TraceBuilder {
                last_call: tail.last_call,
                waited: std::mem::take(&mut self.waited),
                price: self.args.shared.budgets.price(&self.settings.model),
                tried: self.tried.clone(),
                ..TraceBuilder::begun(at_n, tail.now)
            },
            estimated: assembled.estimated_tokens,
            tokens: assembled.tokens,
            answer_max: self.settings.window.output_reserve_tokens,
            caused_by: self.args.authors.iter().cloned().collect(),
            ..Call::default()
        });
    }

    /// Waits for a slot of the person who started the turn, unless the turn has one.
    pub(super) async fn take_slot(&mut self) {
        if self.slot.is_some() {
            return;
        }
        let person = self.args.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
            let first = of_turn.filter(|entry| entry.role == Role::User).last()?;
            Some(first.author.as_ref()?.id.clone())
        });
        let Some(person) = person else { return };
        let Shared { ports, live, budgets, .. } = self.args.shared.clone();
        let mut slot = CallSlot::of(Arc::clone(&budgets.call_shares), live, Arc::clone(&ports.clock), person);
        if slot.waits() {
            tracing::debug!(channel = %self.args.handle.id, "a call waits: its person has as many at work as one may");
            let (deadline, since) = (self.budget.pause(), Instant::now());
            tokio::select! {
                biased;
                () = slot.begin() => {}
                () = self.stopping() => {}
            }
            self.budget.resume(deadline, since.elapsed());
            self.waited += since.elapsed();
        }
        self.slot = Some(slot);
    }

    /// Reserves the likely price of the next call. The first call of a turn waits while the calls in flight may use up the
    /// day's money, and fails when it is spent; a turn that has begun goes on. True: it waited.
    async fn reserve(&mut self, tokens: u64) -> Result<bool, TurnFailure> {
        if self.args.call.is_reserved() {
            return Ok(false);
        }
        let Shared { ports, budgets, .. } = self.args.shared.clone();
        let (model, answer_max) = (self.settings.model.clone(), self.settings.window.output_reserve_tokens);
        if std::mem::replace(&mut self.has_begun, true) {
            self.args.call.reserve(Some(budgets.reserve(&model, tokens, answer_max)));
            return Ok(false);
        }
        let (deadline, since) = (self.budget.pause(), Instant::now());
        let mut reserving =
            std::pin::pin!(budgets.reserve_in_turn(&model, (tokens, answer_max), &*ports.clock));
        let (reserved, waited) = match futures::poll!(reserving.as_mut()) {
            std::task::Poll::Ready(reserved) => (reserved, false),
            std::task::Poll::Pending => {
                tracing::debug!(channel = %self.args.handle.id, "a call waits: those in flight may use up the day's money");
                tokio::select! {
                    biased;
                    reserved = reserving => (reserved, true),
                    () = self.stopping() => return std::future::pending().await,
                }
            }
        };
        self.budget.resume(deadline, since.elapsed());
        self.waited += since.elapsed();
        self.args.call.reserve(Some(reserved.map_err(|limited| failure::no_money(&limited))?));
        Ok(waited)
    }

    /// A request that fits, with the number of the last record that it includes. First it makes room as due: oversized
    /// messages are sent shorter, results are pruned, and in an emergency the oldest half leaves the window. No reply waits
    /// for a compaction.
    async fn assembled(&self, tail: &Tail) -> Result<Result<(u64, Assembled), AssembleError>, TurnFailure> {
        let kept = self.kept_by();
        self.shorten_messages(&kept).await?;
        let (engine, now) = (Arc::clone(&self.args.handle.engine), tail.now);
        let mut conversation = self.args.handle.snapshot();
        if !engine.compact(&conversation, &kept, MakeRoom::Tier, now).is_empty() {
            self.make_room(MakeRoom::Tier).await?;
            conversation = self.args.handle.snapshot();
        }
        let (at_n, settings) = (conversation.last_n, Arc::clone(&self.settings));
        if kept.model == settings.model {
            return Ok(engine.assemble(&conversation, &settings, tail).map(|assembled| (at_n, assembled)));
        }
        // Much may have to be left out, and a digest made of it.
        let tail = tail.clone();
        let assembled = off_thread(move || engine.assemble(&conversation, &settings, &tail)).await;
        Ok(assembled
            .map_err(|panic| failure::panicked(&panic.to_string()))?
            .map(|assembled| (at_n, assembled)))
    }

    /// Sends oversized messages shorter from now on, and tells the chat. This comes before anything leaves the window:
    /// other messages need not make room for what would not fit anyway.
    async fn shorten_messages(&self, kept: &AgentSettings) -> Result<(), TurnFailure> {
        let handle = &self.args.handle;
        loop {
            let large = handle.read(|conversation| too_large(conversation, kept));
            if large.is_empty() {
                break;
            }
            let mut messages = Vec::with_capacity(large.len());
            for message in large {
                let n_kept = messages.iter().filter(|(_, artifact)| Option::is_some(artifact)).count();
                let artifact = match message.artifact {
                    Some(_) => None,
                    None => self.keep_message(&message, n_kept).await,
                };
                messages.push((message, artifact));
            }
            let events = shorten(&handle.snapshot(), kept, messages);
            if events.is_empty() {
                break;
            }
            self.step(events).await?;
        }
        self.tell_long().await
    }

    /// Stores the whole message. `None`: the store failed. The journal still has it, but the model cannot read on in it.
    async fn keep_message(&self, message: &LargeMessage, n_kept: usize) -> Option<Artifact> {
        let (ports, handle) = (&self.args.shared.ports, &self.args.handle);
        let id = handle.read(|conversation| next_id(conversation, n_kept));
        let words = message.words();
        match keep(ports, handle, id, Content::Message(message.entry.seq), &words).await {
            Ok(artifact) => Some(artifact),
            Err(error) => {
                tracing::error!(channel = %handle.id, seq = %message.entry.seq, bytes = words.len(), %error,
                    "a message larger than the window could not be stored as an artifact; the history has all of \
                     it, but the model cannot read the rest");
                None
            }
        }
    }

    /// Notes that a request was cut to fit, although everything that can leave the window has left.
    async fn tell_cut(&mut self, shortened: &[Seq]) -> Result<(), TurnFailure> {
        if shortened.is_empty() {
            return Ok(());
        }
        let (channel, entries) = (&self.args.handle.id, shortened.len());
        tracing::warn!(%channel, model = self.settings.model, entries,
            "the turn does not fit into the window; parts of it were left out of the request and stay in the \
             history");
        let is_message = |conversation: &Conversation| {
            let of_turn = |entry: &&Arc<Entry>| shortened.contains(&entry.seq) && entry.role == Role::User;
            let open = conversation.open_turn.as_ref().map(|open| &open.id);
            conversation.live.iter().filter(of_turn).any(|entry| Some(&entry.turn) == open)
        };
        self.cut |= self.args.handle.read(is_message);
        self.tell_long().await
    }

    /// Tells the chat, once, that the model sees only part of a message.
    async fn tell_long(&self) -> Result<(), TurnFailure> {
        let note = self
            .args
            .handle
            .read(|conversation| notice::note_of_long_messages(conversation, &self.settings, self.cut));
        match note {
            Some(note) => self.step(vec![note]).await,
            None => Ok(()),
        }
    }
}

/// Measures a model's response time. `model`: its id in the configuration.
async fn timed<T, E>(model: String, request: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let begun = Instant::now();
    let result = request.await;
    let outcome = if result.is_ok() { "answered" } else { "failed" };
    metrics::histogram!("cairn_model_seconds", "model" => model, "outcome" => outcome)
        .record(begun.elapsed().as_secs_f64());
    result
}

/// Streams the model's answer, and records it in `under_way` as it comes.
async fn stream(
    handle: Arc<ChannelHandle>,
    show: Option<Arc<Show>>,
    under_way: Arc<CallUnderWay>,
    keeper: TextKeeper,
    mut events: BoxStream<'static, Result<ModelEvent, ModelError>>,
) -> Result<Call, ModelError> {
    let subscribers = &handle.subscribers;
    let ended = loop {
        let event = events.next().await;
        if let Some(Ok(ModelEvent::Sent(sent))) = event {
            let (frame, body) = Box::pin(keeper.keep(*sent)).await;
            under_way.note(|call| {
                call.n_sent += 1;
                (call.trace.frame, call.trace.body) = (Some(frame), body);
            });
            continue;
        }
        if let (Some(Ok(_)), Some(show)) = (&event, &show) {
            // Typing may have been hidden while no model answered.
            show.typing().resume();
        }
        match event {
            Some(Ok(ModelEvent::Sent(_))) => {}
            Some(Ok(ModelEvent::Text(text))) => {
                under_way.note(|call| call.said().text.push_str(&text));
                subscribers.delta(&text);
            }
            Some(Ok(ModelEvent::Reasoning(text))) => {
                under_way.note(|call| call.said().reasoning.push_str(&text));
            }
            Some(Ok(ModelEvent::TextWasReasoning)) => {
                under_way.note(|call| {
                    let text = std::mem::take(&mut call.text);
                    call.reasoning.push_str(&text);
                });
                subscribers.restarted();
            }
            Some(Ok(ModelEvent::ToolCall(tool_call))) => {
                under_way.note(|call| call.said().tool_calls.push(tool_call));
            }
            Some(Ok(ModelEvent::State(state))) => {
                under_way.note(|call| call.state = Some(state));
            }
            Some(Ok(ModelEvent::Usage(usage))) => {
                under_way.note(|call| call.usage = Some(usage));
            }
            Some(Ok(ModelEvent::Done { finish, usage, quotes })) => {
                let heard = quotes.then(|| handle.read(|conversation| conversation.heard.clone()));
                let checked = under_way.note(|call| {
                    call.usage = usage;
                    call.is_whole = true;
                    call.quotes = quotes;
                    call.finish = finish;
                    let n_calls = call.tool_calls.len();
                    call.tool_calls.retain(|tool_call| finish.allows(tool_call));
                    call.lost_call = call.tool_calls.len() < n_calls;
                    heard.iter().for_each(|heard| call.provenance.join(heard));
                    let checked = checked(call, &handle);
                    call.is_filled = matches!(checked, Err(ModelError::ContextOverflow { .. }));
                    checked.map(|()| call.clone())
                });
                // The call is only taken away when the turn ends, and this task with it.
                under_way.note(|call| telemetry::ended(&call.model, finish));
                break checked.unwrap_or_else(|| Ok(Call::default()));
            }
            Some(Err(error)) => break Err(error),
            None => break Err(ModelError::Protocol("the stream ended before its end".to_owned())),
        }
    };
    under_way.note(|call| call.trace.end());
    if ended.is_err() {
        subscribers.restarted();
    }
    ended
}

/// The error for a server that cut the request to its window of this size and had no room for an answer.
pub(crate) fn overflow(window: u64) -> ModelError {
    let message = format!("the request filled the window of {window} tokens, and left no room for an answer");
    ModelError::ContextOverflow { message, limit: Some(window) }
}

/// Checks that an answer has text or calls a tool. An answer that was cut within a call counts as that. Where somebody waits for
/// each answer, silence is none.
fn checked(call: &mut Call, handle: &ChannelHandle) -> Result<(), ModelError> {
    if is_silence(&call.text) && !handle.may_be_silent() {
        call.text.clear();
    }
    if !call.text.trim().is_empty() || !call.tool_calls.is_empty() {
        return Ok(());
    }
    match call.finish {
        Finish::Length | Finish::ContextWindow | Finish::Pause if call.lost_call => Ok(()),
        finish => {
            let filled = call.filled().filter(|_| finish == Finish::Length);
            Err(filled.map_or_else(|| ModelError::of_silence(finish, call.answer_max), overflow))
        }
    }
}
