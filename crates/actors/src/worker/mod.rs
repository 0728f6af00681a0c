//! One attempt of a run: asks the models one after another for a summary, in chunks if the range is long, collects memories
//! and checks the result. If no model can, it makes a digest.

mod chunks;
mod talk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::identifiers::Mask;
use cairn_core::compaction::{SummaryDraft, digest_draft, fit_identifiers, mask_for, most_tokens};
use cairn_core::memory::NotLearnt;
use cairn_core::store_port::Store;
use cairn_core::summary::StackSizes;
use cairn_types::event::{Checkpoint, Run, RunOutcome, RunWork};
use cairn_types::ids::{ChannelId, RunId, Seq, SummaryId};
use cairn_types::message::Entry;
use cairn_types::model::{ModelError, Usage};
use cairn_types::summary::Summary;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::agent::{ModelCandidate, OFFLINE};
use crate::budgets::Budgets;
use crate::handle::ChannelHandle;
use crate::live::Live;
use crate::messages::RunFailure;
use crate::ports::Ports;
use crate::tasks;

/// Entries that a run reads from the archive at a time.
const ENTRIES_AT_ONCE: usize = 500;

enum AskError {
    Model {
        reason: String,
        error: Option<ModelError>,
    },
    /// No other model may be asked.
    NoMoreModels(String),
}

impl AskError {
    /// It answered, but uselessly.
    fn model(reason: String) -> Self {
        Self::Model { reason, error: None }
    }

    fn from_error(model: &str, error: ModelError) -> Self {
        Self::Model { reason: format!("{model}: {}", error.in_brief()), error: Some(error) }
    }
}

struct Sources {
    entries: Arc<[Arc<Entry>]>,
    summaries: Arc<[Summary]>,
}

/// What a run needs of the runtime.
#[derive(Clone)]
pub(crate) struct RunParts {
    pub(crate) ports: Arc<Ports>,
    pub(crate) live: Arc<Live>,
    pub(crate) budgets: Arc<Budgets>,
}

struct Job {
    parts: RunParts,
    handle: Arc<ChannelHandle>,
    run: Run,
    run_budget: Arc<RunBudget>,
    /// The agent's settings on the model that answers, in whose window the summary will be.
    agent: Arc<AgentSettings>,
    sizes: StackSizes,
    sources: Sources,
    mask: Option<Mask>,
    /// What was private when the attempt began, as its models are told.
    not_learnt: NotLearnt,
    /// The result of the chunks so far.
    done: Mutex<Option<Checkpoint>>,
    /// Tokens that runs used within the hour before this attempt.
    spent_before: u64,
    /// Tokens that this attempt used.
    spent: AtomicU64,
}

/// The time limit of a run, and what its attempts found out about models.
pub(crate) struct RunBudget {
    pub(crate) run: RunId,
    limit: Duration,
    known: Mutex<RunFindings>,
}

struct RunFindings {
    /// When the first attempt started, or the last chunk was finished.
    since: Instant,
    /// Models that would fail again, with the reason.
    barred: BTreeMap<String, String>,
    /// Models that take no tools, as their servers say.
    without_tools: BTreeSet<String>,
}

impl RunBudget {
    /// At the start of a run, or when it resumes.
    pub(crate) fn new(run: RunId, limit: Duration) -> Self {
        let known =
            RunFindings { since: Instant::now(), barred: BTreeMap::new(), without_tools: BTreeSet::new() };
        Self { run, limit, known: Mutex::new(known) }
    }

    /// The time that is left. It restarts with every finished chunk: a long run may continue as long as it progresses.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.known.lock().since.elapsed())
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn note_progress(&self) {
        self.known.lock().since = Instant::now();
    }

    pub(crate) fn barred(&self, model: &str) -> Option<String> {
        self.known.lock().barred.get(model).cloned()
    }

    /// Excludes a model from the rest of this run.
    pub(crate) fn bar(&self, model: &str, reason: &str) {
        self.known.lock().barred.insert(model.to_owned(), reason.to_owned());
    }

    /// Whether a model takes no tools.
    pub(crate) fn lacks_tools(&self, model: &str) -> bool {
        self.known.lock().without_tools.contains(model)
    }

    pub(crate) fn without_tools(&self, model: &str) {
        self.known.lock().without_tools.insert(model.to_owned());
    }
}

