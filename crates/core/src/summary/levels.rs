//! The arithmetic of the stack: how large it and its items may be, and which of them merge.
//!
//! Summaries stand in levels, like runs of an LSM tree: a summary of entries has level 0, a merge one more than the highest of
//! its sources, so a level says how often the words behind it were rewritten. A full stack has [`LEVELS`] levels of
//! `fan_out` items, each of [`StackSizes::item`] tokens: it fits its share by construction. Above [`StackSizes::soft`] the
//! lowest neighbours of one level merge early, so that the oldest item takes in what comes to it and keeps its size. With room
//! for nine items below that limit, 10,000 summaries of entries one after another are rewritten 12 times at most.

use crate::agent::AgentSettings;
use cairn_types::ids::SummaryId;
use cairn_types::summary::{Stack, StackItem, Summary};
use cairn_types::tokens::Correction;

/// Levels of full fan-out that the stack's share holds.
const LEVELS: u64 = 3;

/// Least number of items that a stack has room for: with fewer the oldest words would be rewritten with every merge.
const ITEMS_MIN: u64 = 6;

/// Tokens that an item gets where the stack's share allows it: less is hardly a summary.
const ITEM_FLOOR: u64 = 96;

/// Share of its source that a summary may take.
const SUMMARY_SHARE: f64 = 0.35;

/// Share of its sources that a merge may take.
const MERGE_SHARE: f64 = 0.5;

/// What is this much more rewritten than other words is spared where they can make room as well. Without it the generated
/// conversations had texts that were cut 11 times within 295 entries.
pub(crate) const SPARED_LEVELS: u32 = 2;

/// Share of the stack that stays free for what is committed while a merge is under way.
const FREE_SHARE: u64 = 5;

/// Most tokens of the stack in the model's own count: its share of the usable window, or `stack_tokens` where that is less.
pub fn stack_cap(agent: &AgentSettings) -> u64 {
    let share = (agent.compaction.stack_share * agent.window.usable_tokens() as f64) as u64;
    match agent.compaction.stack_tokens {
        0 => share,
        most => share.min(most),
    }
}

/// Sizes of the stack and its items, all in estimated tokens: as texts are measured, before correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSizes {
    /// Most that all items take together.
    pub cap: u64,
    /// Above it neighbours are merged in the background.
    pub soft: u64,
    /// Most that one item takes in the window, with its head and its identifiers.
    pub item: u64,
}

impl StackSizes {
    /// The sizes for an agent on the model that answers. What the settings say in the model's own tokens is divided by the
    /// correction.
    pub fn of(agent: &AgentSettings, correction: &Correction) -> Self {
        let cap = correction.undo(stack_cap(agent)).max(1);
        let full = LEVELS * u64::from(agent.compaction.fan_out.max(1));
        let part = (cap / full).max(ITEM_FLOOR.min(cap / ITEMS_MIN)).max(1);
        let asked = agent.compaction.target_tokens.map(|most| correction.undo(most));
        let answer = correction.undo(agent.window.output_reserve_tokens);
        let item = part.min(asked.unwrap_or(u64::MAX)).min(answer).max(1);
        Self { cap, soft: cap - (cap / FREE_SHARE).max(part), item }
    }

    /// Most tokens of a summary in the window: a share of its source, so that it never grows, within an item's.
    pub fn summary(&self, source_tokens: u64) -> u64 {
        self.share_of(source_tokens, SUMMARY_SHARE)
    }

    pub fn merge(&self, source_tokens: u64) -> u64 {
        self.share_of(source_tokens, MERGE_SHARE)
    }

    fn share_of(&self, source_tokens: u64, share: f64) -> u64 {
        ((source_tokens as f64 * share) as u64).clamp(ITEM_FLOOR.min(self.item), self.item)
    }
}

/// A merge: its sources, oldest first, and the highest level among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub sources: Vec<SummaryId>,
    pub level: u32,
}

/// The merge that is due in the background, never across a marker or a provisional summary: `fan_out` of more than
/// `fan_out` neighbours of one level, lowest level first; above the soft limit see `next_merge`.
pub fn due_merge(stack: &Stack, sizes: &StackSizes, fan_out: u32) -> Option<Merge> {
    let fan_out = fan_out.max(2) as usize;
    let may = |summary: &Summary| !summary.provisional;
    let full = groups(stack, may).into_iter().filter(|group| group.len() > fan_out);
    if let Some(group) = full.min_by_key(|group| group[0].level) {
        return Some(merge_of(&group[..fan_out]));
    }
    if stack.tokens() <= sizes.soft {
        return None;
    }
    // Provisional summaries take the room of what would merge. They are owed a run: words that were rewritten more often wait for
    // it, or for the cap, where the cheapest neighbours merge. Otherwise every summary that comes rewrites them.
    let cheapest = next_merge(stack, fan_out, |_| true);
    let is_spared =
        |merge: &Merge| cheapest.as_ref().is_some_and(|any| merge.level > any.level + SPARED_LEVELS);
    next_merge(stack, fan_out, may).filter(|merge| !is_spared(merge))
}

/// The merge that makes room at the least cost: the oldest neighbours of the lowest level that has any, up to `fan_out` of
/// them; where no two are of one level, the two neighbours that have been rewritten least. Only of summaries that may take
/// part.
pub(crate) fn next_merge(stack: &Stack, fan_out: usize, may: impl Fn(&Summary) -> bool) -> Option<Merge> {
    let groups = groups(stack, &may);
    if let Some(group) = groups.iter().filter(|group| group.len() > 1).min_by_key(|group| group[0].level) {
        return Some(merge_of(&group[..group.len().min(fan_out.max(2))]));
    }
    let items = stack.items().windows(2);
    let pairs = items.filter_map(|pair| match pair {
        [StackItem::Summary(older), StackItem::Summary(newer)] if may(older) && may(newer) => {
            Some([older, newer])
        }
        _ => None,
    });
    pairs.min_by_key(|[older, newer]| older.level.max(newer.level)).map(|pair| merge_of(&pair))
}

/// Neighbours of one level among the summaries that may take part, oldest first.
fn groups(stack: &Stack, may: impl Fn(&Summary) -> bool) -> Vec<Vec<&Summary>> {
    let mut groups: Vec<Vec<&Summary>> = Vec::new();
    let mut is_open = false;
    for item in stack.items() {
        let StackItem::Summary(summary) = item else {
            is_open = false;
            continue;
        };
        let joins = |group: &&mut Vec<&Summary>| is_open && group[0].level == summary.level;
        match groups.last_mut().filter(joins) {
            Some(group) if may(summary) => group.push(summary),
            _ if may(summary) => groups.push(vec![summary]),
            _ => {}
        }
        is_open = may(summary);
    }
    groups
}

fn merge_of(sources: &[&Summary]) -> Merge {
    Merge {
        sources: sources.iter().map(|summary| summary.id.clone()).collect(),
        level: sources.iter().map(|summary| summary.level).max().unwrap_or(0),
    }
}
