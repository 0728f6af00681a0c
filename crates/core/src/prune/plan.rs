//! Which results are pruned, and when.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::form::{as_sent, has_pictures};
use crate::agent::AgentSettings;
use crate::compaction::after;
use crate::conversation::Conversation;
use crate::settings::{PruneMode, PruningSettings};
use crate::window::{Gauge, measure};
use cairn_types::event::{CompactionEvent, Event, PruneCause, PruneForm, PrunedResult};
use cairn_types::ids::{Seq, TurnId};
use cairn_types::message::{Entry, Role, ToolCall, entry_tokens, text_of};
use cairn_types::tier::Tier;
use cairn_types::tool::result_class::ResultClass;

/// Newest assistant messages with results whose results are not shrunk.
const MESSAGES_SPARED: usize = 2;

/// Latest turns whose results are not cleared; the open one counts.
const TURNS_SPARED: usize = 2;

/// Usable window in tokens below which what is spared and what must be won shrink in proportion.
const FULL_WINDOW: u64 = 200_000;

/// Tokens that stay free in a loop of calls: by default the next round's results take half of them.
const FREE_TOKENS: u64 = 4_000;

/// In a small window one part in so many stays free.
const FREE_PART: u64 = 6;

/// What is due before a call of the model, by the agent's mode. Nothing for the sake of pressure while a run is under
/// way: its commit makes room.
pub fn before_call(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Option<Event> {
    match agent.pruning.mode {
        PruneMode::Off => None,
        // A run does not touch the open turn.
        PruneMode::Pressure if conversation.run.is_some() => make_way(conversation, agent),
        PruneMode::Pressure => pressure(conversation, agent).or_else(|| make_way(conversation, agent)),
        PruneMode::CacheTtl => cache_ttl(conversation, agent, now),
    }
}

/// The batch that is due from the background threshold on, in that mode: old results shrink; when that is not enough,
/// the older of them are cleared. `None` when too little would be won.
pub fn pressure(conversation: &Conversation, agent: &AgentSettings) -> Option<Event> {
    let settings = &agent.pruning;
    if settings.mode != PruneMode::Pressure {
        return None;
    }
    let batch = Batch::new(conversation, agent, PruneCause::Pressure);
    if batch.before.tier < Tier::Background {
        return None;
    }
    let min_win = scaled(settings.min_win_tokens, agent).max(1);
    let protected = scaled(settings.protect_tokens, agent);
    let found = scan(conversation, agent);
    let shrinks = |result: &&ToolResult<'_>| {
        result.seen && result.newer_messages >= MESSAGES_SPARED && !result.kept_recent
    };
    let mut pruned: BTreeMap<_, _> = found
        .iter()
        .filter(shrinks)
        .filter_map(|result| result.pruned_to(shrunk(settings)))
        .map(|pruned| (pruned.seq, pruned))
        .collect();
    let shrunk = batch.event(pruned.values().cloned().collect(), found.len());
    if shrunk.as_ref().is_some_and(|event| won(event) >= min_win && batch.calms(event)) {
        return shrunk;
    }
    let clears = |result: &&ToolResult<'_>| {
        result.seen
            && result.newer_messages >= MESSAGES_SPARED
            && result.newer_turns >= TURNS_SPARED
            && result.newer_tokens >= protected
    };
    let cleared = found.iter().filter(clears).filter_map(|result| result.pruned_to(PruneForm::Cleared));
    for result in cleared {
        let shorter = pruned.get(&result.seq).is_none_or(|shrunk| result.tokens < shrunk.tokens);
        if shorter {
            pruned.insert(result.seq, result);
        }
    }
    batch.event(pruned.into_values().collect(), found.len()).filter(|event| won(event) >= min_win)
}

/// Clears the oldest results, where a loop of calls leaves so little room that the next result would be a note alone: what is new
/// is worth more than what was read before. It frees twice what is due, since each batch costs the provider's cache.
fn make_way(conversation: &Conversation, agent: &AgentSettings) -> Option<Event> {
    let open = conversation.open_turn.as_ref()?;
    let mut of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
    if !of_turn.any(|entry| entry.role == Role::Tool) {
        return None;
    }
    let batch = Batch::new(conversation, agent, PruneCause::Pressure);
    let usable = agent.window.usable_tokens();
    let least = FREE_TOKENS.min(usable / FREE_PART);
    // In an emergency the largest give way, and make more room.
    if batch.before.tier == Tier::Emergency || batch.before.tokens + least <= usable {
        return None;
    }
    let target = usable.saturating_sub(2 * least);
    let found = scan(conversation, agent);
    let clears = found.iter().filter(|result| result.seen).map(|result| (result, PruneForm::Cleared));
    batch.until(target, clears, found.len())
}

