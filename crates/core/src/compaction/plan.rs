//! Which run is due.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::commit::{BACKOFF_MAX, condense, end_queued, is_too_little, new_merge, new_run};
use crate::agent::AgentSettings;
use crate::conversation::{Conversation, Failures};
use crate::prune;
use crate::summary::{StackSizes, due_merge};
use crate::turn::{Span, spans};
use crate::window::{Gauge, measure};
use cairn_types::event::{CompactionEvent, Event, Run, RunOutcome, RunReport, RunRequest, RunWork, Trigger};
use cairn_types::ids::{Seq, SummaryId};
use cairn_types::summary::{MarkerKind, StackItem, Summary};
use cairn_types::tier::Tier;
use cairn_types::wire::backoff::pause_after;

/// What the compactor should do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Idle,
    /// Nothing before that time (back-off after failures).
    WaitUntil(Timestamp),
    /// Propose this run to the channel.
    Start(Box<Run>),
    /// These events are to be journalled at once, and then it is looked again: a batch of pruning, or a queued run for which
    /// nothing is left (an emergency took its range), begun and ended as superseded.
    Apply(Vec<Event>),
}

/// First and longest pause after failed runs that can wait: what a model makes badly time and again costs little.
const DEFERRED: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// Closed turns at the newest end that no run takes, however large they are (`reserve_ratio`).
const RESERVED_TURNS: usize = 2;

/// Closed turns at the newest end that stay when somebody asks for a compaction.
const KEPT_TURNS: usize = 1;

/// Fewest messages of a run that only their number makes due: it costs a call of the model.
const COUNTED_MIN: f64 = 4.0;

/// Why a queued run ends at once.
const NOTHING_LEFT: &str = "nothing is left to compact: what it was asked for has been dealt with otherwise";

