//! The summary by one model: in one request, chunk by chunk, or section by section.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::sections::{added_to, carried_on, join};
use cairn_core::compaction::{
    Beside, Brief, Rejection, RequestRoom, SummaryDraft, SummaryFault, SummarySource, check, check_told,
    earlier_summary, entry_tokens, fit_identifiers, identifiers_beside, masked, mend, merged_level,
    request_tokens, review, split_memories, summary_tokens, text_limit, with_left_out,
};
use cairn_core::conversation::Conversation;
use cairn_types::event::{Checkpoint, RunWork};
use cairn_types::memory::{DraftMemory, SpokenWords, credit};
use cairn_types::message::Entry;
use cairn_types::model::{ChatRequest, ModelError, Purpose};
use cairn_types::trace::RunCall;
use cairn_types::window_bounds::{Suspicion, WindowBounds};
use tokio::sync::oneshot;

use super::talk::Talk;
use super::{AskError, Job, is_extractive};
use crate::agent::ModelCandidate;
use crate::messages::ChannelMsg;
use crate::tasks;
use crate::turn::is_unexplained;

/// How often a model's window may turn out smaller than assumed, within one attempt.
const OVERFLOWS_MAX: u32 = 3;

/// The share of a window that is assumed after an overflow, if the server does not name its window.
const OVERFLOW_SHARE: f64 = 0.75;

/// What a summary has to satisfy, beside its text.
struct Criteria<'a> {
    candidate: &'a ModelCandidate,
    /// The agent's settings on that model, with the window as assumed now.
    reader: Arc<AgentSettings>,
    tools: bool,
    /// The last record that the request includes.
    at_n: u64,
    /// Length that the summary is asked to keep within, in tokens.
    target: u64,
    room: Option<RequestRoom>,
    source: SummarySource,
    /// Most tokens of the summary in the window.
    most: u64,
}

impl Job {
    pub(super) async fn summarise_with(&self, candidate: &ModelCandidate) -> Result<SummaryDraft, AskError> {
        let draft = match self.run.work {
            RunWork::Merge { .. } => self.merge(candidate).await?,
            RunWork::Sealed | RunWork::Truncated => self.chunks(candidate).await?,
        };
        let most = self.most_tokens(&self.sources.entries);
        fit_identifiers(draft, most).map_err(|rejection| self.refused(candidate, &rejection))
    }

    async fn chunks(&self, candidate: &ModelCandidate) -> Result<SummaryDraft, AskError> {
        let entries = &self.sources.entries;
        let mut reader = Arc::clone(&candidate.settings);
        let earlier = self.handle.read(|conversation| earlier_summary(conversation, &self.run));
        let earlier = earlier.filter(|_| !is_extractive(candidate));
        let source = SummarySource::of_entries(entries, self.instructions(&reader).chain(earlier.as_deref()));
        let mut overflows = 0;
        let mut suspicion = Suspicion::default();
        loop {
            let done = self.done.lock().clone();
            let from =
                done.as_ref().map_or(0, |done| entries.partition_point(|entry| entry.seq <= done.to_seq));
            let rest = &self.without_deleted(&entries[from..])[..];
            if let Some(done) = done.as_ref().filter(|_| rest.is_empty()) {
                return Ok(self.finished(done.clone()));
            }
            let tools = self.takes_tools(candidate);
            let shown = Shown { done: done.as_ref(), earlier: earlier.as_deref(), source: &source };
            let step = self.step(candidate, &reader, rest, tools, &shown)?;
            let (n, tokens) = (step.n, request_tokens(&step.request));
            match self.ask(step.request, step.criteria).await {
                Ok((text, memories)) => {
                    let done = self.append_chunk(candidate, done, &rest[..n], text, memories, step.left_out);
                    if n == rest.len() {
                        return Ok(self.finished(done));
                    }
                    self.checkpoint(done).await;
                }
                Err(AskError::Model { error: None, .. }) if self.has_deleted(rest) => {}
                Err(AskError::Model { error: Some(ModelError::NoTools(_)), .. }) if tools => {
                    self.run_budget.without_tools(&candidate.model.info().id);
                }
                Err(AskError::Model { error: Some(ModelError::ContextOverflow { limit, .. }), reason }) => {
                    overflows += 1;
                    if overflows > OVERFLOWS_MAX {
                        return Err(AskError::Model {
                            error: Some(ModelError::refused(reason.clone())),
                            reason,
                        });
                    }
                    let window = reader.window.window_tokens;
                    let smaller = (window as f64 * OVERFLOW_SHARE) as u64;
                    let narrowed =
                        reader.window.narrowed(limit.filter(|limit| *limit < window).unwrap_or(smaller));
                    Arc::make_mut(&mut reader).window = narrowed;
                }
                Err(AskError::Model { error: Some(error), .. })
                    if is_unexplained(&error)
                        && suspicion.falls_on(
                            &self.bounds(candidate),
                            candidate.settings.window.listed_tokens(),
                            tokens,
                        ) =>
                {
                    suspicion.note(tokens);
                    let smaller = (reader.window.window_tokens as f64 * OVERFLOW_SHARE) as u64;
                    let narrowed = reader.window.narrowed(smaller);
                    Arc::make_mut(&mut reader).window = narrowed;
                }
                Err(stop) => return Err(stop),
            }
        }
    }

