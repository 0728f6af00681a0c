//! The window guard: models whose window was only discovered, and is too small to talk in, are passed over.

use crate::agent::{WindowSize, WindowSource};
use crate::settings::WindowGuard;

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
