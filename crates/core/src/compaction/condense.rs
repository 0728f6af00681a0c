//! The stack within its share at once: merges by extraction, where the model's come too late.

use std::borrow::Cow;

use jiff::Timestamp;

use super::commit::end_with;
use super::extract::merge_draft;
use super::plan::Planner;
use super::{Draft, after};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::{CompactionEvent, Event};
use crate::summary::{Merge, StackSizes, Summary, next_merge};

/// Why these merges are made without a model.
const REASON: &str = "the summaries were over their share of the window: merged at once, without a model";

/// Levels above the others' from which on provisional summaries are spared. Without it the generated conversations had
/// texts that were cut 11 times within 295 entries.
const SPARED_LEVELS: u32 = 2;

/// Merges that bring the stack under its cap, each a run that begins and ends at once. None while a run is under way: its end
/// asks again. Words are cut to what fits; the merges are provisional.
pub(crate) fn condense(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut then = Cow::Borrowed(conversation);
    let mut events = Vec::new();
    let sizes = StackSizes::of(agent, &conversation.correction(&agent.model));
    while then.run.is_none() && then.stack.tokens() > sizes.cap {
        let Some(merged) = merge_once(&then, agent, &sizes, now) else { break };
        let next = after(&then, &merged);
        if next.stack.tokens() >= then.stack.tokens() {
            break;
        }
        then = Cow::Owned(next);
        events.extend(merged);
    }
    events
}

fn merge_once(
    conversation: &Conversation,
    agent: &AgentSettings,
    sizes: &StackSizes,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let stack = &conversation.stack;
    let fan_out = agent.compaction.fan_out as usize;
    // What is owed a run anyway goes first, nothing is lost by it: unless the same words were cut often before.
    let owed = next_merge(stack, fan_out, |summary| summary.provisional);
    let any = next_merge(stack, fan_out, |_| true);
    let spares = |any: &Merge| owed.as_ref().is_none_or(|owed| owed.level > any.level + SPARED_LEVELS);
    let merge = any.filter(spares).or(owed).or_else(|| {
        // The window has shrunk: a correction that creeps up is no reason to cut a word.
        let is_too_large = |summary: &&Summary| u64::from(summary.tokens) > sizes.item * 5 / 4;
        let too_large = stack.summaries().find(is_too_large)?;
        Some(Merge { sources: vec![too_large.id.clone()], level: too_large.level })
    })?;
    let sources: Vec<Summary> = merge.sources.iter().filter_map(|id| stack.summary(id)).cloned().collect();
    let run = Planner::new(conversation, agent, now).merge_of(merge)?;
    let id = run.id.clone();
    let mut events = vec![Event::Compaction(CompactionEvent::RunStarted { run })];
    let begun = after(conversation, &events);
    let draft = Draft { reason: Some(REASON.to_owned()), ..merge_draft(agent, sizes, &sources) };
    events.push(end_with(&begun, agent, &id, draft, now)?);
    Some(events)
}
