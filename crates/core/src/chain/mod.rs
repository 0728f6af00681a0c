//! The model chain of an agent: each model's health, how long a failed one is skipped, which one is asked next.
//!
//! A caller keeps one [`Health`] per model, shared by all conversations.

mod health;
mod state;

use jiff::Timestamp;

use crate::agent::{AgentSettings, WindowSize, WindowSource};
use crate::conversation::Conversation;
use crate::settings::WindowGuard;
use crate::window::{Place, has_room};

pub use health::{CoolDowns, Health, Trouble, cools};
pub use state::ModelState;

#[cfg(test)]
mod tests;

/// The standing of a model of a chain in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelStanding {
    /// Never asked: the window guard passes it over, prompt and tools leave no room for a conversation, or it has refused
    /// this very request.
    pub refused: bool,
    pub cooling_until: Option<Timestamp>,
}

impl ModelStanding {
    /// The standing of a model with the agent's settings on it. `refused`: it is refused for a reason outside of the
    /// conversation.
    pub fn of(
        conversation: &Conversation,
        settings: &AgentSettings,
        health: &Health,
        refused: bool,
        now: Timestamp,
    ) -> Self {
        Self {
            refused: refused
                || !has_room(&conversation.correction(&settings.model), settings, Place::of(conversation)),
            cooling_until: health.cooling_until(now),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The model at this position, which is well as far as is known.
    Well(usize),
    /// All candidates are skipped; this one returns first.
    Cooling(usize),
}

impl Pick {
    pub fn idx(self) -> usize {
        match self {
            Self::Well(idx) | Self::Cooling(idx) => idx,
        }
    }
}

/// The model that is asked next; `None`: none can be.
pub fn pick(chain: &[ModelStanding]) -> Option<Pick> {
    let usable = || chain.iter().enumerate().filter(|(_, standing)| !standing.refused);
    if let Some((idx, _)) = usable().find(|(_, standing)| standing.cooling_until.is_none()) {
        return Some(Pick::Well(idx));
    }
    let first_back = usable().min_by_key(|(_, standing)| standing.cooling_until);
    first_back.map(|(idx, _)| Pick::Cooling(idx))
}

/// Turns that another model answers one after another before the history keeps to its window.
const SETTLED_TURNS: u32 = 20;

/// Whether the history keeps to the window of the `serving` model instead of that of the `first`, which is the first of the chain
/// that can be used. A model that stands in gets requests that are made smaller for it; nothing leaves the history for its sake. It
/// does when the smaller model has answered 20 turns in a row, or when no conversation fits into the first.
pub fn keeps_to_serving(conversation: &Conversation, first: &AgentSettings, serving: &AgentSettings) -> bool {
    let answered = conversation.answered_by.as_ref().filter(|answered| answered.model == serving.model);
    let is_settled = answered.is_some_and(|answered| answered.turns >= SETTLED_TURNS);
    let is_smaller = serving.window.usable_tokens() < first.window.usable_tokens();
    (is_settled && is_smaller)
        || !has_room(&conversation.correction(&first.model), first, Place::of(conversation))
}

/// The window guard's verdict on a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guarded {
    Fine,
    /// Used, with this warning.
    Warned(String),
    /// Not used, for this reason.
    PassedOver(String),
}

impl Guarded {
    /// Why the model is not used; `None`: it is.
    pub fn passed_over(&self) -> Option<&str> {
        match self {
            Self::PassedOver(reason) => Some(reason),
            Self::Fine | Self::Warned(_) => None,
        }
    }
}

/// The window guard's verdicts on a chain, in its order. A window that is set in the configuration, and the last model that
/// is left, get a warning at most.
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
            "the window of `{model}` is small: {tokens} tokens ({}), below window_guard.warn_tokens = {}{why}; if the \
             model takes more, set its `context_window`",
            window.source.origin(),
            guard.warn_tokens
        ))
    });
    all.collect()
}
