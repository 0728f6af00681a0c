//! One call of the model within a turn: a request that fits, made again for each try, streamed to who waits. Messages that
//! are larger than what the window takes are kept whole as artifacts, sent as head and tail, and their author is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_core::agent::WindowSize;
use cairn_core::artifact::next_id;
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::notice;
use cairn_core::prune::{LargeMessage, shorten, too_large};
use cairn_core::trust::memory_provenance;
use cairn_core::usage_watch::{Reading, Report, UsageWatch, filled_window};
use cairn_core::window::{AssembleError, Assembled, Tail};
use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::Seq;
use cairn_types::message::{Artifact, Entry, Part, Provenance, Role, ToolCall};
use cairn_types::model::{Attempt, ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_types::ports::TurnFailure;
use cairn_types::provider_state::ProviderState;
use cairn_types::tokens::estimate;
use cairn_types::trace::FailedTry;
use futures::StreamExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Turn;
use super::chain::Tries;
use crate::admission::CallPlace;
use crate::agent::OFFLINE;
use crate::handle::ChannelHandle;
use crate::messages::draft_entry;
use crate::shared::Shared;
use crate::show::Show;
use crate::tools::guard::{Content, keep};
use crate::traces::{Keeper, Making};
use crate::{failure, telemetry};

/// A call of a model: what it has said and taken so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// What its provider wants back with it.
    state: Option<Box<ProviderState>>,
    pub(super) quotes: bool,
    finish: Finish,
    /// It was cut within a tool call, which is not made.
    lost_call: bool,
    /// The model, by its id in the configuration.
    pub(crate) model: String,
    /// Whose text its words may hold beside its own.
    pub(super) provenance: Provenance,
    /// What the provider said of what it took.
    usage: Option<Usage>,
    /// The provider has said all.
    is_whole: bool,
    /// What it took is journalled.
    is_settled: bool,
    /// It takes nothing of anybody's: it is the embedded model's.
    is_free: bool,
    /// The server has not worked for it.
    is_refused: bool,
    /// The server has read only part of the request, and had no room for an answer.
    is_filled: bool,
    /// What is known of how it was made.
    made: Making,
    /// How often it was sent: each time after the first, something was left out.
    n_sent: u32,
    /// Tokens of the request: estimated, and corrected.
    estimated: u64,
    tokens: u64,
    answer_max: u64,
    /// The model's window as it is believed to be, and the largest request that was answered within it.
    window: Option<WindowSize>,
    taken: u64,
    /// What the configuration sets as the model's window; 0: nothing.
    set_window: u64,
    /// What earlier reports say of the server.
    watch: UsageWatch,
    caused_by: BTreeSet<String>,
}

impl Call {
    /// It says something now.
    fn said(&mut self) -> &mut Self {
        self.made.say();
        self
    }

    /// What it took, for the journal: what the provider reported, else our estimate of the request and of what came. None:
    /// nothing that is not journalled yet.
    pub(crate) fn took(&self) -> Option<Event> {
        if self.is_settled || self.is_refused {
            return None;
        }
        let ours = self.ours();
        let believed = match self.read() {
            Some(Reading::Whole(usage)) => Some(usage),
            Some(Reading::Untrue | Reading::Cut) => {
                let is_known = self.watch.is_doubted();
                self.usage
                    .iter()
                    .for_each(|usage| telemetry::disbelieved(&self.model, *usage, ours, is_known));
                None
            }
            None => None,
        };
        // What was said of an answer that was cut short counts its first words at most.
        let output_tokens = |usage: Usage| match self.is_whole {
            true => usage.output_tokens,
            false => usage.output_tokens.max(ours.output_tokens),
        };
        let usage = believed.map_or(ours, |usage| Usage { output_tokens: output_tokens(usage), ..usage });
        let trace = self.made.trace(usage, self.is_whole);
        if self.is_free && trace.is_none() {
            return None;
        }
        Some(Event::Turn(TurnEvent::UsageReported {
            model: self.model.clone(),
            estimated: self.estimated,
            usage,
            disbelieved: self.usage.filter(|_| believed.is_none()),
            is_estimate: self.usage.is_none() || !self.is_whole,
            set_window: Some(self.set_window),
            caused_by: self.caused_by.clone(),
            trace,
        }))
    }

    /// What the provider's report is worth; none: it has not reported.
    fn read(&self) -> Option<Reading> {
        let usage = self.usage?;
        if self.is_filled {
            return Some(Reading::Cut);
        }
        let frame = self.made.frame.as_ref().filter(|_| self.is_whole);
        let (estimated, ours, answer_max) = (self.estimated, self.ours(), self.answer_max);
        Some(self.watch.read(&Report { frame, estimated, ours, answer_max, usage }))
    }

