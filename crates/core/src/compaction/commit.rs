//! How a run begins and ends: what its result is worth, what a commit writes, and merges at once where the stack is over
//! its share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::extract::{HEAD_TOKENS, merge_draft};
use super::sections::fit;
use super::{AfterFailure, SummaryDraft, after};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::summary::{Merge, SPARED_LEVELS, StackSizes, next_merge};
use crate::window::{Gauge, guide_tokens, measure};
use cairn_types::event::{CompactionEvent, Event, Run, RunEnd, RunOutcome, RunRequest, RunWork, Trigger};
use cairn_types::ids::{RunId, Seq, SummaryId};
use cairn_types::memory::{DraftMemory, MemorySave, Scope, Source};
use cairn_types::message::Entry;
use cairn_types::summary::{LookupTools, MADE_BY_DIGEST, Summary, summary_tokens};
use cairn_types::tokens::estimate;
use cairn_types::wire::backoff::pause_after;

/// Longest pause after failed runs.
pub(super) const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// Share of what leaves the window that a run frees at the least: each commit costs the provider's cache.
const FREED_SHARE: f64 = 0.1;

/// Fewest tokens that a summary is to have for its words and its identifiers: so much a digest needs, too.
const LEAST_TOKENS: u64 = 64;

/// Tokens of what leads the list of identifiers.
const LIST_TOKENS: u64 = 8;

/// Why merges are made without a model.
const AT_ONCE: &str = "the summaries were over their share of the window: merged at once, without a model";

/// A run that begins now. `gauge`: the window as it is.
pub(super) fn new_run(
    conversation: &Conversation,
    gauge: &Gauge,
    trigger: Trigger,
    work: RunWork,
    (from_seq, to_seq): (Seq, Seq),
    now: Timestamp,
) -> Run {
    Run {
        id: RunId::from(format!("r{}", conversation.runs + 1)),
        trigger,
        tier: gauge.tier,
        work,
        from_seq,
        to_seq,
        messages: conversation.count(from_seq, to_seq),
        instruction: None,
        started_at: now,
        attempt: 1,
        retry_at: None,
        tokens_before: gauge.tokens,
        checkpoint: None,
        tell: false,
        failure: None,
        replaces: None,
        spent: BTreeMap::new(),
    }
}

pub(super) fn new_merge(
    conversation: &Conversation,
    gauge: &Gauge,
    Merge { sources, level }: Merge,
    now: Timestamp,
) -> Option<Run> {
    let stack = &conversation.stack;
    let from_seq = stack.summary(sources.first()?)?.from_seq;
    let to_seq = stack.summary(sources.last()?)?.to_seq;
    let work = RunWork::Merge { sources, level };
    Some(new_run(conversation, gauge, Trigger::Merge, work, (from_seq, to_seq), now))
}

/// Starts and ends a queued run whose range is empty.
pub(crate) fn end_queued(
    conversation: &Conversation,
    agent: &AgentSettings,
    queued: &RunRequest,
    outcome: RunOutcome,
    reason: &str,
    now: Timestamp,
) -> Vec<Event> {
    let nothing = (conversation.first_seq, Seq(conversation.first_seq.0 - 1));
    let gauge = measure(conversation, agent);
    let run = new_run(conversation, &gauge, queued.trigger, RunWork::Sealed, nothing, now);
    let run = Run { instruction: queued.instruction.clone(), tell: queued.tell, ..run };
    let mut events = vec![Event::Compaction(CompactionEvent::RunStarted { run })];
    let begun = after(conversation, &events);
    events.extend(give_up(&begun, agent, outcome, reason, now));
    events
}

