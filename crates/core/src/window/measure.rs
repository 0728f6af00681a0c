//! The measure of the window, region by region.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::place::Place;
use super::render::guide_tokens;
use super::{Gauge, Region, Regions};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use cairn_types::message::{Entry, Part, Role, entry_tokens};
use cairn_types::summary::LookupTools;
use cairn_types::tier::Tier;
use cairn_types::tokens::{Correction, estimate};

/// Share of the usable window that prompt and tools must leave free, for a message and its context.
const ROOM_NEEDED: f64 = 0.05;

/// Tokens of the tail without any memory: the clock, always there.
const BARE_TAIL_TOKENS: u32 = 48;

/// Tokens of the system prompt, before correction, without what follows it of the [`Place`].
pub(crate) fn system_tokens(agent: &AgentSettings) -> u64 {
    u64::from(estimate(&agent.system_prompt)) + 4
}

/// Tokens of the stack's block, with the line that leads it, before correction.
pub(crate) fn stack_tokens(conversation: &Conversation, agent: &AgentSettings) -> u64 {
    match conversation.stack.tokens() {
        0 => 0,
        tokens => tokens + guide_tokens(LookupTools::of(&agent.tools)),
    }
}

/// Estimated tokens that a conversation puts into its window, region by region, before correction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// What it says of where the agent talks.
    #[serde(default)]
    pub place: u64,
    /// Its summaries and markers, without the line that leads them.
    pub stack: u64,
    pub sealed: u64,
    pub live: u64,
    /// Recalled memories, the clock and reactions.
    pub recalled: u64,
}

impl Sizes {
    pub fn of(conversation: &Conversation) -> Self {
        let n_sealed = conversation.n_sealed();
        let weigh = |range: std::ops::Range<usize>| -> u64 {
            conversation.live.range(range).map(|entry| conversation.weight(entry)).sum()
        };
        Self {
            place: Place::of(conversation).tokens(),
            stack: conversation.stack.tokens(),
            sealed: weigh(0..n_sealed),
            live: weigh(n_sealed..conversation.live.len()),
            recalled: u64::from(conversation.recalled_tokens.max(BARE_TAIL_TOKENS))
                + conversation.reactions_tokens(),
        }
    }

    /// The usage of such a window and its tier, as [`measure`] has them.
    pub fn usage(&self, frame: Frame, correction: &Correction, agent: &AgentSettings) -> (f64, Tier) {
        let stack = if self.stack == 0 { 0 } else { self.stack + frame.guide };
        let regions = [frame.system + self.place, frame.tools, stack, self.sealed, self.live, self.recalled];
        let tokens: u64 = regions.iter().map(|tokens| correction.apply(*tokens)).sum();
        let usage_ratio = tokens as f64 / agent.window.usable_tokens() as f64;
        (usage_ratio, agent.compaction.tier(usage_ratio))
    }
}

/// Estimated tokens that settings put into every window, before correction: counted once for many conversations.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    system: u64,
    tools: u64,
    /// The line that leads summaries.
    guide: u64,
}

impl Frame {
    pub fn of(agent: &AgentSettings) -> Self {
        let guide = guide_tokens(LookupTools::of(&agent.tools));
        Self { system: system_tokens(agent), tools: agent.tools.tokens(), guide }
    }
}

/// Measures the window as the next request would have it.
pub fn measure(conversation: &Conversation, agent: &AgentSettings) -> Gauge {
    let correction = conversation.correction(&agent.model);
    let region =
        |tokens: u64, entries: usize| Region { tokens: correction.apply(tokens), entries: entries as u64 };
    let n_sealed = conversation.n_sealed();
    let Sizes { place, sealed, live, recalled, .. } = Sizes::of(conversation);
    let (system, tools) = (system_tokens(agent) + place, agent.tools.tokens());
    let summaries = stack_tokens(conversation, agent);
    let pending: u64 = conversation.pending.iter().map(|pending| u64::from(pending.tokens)).sum();
    let regions = Regions {
        system: region(system, 1),
        tools: region(tools, agent.tools.len()),
        summaries: region(summaries, conversation.stack.items().len()),
        sealed: region(sealed, n_sealed),
        live: region(live, conversation.live.len() - n_sealed),
        recalled: region(recalled, conversation.recalled.len()),
        pending: region(pending, conversation.pending.len()),
    };
    gauge(regions, system + tools + summaries + sealed + live + recalled, agent)
}

/// Whether system prompt and tools leave room for a conversation at that place on that model, with its correction. If not,
/// no request can be made for it.
pub fn has_room(correction: &Correction, agent: &AgentSettings, place: Place) -> bool {
    let frame = system_tokens(agent) + place.tokens() + agent.tools.tokens();
    leaves_room(correction.apply(frame), agent.window.usable_tokens())
}

/// Tokens of what no request is without: system prompt, tools and the clock, before correction, without what follows the
/// prompt of the [`Place`].
pub(crate) fn frame_tokens(agent: &AgentSettings) -> u64 {
    system_tokens(agent) + agent.tools.tokens() + u64::from(BARE_TAIL_TOKENS)
}

/// Tokens, after correction, that a request takes at the least if the pictures of its latest message are to be in it.
pub fn least_tokens(conversation: &Conversation, agent: &AgentSettings) -> u64 {
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let of_turn = |entry: &&Arc<Entry>| entry.role == Role::User && open.is_none_or(|id| entry.turn == *id);
    let attached = conversation.live.iter().rev().find(of_turn).map_or(0, |entry| {
        let mut bare = Entry::clone(entry);
        bare.parts.retain(|part| matches!(part, Part::Image { .. }));
        if bare.parts.is_empty() { 0 } else { u64::from(entry_tokens(&bare)) }
    });
    let place = Place::of(conversation).tokens();
    conversation.correction(&agent.model).apply(frame_tokens(agent) + place + attached)
}

fn gauge(regions: Regions, estimated_tokens: u64, agent: &AgentSettings) -> Gauge {
    let sum =
        [regions.system, regions.tools, regions.summaries, regions.sealed, regions.live, regions.recalled];
    // The sum of the rounded regions, so that what is shown adds up.
    let tokens: u64 = sum.iter().map(|region| region.tokens).sum();
    let usage_ratio = tokens as f64 / agent.window.usable_tokens() as f64;
    Gauge { regions, estimated_tokens, tokens, usage_ratio, tier: agent.compaction.tier(usage_ratio) }
}

/// Whether prompt and tools of so many tokens, after correction, leave room for a conversation.
pub(crate) fn leaves_room(frame: u64, usable: u64) -> bool {
    frame as f64 <= usable as f64 * (1.0 - ROOM_NEEDED)
}