    /// Tokens of the request as the provider counts them, where it has read only part of it.
    pub(super) fn cut(&self) -> Option<u64> {
        matches!(self.read(), Some(Reading::Cut)).then(|| self.usage.unwrap_or_default().input_tokens)
    }

    /// What is journalled of the call at the end of its turn: what a server refused is journalled too, as the last that was tried.
    pub(crate) fn ended(&self) -> Option<Event> {
        let refused = || {
            let trace = self.made.trace(Usage::default(), false)?;
            Some(Event::Turn(TurnEvent::UsageReported {
                model: self.model.clone(),
                estimated: self.estimated,
                usage: Usage::default(),
                disbelieved: None,
                is_estimate: true,
                set_window: None,
                caused_by: self.caused_by.clone(),
                trace: Some(trace),
            }))
        };
        if self.is_refused && !self.is_settled { refused() } else { self.took() }
    }

    /// The window of a server that had no room for an answer, where that is why it said nothing.
    fn filled(&self) -> Option<u64> {
        let usage = self.usage.filter(|_| self.reasoning.is_empty())?;
        filled_window(usage, self.estimated, self.taken, self.window?)
    }

    /// Our own estimate of what it took so far.
    fn ours(&self) -> Usage {
        if self.is_free {
            return Usage::default();
        }
        let said = [self.text.as_str(), self.reasoning.as_str()].map(estimate);
        let called = self.tool_calls.iter().map(|call| estimate(&call.arguments.to_string()));
        let output_tokens = said.into_iter().chain(called).map(u64::from).sum();
        Usage { input_tokens: self.tokens, output_tokens, ..Usage::default() }
    }

    /// Nothing came of it: a server that refuses a request, or was never reached, has not worked for it.
    fn came_to_nothing(&self, error: &ModelError) -> bool {
        let said = [&self.text, &self.reasoning].iter().any(|words| !words.is_empty());
        let came = said || !self.tool_calls.is_empty() || self.usage.is_some();
        !came && !error.may_have_cost()
    }

    /// Its words as an entry, where it was cut short after some: `mark` says so behind them. Calls of tools that it was
    /// about to make are not in it.
    pub(crate) fn cut_short(self, mark: &str, now: Timestamp) -> Option<Entry> {
        if self.text.trim().is_empty() {
            return None;
        }
        let mut entry = self.into_entry(now);
        entry.tool_calls.clear();
        entry.provider_state = None;
        entry.parts.push(Part::text(mark));
        Some(entry)
    }

    /// What was said as the turn's answer, with a note behind it where the model did not end it itself; and what the note
    /// adds to the words that were shown.
    pub(super) fn into_answer(self, now: Timestamp) -> (Entry, Option<String>) {
        let note = notice::of_finish(self.finish, &self.text, self.lost_call);
        let mut entry = self.into_entry(now);
        let added = note.map(|note| {
            let added = if entry.parts.is_empty() { note.clone() } else { format!("\n{note}") };
            entry.parts.push(Part::text(note));
            added
        });
        (entry, added)
    }

    /// What was said, as an entry.
    pub(super) fn into_entry(self, now: Timestamp) -> Entry {
        let mut entry = draft_entry(Role::Assistant, now);
        if !self.text.is_empty() {
            entry.parts.push(Part::text(self.text));
        }
        let state = self.state.filter(|_| !self.tool_calls.is_empty());
        let is_kept = state.as_ref().is_some_and(|state| state.has_reasoning());
        entry.reasoning = Some(self.reasoning).filter(|reasoning| !reasoning.is_empty() && !is_kept);
        entry.provider_state = state;
        entry.tool_calls = self.tool_calls;
        entry.quotes = self.quotes;
        entry.finish = Some(self.finish).filter(|finish| !finish.is_whole());
        entry.provenance = self.provenance;
        entry
    }
}

/// The call that is under way in a turn, or failed last, for the channel's actor: it may end the turn at any moment.
#[derive(Debug, Default)]
pub(crate) struct CallUnderWay(Mutex<Option<Call>>);

impl CallUnderWay {
    fn begin(&self, call: Call) {
        *self.0.lock() = Some(call);
    }

    fn note<T>(&self, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        self.0.lock().as_mut().map(change)
    }

    /// These events of its turn are journalled, and with them perhaps what it took, or all of it.
    pub(crate) fn journalled(&self, events: &[Event]) {
        let has = |is: fn(&TurnEvent) -> bool| {
            events.iter().any(|event| matches!(event, Event::Turn(event) if is(event)))
        };
        if has(|event| matches!(event, TurnEvent::UsageReported { .. })) {
            self.note(|call| call.is_settled = true);
        }
        if has(|event| matches!(event, TurnEvent::EntryAdded { entry } if entry.role == Role::Assistant)) {
            self.take();
        }
    }

