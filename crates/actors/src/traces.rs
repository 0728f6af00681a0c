//! Traces of model calls while they are made: how each call was sent, how long it took, and the texts that it refers to.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::limits::Price;
use cairn_core::trace::frame_of;
use cairn_types::ids::TextId;
use cairn_types::model::Usage;
use cairn_types::tool::defs::ToolDefs;
use cairn_types::trace::{CUT_SHORT, CallTrace, FailedTry, RunCall};
use cairn_types::wire::format::Sent;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::ports::Ports;

/// A trace in the making: how the call was made, and how it went so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceBuilder {
    pub(crate) at_n: u64,
    pub(crate) asked_at: Timestamp,
    pub(crate) last_call: bool,
    /// The frame's text id; `None` until the call is sent.
    pub(crate) frame: Option<TextId>,
    pub(crate) body: Option<TextId>,
    pub(crate) begun: Option<Instant>,
    pub(crate) first: Option<Duration>,
    pub(crate) total: Option<Duration>,
    pub(crate) waited: Duration,
    pub(crate) price: Option<Price>,
    pub(crate) failure: Option<String>,
    pub(crate) tried: Vec<FailedTry>,
    pub(crate) work: Option<RunCall>,
}

impl TraceBuilder {
    /// Starts a call, with the conversation as of record `at_n`.
    pub(crate) fn begun(at_n: u64, asked_at: Timestamp) -> Self {
        Self { at_n, asked_at, begun: Some(Instant::now()), ..Self::default() }
    }

    /// Notes the time of the first output.
    pub(crate) fn note_output(&mut self) {
        if self.first.is_none() {
            self.first = self.begun.map(|begun| begun.elapsed());
        }
    }

    pub(crate) fn end(&mut self) {
        self.total = self.begun.map(|begun| begun.elapsed());
    }

    /// The trace; `None` if the call was never sent.
    pub(crate) fn build(&self, usage: Usage, is_whole: bool) -> Option<Box<CallTrace>> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let total = self.total.or(self.begun.map(|begun| begun.elapsed())).unwrap_or_default();
        let failure = || self.failure.clone().unwrap_or_else(|| CUT_SHORT.to_owned());
        Some(Box::new(CallTrace {
            at_n: self.at_n,
            asked_at: self.asked_at,
            frame: self.frame.clone()?,
            body: self.body.clone(),
            last_call: self.last_call,
            first_ms: self.first.map(ms),
            total_ms: ms(total),
            waited_ms: ms(self.waited),
            cost: self.price.map(|price| price.of(usage)),
            failure: (!is_whole).then(failure),
            tried: self.tried.clone(),
            work: self.work.clone(),
        }))
    }
}

/// Journals the texts that the traces of one request refer to.
pub(crate) struct TextKeeper {
    ports: Arc<Ports>,
    settings: Arc<AgentSettings>,
    prompt: String,
    instructions: Option<String>,
    tools: ToolDefs,
}

impl TextKeeper {
    pub(crate) fn of_answers(ports: &Arc<Ports>, settings: &Arc<AgentSettings>) -> Self {
        let (prompt, tools) = (settings.system_prompt.clone(), settings.tools.clone());
        Self { ports: Arc::clone(ports), settings: Arc::clone(settings), prompt, instructions: None, tools }
    }

    /// For a compaction run, with the tools of its request.
    pub(crate) fn of_runs(ports: &Arc<Ports>, settings: &Arc<AgentSettings>, tools: &ToolDefs) -> Self {
        let (prompt, tools) = (settings.compactor_prompt.clone(), tools.clone());
        let instructions = settings.compaction.instructions.clone();
        Self { ports: Arc::clone(ports), settings: Arc::clone(settings), prompt, instructions, tools }
    }

    /// Journals how a request is sent. Returns the ids of its frame and of its body.
    pub(crate) async fn keep(&self, sent: Sent) -> (TextId, Option<TextId>) {
        let instructions = self.instructions.as_deref();
        let (texts, frame) = frame_of(&self.settings, &self.prompt, instructions, &self.tools, sent.wire);
        self.ports.keep_texts(texts).await;
        (frame, sent.body)
    }
}
