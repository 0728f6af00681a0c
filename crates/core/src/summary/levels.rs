//! Levels of the stack: when adjacent summaries merge, and when the oldest item leaves the window.

use super::{Marker, MarkerKind, Stack, StackItem};
use crate::agent::AgentSettings;
use crate::ids::SummaryId;

/// Most tokens of the stack, after correction: its share of the usable window, or `stack_tokens` where that is less.
pub fn stack_cap(agent: &AgentSettings) -> u64 {
    let share = (agent.compaction.stack_share * agent.window.usable_tokens() as f64) as u64;
    match agent.compaction.stack_tokens {
        0 => share,
        most => share.min(most),
    }
}

/// The merge that is due: the oldest `fan_out` of more than `fan_out` adjacent summaries of one level, lowest level
/// first, never across a marker. With them, their level.
pub fn due_merge(stack: &Stack, fan_out: u32) -> Option<(Vec<SummaryId>, u32)> {
    let fan_out = fan_out.max(2) as usize;
    let mut due: Option<(&[StackItem], u32)> = None;
    for group in stack.items().chunk_by(|a, b| level(a).is_some() && level(a) == level(b)) {
        let Some(group_level) = level(&group[0]) else { continue };
        if group.len() > fan_out && due.is_none_or(|(_, lowest)| group_level < lowest) {
            due = Some((group, group_level));
        }
    }
    due.map(|(group, group_level)| {
        let sources = group[..fan_out].iter().filter_map(|item| match item {
            StackItem::Summary(summary) => Some(summary.id.clone()),
            StackItem::Marker(_) => None,
        });
        (sources.collect(), group_level)
    })
}

fn level(item: &StackItem) -> Option<u32> {
    match item {
        StackItem::Summary(summary) => Some(summary.level),
        StackItem::Marker(_) => None,
    }
}

/// The leading marker that brings the stack under `cap_tokens` (before correction), when it is over: it stands for
/// the oldest items, of any kind. The newest item always stays.
pub fn due_retirement(stack: &Stack, cap_tokens: u64) -> Option<Marker> {
    if stack.tokens() <= cap_tokens {
        return None;
    }
    let (_newest, older) = stack.items().split_last()?;
    let mut left: u64 = stack.tokens();
    let mut leading: Option<Marker> = None;
    for item in older {
        if left + leading.as_ref().map_or(0, |marker| u64::from(marker.tokens)) <= cap_tokens {
            break;
        }
        left -= u64::from(item.tokens());
        let (from, to) = item.range();
        let from = leading.as_ref().map_or(from, |marker| marker.from_seq);
        leading = Some(Marker::new(MarkerKind::Retired, from, to, Vec::new()));
    }
    // A lone leading marker that is already the retired one would retire nothing.
    let first = stack.items().first();
    leading.filter(|marker| match first {
        Some(StackItem::Marker(old)) => old.kind != MarkerKind::Retired || old.to_seq != marker.to_seq,
        _ => true,
    })
}
