//! The exchange with one model about one request of a run.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::{Brief, RequestRoom, parse_memory, request_tokens};
use cairn_core::usage_watch::filled_window;
use cairn_types::memory::{DraftMemory, Replaces};
use cairn_types::message::{Entry, Part, ToolCall};
use cairn_types::model::{Attempt, ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Purpose, Usage};
use cairn_types::provider_state::ProviderState;
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDefs;
use cairn_types::trace::RunCall;
use futures::StreamExt as _;

use super::{AskError, Job};
use crate::agent::ModelCandidate;
use crate::budgets::Reservation;
use crate::handle::ChannelHandle;
use crate::messages::ChannelMsg;
use crate::saving::Saving;
use crate::telemetry;
use crate::traces::{TextKeeper, TraceBuilder};
use crate::turn::overflow;

/// Most model calls of one exchange (`docs/design/compaction.md`).
const ROUNDS_MAX: u32 = 10;

/// Prefix of the result of a call that was not carried out.
const ERROR: &str = "error:";

/// Characters of a rejected summary that are shown to the model again.
const CORRECTED_CHARS: usize = 600;

/// The summary that the model has written over the rounds.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) cut_off: bool,
}

/// What one call of the model returned.
struct Completion {
    text: String,
    calls: Vec<ToolCall>,
    /// State that the provider wants back with the next request.
    state: Option<Box<ProviderState>>,
    finish: Finish,
}

pub(super) struct Talk<'a> {
    pub(super) job: &'a Job,
    pub(super) candidate: &'a ModelCandidate,
    /// The agent's settings on that model, with the window as assumed.
    pub(super) reader: Arc<AgentSettings>,
    pub(super) request: ChatRequest,
    /// Room for request and answer; `None`: the model extracts.
    pub(super) room: Option<RequestRoom>,
    pub(super) memories: Vec<DraftMemory>,
    /// The entries of the request.
    pub(super) said: Vec<Arc<Entry>>,
    /// The last record that the request includes.
    pub(super) at_n: u64,
    /// The last call; messages added to the request since then.
    pub(super) work: RunCall,
}

