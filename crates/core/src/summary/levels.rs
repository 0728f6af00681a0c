//! The arithmetic of the stack: how large it and its items may be, and which of them merge.
//!
//! A new summary takes a fifth of its source, up to a fifth of the stack's share ([`StackSizes::fresh`]). Nothing merges until the
//! stack is above [`StackSizes::soft`], so that one more always fits. Then the oldest neighbours of the lowest level merge, as few
//! as make room: that costs the words least that were rewritten least. A merge has one level more than the highest of its sources,
//! so a level says how often the words behind it were rewritten. Each level has half the size of the one below it, down to
//! [`StackSizes::item`], of which [`SLOTS`] fill the share: the older words are, the less room they take, and there are always
//! enough items for few rewrites. So a long conversation fills 50 to 100 % of the share, and none of n summaries is rewritten
//! more than ln(n) + 4 times.

use crate::agent::AgentSettings;
use cairn_types::ids::SummaryId;
use cairn_types::summary::{Stack, StackItem, Summary};
use cairn_types::tokens::Correction;

/// Smallest items that fill the share.
const SLOTS: u64 = 18;

/// Least number of items that a stack has room for: with fewer the oldest words would be rewritten with every merge.
const ITEMS_MIN: u64 = 6;

/// Tokens that an item gets where the stack's share allows it: less is hardly a summary.
const ITEM_FLOOR: u64 = 96;

/// One part of the stack's share in so many is the most that a new summary takes, and stays free for it.
const FRESH_PART: u64 = 5;

/// Share of its source that a summary takes. On a published comparison 77 % of the questions were answered from 17.8 %.
const SUMMARY_SHARE: f64 = 0.2;

/// One part of the share in so many stays free beside that: heads and identifiers are estimated.
const MARGIN_PART: u64 = 16;

/// Tokens that a summary gets where there is room for them, though its source is short.
const SUMMARY_LEAST: u64 = 300;

/// Share of its sources that a merge may take.
const MERGE_SHARE: f64 = 0.5;

/// What is this much more rewritten than other words is spared where they can make room as well. Without it the generated
/// conversations had texts that were cut 11 times within 295 entries.
pub(crate) const SPARED_LEVELS: u32 = 2;

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
    /// Most that a new summary takes in the window, with its head and its identifiers.
    pub fresh: u64,
    /// Most that the most rewritten item takes.
    pub item: u64,
    /// What the items take now.
    pub taken: u64,
}

impl StackSizes {
    /// The sizes for an agent on the model that answers, of a stack that takes so many tokens. What the settings say in the model's
    /// own tokens is divided by the correction.
    pub fn of(agent: &AgentSettings, correction: &Correction, taken: u64) -> Self {
        let cap = correction.undo(stack_cap(agent)).max(1);
        let part = (cap / SLOTS).max(ITEM_FLOOR.min(cap / ITEMS_MIN)).max(1);
        let asked = agent.compaction.target_tokens.map_or(u64::MAX, |most| correction.undo(most));
        let answer = correction.undo(agent.window.output_reserve_tokens);
        let most = |tokens: u64| tokens.min(asked).min(answer).max(1);
        let (fresh, item) = (most((cap / FRESH_PART).max(part)), most(part));
        Self { cap, soft: cap - (cap / FRESH_PART).max(part) - cap / MARGIN_PART, fresh, item, taken }
    }

    /// Most tokens of a summary in the window: a share of its source, and no less than 300 tokens, as long as it is
    /// much shorter than the source.
    pub fn summary(&self, source_tokens: u64) -> u64 {
        let share = (source_tokens as f64 * SUMMARY_SHARE) as u64;
        let least = SUMMARY_LEAST.min(source_tokens / 2).max(ITEM_FLOOR);
        share.max(least).min(self.fresh)
    }

    /// Most tokens of an item of that level.
    pub fn level(&self, level: u32) -> u64 {
        self.fresh.checked_shr(level).unwrap_or(0).max(self.item)
    }

    /// Most tokens of a merge of so many, which has that level: half of them, and no more than its level's.
    pub fn merge(&self, source_tokens: u64, level: u32) -> u64 {
        let half = (source_tokens as f64 * MERGE_SHARE) as u64;
        half.min(self.level(level)).max(ITEM_FLOOR.min(self.item))
    }
}

/// A merge: its sources, oldest first, and the highest level among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub sources: Vec<SummaryId>,
    pub level: u32,
}

/// The merge that is due in the background: none up to the soft limit, then see `next_merge`. Never across a marker or a
/// provisional summary, and not of the newest, where others can make room.
pub fn due_merge(stack: &Stack, sizes: &StackSizes, fan_out: u32) -> Option<Merge> {
    if stack.tokens() <= sizes.soft {
        return None;
    }
    let fan_out = fan_out.max(2) as usize;
    let newest = stack.summaries().last().map(|summary| summary.to_seq);
    let is_older = |summary: &Summary| Some(summary.to_seq) != newest;
    let merge = next_merge(stack, fan_out, |one| !one.provisional && is_older(one))
        .or_else(|| next_merge(stack, fan_out, |one| !one.provisional));
    // Provisional summaries take the room of what would merge. They are owed a run: words that were rewritten more often wait for
    // it, or for the cap, where the cheapest neighbours merge. Otherwise every summary that comes rewrites them.
    let cheapest = next_merge(stack, fan_out, is_older);
    let is_spared =
        |merge: &Merge| cheapest.as_ref().is_some_and(|any| merge.level > any.level + SPARED_LEVELS);
    let merge = merge.filter(|merge| !is_spared(merge))?;
    Some(no_more_than_needed(stack, sizes, merge))
}

/// The merge with as few of its sources as bring the stack below its soft limit.
fn no_more_than_needed(stack: &Stack, sizes: &StackSizes, mut merge: Merge) -> Merge {
    let mut tokens = 0;
    let calms = |id: &SummaryId| {
        tokens += stack.summary(id).map_or(0, |summary| u64::from(summary.tokens));
        stack.tokens() - tokens + sizes.merge(tokens, merge.level + 1) <= sizes.soft
    };
    let enough = merge.sources.iter().map(calms).collect::<Vec<_>>().iter().position(|calms| *calms);
    merge.sources.truncate(enough.map_or(usize::MAX, |idx| (idx + 1).max(2)));
    merge
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