/// Why a draft is not fit to be a summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the summary is empty")]
    Empty,
    /// Next to nothing would be freed by it.
    #[error(
        "the summary takes {summary} tokens of the window; to be worth what leaves for it, it may take {most}"
    )]
    Grown {
        /// Tokens of the summary as the window has it.
        summary: u64,
        most: u64,
    },
    #[error("the summary was cut off at the token limit")]
    Truncated,
    /// It is not a summary: a tool call written as text, bare headings, a bare code fence.
    #[error("the summary is malformed: {0}")]
    Malformed(&'static str),
    /// It tells nothing of its source: a refusal, a sentence for all of it, a skeleton.
    #[error("it is no summary of what was said: {0}")]
    NoSummary(&'static str),
    /// It is about what its source does not have.
    #[error("most of the summary names what its source does not have: {0}")]
    Invented(String),
}

impl Rejection {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Grown { .. } => "grown",
            Self::Truncated => "truncated",
            Self::Malformed(_) => "malformed",
            Self::NoSummary(_) => "no_summary",
            Self::Invented(_) => "invented",
        }
    }
}

/// Checks a draft. `most`: tokens that it may take in the window, as [`most_tokens`] has them.
///
/// # Errors
/// Why it is not fit.
pub fn check(draft: &SummaryDraft, most: u64) -> Result<(), Rejection> {
    let text = bare(&draft.text);
    if text.trim().is_empty() {
        return Err(Rejection::Empty);
    }
    if !text.chars().any(char::is_alphanumeric) {
        return Err(Rejection::Malformed("it has no words"));
    }
    if text.starts_with('{') && serde_json::from_str::<serde_json::Value>(text).is_ok() {
        return Err(Rejection::Malformed("it is a JSON object"));
    }
    if text.contains("<tool_call>") || text.contains("<function_call>") {
        return Err(Rejection::Malformed("it has a tool call written as text"));
    }
    if text.lines().all(super::sections::is_hollow) {
        return Err(Rejection::Malformed("it has headings and nothing under them"));
    }
    check_size(draft, most)
}

/// Checks that the window has room to win by a draft, with its head and its identifiers. Identifiers that are too many go,
/// the oldest first.
///
/// # Errors
/// It would free next to nothing.
pub fn fit_identifiers(mut draft: SummaryDraft, most: u64) -> Result<SummaryDraft, Rejection> {
    loop {
        match check_size(&draft, most) {
            Ok(()) => return Ok(draft),
            Err(rejection) if draft.identifiers.is_empty() => return Err(rejection),
            Err(_) => drop(draft.identifiers.remove(0)),
        }
    }
}

fn check_size(draft: &SummaryDraft, most: u64) -> Result<(), Rejection> {
    let mut tokens = u64::from(estimate(bare(&draft.text))) + HEAD_TOKENS;
    if !draft.identifiers.is_empty() {
        tokens += u64::from(estimate(&draft.identifiers.join(", "))) + LIST_TOKENS;
    }
    if tokens > most { Err(Rejection::Grown { summary: tokens, most }) } else { Ok(()) }
}

/// Most tokens that a summary may take in the window with its head and its identifiers, before correction: what leaves
/// for it, but for a tenth, and but for the line that leads the first summary. What an emergency took out of the
/// window needs only be longer than its summary.
pub fn most_tokens(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &Run,
    entries: &[Arc<Entry>],
    sources: &[Summary],
) -> u64 {
    match run.work {
        RunWork::Truncated => super::entry_tokens(entries) + HEAD_TOKENS,
        RunWork::Merge { .. } => worth(super::summary_tokens(sources)),
        RunWork::Sealed => {
            let leaving = entries.iter().map(|entry| conversation.weight(entry)).sum();
            sealed_worth(conversation, agent, leaving)
        }
    }
}

/// Most tokens of a summary for which so many of the live history leave.
fn sealed_worth(conversation: &Conversation, agent: &AgentSettings, leaving: u64) -> u64 {
    let is_first = conversation.stack.items().is_empty();
    let lead = if is_first { guide_tokens(LookupTools::of(&agent.tools)) } else { 0 };
    worth(leaving).saturating_sub(lead)
}

fn worth(leaving: u64) -> u64 {
    (leaving as f64 * (1.0 - FREED_SHARE)) as u64
}

/// So little of the live history leaves the window that no summary of it would free anything.
pub(super) fn is_too_little(conversation: &Conversation, agent: &AgentSettings, leaving: u64) -> bool {
    sealed_worth(conversation, agent, leaving) < HEAD_TOKENS + LEAST_TOKENS
}

