//! What the result of a run is worth.

use jiff::{SignedDuration, Timestamp};

use super::condense::condense;
use super::plan::{BACKOFF_MAX, backoff};
use super::sections::fit;
use super::{Draft, Next, after};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::{Event, Run, RunEnd, RunOutcome, Work};
use crate::ids::{RunId, SummaryId};
use crate::memory::{DraftMemory, MemorySave, Scope, Source};
use crate::summary::{MADE_BY_DIGEST, StackSizes, Summary};
use crate::tokens::estimate;
use crate::window::{measure, summary_tokens};

/// Why a draft is not fit to be a summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no words.
    #[error("the summary is empty")]
    Empty,
    /// It is as long as what it stands for, or longer.
    #[error("the summary has {summary} tokens, its source {source_tokens}")]
    Grown {
        /// Tokens of the summary.
        summary: u64,
        /// Tokens of its source.
        source_tokens: u64,
    },
    /// The model was cut off.
    #[error("the summary was cut off at the token limit")]
    Truncated,
    /// It is not a summary: a tool call written as text, bare headings, a bare code fence.
    #[error("the summary is malformed: {0}")]
    Malformed(&'static str),
    /// It is about what its source does not have.
    #[error("most of the summary names what its source does not have: {0}")]
    Invented(String),
}

/// Checks a draft against its source (estimated tokens, before correction).
///
/// # Errors
/// Why it is not fit.
pub fn check(draft: &Draft, source_tokens: u64) -> Result<(), Rejection> {
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
    let summary = u64::from(estimate(text));
    if summary >= source_tokens {
        return Err(Rejection::Grown { summary, source_tokens });
    }
    Ok(())
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
    draft: Draft,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let mut events = vec![end_with(conversation, agent, run, draft, now)?];
    events.extend(condense(&after(conversation, &events), agent, now));
    Some(events)
}

/// The end of a run with a draft.
pub(super) fn end_with(
    conversation: &Conversation,
    agent: &AgentSettings,
    run: &RunId,
    draft: Draft,
    now: Timestamp,
) -> Option<Event> {
    let run = conversation.run.as_ref().filter(|current| current.id == *run)?;
    let Some((from_at, to_at, level)) = standing(conversation, run, draft.dates.unwrap_or((now, now))) else {
        let reason = "its range has been dealt with otherwise";
        return give_up(conversation, agent, RunOutcome::Superseded, reason, now);
    };
    let id = SummaryId::from(run.id.as_str().replacen('r', "s", 1));
    let to_seq = draft.to_seq.map_or(run.to_seq, |to_seq| to_seq.min(run.to_seq));
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
        provisional: draft.made_by == MADE_BY_DIGEST,
        made_by: draft.made_by.clone(),
        text: bare(&draft.text).to_owned(),
        identifiers: draft.identifiers,
    };
    bound(&mut summary, StackSizes::of(agent, &conversation.correction(&agent.model)).item);
    let scope = Scope::learnt_in(&conversation.channel, conversation.direct_with.as_deref());
    let place = |(idx, memory)| save(conversation, run, &id, &scope, &draft.made_by, idx, memory);
    let memories = match run.work {
        Work::Merge { .. } => Vec::new(),
        Work::Sealed | Work::Truncated => draft.memories.into_iter().enumerate().map(place).collect(),
    };
    let mut end = ended(run, RunOutcome::Committed, None, now);
    end.reason = draft.reason;
    end.messages = summary.messages;
    end.summary = Some(summary);
    end.memories = memories;
    Some(weigh(conversation, agent, Event::RunEnded(end)))
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
        } else if summary.identifiers.pop().is_none() {
            // No item is so small that it holds a head and a word.
            break;
        }
        summary.tokens = summary_tokens(summary);
    }
}

/// Dates and level of the summary that a run may commit; `None` when what it worked on is no longer there.
fn standing(
    conversation: &Conversation,
    run: &Run,
    dates: (Timestamp, Timestamp),
) -> Option<(Timestamp, Timestamp, u32)> {
    let stack = &conversation.stack;
    match &run.work {
        Work::Merge { sources, level } => {
            let first = stack.summary(sources.first()?)?;
            let last = stack.summary(sources.last()?)?;
            let all_there = sources.iter().all(|id| stack.summary(id).is_some());
            all_there.then_some((first.from_at, last.to_at, level + 1))
        }
        Work::Sealed | Work::Truncated => {
            let overlaps = |summary: &&Summary| {
                !summary.provisional && summary.from_seq <= run.to_seq && summary.to_seq >= run.from_seq
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
        },
        sighting: format!("{}/{summary}/{idx}", conversation.channel),
        explicit: false,
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
    }
}

/// Fills in what the window is after the event.
fn weigh(conversation: &Conversation, agent: &AgentSettings, mut event: Event) -> Event {
    let then = after(conversation, std::slice::from_ref(&event));
    if let Event::RunEnded(end) = &mut event {
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
) -> (Event, Next) {
    let pause = backoff(agent.compaction.retry_base_ms, run.attempt, BACKOFF_MAX);
    let asked = SignedDuration::from_millis(retry_after_ms.unwrap_or(0).min(600_000) as i64);
    let retry_at = now.checked_add(pause.max(asked)).unwrap_or(now);
    let event = Event::RunAttemptFailed {
        run: run.id.clone(),
        attempt: run.attempt,
        reason: reason.to_owned(),
        retry_at,
    };
    let next = if run.attempt >= agent.compaction.max_attempts {
        Next::Digest
    } else {
        Next::Retry { at: retry_at }
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
    Some(weigh(conversation, agent, Event::RunEnded(end)))
}