/// The run that is due, if any. Order: none while one is under way; the stack over its share; queued manual runs; pruning,
/// and then it is measured again; a truncated marker's owed run; a merge that is pressing; the tier; the number of messages;
/// other merges; what is provisional. Back-off after failures delays all but manual runs, and what can be deferred delays
/// nothing else; one that is not urgent waits for a budget, and for a cold cache where the settings say so.
pub fn next_run(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Decision {
    if conversation.run.is_some() {
        return Decision::Idle;
    }
    let merged = condense(conversation, agent, now);
    if !merged.is_empty() {
        return Decision::Apply(merged);
    }
    let planner = Planner::new(conversation, agent, now);
    if let Some(queued) = conversation.queued_runs.front() {
        return match planner.manual(queued.instruction.clone(), true) {
            Some(run) => Decision::Start(Box::new(Run { tell: queued.tell, ..run })),
            None => {
                let outcome = RunOutcome::Superseded;
                Decision::Apply(end_queued(conversation, agent, queued, outcome, NOTHING_LEFT, now))
            }
        };
    }
    if let Some(event) = prune::pressure(conversation, agent) {
        return Decision::Apply(vec![event]);
    }
    if !agent.compaction.enabled {
        return Decision::Idle;
    }
    let mut earliest: Option<Timestamp> = None;
    let due = std::iter::once_with(|| planner.truncated())
        .chain(std::iter::once_with(|| planner.pressing_merge()))
        .chain(std::iter::once_with(|| planner.threshold()))
        .chain(std::iter::once_with(|| planner.messages()))
        .chain(std::iter::once_with(|| planner.merge()))
        .chain(std::iter::once_with(|| planner.provisional()));
    for run in due.flatten() {
        match planner.waits(&run) {
            None => return Decision::Start(Box::new(run)),
            Some(until) => earliest = Some(earliest.map_or(until, |other| other.min(until))),
        }
        if !run.trigger.is_deferrable() {
            break;
        }
    }
    earliest.map_or(Decision::Idle, Decision::WaitUntil)
}

/// Runs have taken as many tokens within the last hour as the settings allow.
pub fn over_budget(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> bool {
    let cap = agent.compaction.tokens_per_hour;
    cap > 0 && conversation.spent_within_hour(now) >= cap
}

/// What a person's request for a compaction leads to: `RunStarted`, or `RunQueued` behind what is under way or was asked for before;
/// `None` when there is nothing to compact beside what is under way: all but the last turn is summarised, or too short for a
/// summary. An instruction that differs from that of the run under way is always queued. `tell`: the chat is told how it
/// ends.
pub fn request_manual(
    conversation: &Conversation,
    agent: &AgentSettings,
    instruction: Option<String>,
    tell: bool,
    now: Timestamp,
) -> Option<Event> {
    let planner = Planner::new(conversation, agent, now);
    let run = planner.manual(instruction.clone(), false);
    let under_way = conversation.run.as_ref();
    if under_way.is_none() && conversation.queued_runs.is_empty() {
        return run.map(|run| Event::Compaction(CompactionEvent::RunStarted { run: Run { tell, ..run } }));
    }
    let is_new = instruction.is_some() && under_way.is_none_or(|run| run.instruction != instruction);
    let request = RunRequest { trigger: Trigger::Manual, instruction, tell };
    (is_new || run.is_some()).then_some(Event::Compaction(CompactionEvent::RunQueued { request }))
}

/// Why there is nothing to compact, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NothingToCompact {
    /// Messages that stand in the window as themselves.
    pub messages: u64,
    pub turns: u64,
    /// Their tokens, after correction.
    pub tokens: u64,
    /// Those of them that could leave: all but the last turn.
    pub free_messages: u64,
    /// Their tokens, after correction.
    pub free_tokens: u64,
    /// Messages that summaries and markers stand for.
    pub compacted: u64,
}

impl NothingToCompact {
    pub fn of(conversation: &Conversation, agent: &AgentSettings) -> Self {
        let correction = conversation.correction(&agent.model);
        let sums = |turns: &[Span]| {
            let tokens = turns.iter().map(|span| span.tokens).sum();
            (turns.iter().map(|span| span.messages).sum(), correction.apply(tokens))
        };
        let turns = spans(conversation);
        let (messages, tokens) = sums(&turns);
        let (free_messages, free_tokens) = sums(&compactable_on_request(conversation));
        let compacted = conversation.stack.items().iter().map(StackItem::messages).sum();
        Self { messages, turns: turns.len() as u64, tokens, free_messages, free_tokens, compacted }
    }
}

impl std::fmt::Display for NothingToCompact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let Self { messages, turns, tokens, free_messages, free_tokens, compacted } = *self;
        write!(f, "nothing to compact: ")?;
        if messages == 0 {
            write!(f, "no message is in sight")?;
        } else {
            let [messages, turns] = [counted(messages, "message"), counted(turns, "turn")];
            write!(f, "{messages} in {turns} ({tokens} tokens) in sight, ")?;
            match free_messages {
                0 => write!(f, "and the last turn always stays")?,
                _ => write!(
                    f,
                    "without the last turn {} ({free_tokens} tokens), less than a summary takes",
                    counted(free_messages, "message")
                )?,
            }
        }
        if compacted > 0 {
            write!(f, "; {} before them summarised already", counted(compacted, "message"))
        } else {
            Ok(())
        }
    }
}

/// The pause after failed runs: the base, doubled with each further failure.
fn backoff_until(
    failures: Failures,
    first: Duration,
    longest: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    // A failure in the future: the clock was set back, and nobody knows how long ago it was.
    let last_at = failures.last_at.filter(|at| *at <= now)?;
    last_at.checked_add(pause_after(failures.n, first, longest)).ok()
}

/// Turns of the live history that have ended, oldest first.
pub(crate) fn closed_turns(conversation: &Conversation) -> Vec<Span> {
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let mut closed = spans(conversation);
    closed.retain(|span| Some(&span.turn) != open);
    closed
}

/// Closed turns that are not sealed, but for so many of the newest.
fn all_but_newest(conversation: &Conversation, n_kept: usize) -> Vec<Span> {
    let sealed_to = conversation.sealed_range().map(|(_, to)| to);
    let mut closed = closed_turns(conversation);
    closed.retain(|span| sealed_to.is_none_or(|to| span.from_seq > to));
    closed.truncate(closed.len().saturating_sub(n_kept));
    closed
}

/// Turns that may leave when somebody asks for it: all but the last one, and what is sealed.
pub(crate) fn compactable_on_request(conversation: &Conversation) -> Vec<Span> {
    all_but_newest(conversation, KEPT_TURNS)
}

/// Turns that may leave because there are too many messages, however small: the reserve in tokens gives way.
pub(crate) fn compactable_by_number(conversation: &Conversation) -> Vec<Span> {
    all_but_newest(conversation, RESERVED_TURNS)
}