/// The text without the label that the window puts before it and some models repeat.
fn bare(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix("[Compaction Summary]:").map_or(text, str::trim)
}

/// The events that end a run with a checked draft: committed (with merges at once where the stack is over its share), or
/// superseded when its range has a summary already. A late result of a run that is no longer under way, such as
/// one of an older generation, yields `None`.
pub fn commit(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &RunId,
    draft: SummaryDraft,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let mut events = vec![end_with(conversation, agent, run, draft, now)?];
    events.extend(condense(&after(conversation, &events), agent, now));
    Some(events)
}

fn end_with(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &RunId,
    draft: SummaryDraft,
    now: Timestamp,
) -> Option<Event> {
    let run = conversation.run.as_ref().filter(|current| current.id == *run)?;
    let to_seq = draft.to_seq.map_or(run.to_seq, |to_seq| to_seq.min(run.to_seq));
    let dates = draft.dates.unwrap_or((now, now));
    let Some((from_at, to_at, level)) = standing(conversation, run, to_seq, dates) else {
        let reason = "its range has been dealt with otherwise";
        return give_up(conversation, agent, RunOutcome::Superseded, reason, now);
    };
    let id = SummaryId::of_run(&run.id);
    let mut summary = Summary {
        id: id.clone(),
        level,
        from_seq: run.from_seq,
        to_seq,
        // The clock may have been set back between the two.
        from_at: from_at.min(to_at),
        to_at: from_at.max(to_at),
        messages: if to_seq < run.to_seq { conversation.count(run.from_seq, to_seq) } else { run.messages },
        tokens: 0,
        provisional: draft.made_by == MADE_BY_DIGEST || merges_provisional(conversation, run),
        made_by: draft.made_by.clone(),
        text: bare(&draft.text).to_owned(),
        identifiers: draft.identifiers,
    };
    bound(&mut summary, room_for(conversation, agent, run, level));
    let scope = Scope::learnt_in(&conversation.channel, conversation.direct_with.as_deref());
    let place = |(idx, memory)| save(conversation, run, &id, &scope, &draft.made_by, idx, memory);
    let memories = match run.work {
        RunWork::Merge { .. } => Vec::new(),
        RunWork::Sealed | RunWork::Truncated => draft.memories.into_iter().enumerate().map(place).collect(),
    };
    let mut end = ended(run, RunOutcome::Committed, None, now);
    end.reason = draft.reason;
    end.messages = summary.messages;
    end.summary = Some(summary);
    end.memories = memories;
    Some(weigh(conversation, agent, Event::Compaction(CompactionEvent::RunEnded(end))))
}

/// Has a summary take no more than so many estimated tokens in the window: first its list of identifiers keeps to a fifth,
/// then its text gives way by sections. What its author was asked for is smaller; this is what the stack counts on.
fn bound(summary: &mut Summary, item_tokens: u64) {
    summary.tokens = summary_tokens(summary);
    let over = |summary: &Summary| u64::from(summary.tokens).saturating_sub(item_tokens);
    while over(summary) > 0 {
        let list = summary.identifier_line().map_or(0, |line| u64::from(estimate(&line)));
        let keeps = u64::from(estimate(&summary.text)).saturating_sub(over(summary)).max(1);
        let cut = fit(&summary.text, keeps);
        if list * 5 <= item_tokens && cut.len() < summary.text.len() {
            summary.text = cut;
        } else if summary.identifiers.is_empty() {
            // No item is so small that it holds a head and a word.
            break;
        } else {
            // The oldest, as where they compete for the room of a draft.
            summary.identifiers.remove(0);
        }
        summary.tokens = summary_tokens(summary);
    }
}