/// The batch that is due before the first call of a turn when the provider's cache has gone cold, in that mode.
fn cache_ttl(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Option<Event> {
    let settings = &agent.pruning;
    let is_warm = cold_at(conversation, agent, now).is_some_and(|cold| cold > now);
    if is_warm || !is_first_call(conversation) {
        return None;
    }
    let batch = Batch::new(conversation, agent, PruneCause::CacheTtl);
    let usage = batch.before.usage_ratio;
    if usage < settings.soft_ratio {
        return None;
    }
    let clears = settings.hard_clear.enabled && usage >= settings.hard_ratio;
    let found = scan(conversation, agent);
    let is_old = |result: &&ToolResult<'_>| {
        result.seen
            && result.newer_replies >= settings.keep_replies
            && now.duration_since(result.entry.at) >= ttl_of(agent)
    };
    let pruned = found.iter().filter(is_old).filter_map(|result| {
        if clears {
            result.pruned_to(PruneForm::Cleared)
        } else if result.chars() > settings.soft_chars && !result.kept_recent {
            result.pruned_to(PruneForm::Edges { chars: settings.keep_chars })
        } else {
            None
        }
    });
    batch.event(pruned.collect(), found.len())
}

/// Shrinks results that a call has seen, those of the open turn too, the largest first, until usage is below the
/// emergency threshold or all are shrunk. `None` when none can.
pub fn shrink_seen(conversation: &Conversation, agent: &AgentSettings, cause: PruneCause) -> Option<Event> {
    let mut found = scan(conversation, agent);
    found.sort_by_key(|result| (Reverse(result.weight), result.entry.seq));
    let form = shrunk(&agent.pruning);
    let pruned = found.iter().filter(|result| result.seen).map(|result| (result, form));
    Batch::new(conversation, agent, cause).until_calmer(pruned, found.len())
}

/// Clears results that a call has seen, the oldest first, but for those of the newest messages with results, until
/// usage is below the emergency threshold or all are cleared. `None` when none can.
pub fn clear_seen(conversation: &Conversation, agent: &AgentSettings, cause: PruneCause) -> Option<Event> {
    let found = scan(conversation, agent);
    let clears = |result: &&ToolResult<'_>| result.seen && result.newer_messages >= MESSAGES_SPARED;
    let pruned = found.iter().filter(clears).map(|result| (result, PruneForm::Cleared));
    Batch::new(conversation, agent, cause).until_calmer(pruned, found.len())
}

/// Most tokens, after correction, of a request in the place of one that the model has refused as too large.
pub(crate) fn overflow_target(conversation: &Conversation, agent: &AgentSettings) -> u64 {
    Batch::new(conversation, agent, PruneCause::Overflow).target()
}

/// When the provider's cache of this conversation goes cold, or went; `None` when it holds nothing that the next
/// request could use.
pub fn cold_at(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Option<Timestamp> {
    let asked = match &conversation.reported {
        Some(reported) if reported.model != agent.model => return None,
        Some(reported) => reported.at,
        // A provider that does not count: what the model said last is as good.
        None => conversation.live.iter().rev().find(|entry| entry.role == Role::Assistant)?.at,
    };
    // In the future: the clock was set back, and nobody knows how long ago it was.
    let asked = Some(asked).filter(|asked| *asked <= now)?;
    asked.checked_add(ttl_of(agent)).ok()
}

/// For how long after a request the provider's cache keeps it.
fn ttl_of(agent: &AgentSettings) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(agent.cache_ttl_secs).unwrap_or(i64::MAX))
}

/// The model has not spoken in the open turn.
fn is_first_call(conversation: &Conversation) -> bool {
    let Some(open) = &conversation.open_turn else { return false };
    let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
    of_turn.filter(|entry| entry.role == Role::Assistant).count() == 0
}

fn shrunk(settings: &PruningSettings) -> PruneForm {
    PruneForm::Shrunk { bytes: settings.shrink_bytes }
}