/// Turns that may leave the window when there is time: all but the reserved tail, the open turn, and what is sealed.
pub(crate) fn compactable(conversation: &Conversation, agent: &AgentSettings) -> Vec<Span> {
    unreserved(conversation, agent, all_but_newest(conversation, 0))
}

/// Turns without the reserved tail.
pub(super) fn unreserved(
    conversation: &Conversation,
    agent: &AgentSettings,
    mut turns: Vec<Span>,
) -> Vec<Span> {
    let correction = conversation.correction(&agent.model);
    let reserve = agent.compaction.reserve_ratio * agent.window.usable_tokens() as f64;
    let mut spared_tokens = 0.0;
    let mut n_spared = 0;
    while let Some(span) = turns.last() {
        if n_spared >= RESERVED_TURNS && spared_tokens >= reserve {
            break;
        }
        n_spared += 1;
        spared_tokens += correction.apply(span.tokens) as f64;
        turns.pop();
    }
    turns
}

struct Planner<'a> {
    conversation: &'a Conversation,
    agent: &'a AgentSettings,
    now: Timestamp,
    gauge: Gauge,
}

impl<'a> Planner<'a> {
    fn new(conversation: &'a Conversation, agent: &'a AgentSettings, now: Timestamp) -> Self {
        Self { conversation, agent, now, gauge: measure(conversation, agent) }
    }

    fn run(&self, trigger: Trigger, work: RunWork, from_seq: Seq, to_seq: Seq) -> Run {
        new_run(self.conversation, &self.gauge, trigger, work, (from_seq, to_seq), self.now)
    }

    /// The oldest of these turns, up to `target` messages, cut at the nearest turn boundary, at least one turn; more where
    /// that would free nothing, or did not when it was tried; none where all would not.
    fn sealed(&self, trigger: Trigger, candidates: &[Span], target: f64) -> Option<Run> {
        let tried = self.rejected(trigger);
        let is_worth = |messages: u64, tokens: u64| {
            messages > tried && !is_too_little(self.conversation, self.agent, tokens)
        };
        let (mut messages, mut tokens) = (0, 0);
        let mut to_seq = None;
        for span in candidates {
            let with = messages + span.messages;
            let is_enough = (with as f64 - target).abs() > (messages as f64 - target).abs();
            if to_seq.is_some() && is_enough && is_worth(messages, tokens) {
                break;
            }
            messages = with;
            tokens += span.tokens;
            to_seq = Some(span.to_seq);
        }
        let run = self.run(trigger, RunWork::Sealed, candidates.first()?.from_seq, to_seq?);
        is_worth(messages, tokens).then_some(run)
    }

    /// Messages of the last run when it was not worth its summary. What somebody asks for is tried again.
    fn rejected(&self, trigger: Trigger) -> u64 {
        let last = self.conversation.outcomes.iter().rev().find(|last| !last.trigger.is_deferrable());
        let last = last.filter(|last| last.outcome == RunOutcome::Rejected && trigger != Trigger::Manual);
        last.map_or(0, |last| last.messages)
    }

    fn threshold(&self) -> Option<Run> {
        match self.gauge.tier {
            Tier::Calm => None,
            tier => {
                let target = self.n_live() * self.agent.compaction.fraction(tier);
                self.sealed(Trigger::Threshold, &compactable(self.conversation, self.agent), target)
            }
        }
    }

    fn n_live(&self) -> f64 {
        self.conversation.live.len() as f64
    }

    /// The live history has more messages than it may. A run takes so many that a share of what is allowed is free again;
    /// where the reserved turns leave less than that share, none is due: it would take a turn or two, again and again.
    fn messages(&self) -> Option<Run> {
        let most = self.agent.compaction.max_messages as f64;
        if most == 0.0 || self.n_live() <= most {
            return None;
        }
        let share = most * self.agent.compaction.background_fraction;
        let candidates = compactable_by_number(self.conversation);
        let free: u64 = candidates.iter().map(|span| span.messages).sum();
        if (free as f64) < share.max(COUNTED_MIN) {
            return None;
        }
        self.sealed(Trigger::Messages, &candidates, self.n_live() - most + share)
    }

    fn waits(&self, run: &Run) -> Option<Timestamp> {
        let failed = if run.trigger.is_deferrable() {
            let (first, longest) = DEFERRED;
            backoff_until(self.conversation.deferred_failures, first, longest, self.now)
        } else {
            let first = Duration::from_millis(self.agent.compaction.retry_base_ms);
            backoff_until(self.conversation.failures, first, BACKOFF_MAX, self.now)
        };
        let waits = [failed, self.cold(run), self.budget(run)];
        waits.into_iter().flatten().filter(|until| *until > self.now).max()
    }

