//! One call of the model within a turn: a request that fits, made again for each try, streamed to who waits. Messages that
//! are larger than what the window takes are kept whole as artifacts, sent as head and tail, and their author is told.

use std::sync::Arc;

use cairn_core::artifact::next_id;
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::event::{Event, TurnEvent};
use cairn_core::ids::Seq;
use cairn_core::message::{Artifact, Entry, Role, ToolCall};
use cairn_core::model::{ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_core::notice;
use cairn_core::ports::TurnFailure;
use cairn_core::prune::{LargeMessage, shorten, too_large};
use cairn_core::tokens::estimate;
use cairn_core::window::{AssembleError, Assembled, Tail};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::Turn;
use super::chain::Tries;
use crate::admission::CallPlace;
use crate::handle::ChannelHandle;
use crate::show::Show;
use crate::tools::guard::{Content, keep};
use crate::{failure, telemetry};

/// What the model said in one call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) quotes: bool,
    /// What it took, where the provider says so: as it counts.
    pub(super) usage: Option<Usage>,
    /// What the provider said of that, where it cannot be true.
    disbelieved: Option<Usage>,
    /// The model that said it, by its id in the configuration.
    pub(super) model: String,
    estimated: u64,
}

impl Call {
    /// What the provider reported, for the journal.
    pub(super) fn reported(&self) -> Option<Event> {
        let usage = self.usage?;
        let (model, estimated, disbelieved) = (self.model.clone(), self.estimated, self.disbelieved);
        Some(Event::Turn(TurnEvent::UsageReported { model, estimated, usage, disbelieved }))
    }

    /// Holds what the provider reported against our own estimate. `tokens`: of the request, corrected.
    fn weigh(&mut self, tokens: u64, answer_max: u64) {
        let Some(reported) = self.usage else { return };
        let said = [self.text.as_str(), self.reasoning.as_str()].map(estimate);
        let called = self.tool_calls.iter().map(|call| estimate(&call.arguments.to_string()));
        let output_tokens = said.into_iter().chain(called).map(u64::from).sum();
        let ours = Usage { input_tokens: tokens, output_tokens, ..Usage::default() };
        let believed = telemetry::believed(&self.model, reported, ours, answer_max);
        self.disbelieved = believed.is_none().then_some(reported);
        self.usage = Some(believed.unwrap_or(ours));
    }
}

impl Turn {
    /// Calls the model until it, or another one of the chain, has said something whole, or gives up.
    pub(super) async fn call(&mut self, mut tail: Tail) -> Result<Call, TurnFailure> {
        let mut tries = Tries::new(&self.args.shared);
        loop {
            self.take_place().await;
            let assembled = match self.assembled(&tail).await? {
                Ok(assembled) => assembled,
                Err(_) if self.no_room(&mut tries).await? => continue,
                Err(error) => return Err(failure::no_room(&error)),
            };
            self.tell_cut(&assembled.shortened).await?;
            let (estimated, tokens) = (assembled.estimated_tokens, assembled.tokens);
            let (times, model) = (Arc::clone(&self.args.times), self.settings.model.clone());
            let request = stream(Arc::clone(&self.args.handle), self.args.show.clone(), assembled.request);
            let work = async move { times.of_model(timed(model, request)).await };
            match self.telling(work).await? {
                Ok(call) => {
                    self.calm();
                    self.args.shared.models.answered(&self.settings.model);
                    let mut call = Call { estimated, model: self.settings.model.clone(), ..call };
                    call.weigh(tokens, self.settings.window.output_reserve_tokens);
                    self.place = None;
                    return Ok(call);
                }
                Err(error) => {
                    // Who waits for a model that is down takes no place.
                    self.place = None;
                    self.overcome(error, tokens, &mut tries).await?;
                }
            }
            tail.now = self.args.shared.now();
        }
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
        let mut place = CallPlace::of(&self.args.shared, person);
        if place.waits() {
            tracing::debug!(channel = %self.args.handle.id, "a call waits: its person has as many at work as one may");
            let (deadline, since) = (self.budget.pause(), Instant::now());
            tokio::select! {
                biased;
                () = place.begin() => {}
                () = self.stopping() => {}
            }
            self.budget.resume(deadline, since.elapsed());
        }
        self.place = Some(place);
    }

    /// A request that fits. What is due before it comes first: messages that are too large for the window are sent shorter,
    /// results are pruned, and in an emergency the oldest half leaves the window. No reply waits for a compaction.
    async fn assembled(&self, tail: &Tail) -> Result<Result<Assembled, AssembleError>, TurnFailure> {
        self.shorten_messages().await?;
        let (engine, now) = (&self.args.handle.engine, tail.now);
        let mut conversation = self.args.handle.snapshot();
        if !engine.compact(&conversation, &self.settings, MakeRoom::Tier, now).is_empty() {
            self.make_room(MakeRoom::Tier).await?;
            conversation = self.args.handle.snapshot();
        }
        Ok(engine.assemble(&conversation, &self.settings, tail))
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
        let (shared, handle) = (&self.args.shared, &self.args.handle);
        let id = handle.read(|conversation| next_id(conversation, n_kept));
        let words = message.words();
        match keep(shared, handle, id, Content::Message(message.entry.seq), &words).await {
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

async fn stream(
    handle: Arc<ChannelHandle>,
    show: Option<Arc<Show>>,
    request: ChatRequest,
) -> Result<Call, ModelError> {
    let subscribers = &handle.subscribers;
    let mut events = handle.model().stream(request);
    let mut call = Call::default();
    let ended = loop {
        let event = events.next().await;
        if let (Some(Ok(_)), Some(show)) = (&event, &show) {
            // It may have been put out while no model answered.
            show.typing().go_on();
        }
        match event {
            Some(Ok(ModelEvent::Text(text))) => {
                subscribers.delta(&text);
                call.text.push_str(&text);
            }
            Some(Ok(ModelEvent::Reasoning(text))) => call.reasoning.push_str(&text),
            Some(Ok(ModelEvent::ToolCall(tool_call))) => call.tool_calls.push(tool_call),
            Some(Ok(ModelEvent::Done { finish, usage, quotes })) => {
                call.usage = usage;
                call.quotes = quotes;
                break checked(&call, finish);
            }
            Some(Err(error)) => break Err(error),
            None => break Err(ModelError::Protocol("the stream ended before its end".to_owned())),
        }
    };
    match ended {
        Ok(()) => Ok(call),
        Err(error) => {
            subscribers.restarted();
            Err(error)
        }
    }
}

/// An answer must say something, or call a tool.
fn checked(call: &Call, finish: Finish) -> Result<(), ModelError> {
    if !call.text.trim().is_empty() || !call.tool_calls.is_empty() {
        return Ok(());
    }
    match finish {
        Finish::Length => Err(ModelError::BadRequest(
            "the answer was cut off at max_output_tokens before it began; raise it".to_owned(),
        )),
        Finish::ContentFilter => {
            Err(ModelError::BadRequest("the provider's filter withheld the answer".to_owned()))
        }
        Finish::Stop | Finish::ToolCalls => Err(ModelError::Protocol("the answer is empty".to_owned())),
    }
}