impl Talk<'_> {
    /// Calls the model until it makes no more tool calls. The longest of its texts is the summary: some models write it
    /// beside their tool calls and close with a short remark.
    pub(super) async fn rounds(&mut self) -> Result<Written, AskError> {
        let mut longest = String::new();
        for round in 1..=ROUNDS_MAX {
            if round == ROUNDS_MAX {
                self.withdraw_tools();
            }
            let n_memories = self.memories.len();
            let Completion { text, calls, state, finish } = self.call().await?;
            if text.trim().len() >= longest.trim().len() {
                longest.clone_from(&text);
            }
            if !finish.is_whole() {
                return Ok(Written { text: longest, cut_off: true });
            }
            if calls.is_empty() {
                return Ok(Written { text: longest, cut_off: false });
            }
            let mut results: Vec<(String, String)> = Vec::with_capacity(calls.len());
            for call in &calls {
                results.push((call.id.clone(), self.answer(call).await));
            }
            let mistaken = results.iter().any(|(_, text)| text.starts_with(ERROR));
            self.add(ChatMessage::Assistant { text, tool_calls: calls, provider_state: state });
            let results = results.into_iter().map(|(call_id, text)| ChatMessage::Tool {
                call_id,
                text,
                images: Vec::new(),
            });
            results.for_each(|result| self.add(result));
            if self.memories.len() == n_memories && !mistaken {
                self.withdraw_tools();
            }
        }
        match longest.trim().is_empty() {
            true => Err(AskError::model(format!("no summary within {ROUNDS_MAX} calls of the model"))),
            false => Ok(Written { text: longest, cut_off: false }),
        }
    }

    /// Removes the tools from the request: the model kept calling them without saving anything new.
    fn withdraw_tools(&mut self) {
        if !self.request.tools.is_empty() {
            self.request.tools = ToolDefs::default();
            self.work.tools_withdrawn = true;
        }
    }

    /// One call, within its own limit and the time that is left to the run. Its usage is counted however it ends.
    async fn call(&mut self) -> Result<Completion, AskError> {
        self.job.check_budget(self.candidate)?;
        if let Purpose::Summarise { entries, .. } = &self.request.purpose
            && self.job.has_deleted(entries)
        {
            return Err(AskError::model("a message of its range was deleted meanwhile".to_owned()));
        }
        let tokens = request_tokens(&self.request);
        if let Some(room) = &self.room {
            self.request.max_output_tokens = Brief::answer_limit(&self.reader, room, &self.request);
        }
        let limits = &self.candidate.settings.compaction;
        let limit = Duration::from_secs(limits.call_timeout_secs).min(self.job.run_budget.left());
        self.work.round += 1;
        let mut usage_guard =
            UsageGuard::new(self.job, self.candidate, self.at_n, tokens, self.request.max_output_tokens);
        usage_guard.trace.work = Some(self.work.clone());
        self.work.added.clear();
        let model = self.candidate.model.info().id.clone();
        match tokio::time::timeout(limit, self.exchange(usage_guard)).await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(error)) if error.may_be_of_content() && self.request.attempt == Attempt::Whole => {
                self.request.attempt = Attempt::Simplified;
                Box::pin(self.call()).await
            }
            Ok(Err(error)) => Err(AskError::from_error(&model, error)),
            Err(_) if self.job.run_budget.left().is_zero() => Err(self.job.out_of_time()),
            Err(_) => Err(AskError::from_error(&model, ModelError::Timeout(limit))),
        }
    }

    async fn exchange(&self, mut usage_guard: UsageGuard<'_>) -> Result<Completion, ModelError> {
        let mut events = self.candidate.model.stream(self.request.clone());
        let keeper = TextKeeper::of_runs(&self.job.parts.ports, &self.reader, &self.request.tools);
        let (mut text, mut calls, mut state) = (String::new(), Vec::new(), None);
        while let Some(event) = events.next().await {
            match event {
                Ok(ModelEvent::Sent(sent)) => {
                    let (frame, body) = Box::pin(keeper.keep(*sent)).await;
                    (usage_guard.trace.frame, usage_guard.trace.body) = (Some(frame), body);
                }
                Err(error) => {
                    usage_guard.trace.failure = Some(error.code().to_owned());
                    if text.is_empty() && calls.is_empty() && !error.may_have_cost() {
                        usage_guard.nothing();
                    }
                    return Err(error);
                }
                Ok(ModelEvent::Text(words)) => {
                    usage_guard.words(&words);
                    text.push_str(&words);
                }
                Ok(ModelEvent::Reasoning(words)) => usage_guard.words(&words),
                Ok(ModelEvent::TextWasReasoning) => text.clear(),
                Ok(ModelEvent::ToolCall(call)) => {
                    usage_guard.words(&call.arguments.to_string());
                    calls.push(call);
                }
                Ok(ModelEvent::State(given)) => state = Some(given),
                // A call that is cut short is counted by our own estimate.
                Ok(ModelEvent::Usage(_)) => {}
                Ok(ModelEvent::Done { finish, usage, .. }) => {
                    let silent = usage.filter(|_| finish == Finish::Length && usage_guard.answer.is_empty());
                    let tokens = usage_guard.usage.input_tokens;
                    let filled = silent.and_then(|usage| filled_window(usage, tokens, 0, self.reader.window));
                    if let Some(window) = filled {
                        let error = overflow(window);
                        usage_guard.trace.failure = Some(error.code().to_owned());
                        return Err(error);
                    }
                    usage_guard.reported(usage);
                    telemetry::ended(&self.candidate.model.info().id, finish);
                    return Ok(Completion { text, calls, state, finish });
                }
            }
        }
        Err(ModelError::Protocol("the stream ended before its end".to_owned()))
    }

    /// Collects a memory, which is committed with the summary or not at all.
    async fn answer(&mut self, call: &ToolCall) -> String {
        if self.request.tools.iter().all(|tool| tool.name != call.name) {
            return format!("{ERROR} there is no tool `{}` here; answer with the summary", call.name);
        }
        let memory = match parse_memory(&call.arguments) {
            Ok(memory) => memory,
            Err(message) => return format!("{ERROR} {message}"),
        };
        let saving = Saving::new(&self.job.parts.ports, &self.job.handle, &self.said);
        if let Err(message) = saving.check(&memory).await {
            return format!("{ERROR} {message}");
        }
        let told = saving.told(&memory).await;
        self.keep(memory);
        told
    }

    /// Tells the model which memories of what its transcript is about are there, as far as they have room beside it.
    pub(super) async fn tell_known(&mut self) {
        // Placeholders in their words would be no ids to the model.
        let tells = !self.said.is_empty() && self.job.mask.is_none();
        let Some(room) = self.room.filter(|_| tells) else { return };
        let texts = ChatRequest { system: Vec::new(), ..self.request.clone() };
        let most = room.whole().saturating_sub(request_tokens(&texts));
        let saving = Saving::new(&self.job.parts.ports, &self.job.handle, &self.said);
        if let Some(text) = saving.known(&self.said, most).await {
            self.add(ChatMessage::User { parts: vec![Part::text(text)] });
        }
    }

    /// Takes the memories of a list behind a summary. What one may not replace stays, and the memory is saved beside it.
    pub(super) async fn keep_listed(&mut self, listed: Vec<DraftMemory>) {
        let saving = Saving::new(&self.job.parts.ports, &self.job.handle, &self.said);
        for mut memory in listed {
            if let Err(why) = saving.check(&memory).await {
                tracing::info!(channel = %self.job.handle.id, run = %self.job.run.id, why,
                    "a memory of a list replaces nothing");
                memory.replaces = Replaces::default();
            }
            self.keep(memory);
        }
    }

    fn add(&mut self, message: ChatMessage) {
        self.work.added.push(message.clone());
        self.request.messages.push(message);
    }

    pub(super) fn keep(&mut self, memory: DraftMemory) {
        match self.memories.iter_mut().find(|known| known.text == memory.text) {
            // It is saved once more with what it replaces.
            Some(known) if known.replaces.is_nothing() => known.replaces = memory.replaces,
            Some(_) => {}
            None => self.memories.push(memory),
        }
    }

    /// Asks the model to correct its summary.
    pub(super) fn correct(&mut self, text: &str, faults: &str) {
        if !text.trim().is_empty() {
            // The beginning shows what is meant; the whole summary may not fit.
            let text: String = text.chars().take(CORRECTED_CHARS).collect();
            self.add(ChatMessage::assistant(text, Vec::new()));
        }
        let ask = format!(
            "That cannot be used: {faults}. Answer with the summary alone: complete, under the headings that were asked \
             for, with nothing that its source does not have, and shorter than its source."
        );
        self.add(ChatMessage::User { parts: vec![Part::text(ask)] });
    }
}