    /// A run that may wait: neither the aggressive tier nor a range without a summary presses.
    fn can_wait(run: &Run) -> bool {
        run.trigger == Trigger::Provisional
            || (run.tier < Tier::Aggressive && !matches!(run.work, RunWork::Truncated))
    }

    /// Until when a run waits for the provider's cache to have gone cold.
    fn cold(&self, run: &Run) -> Option<Timestamp> {
        if !self.agent.compaction.when_cold || !Self::can_wait(run) {
            return None;
        }
        prune::cold_at(self.conversation, self.agent, self.now)
    }

    /// Until when a run waits because others have taken the hour's tokens. One that cannot wait is made without a model.
    fn budget(&self, run: &Run) -> Option<Timestamp> {
        if !over_budget(self.conversation, self.agent, self.now) || !Self::can_wait(run) {
            return None;
        }
        self.conversation.spent_below(self.agent.compaction.tokens_per_hour, self.now)
    }

    /// The run that somebody asks for. With an instruction it may make the newest summary again, together with what may
    /// leave: where nothing else is left, or where it was `queued` behind the very run that somebody else asked for.
    fn manual(&self, instruction: Option<String>, queued: bool) -> Option<Run> {
        let candidates = compactable_on_request(self.conversation);
        let newest = self.newest_summary().filter(|_| instruction.is_some());
        let is_behind = |summary: &&Summary| {
            let last = self.conversation.outcomes.back();
            let made = |last: &RunReport| SummaryId::of_run(&last.run) == summary.id;
            queued && last.is_some_and(|last| last.trigger == Trigger::Manual && made(last))
        };
        let again = |summary: &Summary| {
            let (work, to_seq) = match candidates.last() {
                Some(last) => (RunWork::Sealed, last.to_seq),
                None => (RunWork::Truncated, summary.to_seq),
            };
            let run = self.run(Trigger::Manual, work, summary.from_seq, to_seq);
            Run { replaces: Some(summary.id.clone()), ..run }
        };
        let run = newest
            .filter(is_behind)
            .map(again)
            .or_else(|| self.sealed(Trigger::Manual, &candidates, self.n_live()))
            .or_else(|| newest.map(again))?;
        Some(Run { instruction, ..run })
    }

    /// The summary right before the live history, when it was made from entries.
    fn newest_summary(&self) -> Option<&'a Summary> {
        match self.conversation.stack.items().last()? {
            StackItem::Summary(summary) if summary.level == 0 => Some(summary),
            _ => None,
        }
    }

    fn truncated(&self) -> Option<Run> {
        let owed = |kind| kind == MarkerKind::Truncated;
        let marker = self.conversation.stack.markers().find(|marker| owed(marker.kind))?;
        Some(self.run(Trigger::Emergency, RunWork::Truncated, marker.from_seq, marker.to_seq))
    }

    fn merge(&self) -> Option<Run> {
        let stack = &self.conversation.stack;
        let merge = due_merge(stack, &self.sizes(), self.agent.compaction.fan_out)?;
        new_merge(self.conversation, &self.gauge, merge, self.now)
    }

    /// The merge, where the stack is near its share and the window is not: it must not wait behind runs that add to it.
    fn pressing_merge(&self) -> Option<Run> {
        let presses =
            self.conversation.stack.tokens() > self.sizes().soft && self.gauge.tier < Tier::Aggressive;
        presses.then(|| self.merge())?
    }

    /// The oldest range that no model has summarised, made again from its entries while the window is calm. In journals of
    /// earlier versions also one that had left the window behind a marker.
    fn provisional(&self) -> Option<Run> {
        if self.gauge.tier > Tier::Calm {
            return None;
        }
        let is_owed = |item: &&StackItem| match item {
            StackItem::Summary(summary) => summary.provisional,
            StackItem::Marker(marker) => marker.kind == MarkerKind::Retired,
        };
        let (from_seq, to_seq) = self.conversation.stack.items().iter().find(is_owed)?.range();
        Some(self.run(Trigger::Provisional, RunWork::Truncated, from_seq, to_seq))
    }

    fn sizes(&self) -> StackSizes {
        StackSizes::of(
            self.agent,
            &self.conversation.correction(&self.agent.model),
            self.conversation.stack.tokens(),
        )
    }
}