/// That many tokens, or less in small windows.
fn scaled(tokens: u64, agent: &AgentSettings) -> u64 {
    let share = agent.window.usable_tokens() as f64 / FULL_WINDOW as f64;
    (tokens as f64 * share.min(1.0)) as u64
}

fn won(event: &Event) -> u64 {
    match event {
        Event::Compaction(CompactionEvent::ResultsPruned { tokens_before, tokens_after, .. }) => {
            tokens_before.saturating_sub(*tokens_after)
        }
        _ => 0,
    }
}

pub(super) struct Batch<'a> {
    conversation: &'a Conversation,
    agent: &'a AgentSettings,
    cause: PruneCause,
    before: Gauge,
}

impl<'a> Batch<'a> {
    pub(super) fn new(conversation: &'a Conversation, agent: &'a AgentSettings, cause: PruneCause) -> Self {
        Self { conversation, agent, cause, before: measure(conversation, agent) }
    }

    /// The event, weighed; `None` when there is nothing in it.
    pub(super) fn event(&self, results: Vec<PrunedResult>, scanned: usize) -> Option<Event> {
        if results.is_empty() {
            return None;
        }
        let pruned = |results, tokens_after| {
            Event::Compaction(CompactionEvent::ResultsPruned {
                cause: self.cause,
                results,
                scanned: scanned as u64,
                tokens_before: self.before.tokens,
                tokens_after,
            })
        };
        let then = after(self.conversation, &[pruned(results.clone(), 0)]);
        Some(pruned(results, measure(&then, self.agent).tokens))
    }

    /// Usage is below the background threshold after the event.
    fn calms(&self, event: &Event) -> bool {
        let after = self.before.tokens.saturating_sub(won(event));
        let usage = after as f64 / self.agent.window.usable_tokens() as f64;
        self.agent.compaction.tier(usage) < Tier::Background
    }

    /// Most tokens that calm an emergency; after a refusal a share of what was refused, if that is less.
    fn target(&self) -> u64 {
        let limit = self.agent.compaction.emergency_threshold * self.agent.window.usable_tokens() as f64;
        let below = (limit.ceil() as u64).saturating_sub(1);
        match self.cause {
            PruneCause::Overflow => below.min((self.before.tokens as f64 * OVERFLOW_SHARE) as u64),
            PruneCause::Pressure | PruneCause::CacheTtl | PruneCause::Emergency | PruneCause::Message => {
                below
            }
        }
    }

    /// Takes results in their order until usage is below the emergency threshold.
    fn until_calmer<'f>(
        &self,
        results: impl Iterator<Item = (&'f ToolResult<'f>, PruneForm)>,
        scanned: usize,
    ) -> Option<Event> {
        self.until(self.target(), results, scanned)
    }

    /// Takes results in their order until the request takes so many tokens.
    fn until<'f>(
        &self,
        target: u64,
        results: impl Iterator<Item = (&'f ToolResult<'f>, PruneForm)>,
        scanned: usize,
    ) -> Option<Event> {
        let correction = self.conversation.correction(&self.agent.model);
        let mut estimated = self.before.estimated_tokens;
        let mut taken = Vec::new();
        for (result, form) in results {
            // Regions are rounded up one by one: what is measured may be a few tokens more.
            if correction.apply(estimated) + ROUNDING <= target {
                break;
            }
            if let Some(pruned) = result.pruned_to(form) {
                estimated = estimated.saturating_sub(result.weight - u64::from(pruned.tokens));
                taken.push(pruned);
            }
        }
        taken.sort_by_key(|pruned| pruned.seq);
        self.event(taken, scanned)
    }
}

/// Share of a refused request that the next one may have.
const OVERFLOW_SHARE: f64 = 0.7;

/// By how much the sum of rounded regions may exceed the rounded sum.
const ROUNDING: u64 = 7;

/// A result of a tool in the live history.
struct ToolResult<'a> {
    entry: &'a Arc<Entry>,
    /// The tool, by the call that it answers.
    tool: &'a str,
    /// How it is sent so far, when it is pruned.
    pruned: Option<&'a PrunedResult>,
    /// Bytes of the whole of it.
    bytes: u64,
    /// Estimated tokens as it is sent so far, before correction.
    weight: u64,
    /// A model call has seen it: the model has spoken since.
    seen: bool,
    /// Assistant messages with results that are newer than its own.
    newer_messages: usize,
    /// Turns that are newer than its own.
    newer_turns: usize,
    /// Replies of turns that are newer than its own.
    newer_replies: usize,
    /// Tokens of newer results as they are sent so far, after correction.
    newer_tokens: u64,
    /// The newest result of a tool whose newest result stays whole.
    kept_recent: bool,
}

