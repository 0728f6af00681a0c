//! The role of a model in a chain.

use serde::{Deserialize, Serialize};

/// The role of a model in an agent's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelState {
    Answers,
    /// Answers if the models before it do not.
    Ready,
    /// Skipped for a while after a failure.
    Cooling,
    PassedOver,
    /// Used despite its failures, since no other model is well.
    Down,
}

impl ModelState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Ready => "ready",
            Self::Cooling => "cooling",
            Self::PassedOver => "passed over",
            Self::Down => "down",
        }
    }
}