/// Most tokens that a summary may take in the window: those of its level, and while the stack has room, all that its author wrote.
fn room_for(conversation: &Conversation, agent: &AgentSettings, run: &Run, level: u32) -> u64 {
    let sizes = sizes_of(conversation, agent);
    let summary = |id| conversation.stack.summary(id);
    match &run.work {
        RunWork::Merge { sources, .. } => {
            let tokens = sources.iter().filter_map(summary).map(|source| u64::from(source.tokens)).sum();
            sizes.level(level).max(sizes.merge(tokens, level))
        }
        RunWork::Sealed | RunWork::Truncated => {
            let replaced =
                run.replaces.as_ref().and_then(summary).map_or(0, |summary| u64::from(summary.tokens));
            let free = sizes.soft.saturating_sub(sizes.taken.saturating_sub(replaced));
            if agent.compaction.target_tokens.is_some() { sizes.fresh } else { sizes.fresh.max(free) }
        }
    }
}

fn sizes_of(conversation: &Conversation, agent: &AgentSettings) -> StackSizes {
    StackSizes::of(agent, &conversation.correction(&agent.model), conversation.stack.tokens())
}

/// A source has become provisional since the run began, as an erasure leaves it: what is made of it is so, too.
fn merges_provisional(conversation: &Conversation, run: &Run) -> bool {
    let RunWork::Merge { sources, .. } = &run.work else { return false };
    let mut sources = sources.iter().filter_map(|id| conversation.stack.summary(id));
    sources.any(|source| source.provisional)
}

/// Dates and level of the summary that a run may commit; `None` when what it worked on is no longer there.
fn standing(
    conversation: &Conversation,
    run: &Run,
    to_seq: Seq,
    dates: (Timestamp, Timestamp),
) -> Option<(Timestamp, Timestamp, u32)> {
    let stack = &conversation.stack;
    match &run.work {
        RunWork::Merge { sources, level } => {
            let first = stack.summary(sources.first()?)?;
            let last = stack.summary(sources.last()?)?;
            let all_there = sources.iter().all(|id| stack.summary(id).is_some());
            // One alone is cut, not merged.
            let level = level + u32::from(sources.len() > 1);
            all_there.then_some((first.from_at, last.to_at, level))
        }
        RunWork::Sealed | RunWork::Truncated => {
            let overlaps = |summary: &&Summary| {
                summary.from_seq <= run.to_seq
                    && summary.to_seq >= run.from_seq
                    && !summary.provisional
                    && (run.replaces.as_ref() != Some(&summary.id) || to_seq < summary.to_seq)
            };
            if stack.summaries().any(|summary| overlaps(&summary)) || run.from_seq < conversation.first_seq {
                return None;
            }
            Some((dates.0, dates.1, 0))
        }
    }
}

fn save(
    conversation: &Conversation,
    run: &Run,
    summary: &SummaryId,
    scope: &Scope,
    model: &str,
    idx: usize,
    memory: DraftMemory,
) -> MemorySave {
    MemorySave {
        agent: conversation.channel.agent(),
        scope: scope.clone(),
        kind: memory.kind,
        text: memory.text,
        subject: memory.subject,
        importance: memory.importance.clamp(0.0, 1.0),
        source: Source {
            channel: Some(conversation.channel.clone()),
            from_seq: Some(run.from_seq),
            to_seq: Some(run.to_seq),
            summary: Some(summary.clone()),
            model: model.to_owned(),
            by: memory.by,
            said_at: memory.said_at,
            told_by: memory.told_by,
        },
        sighting: format!("{}/{summary}/{idx}", conversation.channel),
        explicit: false,
        replaces: memory.replaces,
    }
}

fn ended(run: &Run, outcome: RunOutcome, reason: Option<String>, now: Timestamp) -> RunEnd {
    RunEnd {
        run: run.id.clone(),
        trigger: run.trigger,
        outcome,
        reason,
        summary: None,
        memories: Vec::new(),
        messages: run.messages,
        tokens_before: run.tokens_before,
        tokens_after: 0,
        first_kept_seq: None,
        duration_ms: now.duration_since(run.started_at).max(SignedDuration::ZERO).as_millis() as u64,
        owes_run: false,
        attempts: run.attempt,
        spent: run.spent.clone(),
    }
}