/// Whether the model extracts: it needs neither a window nor headings.
fn is_extractive(candidate: &ModelCandidate) -> bool {
    candidate.model.info().id == OFFLINE
}

/// Makes one attempt. `digest`: without a model.
pub(crate) async fn run(
    parts: RunParts,
    handle: Arc<ChannelHandle>,
    run: Run,
    run_budget: Arc<RunBudget>,
    digest: bool,
) -> Result<SummaryDraft, RunFailure> {
    let limit = Duration::from_secs(handle.settings().compaction.timeout_secs);
    let read = tokio::time::timeout(limit, sources(&*parts.ports.store, &handle, &run)).await;
    let sources = read.map_err(|_| RunFailure::attempt("the archive did not answer".to_owned()))??;
    let entries = Arc::clone(&sources.entries);
    let (ports, channel, id) = (Arc::clone(&parts.ports), handle.id.clone(), run.id.clone());
    let mut draft = attempt(parts, handle, run, run_budget, digest, sources).await?;
    if !draft.memories.is_empty() {
        // It may have become private since.
        let not_learnt = not_learnt(&*ports.store, &channel, &entries).await;
        let n_saved = draft.memories.len();
        draft.memories.retain(|memory| !not_learnt.covers(&memory.text, &entries));
        let n_refused = n_saved - draft.memories.len();
        if n_refused > 0 {
            metrics::counter!("cairn_memories_refused_total").increment(n_refused as u64);
            tracing::info!(%channel, run = %id, n_refused,
                "memories were not saved: they may come from private messages");
        }
    }
    Ok(draft)
}

/// What nothing may be learnt from; everything, where that cannot be read.
async fn not_learnt(store: &dyn Store, channel: &ChannelId, entries: &[Arc<Entry>]) -> NotLearnt {
    match store.registry().await {
        Ok(registry) => NotLearnt::of(&registry, channel, entries),
        Err(error) => {
            tracing::warn!(%channel, %error,
                "cannot read which chats and people are private; the run saves no memories");
            NotLearnt::everything()
        }
    }
}

async fn attempt(
    parts: RunParts,
    handle: Arc<ChannelHandle>,
    run: Run,
    run_budget: Arc<RunBudget>,
    digest: bool,
    sources: Sources,
) -> Result<SummaryDraft, RunFailure> {
    let agent = handle.settings();
    let now = parts.ports.now();
    let job = Job {
        mask: mask_for(&handle.id, &agent),
        not_learnt: not_learnt(&*parts.ports.store, &handle.id, &sources.entries).await,
        done: Mutex::new(run.checkpoint.clone()),
        spent_before: handle.read(|conversation| conversation.spent_within_hour(now)),
        spent: AtomicU64::new(0),
        sizes: handle.read(|conversation| {
            StackSizes::of(&agent, &conversation.correction(&agent.model), conversation.stack.tokens())
        }),
        parts,
        handle,
        run_budget,
        agent,
        sources,
        run,
    };
    let why = if digest {
        let failure = job.run.failure.clone().unwrap_or_else(|| "no model could".to_owned());
        format!("no model made a summary in {} attempts: {failure}", job.run.attempt.saturating_sub(1))
    } else {
        match job.ask_models().await {
            Ok(draft) => return Ok(draft),
            Err(NoSummary::Attempt(failure)) => return Err(failure),
            Err(NoSummary::Models(why)) => why,
        }
    };
    if job.run.takes_digest() { job.digest(why).await } else { job.finished_chunks(why) }
}

/// Why no model made a summary.
enum NoSummary {
    /// The attempt failed; the next may succeed.
    Attempt(RunFailure),
    /// No model should be asked again.
    Models(String),
}

