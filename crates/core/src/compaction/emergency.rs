//! Making room at once: results are sent shorter first, and only when that is not enough do the oldest turns leave the
//! window.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;

use super::after;
use super::commit::condense;
use super::plan::{closed_turns, unreserved};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::digest::{self, MARKER_TOKENS, quoted, read_tokens};
use crate::prune;
use crate::settings::PruneMode;
use crate::summary::StackSizes;
use crate::turn::Span;
use crate::window::{Gauge, leaves_room, measure};
use cairn_types::event::{CompactionEvent, Event, PruneCause};
use cairn_types::ids::Seq;
use cairn_types::message::Entry;
use cairn_types::summary::{DigestLine, Marker, MarkerKind, StackItem};
use cairn_types::tier::Tier;

/// What is due before a call of the model: the pruning of the agent's mode; at the emergency tier the stack keeps to its
/// share, results shrink, and when that is not enough the emergency follows. Empty when nothing is due, or nothing can be done.
pub fn relieve(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut room = Relief::new(conversation, agent);
    room.take(prune::before_call(conversation, agent, now));
    let prunes = agent.pruning.mode != PruneMode::Off;
    if room.is_full() {
        room.take(condense(&room.then, agent, now));
    }
    if prunes && room.is_full() {
        room.take(prune::shrink_seen(&room.then, agent, PruneCause::Emergency));
    }
    if room.is_full() {
        room.take(emergency(&room.then, agent));
        room.take(condense(&room.then, agent, now));
    }
    if prunes && room.is_full() {
        room.take(prune::clear_seen(&room.then, agent, PruneCause::Emergency));
    }
    room.events
}

/// What is due when the model has refused a request as too large, by settings whose window is as small as the refusal
/// says: results shrink; when that is not enough messages leave, whatever the usage by our own measure.
pub fn relieve_on_overflow(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut room = Relief::new(conversation, agent);
    let most = prune::overflow_target(conversation, agent);
    room.take(condense(conversation, agent, now));
    room.take(prune::shrink_seen(&room.then, agent, PruneCause::Overflow));
    if measure(&room.then, agent).tokens > most {
        room.take(emergency_on_overflow(&room.then, agent, most));
        room.take(condense(&room.then, agent, now));
    }
    if room.is_full() {
        room.take(prune::clear_seen(&room.then, agent, PruneCause::Overflow));
    }
    room.events
}

struct Relief<'a> {
    agent: &'a AgentSettings,
    /// The conversation as it would be after the events.
    then: Cow<'a, Conversation>,
    events: Vec<Event>,
}

impl<'a> Relief<'a> {
    fn new(conversation: &'a Conversation, agent: &'a AgentSettings) -> Self {
        Self { agent, then: Cow::Borrowed(conversation), events: Vec::new() }
    }

    fn take(&mut self, events: impl IntoIterator<Item = Event>) {
        let events: Vec<Event> = events.into_iter().collect();
        if !events.is_empty() {
            self.then = Cow::Owned(after(&self.then, &events));
            self.events.extend(events);
        }
    }

    fn is_full(&self) -> bool {
        measure(&self.then, self.agent).tier == Tier::Emergency
    }
}

/// The emergency that is due: the oldest turns leave, the sealed part first, until usage is below the aggressive threshold.
/// The reserved tail goes last, and only until usage is below the emergency threshold. Empty when usage is below that, or
/// nothing can leave.
fn emergency(conversation: &Conversation, agent: &AgentSettings) -> Vec<Event> {
    let before = measure(conversation, agent);
    if before.tier < Tier::Emergency {
        return Vec::new();
    }
    drop_oldest(conversation, agent, &before, u64::MAX).unwrap_or_default()
}

/// The emergency regardless of usage, to `most` tokens of the whole request: for a model that says that its window is smaller
/// than we believe. One turn at the least leaves.
pub fn emergency_on_overflow(conversation: &Conversation, agent: &AgentSettings, most: u64) -> Vec<Event> {
    let before = measure(conversation, agent);
    drop_oldest(conversation, agent, &before, most).unwrap_or_default()
}