    pub(crate) fn take(&self) -> Option<Call> {
        self.0.lock().take()
    }
}

impl Turn {
    /// Calls the model until it, or another one of the chain, has said something whole, or gives up.
    pub(super) async fn call(&mut self, mut tail: Tail) -> Result<Call, TurnFailure> {
        let mut tries = Tries::new(&self.args.shared.live.limits());
        loop {
            self.take_place().await;
            let (at_n, assembled) = match self.assembled(&tail).await? {
                Ok(assembled) => assembled,
                Err(_) if self.no_room(&mut tries).await? => continue,
                Err(error) => return Err(failure::no_room(&error)),
            };
            self.tell_cut(&assembled.shortened).await?;
            let tokens = assembled.tokens;
            self.begin_call(&assembled, at_n, &tail);
            let request = ChatRequest { attempt: tries.attempt(), ..assembled.request };
            let (times, model) = (Arc::clone(&self.args.times), self.settings.model.clone());
            let (handle, show) = (Arc::clone(&self.args.handle), self.args.show.clone());
            let keeper = Keeper::of_answers(&self.args.shared.ports, &self.settings);
            let request = stream(handle, show, Arc::clone(&self.args.call), keeper, request);
            let work = async move { times.of_model(timed(model, request)).await };
            match self.telling(work).await? {
                Ok(call) => {
                    self.tell_withheld(&tries).await?;
                    self.outage_over();
                    let as_it_was = call.n_sent <= 1 && tries.attempt() == Attempt::Whole;
                    let taken = if as_it_was { tokens } else { 0 };
                    self.args.shared.live.models.answered(&self.settings.model, taken);
                    self.size_proved(as_it_was, &mut tries).await?;
                    self.place = None;
                    self.tried.clear();
                    if let Some(reported) = call.cut() {
                        self.learn_cut(reported, tokens, call.watch.believed()).await?;
                    }
                    return Ok(call);
                }
                Err(error) => {
                    // Who waits for a model that is down takes no place.
                    self.place = None;
                    let took = self.args.call.note(|call| {
                        call.is_refused = call.came_to_nothing(&error);
                        call.made.failure = Some(error.code().to_owned());
                        call.took()
                    });
                    match took.flatten() {
                        Some(took) => {
                            self.tried.clear();
                            self.step(vec![took]).await?;
                        }
                        None => FailedTry::note(&mut self.tried, &self.settings.model, error.code()),
                    }
                    self.overcome(error, tokens, &mut tries).await?;
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
            made: Making {
                last_call: tail.last_call,
                waited: std::mem::take(&mut self.waited),
                price: self.args.shared.budgets.price(&self.settings.model),
                tried: self.tried.clone(),
                ..Making::begun(at_n, tail.now)
            },
            estimated: assembled.estimated_tokens,
            tokens: assembled.tokens,
            answer_max: self.settings.window.output_reserve_tokens,
            caused_by: self.args.authors.iter().cloned().collect(),
            ..Call::default()
        });
    }

    /// Waits until a call of whoever began the turn may begin, unless it may already.
    pub(super) async fn take_place(&mut self) {
        if self.place.is_some() {
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
        let mut place =
            CallPlace::of(Arc::clone(&budgets.call_shares), live, Arc::clone(&ports.clock), person);
        if place.waits() {
            tracing::debug!(channel = %self.args.handle.id, "a call waits: its person has as many at work as one may");
            let (deadline, since) = (self.budget.pause(), Instant::now());
            tokio::select! {
                biased;
                () = place.begin() => {}
                () = self.stopping() => {}
            }
            self.budget.resume(deadline, since.elapsed());
            self.waited += since.elapsed();
        }
        self.place = Some(place);
    }

    /// A request that fits. What is due before it comes first: messages that are too large for the window are sent shorter,
    /// results are pruned, and in an emergency the oldest half leaves the window. No reply waits for a compaction.
    /// With the record up to which it shows the conversation.
    async fn assembled(&self, tail: &Tail) -> Result<Result<(u64, Assembled), AssembleError>, TurnFailure> {
        self.shorten_messages().await?;
        let (engine, now) = (&self.args.handle.engine, tail.now);
        let mut conversation = self.args.handle.snapshot();
        if !engine.compact(&conversation, &self.settings, MakeRoom::Tier, now).is_empty() {
            self.make_room(MakeRoom::Tier).await?;
            conversation = self.args.handle.snapshot();
        }
        let assembled = engine.assemble(&conversation, &self.settings, tail);
        Ok(assembled.map(|assembled| (conversation.last_n, assembled)))
    }

    /// Has messages that are too large sent shorter from here on, and the chat told so. It comes before anything leaves the
    /// window: no other message has to make room for what would not fit in any case.
    async fn shorten_messages(&self) -> Result<(), TurnFailure> {
        let handle = &self.args.handle;
        let large = handle.read(|conversation| too_large(conversation, &self.settings));
        if !large.is_empty() {
            let mut messages = Vec::with_capacity(large.len());
            for message in large {
                let n_kept = messages.iter().filter(|(_, artifact)| Option::is_some(artifact)).count();
                let artifact = match message.artifact {
                    Some(_) => None,
                    None => self.keep_message(&message, n_kept).await,
                };
                messages.push((message, artifact));
            }
            let events = shorten(&handle.snapshot(), &self.settings, messages);
            if !events.is_empty() {
                self.step(events).await?;
            }
        }
        self.tell_long().await
    }

    /// Stores the whole of a message. `None`: it could not be, and the model cannot read on in it; the journal has it.
    async fn keep_message(&self, message: &LargeMessage, n_kept: usize) -> Option<Artifact> {
        let (ports, handle) = (&self.args.shared.ports, &self.args.handle);
        let id = handle.read(|conversation| next_id(conversation, n_kept));
        let words = message.words();
        match keep(ports, handle, id, Content::Message(message.entry.seq), &words).await {
            Ok(artifact) => Some(artifact),
            Err(error) => {
                tracing::error!(channel = %handle.id, seq = %message.entry.seq, bytes = words.len(), %error,
                    "a message that is larger than the window takes could not be kept as an artifact; the history has it, \
                     and the model cannot read on in it");
                None
            }
        }
    }

    /// Notes that a request was cut to fit, although all that can leave the window has left it.
    async fn tell_cut(&mut self, shortened: &[Seq]) -> Result<(), TurnFailure> {
        if shortened.is_empty() {
            return Ok(());
        }
        let (channel, entries) = (&self.args.handle.id, shortened.len());
        tracing::warn!(%channel, model = self.settings.model, entries,
            "the window has no room for all of this turn: some of it was cut from the request, and is kept");
        let is_message = |conversation: &Conversation| {
            let of_turn = |entry: &&Arc<Entry>| shortened.contains(&entry.seq) && entry.role == Role::User;
            let open = conversation.open_turn.as_ref().map(|open| &open.id);
            conversation.live.iter().filter(of_turn).any(|entry| Some(&entry.turn) == open)
        };
        self.cut |= self.args.handle.read(is_message);
        self.tell_long().await
    }

    /// The chat is told, once, that the model sees only part of a message.
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

/// Measures how long a model takes, by its id in the configuration.
async fn timed<T, E>(model: String, request: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let begun = Instant::now();
    let result = request.await;
    let outcome = if result.is_ok() { "answered" } else { "failed" };
    metrics::histogram!("cairn_model_seconds", "model" => model, "outcome" => outcome)
        .record(begun.elapsed().as_secs_f64());
    result
}

/// Asks the model. What it says is noted in `under_way` as it comes.
async fn stream(
    handle: Arc<ChannelHandle>,
    show: Option<Arc<Show>>,
    under_way: Arc<CallUnderWay>,
    keeper: Keeper,
    request: ChatRequest,
) -> Result<Call, ModelError> {
    let subscribers = &handle.subscribers;
    let mut events = handle.model().stream(request);
    let ended = loop {
        let event = events.next().await;
        if let Some(Ok(ModelEvent::Sent(sent))) = event {
            let (frame, body) = Box::pin(keeper.keep(*sent)).await;
            under_way.note(|call| {
                call.n_sent += 1;
                (call.made.frame, call.made.body) = (Some(frame), body);
            });
            continue;
        }
        if let (Some(Ok(_)), Some(show)) = (&event, &show) {
            // It may have been put out while no model answered.
            show.typing().go_on();
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
                    let checked = checked(call);
                    call.is_filled = matches!(checked, Err(ModelError::ContextOverflow { .. }));
                    checked.map(|()| call.clone())
                });
                // It is taken away only when the turn is ended, and this with it.
                under_way.note(|call| telemetry::ended(&call.model, finish));
                break checked.unwrap_or_else(|| Ok(Call::default()));
            }
            Some(Err(error)) => break Err(error),
            None => break Err(ModelError::Protocol("the stream ended before its end".to_owned())),
        }
    };
    under_way.note(|call| call.made.end());
    if ended.is_err() {
        subscribers.restarted();
    }
    ended
}

/// The error of a server that cut a request to its window of so many tokens, and had no room for an answer.
pub(crate) fn overflow(window: u64) -> ModelError {
    let message = format!("the request filled the window of {window} tokens, and left no room for an answer");
    ModelError::ContextOverflow { message, limit: Some(window) }
}

/// An answer must say something, or call a tool. One that was cut within a call is told as that.
fn checked(call: &Call) -> Result<(), ModelError> {
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
