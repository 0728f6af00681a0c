//! One attempt of a run: asks the model for the summary, collects the memories that it saves, checks the result.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::compaction::{Draft, Rejection, check, compaction_request, digest_draft, parse_memory};
use cairn_core::event::{Run, RunOutcome, Work};
use cairn_core::ids::SummaryId;
use cairn_core::memory::DraftMemory;
use cairn_core::message::{Entry, Part, ToolCall};
use cairn_core::model::{ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_core::summary::Summary;
use futures::StreamExt as _;
use parking_lot::Mutex;

use crate::cell::Cell;
use crate::channel::ChannelMsg;
use crate::shared::Shared;

/// Most model calls of one attempt (DESIGN.md).
const ROUNDS_MAX: u32 = 10;

/// Characters of a rejected summary that its author is shown again.
const CORRECTED_CHARS: usize = 600;

/// What an attempt has made.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// The summary and its memories, checked.
    pub(crate) draft: Draft,
}

/// Why an attempt has made nothing.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// Why.
    pub(crate) reason: String,
    /// What the model's server asks us to wait.
    pub(crate) retry_after_ms: Option<u64>,
    /// The run ends with this; otherwise only the attempt has failed.
    pub(crate) outcome: Option<RunOutcome>,
}

impl Failure {
    /// The attempt failed; the next may succeed.
    pub(crate) fn attempt(reason: String) -> Self {
        Self { reason, retry_after_ms: None, outcome: None }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let retry_after_ms = error.retry_after().map(|wait| wait.as_millis() as u64);
        Self { reason: error.to_string(), retry_after_ms, outcome: None }
    }
}

/// What a run works on.
struct Sources {
    entries: Arc<[Arc<Entry>]>,
    summaries: Arc<[Summary]>,
}

/// Makes one attempt within its time limit. `digest`: without a model.
pub(crate) async fn run(
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    run: Run,
    digest: bool,
) -> Result<Made, Failure> {
    let limit = Duration::from_secs(cell.settings().compaction.timeout_secs);
    let spent = Mutex::new(Usage::default());
    let attempt = async {
        let sources = sources(&shared, &cell, &run).await?;
        if digest {
            stand_in(&cell, run, sources).await
        } else {
            summarise(&cell, &run, sources, &spent).await
        }
    };
    let ended = tokio::time::timeout(limit, attempt).await;
    let usage = *spent.lock();
    if usage != Usage::default() {
        let model = cell.model().info().id.clone();
        cell.tell_channel(ChannelMsg::Spent { model, usage });
    }
    match ended {
        Ok(result) => result,
        Err(_) => Err(Failure::attempt(format!("no summary within {} s", limit.as_secs()))),
    }
}

async fn sources(shared: &Shared, cell: &Cell, run: &Run) -> Result<Sources, Failure> {
    if let Work::Merge { sources, .. } = &run.work {
        let summaries: Vec<Summary> = cell.read(|conversation| {
            let found = |id: &SummaryId| conversation.stack.summary(id).cloned();
            sources.iter().filter_map(found).collect()
        });
        if summaries.len() < sources.len() {
            let reason = "its sources have left the stack".to_owned();
            let outcome = Some(RunOutcome::Superseded);
            return Err(Failure { reason, retry_after_ms: None, outcome });
        }
        return Ok(Sources { entries: Arc::new([]), summaries: summaries.into() });
    }
    let mut entries: Vec<Arc<Entry>> =
        cell.read(|conversation| conversation.readable(run, conversation.live.iter().cloned()));
    // An emergency may have taken them out of the window, but never out of the archive.
    if (entries.len() as u64) < run.messages {
        let read = shared.deps.archive.entries(&cell.id, run.from_seq, run.to_seq, usize::MAX).await;
        let read = read.map_err(|error| Failure::attempt(error.to_string()))?;
        entries = cell.read(|conversation| conversation.readable(run, read));
    }
    if (entries.len() as u64) < run.messages {
        let reason = format!("only {} of {} messages could be read", entries.len(), run.messages);
        return Err(Failure::attempt(reason));
    }
    Ok(Sources { entries: entries.into(), summaries: Arc::new([]) })
}

/// The digest, on a thread of its own: it takes a while over a large range.
async fn stand_in(cell: &Cell, run: Run, sources: Sources) -> Result<Made, Failure> {
    tracing::warn!(channel = %cell.id, run = %run.id,
        "the model made no summary in any attempt; a digest stands in; check the model of this agent");
    let settings = cell.settings();
    let digest = tokio::task::spawn_blocking(move || {
        digest_draft(&settings, &run, &sources.entries, &sources.summaries)
    });
    match digest.await {
        Ok(draft) => Ok(Made { draft }),
        Err(error) => Err(Failure::attempt(format!("the digest failed: {error}"))),
    }
}

