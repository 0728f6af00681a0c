//! The sliding engine: the oldest turns leave the window as a whole, and only a marker replaces them. It needs no model;
//! the history keeps the text, which can be searched.

use jiff::Timestamp;

use super::{ContextEngine, EngineInfo, MakeRoom, SLIDING};
use crate::agent::AgentSettings;
use crate::compaction::{
    Decision, after, closed_turns, compactable, compactable_by_number, compactable_on_request, fewest,
};
use crate::conversation::Conversation;
use crate::prune;
use crate::turn::Span;
use crate::window::{leaves_room, measure};
use cairn_types::event::{CompactionEvent, Event};
use cairn_types::ids::Seq;
use cairn_types::summary::{Marker, MarkerKind, StackItem};
use cairn_types::tier::Tier;

/// Share of the background threshold that usage is reduced to when the window slides, so that it slides only every few
/// turns and the provider's cache is useful in between.
const DOWN_TO: f64 = 0.75;

/// The sliding engine. It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sliding;

impl ContextEngine for Sliding {
    fn info(&self) -> EngineInfo {
        let (name, version) = ("the oldest turns leave the window whole, without a model", "1");
        EngineInfo { id: SLIDING, name, version, owns_compaction: true }
    }

    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        _now: Timestamp,
    ) -> Vec<Event> {
        let all = closed_turns(conversation);
        match cause {
            MakeRoom::Tier if measure(conversation, agent).tier < Tier::Emergency => Vec::new(),
            // The reserved tail goes, too, where nothing else is left.
            MakeRoom::Tier => slide(conversation, agent, &all, 1, u64::MAX),
            // The model takes less than we believe.
            MakeRoom::Overflow => {
                slide(conversation, agent, &all, 1, prune::overflow_target(conversation, agent))
            }
            MakeRoom::Manual => {
                let spared = compactable_on_request(conversation);
                slide(conversation, agent, &spared, spared.len(), u64::MAX)
            }
        }
    }

    fn after_turn(&self, conversation: &Conversation, agent: &AgentSettings, _now: Timestamp) -> Decision {
        let settings = &agent.compaction;
        let is_full = settings.max_messages > 0 && conversation.live.len() as u64 > settings.max_messages;
        let is_due = settings.enabled && (is_full || measure(conversation, agent).tier > Tier::Calm);
        let spared = match is_due {
            true if is_full => compactable_by_number(conversation),
            true => compactable(conversation, agent),
            false => Vec::new(),
        };
        let events = slide(conversation, agent, &spared, 1, u64::MAX);
        if events.is_empty() { Decision::Idle } else { Decision::Apply(events) }
    }
}

/// Drops the oldest of these turns, `least` of them in any case, until usage is down, and the request at `most` tokens. Empty
/// where none can leave, or none would help: prompt and tools leave no room whatever the conversation.
fn slide(
    conversation: &Conversation,
    agent: &AgentSettings,
    turns: &[Span],
    least: usize,
    most: u64,
) -> Vec<Event> {
    let before = measure(conversation, agent);
    let usable = agent.window.usable_tokens();
    let frame = before.regions.system.tokens + before.regions.tools.tokens;
    if turns.is_empty() || !leaves_room(frame, usable) {
        return Vec::new();
    }
    let target = ((agent.compaction.background_threshold * DOWN_TO * usable as f64) as u64).min(most);
    let most_messages = match agent.compaction.max_messages {
        0 => usize::MAX,
        most => (most as f64 * DOWN_TO) as usize,
    };
    let mut n_turns = least.max(fewest(conversation, agent, turns, &before, target)).min(turns.len());
    loop {
        let event = slid(conversation, &turns[..n_turns], before.tokens);
        let then = after(conversation, event.as_slice());
        let tokens = measure(&then, agent).tokens;
        let is_down = tokens <= target && then.live.len() <= most_messages;
        if is_down || n_turns == turns.len() {
            return event.map(|event| with_tokens_after(event, tokens)).into_iter().collect();
        }
        n_turns += 1;
    }
}

/// The event by which these turns leave.
fn slid(conversation: &Conversation, turns: &[Span], tokens_before: u64) -> Option<Event> {
    let (first, last) = (turns.first()?, turns.last()?);
    let messages = turns.iter().map(|span| span.messages).sum();
    let marker = marker(conversation, first.from_seq, last.to_seq);
    Some(Event::Compaction(CompactionEvent::WindowSlid { marker, messages, tokens_before, tokens_after: 0 }))
}

/// The marker for what leaves, joined with a marker that stands right before it. Summaries that another engine left stay.
fn marker(conversation: &Conversation, from_seq: Seq, to_seq: Seq) -> Marker {
    let from_seq = match conversation.stack.items().last() {
        Some(StackItem::Marker(older)) => older.from_seq,
        // Turns that were undone in between belong to nobody.
        Some(StackItem::Summary(_)) | None => from_seq,
    };
    let messages = conversation.count(from_seq, to_seq);
    Marker::new(MarkerKind::Retired, from_seq, to_seq, Vec::new()).counting(messages)
}

fn with_tokens_after(mut event: Event, tokens: u64) -> Event {
    if let Event::Compaction(CompactionEvent::WindowSlid { tokens_after, .. }) = &mut event {
        *tokens_after = tokens;
    }
    event
}