/// The results of the live history, oldest first.
fn scan<'a>(conversation: &'a Conversation, agent: &AgentSettings) -> Vec<ToolResult<'a>> {
    let tools = tools_of(conversation);
    let correction = conversation.correction(&agent.model);
    let mut results = Vec::new();
    let (mut seen, mut newer_messages, mut newer_turns, mut newer_replies) = (false, 0, 0, 0);
    let (mut newer_tokens, mut has_results, mut has_reply) = (0, false, false);
    let mut turn: Option<&TurnId> = None;
    let mut kept: Vec<&str> = Vec::new();
    for entry in conversation.live.iter().rev() {
        if turn.is_some_and(|turn| *turn != entry.turn) {
            newer_turns += 1;
            newer_replies += usize::from(std::mem::take(&mut has_reply));
        }
        turn = Some(&entry.turn);
        match entry.role {
            Role::User => {}
            Role::Assistant => {
                seen = true;
                newer_messages += usize::from(std::mem::take(&mut has_results));
                has_reply |= entry.tool_calls.is_empty();
            }
            Role::Tool => {
                has_results = true;
                let tool = tools.get(&entry.seq).copied().unwrap_or("tool");
                let class = agent.result_guard.class(tool).unwrap_or_default();
                let kept_recent = class == ResultClass::KeepRecent && !kept.contains(&tool);
                if kept_recent {
                    kept.push(tool);
                }
                let artifact = entry.artifact.as_ref().and_then(|id| conversation.artifacts.get(id));
                let bytes =
                    artifact.map_or_else(|| text_of(&entry.parts).len() as u64, |artifact| artifact.bytes);
                let (pruned, weight) = (conversation.pruned.get(&entry.seq), conversation.weight(entry));
                results.push(ToolResult {
                    entry,
                    tool,
                    pruned,
                    bytes,
                    weight,
                    seen,
                    newer_messages,
                    newer_turns,
                    newer_replies,
                    newer_tokens,
                    kept_recent,
                });
                newer_tokens += correction.apply(weight);
            }
        }
    }
    results.reverse();
    results
}

/// The tools of the results, by the calls that they answer.
fn tools_of(conversation: &Conversation) -> BTreeMap<Seq, &str> {
    let mut calls: &[ToolCall] = &[];
    let mut tools = BTreeMap::new();
    for entry in &conversation.live {
        match entry.role {
            Role::User => {}
            Role::Assistant => calls = &entry.tool_calls,
            Role::Tool => {
                let call = calls.iter().find(|call| entry.tool_call_id.as_ref() == Some(&call.id));
                tools.extend(call.map(|call| (entry.seq, call.name.as_str())));
            }
        }
    }
    tools
}

impl ToolResult<'_> {
    /// The result in that form; `None` when that would win nothing, or when it is sent in that form or a shorter one.
    fn pruned_to(&self, form: PruneForm) -> Option<PrunedResult> {
        match self.pruned.map(|pruned| pruned.form) {
            Some(PruneForm::Cleared) => return None,
            Some(now) if now == form => return None,
            Some(_) | None => {}
        }
        let fits = match form {
            PruneForm::Shrunk { bytes } => text_of(&self.entry.parts).len() <= bytes,
            PruneForm::Edges { chars } => self.chars() <= chars * 2,
            PruneForm::Cleared => false,
        };
        if fits && !has_pictures(self.entry) {
            return None;
        }
        let (seq, tool) = (self.entry.seq, self.tool.to_owned());
        let mut pruned = PrunedResult { seq, form, tokens: 0, tool, whole_bytes: self.bytes, artifact: None };
        pruned.tokens = entry_tokens(&as_sent(self.entry, &pruned));
        (u64::from(pruned.tokens) < self.weight).then_some(pruned)
    }

    /// Characters of it as it is kept.
    fn chars(&self) -> usize {
        text_of(&self.entry.parts).chars().count()
    }
}