/// Sets what the window is after the event.
fn weigh(conversation: &Conversation, agent: &AgentSettings, mut event: Event) -> Event {
    let then = after(conversation, std::slice::from_ref(&event));
    if let Event::Compaction(CompactionEvent::RunEnded(end)) = &mut event {
        end.tokens_after = measure(&then, agent).tokens;
        end.first_kept_seq = then.live.front().map(|entry| entry.seq);
        end.owes_run = then.owes_run();
    }
    event
}

/// A failed attempt: the event to journal and what comes next. `retry_after_ms` is what the model's server asks for.
pub fn fail_attempt(
    run: &Run,
    agent: &AgentSettings,
    reason: &str,
    retry_after_ms: Option<u64>,
    now: Timestamp,
) -> (Event, AfterFailure) {
    let first = Duration::from_millis(agent.compaction.retry_base_ms);
    let pause = pause_after(run.attempt, first, BACKOFF_MAX);
    let asked = Duration::from_millis(retry_after_ms.unwrap_or(0).min(600_000));
    let retry_at = now.checked_add(pause.max(asked)).unwrap_or(now);
    let event = Event::Compaction(CompactionEvent::RunAttemptFailed {
        run: run.id.clone(),
        attempt: run.attempt,
        reason: reason.to_owned(),
        retry_at,
    });
    let next = if run.attempt >= agent.compaction.max_attempts {
        AfterFailure::Digest
    } else {
        AfterFailure::Retry { at: retry_at }
    };
    (event, next)
}

/// Ends the run under way without a commit; what is still sealed is live again. `None` when none is under way.
pub fn give_up(
    conversation: &Conversation,
    agent: &AgentSettings,
    outcome: RunOutcome,
    reason: &str,
    now: Timestamp,
) -> Option<Event> {
    let run = conversation.run.as_ref()?;
    let end = ended(run, outcome, Some(reason.to_owned()), now);
    Some(weigh(conversation, agent, Event::Compaction(CompactionEvent::RunEnded(end))))
}

/// Merges that bring the stack under its cap, each a run that begins and ends at once. None while a run is under way: its end
/// asks again. Words are cut to what fits; the merges are provisional.
pub(super) fn condense(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut then = Cow::Borrowed(conversation);
    let mut events = Vec::new();
    let sizes = sizes_of(conversation, agent);
    while then.run.is_none() && then.stack.tokens() > sizes.cap {
        let Some(merged) = merge_at_once(&then, agent, &sizes, now) else { break };
        let next = after(&then, &merged);
        if next.stack.tokens() >= then.stack.tokens() {
            break;
        }
        then = Cow::Owned(next);
        events.extend(merged);
    }
    events
}

fn merge_at_once(
    conversation: &Conversation,
    agent: &AgentSettings,
    sizes: &StackSizes,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let stack = &conversation.stack;
    let fan_out = agent.compaction.fan_out as usize;
    // What is owed a run anyway goes first, nothing is lost by it: unless the same words were cut often before.
    let owed = next_merge(stack, fan_out, |summary| summary.provisional);
    let any = next_merge(stack, fan_out, |_| true);
    let spares = |any: &Merge| owed.as_ref().is_none_or(|owed| owed.level > any.level + SPARED_LEVELS);
    let merge = any.filter(spares).or(owed).or_else(|| {
        // The window has shrunk: a correction that creeps up is no reason to cut a word.
        let is_too_large =
            |summary: &&Summary| u64::from(summary.tokens) > sizes.level(summary.level) * 5 / 4;
        let too_large = stack.summaries().find(is_too_large)?;
        Some(Merge { sources: vec![too_large.id.clone()], level: too_large.level })
    })?;
    let sources: Vec<Summary> = merge.sources.iter().filter_map(|id| stack.summary(id)).cloned().collect();
    let run = new_merge(conversation, &measure(conversation, agent), merge, now)?;
    let id = run.id.clone();
    let mut events = vec![Event::Compaction(CompactionEvent::RunStarted { run })];
    let begun = after(conversation, &events);
    let draft = SummaryDraft { reason: Some(AT_ONCE.to_owned()), ..merge_draft(agent, sizes, &sources) };
    events.push(end_with(&begun, agent, &id, draft, now)?);
    Some(events)
}
