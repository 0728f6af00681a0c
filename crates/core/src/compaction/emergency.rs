//! The emergency: the oldest half leaves the window at once.

use std::sync::Arc;

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::digest::digest;
use crate::event::Event;
use crate::ids::Seq;
use crate::message::Entry;
use crate::summary::{DigestLine, Marker, MarkerKind, StackItem};
use crate::tier::Tier;
use crate::turn::{Span, spans};
use crate::window::{Gauge, leaves_room, measure};

/// Share of the usable window that a marker's digest may take.
const DIGEST_SHARE: f64 = 0.05;

/// Share of what left that its digest may take.
const DIGEST_FRACTION: f64 = 0.2;

/// The emergency that is due: the oldest fraction of the messages (whole turns, the sealed part first) leaves, and
/// as much again until usage is under the threshold or only the open turn is left. Empty when usage is below the
/// threshold or nothing can leave. A retirement of the stack may follow the emergency.
pub fn emergency(conversation: &Conversation, agent: &AgentSettings) -> Vec<Event> {
    let before = measure(conversation, agent);
    if before.tier < Tier::Emergency {
        return Vec::new();
    }
    drop_oldest(conversation, agent, &before).unwrap_or_default()
}

/// The same regardless of usage: for a model that says that its window is smaller than we believe.
pub fn emergency_on_overflow(conversation: &Conversation, agent: &AgentSettings) -> Vec<Event> {
    let before = measure(conversation, agent);
    drop_oldest(conversation, agent, &before).unwrap_or_default()
}

fn drop_oldest(conversation: &Conversation, agent: &AgentSettings, before: &Gauge) -> Option<Vec<Event>> {
    let frame = before.regions.system.tokens + before.regions.tools.tokens;
    if !leaves_room(frame, agent.window.usable_tokens()) {
        // Whatever leaves, no request will fit: that is to be mended in the configuration.
        return None;
    }
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let mut closed = spans(conversation);
    closed.retain(|span| Some(&span.turn) != open);
    let step = agent.compaction.emergency_fraction * conversation.live.len() as f64;
    let mut n_turns = 0;
    loop {
        let taken = take(&closed, n_turns, step);
        if taken == n_turns {
            return None;
        }
        n_turns = taken;
        let to_seq = closed[n_turns - 1].to_seq;
        let marker = marker(conversation, agent, to_seq);
        let messages = closed[..n_turns].iter().map(|span| span.messages).sum();
        let event =
            Event::EmergencyApplied { marker, messages, tokens_before: before.tokens, tokens_after: 0 };
        let events = super::with_retirement(conversation, agent, event);
        let after = measure(&super::after(conversation, &events), agent);
        if after.tier < Tier::Emergency || n_turns == closed.len() {
            return Some(with_tokens_after(events, after.tokens));
        }
    }
}

/// The number of turns, counted from the oldest, that comes nearest to `step` messages more than `n_turns` hold.
fn take(closed: &[Span], n_turns: usize, step: f64) -> usize {
    let mut n_messages = 0.0;
    let mut taken = n_turns;
    for span in &closed[n_turns..] {
        let with = n_messages + span.messages as f64;
        if taken > n_turns && (with - step).abs() > (n_messages - step).abs() {
            break;
        }
        n_messages = with;
        taken += 1;
    }
    taken
}

/// The marker for everything up to `to_seq`, an adjacent truncated marker before it joined in.
fn marker(conversation: &Conversation, agent: &AgentSettings, to_seq: Seq) -> Marker {
    let leaving = conversation.live.iter().take_while(|entry| entry.seq <= to_seq).cloned();
    let leaving: Vec<Arc<Entry>> = leaving.map(|entry| conversation.without_deleted(entry)).collect();
    let tokens: u64 = leaving.iter().map(|entry| u64::from(entry.tokens)).sum();
    let cap = agent.window.usable_tokens() as f64 * DIGEST_SHARE;
    let budget = (tokens as f64 * DIGEST_FRACTION).min(cap) as u32;
    let mut lines = digest(&leaving, budget);
    let mut from_seq = leaving.first().map_or(to_seq, |entry| entry.seq);
    if let Some(StackItem::Marker(last)) = conversation.stack.items().last()
        && last.kind == MarkerKind::Truncated
    {
        from_seq = last.from_seq;
        let older = last.digest.iter().filter(|line| !conversation.deleted.contains(&line.seq));
        lines = join(older, lines, cap as u32);
    }
    Marker::new(MarkerKind::Truncated, from_seq, to_seq, lines).counting(conversation.count(from_seq, to_seq))
}

/// Both digests, thinned evenly until they fit.
fn join<'a>(
    older: impl Iterator<Item = &'a DigestLine>,
    newer: Vec<DigestLine>,
    cap: u32,
) -> Vec<DigestLine> {
    let mut lines: Vec<DigestLine> = older.cloned().chain(newer).collect();
    while lines.len() > 1 && crate::tokens::estimate(&crate::digest::render(&lines)) > cap {
        let mut keep = false;
        lines.retain(|_| {
            keep = !keep;
            keep
        });
    }
    lines
}

fn with_tokens_after(mut events: Vec<Event>, tokens: u64) -> Vec<Event> {
    for event in &mut events {
        if let Event::EmergencyApplied { tokens_after, .. } = event {
            *tokens_after = tokens;
        }
    }
    events
}
