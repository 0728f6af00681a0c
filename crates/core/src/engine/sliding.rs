//! The sliding engine: the oldest turns leave the window, whole, and nothing stands for them but a marker. It needs no
//! model; the words stay in the history, where they are found by searching.

use jiff::Timestamp;

use super::{ContextEngine, EngineInfo, MakeRoom, SLIDING};
use crate::agent::AgentSettings;
use crate::compaction::{
    Decision, after, closed_turns, compactable, compactable_by_number, compactable_on_request,
    with_retirement,
};
use crate::conversation::Conversation;
use crate::event::Event;
use crate::ids::Seq;
use crate::summary::{Marker, MarkerKind, StackItem};
use crate::tier::Tier;
use crate::turn::Span;
use crate::window::{leaves_room, measure};

/// Share of the background threshold to which usage goes down when the window slides: so that it does so every so many
/// turns, and the provider's cache of what is sent lives in between.
const DOWN_TO: f64 = 0.75;

/// The sliding engine. All it knows is in the conversation.
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
            MakeRoom::Tier => slide(conversation, agent, &all, Least::Turns(1)),
            // The model takes less than we believe: at least as much goes as in any emergency.
            MakeRoom::Overflow => {
                let least = agent.compaction.emergency_fraction * conversation.live.len() as f64;
                slide(conversation, agent, &all, Least::Messages(least))
            }
            MakeRoom::Manual => {
                let spared = compactable_on_request(conversation);
                slide(conversation, agent, &spared, Least::Turns(spared.len()))
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
        let events = slide(conversation, agent, &spared, Least::Turns(1));
        if events.is_empty() { Decision::Idle } else { Decision::Apply(events) }
    }
}

/// What leaves in any case.
#[derive(Clone, Copy)]
enum Least {
    /// So many turns.
    Turns(usize),
    /// So many messages.
    Messages(f64),
}

impl Least {
    /// How many turns that are, of those that may leave.
    fn of(self, turns: &[Span]) -> usize {
        match self {
            Self::Turns(n) => n,
            Self::Messages(least) => {
                let mut n_messages = 0.0;
                let before = turns.iter().take_while(|span| {
                    let is_wanted = n_messages < least;
                    n_messages += span.messages as f64;
                    is_wanted
                });
                before.count()
            }
        }
    }
}

/// Drops the oldest of these turns, the least of them in any case, until usage is down. Empty where none can leave, or
/// none would help: prompt and tools leave no room whatever the conversation.
fn slide(conversation: &Conversation, agent: &AgentSettings, turns: &[Span], least: Least) -> Vec<Event> {
    let before = measure(conversation, agent);
    let usable = agent.window.usable_tokens();
    let frame = before.regions.system.tokens + before.regions.tools.tokens;
    if turns.is_empty() || !leaves_room(frame, usable) {
        return Vec::new();
    }
    let target = agent.compaction.background_threshold * DOWN_TO * usable as f64;
    let most_messages = match agent.compaction.max_messages {
        0 => usize::MAX,
        most => (most as f64 * DOWN_TO) as usize,
    };
    let correction = conversation.correction(&agent.model);
    let mut n_turns = least.of(turns).clamp(1, turns.len());
    // A first guess by the turns' own weights; the marker and rounding are found out below.
    let mut left = before.tokens as f64;
    for (idx, span) in turns.iter().enumerate() {
        if left <= target {
            break;
        }
        left -= correction.apply(span.tokens) as f64;
        n_turns = n_turns.max(idx + 1);
    }
    loop {
        let events = slid(conversation, agent, &turns[..n_turns], before.tokens);
        let then = after(conversation, &events);
        let tokens = measure(&then, agent).tokens;
        let is_down = tokens as f64 <= target && then.live.len() <= most_messages;
        if is_down || n_turns == turns.len() {
            return with_tokens_after(events, tokens);
        }
        n_turns += 1;
    }
}

fn slid(
    conversation: &Conversation,
    agent: &AgentSettings,
    turns: &[Span],
    tokens_before: u64,
) -> Vec<Event> {
    let Some(((first, last), messages)) =
        turns.first().zip(turns.last()).map(|ends| (ends, turns.iter().map(|span| span.messages).sum()))
    else {
        return Vec::new();
    };
    let marker = marker(conversation, first.from_seq, last.to_seq);
    with_retirement(
        conversation,
        agent,
        Event::WindowSlid { marker, messages, tokens_before, tokens_after: 0 },
    )
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

fn with_tokens_after(mut events: Vec<Event>, tokens: u64) -> Vec<Event> {
    for event in &mut events {
        if let Event::WindowSlid { tokens_after, .. } = event {
            *tokens_after = tokens;
        }
    }
    events
}