async fn summarise(cell: &Cell, run: &Run, sources: Sources, spent: &Mutex<Usage>) -> Result<Made, Failure> {
    let source_tokens: u64 = sources.entries.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>()
        + sources.summaries.iter().map(|summary| u64::from(summary.tokens)).sum::<u64>();
    let dates = sources.entries.first().zip(sources.entries.last()).map(|(first, last)| (first.at, last.at));
    let settings = &cell.settings();
    let request = compaction_request(&cell.id, settings, run, sources.entries, sources.summaries);
    let mut talk = Talk { cell, request, memories: Vec::new(), spent };
    let mut corrected = false;
    loop {
        let said = talk.rounds().await?;
        let draft = Draft {
            text: said.text,
            made_by: cell.model().info().id.clone(),
            memories: talk.memories.clone(),
            dates,
        };
        let checked = if said.cut_off { Err(Rejection::Truncated) } else { check(&draft, source_tokens) };
        match checked {
            Ok(()) => return Ok(Made { draft }),
            Err(rejection) if corrected => return Err(Failure::attempt(rejection.to_string())),
            Err(rejection) => {
                tracing::debug!(channel = %cell.id, run = %run.id, %rejection, "the model is asked to correct it");
                talk.correct(&draft.text, &rejection);
                corrected = true;
            }
        }
    }
}

/// What the model said over its rounds.
struct Said {
    text: String,
    cut_off: bool,
}

/// The talk with the model of one attempt.
struct Talk<'a> {
    cell: &'a Cell,
    request: ChatRequest,
    memories: Vec<DraftMemory>,
    /// Tokens of all calls.
    spent: &'a Mutex<Usage>,
}

impl Talk<'_> {
    /// Calls the model until it calls no more tools. The longest of its texts is the summary: some models write it
    /// beside their tool calls and close with a word.
    async fn rounds(&mut self) -> Result<Said, Failure> {
        let mut longest = String::new();
        for _ in 0..ROUNDS_MAX {
            let (text, calls, finish) = self.call().await?;
            if text.trim().len() >= longest.trim().len() {
                longest.clone_from(&text);
            }
            if finish == Finish::Length {
                return Ok(Said { text: longest, cut_off: true });
            }
            if calls.is_empty() {
                return Ok(Said { text: longest, cut_off: false });
            }
            let results: Vec<_> = calls.iter().map(|call| (call.id.clone(), self.answer(call))).collect();
            self.request.messages.push(ChatMessage::Assistant { text, tool_calls: calls });
            let results = results.into_iter().map(|(call_id, text)| ChatMessage::Tool { call_id, text });
            self.request.messages.extend(results);
        }
        match longest.trim().is_empty() {
            true => Err(Failure::attempt(format!("no summary within {ROUNDS_MAX} calls of the model"))),
            false => Ok(Said { text: longest, cut_off: false }),
        }
    }

    async fn call(&self) -> Result<(String, Vec<ToolCall>, Finish), ModelError> {
        let mut events = self.cell.model().stream(self.request.clone());
        let (mut text, mut calls) = (String::new(), Vec::new());
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Text(words) => text.push_str(&words),
                ModelEvent::Reasoning(_) => {}
                ModelEvent::ToolCall(call) => calls.push(call),
                ModelEvent::Done { finish, usage, .. } => {
                    *self.spent.lock() += usage.unwrap_or_default();
                    return Ok((text, calls, finish));
                }
            }
        }
        Err(ModelError::Protocol("the stream ended before its end".to_owned()))
    }

    /// Takes a memory in, to be committed with the summary or not at all.
    fn answer(&mut self, call: &ToolCall) -> String {
        if self.request.tools.iter().all(|tool| tool.name != call.name) {
            return format!("error: there is no tool `{}` here; answer with the summary", call.name);
        }
        match parse_memory(&call.arguments) {
            Ok(memory) => {
                if !self.memories.contains(&memory) {
                    self.memories.push(memory);
                }
                "saved".to_owned()
            }
            Err(message) => format!("error: {message}"),
        }
    }

    fn correct(&mut self, text: &str, rejection: &Rejection) {
        if !text.trim().is_empty() {
            // Its beginning is enough to see what is meant; all of it may not fit.
            let (text, tool_calls) = (text.chars().take(CORRECTED_CHARS).collect(), Vec::new());
            self.request.messages.push(ChatMessage::Assistant { text, tool_calls });
        }
        let ask = format!(
            "That cannot be used: {rejection}. Answer with the summary alone: complete, in plain words, much \
             shorter than its source."
        );
        self.request.messages.push(ChatMessage::User { parts: vec![Part::text(ask)] });
    }
}