async fn sources(store: &dyn Store, handle: &ChannelHandle, run: &Run) -> Result<Sources, RunFailure> {
    if let RunWork::Merge { sources, .. } = &run.work {
        let summaries: Vec<Summary> = handle.read(|conversation| {
            let found = |id: &SummaryId| conversation.stack.summary(id).cloned();
            sources.iter().filter_map(found).collect()
        });
        if summaries.len() < sources.len() {
            let reason = "its sources have left the stack".to_owned();
            return Err(RunFailure::end(RunOutcome::Superseded, reason));
        }
        return Ok(Sources { entries: Arc::new([]), summaries: summaries.into() });
    }
    let mut entries: Vec<Arc<Entry>> =
        handle.read(|conversation| conversation.readable(run, conversation.live.iter().cloned()));
    // An emergency may have dropped them from the window, but never from the archive.
    if (entries.len() as u64) < run.messages {
        entries = from_archive(store, handle, run).await?;
    }
    if (entries.len() as u64) < run.messages {
        let reason = format!("only {} of {} messages could be read", entries.len(), run.messages);
        return Err(RunFailure::attempt(reason));
    }
    if run.replaces.is_some() && entries.iter().any(|entry| entry.is_expired()) {
        let reason = "words of its range have expired; the summary stays as it is".to_owned();
        return Err(RunFailure::end(RunOutcome::Failed, reason));
    }
    Ok(Sources { entries: entries.into(), summaries: Arc::new([]) })
}

/// The entries of a run's range that it may read, a page at a time, and no more than it is about.
async fn from_archive(
    store: &dyn Store,
    handle: &ChannelHandle,
    run: &Run,
) -> Result<Vec<Arc<Entry>>, RunFailure> {
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut from = run.from_seq;
    while (entries.len() as u64) < run.messages && from <= run.to_seq {
        let page = store.entries(&handle.id, from, run.to_seq, ENTRIES_AT_ONCE).await;
        let page = page.map_err(|error| RunFailure::attempt(error.to_string()))?;
        let Some(last) = page.last() else { break };
        from = last.seq.next();
        entries.extend(handle.read(|conversation| conversation.readable(run, page)));
    }
    Ok(entries)
}

impl Job {
    /// The models of a run, each once: its own, the one that answers, then the others of the chain.
    fn candidates(&self) -> Vec<ModelCandidate> {
        let agent = self.handle.agent();
        let serving = self.handle.read(|conversation| agent.serving(conversation).clone());
        let mut list: Vec<ModelCandidate> = Vec::new();
        for candidate in agent.compactor.iter().chain([&serving]).chain(agent.chain()) {
            let known = |other: &ModelCandidate| other.model.info().id == candidate.model.info().id;
            if !list.iter().any(known) {
                list.push(self.with_learnt(candidate));
            }
        }
        list
    }

    /// A candidate, adjusted to what was learnt of its model in this channel.
    fn with_learnt(&self, candidate: &ModelCandidate) -> ModelCandidate {
        let mut settings = self.handle.read(|conversation| candidate.settings_in(conversation));
        if let Some(told) = self.not_learnt.instruction() {
            let wishes = &mut Arc::make_mut(&mut settings).compaction.instructions;
            let before = wishes.take().filter(|wishes| !wishes.trim().is_empty());
            *wishes = Some(before.map_or(told.clone(), |before| format!("{before}\n{told}")));
        }
        ModelCandidate { settings, model: Arc::clone(&candidate.model) }
    }

    async fn ask_models(&self) -> Result<SummaryDraft, NoSummary> {
        let mut reasons = Vec::new();
        let mut may_pass = false;
        let mut retry_after: Option<Duration> = None;
        for candidate in self.candidates() {
            let model = candidate.model.info().id.clone();
            if let Some(reason) = self.run_budget.barred(&model) {
                reasons.push(reason);
                continue;
            }
            match self.summarise_with(&candidate).await {
                Ok(draft) => return Ok(draft),
                Err(AskError::NoMoreModels(why)) => return Err(NoSummary::Models(why)),
                Err(AskError::Model { reason, error }) => {
                    tracing::debug!(model, reason, "why a model made no summary");
                    let error_in_brief = error.as_ref().map(ModelError::in_brief);
                    tracing::warn!(channel = %self.handle.id, run = %self.run.id, model, error = error_in_brief,
                        "a model returned no summary; trying the next one of the chain");
                    if error.as_ref().is_none_or(ModelError::is_transient) {
                        may_pass = true;
                    } else {
                        self.run_budget.bar(&model, &reason);
                    }
                    let asked = error.as_ref().and_then(ModelError::retry_after);
                    // The pause of the first model that is ready again is enough.
                    retry_after =
                        asked.map_or(retry_after, |wait| Some(retry_after.map_or(wait, |w| w.min(wait))));
                    reasons.push(reason);
                }
            }
        }
        let reason = reasons.join("; ");
        if may_pass {
            let retry_after_ms = retry_after.map(|wait| wait.as_millis() as u64);
            return Err(NoSummary::Attempt(RunFailure { reason, retry_after_ms, outcome: None }));
        }
        // Another attempt would fail in the same way.
        Err(NoSummary::Models(format!("no model can make a summary: {reason}")))
    }

