//! How full a window is, in tiers.

use serde::{Deserialize, Serialize};

/// How full the window is. A threshold counts as reached at `>=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    #[default]
    Calm,
    /// A run over the oldest half is due.
    Background,
    /// The run is due immediately, without waiting for anything.
    Aggressive,
    /// The oldest turns are dropped from the window immediately.
    Emergency,
}

impl Tier {
    /// The tier's name in records and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Background => "background",
            Self::Aggressive => "aggressive",
            Self::Emergency => "emergency",
        }
    }
}
