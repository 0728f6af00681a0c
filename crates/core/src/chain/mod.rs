//! The chain of an agent's models: how each of them is, how long one that failed is skipped, which one is asked next.
//!
//! Whoever calls models keeps one [`Health`] for each, shared by all conversations: what one finds out, all know.

mod bounds;
mod guard;
mod health;

use jiff::Timestamp;

use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::tier::Tier;
use crate::window::{has_room, measure};

pub use bounds::Bounds;
pub use guard::{Guarded, guard};
pub use health::{CoolDowns, Health, Trouble, cools};

#[cfg(test)]
mod tests;

/// How a model of a chain stands with regard to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// It is never asked: the window guard passes it over, its prompt and tools leave no room for a conversation, or it
    /// has refused this very request.
    pub refused: bool,
    pub cooling_until: Option<Timestamp>,
    /// The window as it is fits into it, below the emergency tier.
    pub fits: bool,
}

impl Standing {
    /// How a model stands, with the agent's settings on it. `refused`: for a reason that the conversation does not show.
    pub fn of(
        conversation: &Conversation,
        settings: &AgentSettings,
        health: &Health,
        refused: bool,
        now: Timestamp,
    ) -> Self {
        Self {
            refused: refused || !has_room(&conversation.correction(&settings.model), settings),
            cooling_until: health.cooling_until(now),
            fits: measure(conversation, settings).tier < Tier::Emergency,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one, by its place in the chain: it is well, as far as anybody knows.
    Well(usize),
    /// All that can be asked are skipped: this one comes back first. Those that the window fits into without an
    /// emergency come before the others, so that nothing leaves the window for a model that is probably down.
    Cooling(usize),
}

impl Pick {
    pub fn idx(self) -> usize {
        match self {
            Self::Well(idx) | Self::Cooling(idx) => idx,
        }
    }
}

/// Which model of a chain is asked next; `None` when none can be.
pub fn pick(chain: &[Standing]) -> Option<Pick> {
    let usable = || chain.iter().enumerate().filter(|(_, standing)| !standing.refused);
    if let Some((idx, _)) = usable().find(|(_, standing)| standing.cooling_until.is_none()) {
        return Some(Pick::Well(idx));
    }
    let first_back = usable().min_by_key(|(_, standing)| (!standing.fits, standing.cooling_until));
    first_back.map(|(idx, _)| Pick::Cooling(idx))
}