    /// The bounds of the model's window, as far as they are known here.
    fn bounds(&self, candidate: &ModelCandidate) -> WindowBounds {
        let model = &candidate.model.info().id;
        let bounds = self.handle.read(|conversation| conversation.bounds.get(model).copied());
        self.parts.live.models.bounds(model, bounds.unwrap_or_default())
    }

    /// The next request, over the remaining entries.
    fn step<'a>(
        &self,
        candidate: &'a ModelCandidate,
        reader: &Arc<AgentSettings>,
        rest: &[Arc<Entry>],
        tools: bool,
        shown: &Shown<'_>,
    ) -> Result<Step<'a>, AskError> {
        let extracts = is_extractive(candidate);
        let (brief, at_n) = self.brief(reader, tools);
        let so_far = shown.done.map(|done| done.text.as_str());
        let Some(chunk) = brief.chunk(rest, so_far, shown.earlier, extracts) else {
            let reason = format!(
                "{}: its window of {} tokens leaves no room for a transcript beside the prompt and the answer",
                reader.model, reader.window.window_tokens
            );
            return Err(AskError::Model { error: Some(ModelError::refused(reason.clone())), reason });
        };
        let (n, room) = (chunk.n, (!extracts).then_some(chunk.room));
        let covered = &self.sources.entries[..n + self.sources.entries.len() - rest.len()];
        let most = self.most_tokens(covered);
        let target = text_limit(&self.agent, self.sizes.summary(entry_tokens(covered).min(most)));
        let request = brief.summarise(rest[..n].into(), &chunk.script, &chunk.beside(), target);
        let source = shown.source.clone().plain(extracts).capped(target);
        let left_out = if extracts { Vec::new() } else { chunk.script.left_out(rest, n) };
        let reader = Arc::clone(reader);
        let criteria = Criteria { candidate, reader, tools, at_n, target, room, source, most };
        Ok(Step { n, request, criteria, left_out })
    }

    /// The common part of the requests, and the last record that they include.
    fn brief<'a>(&'a self, reader: &'a AgentSettings, tools: bool) -> (Brief<'a>, u64) {
        let now =
            |conversation: &Conversation| (conversation.correction(&reader.model).ratio, conversation.last_n);
        let (correction, at_n) = self.handle.read(now);
        let mask = self.mask.as_ref();
        (Brief { channel: &self.handle.id, run: &self.run, reader, tools, correction, mask }, at_n)
    }

    /// The instructions that the model is shown beside the source.
    fn instructions<'a>(&'a self, reader: &'a AgentSettings) -> impl Iterator<Item = &'a str> {
        let instructions = [self.run.instruction.as_deref(), reader.compaction.instructions.as_deref()];
        instructions.into_iter().flatten()
    }

    fn takes_tools(&self, candidate: &ModelCandidate) -> bool {
        let info = candidate.model.info();
        let learnt =
            self.handle.read(|conversation| conversation.learnt.get(&info.id).is_some_and(|l| l.no_tools));
        info.tools && !learnt && !self.run_budget.lacks_tools(&info.id)
    }

    fn append_chunk(
        &self,
        candidate: &ModelCandidate,
        done: Option<Checkpoint>,
        chunk: &[Arc<Entry>],
        text: String,
        memories: Vec<DraftMemory>,
        left_out: Vec<cairn_types::ids::Seq>,
    ) -> Checkpoint {
        let so_far = done.as_ref().map(|done| done.text.as_str());
        let text = if is_extractive(candidate) { added_to(so_far, &text) } else { carried_on(so_far, &text) };
        let text = self.mask.as_ref().map_or(text.clone(), |mask| mask.apply(&text));
        let mut whole = Checkpoint {
            chunks: done.as_ref().map_or(0, |done| done.chunks) + 1,
            to_seq: chunk.last().map_or(self.run.to_seq, |entry| entry.seq),
            text,
            made_by: candidate.model.info().id.clone(),
            memories: done.as_ref().map(|done| done.memories.clone()).unwrap_or_default(),
            left_out: done.map(|done| done.left_out).unwrap_or_default(),
        };
        // Memories are numbered in this order when they are committed.
        for memory in memories {
            if !whole.memories.contains(&memory) {
                whole.memories.push(memory);
            }
        }
        whole.left_out.extend(left_out);
        whole
    }

    /// Makes a finished chunk durable before the next one starts. If the store refuses it, this attempt keeps it and
    /// journals it with the next chunk.
    async fn checkpoint(&self, checkpoint: Checkpoint) {
        self.run_budget.note_progress();
        tracing::info!(channel = %self.handle.id, run = %self.run.id, chunks = checkpoint.chunks,
            to_seq = checkpoint.to_seq.0, "a chunk of a long run is finished");
        *self.done.lock() = Some(checkpoint.clone());
        let (reply, journalled) = oneshot::channel();
        let run = self.run.id.clone();
        self.handle.tell_channel(ChannelMsg::Checkpoint { run, checkpoint: Box::new(checkpoint), reply });
        if !matches!(journalled.await, Ok(true)) {
            tracing::warn!(channel = %self.handle.id, run = %self.run.id,
                "cannot journal a finished chunk; after a restart it is summarised again");
        }
    }

    /// A draft from the finished chunks.
    pub(super) fn finished(&self, done: Checkpoint) -> SummaryDraft {
        let entries = &self.sources.entries;
        let entries = &entries[..entries.partition_point(|entry| entry.seq <= done.to_seq)];
        let text = with_left_out(&self.sizes, &done.text, entries, &done.left_out);
        let draft = SummaryDraft {
            identifiers: identifiers_beside(&self.agent, &self.sizes, entries, &[], &text),
            text,
            made_by: done.made_by,
            memories: self.of_people(done.memories),
            dates: entries.first().zip(entries.last()).map(|(first, last)| (first.at, last.at)),
            to_seq: Some(done.to_seq),
            reason: None,
        };
        masked(draft, self.mask.as_ref())
    }

    /// Drops memories that come from tool results alone.
    fn of_people(&self, mut memories: Vec<DraftMemory>) -> Vec<DraftMemory> {
        let grounds = SpokenWords::of(self.sources.entries.iter());
        let n_saved = memories.len();
        memories.retain(|memory| {
            let subject = memory.subject.as_deref().unwrap_or_default();
            !grounds.is_from_tools(&format!("{subject} {}", memory.text))
        });
        let n_refused = n_saved - memories.len();
        if n_refused > 0 {
            metrics::counter!("cairn_memories_refused_total").increment(n_refused as u64);
            tracing::warn!(channel = %self.handle.id, run = %self.run.id, n_refused,
                "memories were not saved: their content comes only from tool results");
        }
        credit(&mut memories, &self.sources.entries);
        memories
    }

    async fn merge(&self, candidate: &ModelCandidate) -> Result<SummaryDraft, AskError> {
        let sources = &self.sources.summaries;
        let (reader, source_tokens) = (&candidate.settings, summary_tokens(sources));
        let target = text_limit(&self.agent, self.sizes.merge(source_tokens, merged_level(sources)));
        let (brief, at_n) = self.brief(reader, false);
        let (request, copied, left) = brief.merging(sources, target);
        let draft = |text: String, made_by: String| {
            let identifiers = identifiers_beside(&self.agent, &self.sizes, &[], sources, &text);
            masked(SummaryDraft { text, made_by, identifiers, ..SummaryDraft::default() }, self.mask.as_ref())
        };
        let Some(request) = request else {
            let made_by = sources.last().map_or_else(String::new, |source| source.made_by.clone());
            return Ok(draft(copied.render(), made_by));
        };
        let extracts = is_extractive(candidate);
        let room = brief.room(&Beside::default());
        let text_tokens = request_tokens(&ChatRequest { system: Vec::new(), ..request.clone() });
        if text_tokens > room.whole() && !extracts {
            let reason = format!(
                "{}: its window of {} tokens is too small for a merge of {text_tokens}",
                reader.model, reader.window.window_tokens
            );
            return Err(AskError::Model { error: Some(ModelError::refused(reason.clone())), reason });
        }
        let criteria = Criteria {
            candidate,
            reader: Arc::clone(reader),
            tools: true,
            at_n,
            target,
            room: (!extracts).then_some(room),
            source: SummarySource::of_summaries(sources, self.instructions(reader))
                .plain(extracts)
                .capped(left),
            most: self.most_tokens(&[]),
        };
        let (text, _none) = self.ask(request, criteria).await?;
        Ok(draft(join(&copied, &text), candidate.model.info().id.clone()))
    }

    fn refused(&self, candidate: &ModelCandidate, rejection: &Rejection) -> AskError {
        let model = &candidate.model.info().id;
        tracing::warn!(channel = %self.handle.id, run = %self.run.id, model = %model, rejection = rejection.code(),
            "a summary was rejected");
        AskError::model(format!("{model}: {rejection}"))
    }

    fn note_mended(&self, candidate: &ModelCandidate, faults: &[SummaryFault]) {
        let model = &candidate.model.info().id;
        for fault in faults {
            tracing::info!(channel = %self.handle.id, run = %self.run.id, model = %model, fault = fault.code(),
                "a summary was repaired");
            metrics::counter!("cairn_summaries_mended_total", "fault" => fault.code()).increment(1);
        }
    }

    /// Asks for a summary until it is usable, with one correction; after that it is repaired if possible.
    async fn ask(
        &self,
        request: ChatRequest,
        criteria: Criteria<'_>,
    ) -> Result<(String, Vec<DraftMemory>), AskError> {
        let Criteria { candidate, reader, tools, at_n, target, room, source, most } = criteria;
        let source = Arc::new(source);
        let said = match &request.purpose {
            Purpose::Summarise { entries, .. } => entries.to_vec(),
            Purpose::Reply { .. } | Purpose::Merge { .. } => Vec::new(),
        };
        let entries = said.first().zip(said.last()).map(|(a, z)| (a.seq, z.seq));
        let work = RunCall {
            run: self.run.id.clone(),
            round: 0,
            entries,
            target_tokens: target,
            tools_withdrawn: false,
            masked: self.mask.is_some(),
            added: Vec::new(),
        };
        let mut talk =
            Talk { job: self, candidate, reader, request, room, memories: Vec::new(), said, at_n, work };
        talk.tell_known().await;
        let mut corrected = is_extractive(candidate);
        let mut listed = Vec::new();
        loop {
            let said = talk.rounds().await?;
            let mut text = said.text;
            if !tools {
                let (summary, memories) = split_memories(&text);
                text = summary;
                listed = if memories.is_empty() { listed } else { memories };
            }
            let cut_off = said.cut_off;
            let judged = aside(text, &source, move |text, source| {
                let told = || rejection(text, most).or_else(|| check_told(text, source).err());
                let rejected = if cut_off { Some(Rejection::Truncated) } else { told() };
                let faults = if rejected.is_some() { Vec::new() } else { review(text, source) };
                (rejected, faults)
            });
            let (text, (rejected, faults)) = judged.await?;
            let words: Vec<String> = match &rejected {
                Some(rejection) => vec![rejection.to_string()],
                None => faults.iter().map(ToString::to_string).collect(),
            };
            if words.is_empty() {
                talk.keep_listed(listed).await;
                return Ok((text, talk.memories));
            }
            if !corrected {
                tracing::debug!(channel = %self.handle.id, run = %self.run.id, faults = words.len(),
                    "the model is asked to correct its summary");
                talk.correct(&text, &words.join("; "));
                corrected = true;
                continue;
            }
            if let Some(rejection) = rejected {
                return Err(self.refused(candidate, &rejection));
            }
            let (_, mended) = aside(text, &source, mend).await?;
            let mended = mended.map_err(|error| self.refused(candidate, &error))?;
            if let Some(rejection) = rejection(&mended, most) {
                return Err(self.refused(candidate, &rejection));
            }
            self.note_mended(candidate, &faults);
            talk.keep_listed(listed).await;
            return Ok((mended, talk.memories));
        }
    }
}

/// Compares a summary with its source on a blocking thread: of long ones that takes milliseconds.
async fn aside<T: Send + 'static>(
    text: String,
    source: &Arc<SummarySource>,
    judge: impl FnOnce(&str, &SummarySource) -> T + Send + 'static,
) -> Result<(String, T), AskError> {
    let source = Arc::clone(source);
    let judged = tasks::off_thread(move || {
        let judged = judge(&text, &source);
        (text, judged)
    });
    judged
        .await
        .map_err(|_panic| AskError::model("the summary could not be judged; the log says where".to_owned()))
}

/// What the model is shown beside a transcript.
struct Shown<'a> {
    done: Option<&'a Checkpoint>,
    earlier: Option<&'a str>,
    source: &'a SummarySource,
}

/// A request with the criteria for its answer.
struct Step<'a> {
    n: usize,
    request: ChatRequest,
    criteria: Criteria<'a>,
    left_out: Vec<cairn_types::ids::Seq>,
}

fn rejection(text: &str, most: u64) -> Option<Rejection> {
    let draft = SummaryDraft { text: text.to_owned(), ..SummaryDraft::default() };
    check(&draft, most).err()
}