fn drop_oldest(
    conversation: &Conversation,
    agent: &AgentSettings,
    before: &Gauge,
    most: u64,
) -> Option<Vec<Event>> {
    let frame = before.regions.system.tokens + before.regions.tools.tokens;
    if !leaves_room(frame, agent.window.usable_tokens()) {
        // Whatever leaves, no request will fit: that is to be mended in the configuration.
        return None;
    }
    let turns = closed_turns(conversation);
    let n_free = unreserved(conversation, agent, turns.clone()).len();
    let least = agent.compaction.emergency_fraction * conversation.live.len() as f64;
    let below = |threshold: f64| ((threshold * agent.window.usable_tokens() as f64) as u64).min(most);
    let calm = below(agent.compaction.aggressive_threshold);
    let full = below(agent.compaction.emergency_threshold);
    let fewest = |most| fewest(conversation, agent, &turns, before, most);
    let mut n_turns = fewest(calm).min(n_free).max(fewest(full)).max(at_least(&turns, least));
    loop {
        n_turns = n_turns.min(turns.len());
        let to_seq = turns.get(n_turns.checked_sub(1)?)?.to_seq;
        let marker = marker(conversation, agent, to_seq);
        let messages = turns[..n_turns].iter().map(|span| span.messages).sum();
        let event = Event::Compaction(CompactionEvent::EmergencyApplied {
            marker,
            messages,
            tokens_before: before.tokens,
            tokens_after: 0,
        });
        let tokens = measure(&after(conversation, std::slice::from_ref(&event)), agent).tokens;
        let target = if n_turns < n_free { calm } else { full };
        if tokens < target || n_turns == turns.len() {
            return Some(vec![with_tokens_after(event, tokens)]);
        }
        n_turns += 1;
    }
}

/// The number of oldest turns that hold so many messages.
fn at_least(turns: &[Span], messages: f64) -> usize {
    let mut held = 0.0;
    let is_wanted = |span: &&Span| {
        let is_wanted = held < messages;
        held += span.messages as f64;
        is_wanted
    };
    turns.iter().take_while(is_wanted).count()
}

/// The number of oldest turns by whose leaving alone the request comes below so many tokens; at least one.
pub(crate) fn fewest(
    conversation: &Conversation,
    agent: &AgentSettings,
    turns: &[Span],
    before: &Gauge,
    most: u64,
) -> usize {
    let correction = conversation.correction(&agent.model);
    let mut left = before.estimated_tokens;
    let leaves = turns.iter().take_while(|span| {
        let is_over = correction.apply(left) >= most;
        left = left.saturating_sub(span.tokens);
        is_over
    });
    leaves.count().max(1)
}

/// The marker for everything up to `to_seq`, an adjacent truncated marker before it joined in. Its digest takes what the
/// stack's share has free.
fn marker(conversation: &Conversation, agent: &AgentSettings, to_seq: Seq) -> Marker {
    let leaving = conversation.live.iter().take_while(|entry| entry.seq <= to_seq);
    let leaving: Vec<Arc<Entry>> = leaving.cloned().collect();
    let tokens = read_tokens(&leaving);
    let joined = match conversation.stack.items().last() {
        Some(StackItem::Marker(last)) if last.kind == MarkerKind::Truncated => Some(last),
        _ => None,
    };
    let correction = conversation.correction(&agent.model);
    let others = conversation.stack.tokens() - joined.map_or(0, |last| u64::from(last.tokens));
    let free = StackSizes::of(agent, &correction, others).cap.saturating_sub(others + MARKER_TOKENS);
    let share = digest::most_tokens(agent.window.usable_tokens(), &correction);
    let cap = share.min(free).max(digest::FLOOR) as u32;
    let budget = digest::budget(tokens, cap.into());
    // What a run under way works on gives way to its summary: the rest must have words of its own.
    let sealed_to = conversation.run.as_ref().map_or(to_seq, |run| run.to_seq);
    let (sealed, rest) = leaving.split_at(leaving.partition_point(|entry| entry.seq <= sealed_to));
    let share = |part: &[Arc<Entry>]| (budget * read_tokens(part) / tokens.max(1)) as u32;
    let mut lines: Vec<DigestLine> = [sealed, rest].map(|part| quoted(part, share(part))).concat();
    let mut from_seq = leaving.first().map_or(to_seq, |entry| entry.seq);
    if let Some(last) = joined {
        from_seq = last.from_seq;
        lines = join(&last.digest, lines, cap);
    }
    Marker::new(MarkerKind::Truncated, from_seq, to_seq, lines).counting(conversation.count(from_seq, to_seq))
}

/// Both digests, thinned evenly until they fit. The newest line stays.
fn join(older: &[DigestLine], newer: Vec<DigestLine>, cap: u32) -> Vec<DigestLine> {
    let mut lines: Vec<DigestLine> = older.iter().cloned().chain(newer).collect();
    while lines.len() > 1 && cairn_types::tokens::estimate(&crate::digest::render(&lines)) > cap {
        let mut keep = lines.len().is_multiple_of(2);
        lines.retain(|_| {
            keep = !keep;
            keep
        });
    }
    lines
}

fn with_tokens_after(mut event: Event, tokens: u64) -> Event {
    if let Event::Compaction(CompactionEvent::EmergencyApplied { tokens_after, .. }) = &mut event {
        *tokens_after = tokens;
    }
    event
}