/// The usage of a call. It is reported to the channel when the call ends in any way: by an answer, an error, its time
/// limit, or because the run is no longer wanted.
struct UsageGuard<'a> {
    job: &'a Job,
    handle: &'a ChannelHandle,
    model: String,
    /// As the server reported it, else our own estimate.
    usage: Usage,
    /// Most tokens of the answer.
    answer_max: u64,
    answer: String,
    is_reported: bool,
    is_whole: bool,
    trace: TraceBuilder,
    reservation: Option<Reservation>,
}

impl<'a> UsageGuard<'a> {
    fn new(job: &'a Job, candidate: &ModelCandidate, at_n: u64, tokens: u64, answer_max: u64) -> Self {
        let usage = Usage { input_tokens: tokens, ..Usage::default() };
        let (model, answer, handle) = (candidate.model.info().id.clone(), String::new(), &job.handle);
        let trace = TraceBuilder {
            price: job.parts.budgets.price(&model),
            ..TraceBuilder::begun(at_n, job.parts.ports.now())
        };
        let (is_reported, is_whole) = (false, false);
        let reservation = Some(job.parts.budgets.reserve(&model, tokens, answer_max));
        let mut usage_guard =
            Self { job, handle, model, usage, answer_max, answer, is_reported, is_whole, trace, reservation };
        if super::is_extractive(candidate) {
            usage_guard.nothing();
        }
        usage_guard
    }

    fn words(&mut self, words: &str) {
        self.trace.note_output();
        self.answer.push_str(words);
    }

    fn reported(&mut self, usage: Option<Usage>) {
        self.is_whole = true;
        let Some(reported) = usage else { return };
        let ours = self.ours();
        match reported.believed(ours, ours.input_tokens, self.answer_max) {
            Some(usage) => (self.usage, self.is_reported) = (usage, true),
            None => telemetry::disbelieved(&self.model, reported, ours, false),
        }
    }

    fn ours(&self) -> Usage {
        Usage { output_tokens: u64::from(estimate(&self.answer)), ..self.usage }
    }

    fn nothing(&mut self) {
        (self.usage, self.is_reported) = (Usage::default(), true);
    }
}

impl Drop for UsageGuard<'_> {
    fn drop(&mut self) {
        let usage = if self.is_reported { self.usage } else { self.ours() };
        let trace = self.trace.build(usage, self.is_whole);
        if usage != Usage::default() || trace.is_some() {
            self.job.count_tokens(usage);
            let (model, is_estimate) = (std::mem::take(&mut self.model), !self.is_reported);
            let reservation = self.reservation.take();
            self.handle.tell_channel(ChannelMsg::Spent { model, usage, is_estimate, trace, reservation });
        }
    }
}
