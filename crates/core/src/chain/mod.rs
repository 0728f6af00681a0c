//! The chain of an agent's models: how each of them is, how long one that failed is skipped, which one is asked next.
//!
//! Whoever calls models keeps one [`Health`] for each, shared by all conversations: what one finds out, all know.

mod health;

use jiff::Timestamp;

use crate::agent::{AgentSettings, WindowSize, WindowSource};
use crate::conversation::Conversation;
use crate::settings::WindowGuard;
use crate::window::{has_room, measure};
use cairn_types::tier::Tier;

pub use health::{CoolDowns, Health, Trouble, cools};

#[cfg(test)]
mod tests;

/// How a model of a chain stands with regard to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelStanding {
    /// It is never asked: the window guard passes it over, its prompt and tools leave no room for a conversation, or it
    /// has refused this very request.
    pub refused: bool,
    pub cooling_until: Option<Timestamp>,
    /// The window as it is fits into it, below the emergency tier.
    pub fits: bool,
}

impl ModelStanding {
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
pub fn pick(chain: &[ModelStanding]) -> Option<Pick> {
    let usable = || chain.iter().enumerate().filter(|(_, standing)| !standing.refused);
    if let Some((idx, _)) = usable().find(|(_, standing)| standing.cooling_until.is_none()) {
        return Some(Pick::Well(idx));
    }
    let first_back = usable().min_by_key(|(_, standing)| (!standing.fits, standing.cooling_until));
    first_back.map(|(idx, _)| Pick::Cooling(idx))
}

/// What the window guard says of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guarded {
    Fine,
    /// It is used; this is to be known about it.
    Warned(String),
    /// It is not used, for this reason.
    PassedOver(String),
}

impl Guarded {
    /// Why it is not used, if it is not.
    pub fn passed_over(&self) -> Option<&str> {
        match self {
            Self::PassedOver(reason) => Some(reason),
            Self::Fine | Self::Warned(_) => None,
        }
    }
}

/// What the window guard says of the models of a chain, in its order. A window that somebody set, and the last one of
/// the chain that is left, are warned about and never refused.
pub fn guard(chain: &[(&str, WindowSize)], guard: &WindowGuard) -> Vec<Guarded> {
    let too_small = |window: &WindowSize| {
        window.source == WindowSource::Server && window.window_tokens < guard.min_tokens
    };
    let last = chain.len().saturating_sub(1);
    let all = chain.iter().enumerate().map(|(idx, (model, window))| {
        let tokens = window.window_tokens;
        if too_small(window) && idx < last {
            return Guarded::PassedOver(format!(
                "its server lists a window of {tokens} tokens, below window_guard.min_tokens = {}; set context_window \
                 of `{model}` to use it all the same",
                guard.min_tokens
            ));
        }
        if tokens >= guard.warn_tokens {
            return Guarded::Fine;
        }
        let why = match (too_small(window), last) {
            (true, 0) => "; it is used since there is no other model",
            (true, _) => "; it is used since it is the last of the chain",
            (false, _) => "",
        };
        Guarded::Warned(format!(
            "the window of `{model}` is small: {tokens} tokens ({}), below window_guard.warn_tokens = {}{why}",
            window.source.origin(),
            guard.warn_tokens
        ))
    });
    all.collect()
}