    /// Most tokens of a summary of these entries, or of the run's summaries, in the window.
    fn most_tokens(&self, entries: &[Arc<Entry>]) -> u64 {
        let Self { agent, run, sources, .. } = self;
        self.handle.read(|conversation| most_tokens(conversation, agent, run, entries, &sources.summaries))
    }

    /// The entries without the words of messages that were deleted meanwhile.
    fn without_deleted(&self, entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        self.handle.read(|conversation| {
            entries.iter().map(|entry| conversation.without_deleted(Arc::clone(entry))).collect()
        })
    }

    /// Whether entries have words of messages that were deleted meanwhile.
    fn has_deleted(&self, entries: &[Arc<Entry>]) -> bool {
        let is_gone =
            |entry: &Arc<Entry>, deleted: &BTreeSet<Seq>| deleted.contains(&entry.seq) && !entry.is_deleted();
        self.handle.read(|conversation| {
            let deleted = &conversation.deleted;
            !deleted.is_empty() && entries.iter().any(|entry| is_gone(entry, deleted))
        })
    }

    /// Checks that there is time for a call, and that the hour's tokens are not used up.
    fn check_budget(&self, candidate: &ModelCandidate) -> Result<(), AskError> {
        if self.run_budget.left().is_zero() {
            return Err(self.out_of_time());
        }
        let cap = self.agent.compaction.tokens_per_hour;
        let spent = self.spent_before + self.spent.load(Ordering::Relaxed);
        if cap > 0 && spent >= cap && !is_extractive(candidate) {
            return Err(AskError::NoMoreModels(format!(
                "runs of this channel took {spent} tokens within an hour, {cap} are allowed (tokens_per_hour)"
            )));
        }
        Ok(())
    }

    fn out_of_time(&self) -> AskError {
        AskError::NoMoreModels(format!(
            "no summary within {} s (timeout_secs)",
            self.run_budget.limit().as_secs()
        ))
    }

    fn count_tokens(&self, usage: Usage) {
        self.spent.fetch_add(usage.tokens(), Ordering::Relaxed);
    }

    /// The result of a run that takes no digest: its finished chunks, or a failure. What it was to replace stays, and a
    /// later run continues.
    fn finished_chunks(&self, why: String) -> Result<SummaryDraft, RunFailure> {
        let done = self.done.lock().clone().filter(|_| self.run.replaces.is_none());
        let Some(done) = done else {
            return Err(RunFailure::end(RunOutcome::Failed, why));
        };
        Ok(SummaryDraft { reason: Some(why), ..self.finished(done) })
    }

    /// Makes a digest on a blocking thread, since a large range takes a while.
    async fn digest(self, why: String) -> Result<SummaryDraft, RunFailure> {
        tracing::debug!(reason = why, "why no model made a summary");
        tracing::warn!(channel = %self.handle.id, run = %self.run.id,
            "a digest is used as the summary; check the models of this agent and their limits");
        metrics::counter!("cairn_digests_total").increment(1);
        let mut run = self.run.clone();
        run.checkpoint = self.done.lock().clone();
        let most = self.most_tokens(&self.sources.entries);
        // Messages that an emergency dropped without a summary get one in any case.
        let is_owed = matches!(run.work, RunWork::Truncated);
        let turn = Arc::clone(&self.parts.budgets.digests).acquire_owned().await;
        let digest = tasks::off_thread(move || {
            // Held until the digest is done, even if nobody waits for it.
            let _turn = turn;
            let Self { handle, agent, sizes, sources, .. } = &self;
            let entries = self.without_deleted(&sources.entries);
            let draft = digest_draft(&handle.id, agent, sizes, &run, &entries, &sources.summaries);
            if is_owed { Ok(draft) } else { fit_identifiers(draft, most) }
        });
        match digest.await {
            Ok(Ok(draft)) => Ok(SummaryDraft { reason: Some(why), ..draft }),
            Ok(Err(rejection)) => {
                let reason = format!("next to nothing would be freed, not even by a digest: {rejection}");
                Err(RunFailure::end(RunOutcome::Rejected, reason))
            }
            Err(_panic) => Err(RunFailure::attempt("the digest failed; the log says where".to_owned())),
        }
    }
}
