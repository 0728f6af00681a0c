//! One call of the model within a turn: assembled anew for each try, streamed to who waits, tried again when it
//! fails in passing, relieved when it is too large.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use cairn_core::agent::AgentSettings;
use cairn_core::engine::MakeRoom;
use cairn_core::event::Event;
use cairn_core::message::ToolCall;
use cairn_core::model::{ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_core::ports::TurnFailure;
use cairn_core::window::{Assembled, Tail};
use futures::StreamExt as _;

use super::{Cause, Turn};
use crate::cell::Cell;
use crate::failure;
use crate::shared::Shared;
use crate::show::Show;

/// Tries after a context overflow (DESIGN.md).
const OVERFLOW_RETRIES: u32 = 3;

/// After an overflow the request is made to fit this share of what was refused.
const OVERFLOW_SHRINK: f64 = 0.7;

/// What the model said in one call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) quotes: bool,
    pub(super) usage: Option<Usage>,
    estimated: u64,
}

impl Call {
    /// What the provider reported, for the journal.
    pub(super) fn reported(&self, model: &str) -> Option<Event> {
        let usage = self.usage?;
        Some(Event::UsageReported { model: model.to_owned(), estimated: self.estimated, usage })
    }
}

impl Turn {
    /// Calls the model until it has said something whole, or gives up.
    pub(super) async fn call(&mut self, mut tail: Tail) -> Result<Call, TurnFailure> {
        let mut pauses = pauses(&self.args.shared);
        let mut overflows = 0;
        loop {
            let assembled = self.assembled(&tail).await?;
            let (estimated, tokens) = (assembled.estimated_tokens, assembled.tokens);
            let work = stream(Arc::clone(&self.args.cell), self.args.show.clone(), assembled.request);
            let error = match self.telling(work).await? {
                Ok(call) => {
                    self.calm();
                    return Ok(Call { estimated, ..call });
                }
                Err(error) => error,
            };
            if matches!(error, ModelError::ContextOverflow { .. }) {
                overflows += 1;
                tracing::warn!(channel = %self.args.cell.id, %error, tokens, overflows,
                    "the model found the request too large; it is shortened and sent again");
                if overflows > OVERFLOW_RETRIES {
                    return Err(failure::overflow(overflows));
                }
                self.settings = Arc::new(narrowed(&self.settings, tokens));
                self.relieve(Cause::Overflow).await?;
                continue;
            }
            self.patience.failed();
            let model = self.args.cell.model().info().id.clone();
            if self.patience.waits() && self.patience.covers(&error) {
                self.pause(&error).await;
                tail.now = self.args.shared.now();
                continue;
            }
            let pause = if error.is_transient() { pauses.next() } else { None };
            let pause = pause.map(|pause| pause.max(error.retry_after().unwrap_or_default()));
            match pause.filter(|pause| *pause <= self.args.shared.deps.limits.model_retry_max) {
                Some(pause) => {
                    tracing::warn!(channel = %self.args.cell.id, model, %error, ?pause, "model call failed");
                    self.telling(tokio::time::sleep(pause)).await?;
                }
                None if self.patience.covers(&error) => {
                    tracing::warn!(channel = %self.args.cell.id, model, %error, "model call failed");
                    self.bear().await?;
                    self.pause(&error).await;
                    tail.now = self.args.shared.now();
                }
                None => return Err(failure::of_model(&model, &error)),
            }
        }
    }

    /// A request that fits. What is due before it comes first: results are pruned, and in an emergency the oldest half
    /// leaves the window. No reply waits for a compaction.
    async fn assembled(&self, tail: &Tail) -> Result<Assembled, TurnFailure> {
        let (engine, now) = (&self.args.cell.engine, tail.now);
        let mut conversation = self.args.cell.snapshot();
        if !engine.compact(&conversation, &self.settings, MakeRoom::Tier, now).is_empty() {
            self.relieve(Cause::Tier).await?;
            conversation = self.args.cell.snapshot();
        }
        self.args
            .cell
            .engine
            .assemble(&conversation, &self.settings, tail)
            .map_err(|error| failure::no_room(&error))
    }
}

/// One request, streamed.
async fn stream(cell: Arc<Cell>, show: Option<Arc<Show>>, request: ChatRequest) -> Result<Call, ModelError> {
    let hub = &cell.hub;
    let mut events = cell.model().stream(request);
    let mut call = Call::default();
    let ended = loop {
        let event = events.next().await;
        if let (Some(Ok(_)), Some(show)) = (&event, &show) {
            // It may have been put out while no model answered.
            show.typing().go_on();
        }
        match event {
            Some(Ok(ModelEvent::Text(text))) => {
                hub.delta(&text);
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
            hub.restarted();
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

/// Pauses between calls that fail in passing.
fn pauses(shared: &Shared) -> impl Iterator<Item = Duration> + Send + use<> {
    let limits = &shared.deps.limits;
    ExponentialBuilder::default()
        .with_min_delay(limits.model_retry_base)
        .with_max_delay(limits.model_retry_max)
        .with_max_times(limits.model_attempts.saturating_sub(1) as usize)
        .build()
}

/// The settings as if the window were smaller than the request of `tokens` that was just refused.
fn narrowed(settings: &AgentSettings, tokens: u64) -> AgentSettings {
    let mut settings = settings.clone();
    let usable = (tokens as f64 * OVERFLOW_SHRINK) as u64;
    settings.window.window_tokens =
        (usable + settings.window.output_reserve_tokens).min(settings.window.window_tokens);
    settings
}
