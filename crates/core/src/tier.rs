//! Thresholds, fractions and the tiers they make: the settings of an agent's compaction.

use serde::{Deserialize, Serialize};

use crate::settings::IdentifierPolicy;

/// How full the window is. A threshold counts as reached at `>=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    #[default]
    Calm,
    /// A run over the oldest 30 % is due.
    Background,
    /// A run over the oldest 50 % is due.
    Aggressive,
    /// The oldest turns leave the window at once.
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

/// An agent's compaction settings; see `config/config.toml` for the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionSettings {
    /// Runs are started at all. The emergency always stays.
    pub enabled: bool,
    /// Usage at which the background tier begins, 0 to 1.
    pub background_threshold: f64,
    /// Usage at which the aggressive tier begins, 0 to 1.
    pub aggressive_threshold: f64,
    /// Usage at which the emergency tier begins, 0 to 1.
    pub emergency_threshold: f64,
    /// Share of the live messages that a background run takes.
    pub background_fraction: f64,
    /// Share of the live messages that an aggressive run takes.
    pub aggressive_fraction: f64,
    /// Least share of the live messages that an emergency takes; 0: as few turns as make room.
    pub emergency_fraction: f64,
    /// Share of the window, at its newest end, that no run takes; at least the two latest turns.
    pub reserve_ratio: f64,
    /// Summaries of one level that stand beside each other before the oldest are merged.
    pub fan_out: u32,
    /// Share of the usable window that the summary stack may fill.
    pub stack_share: f64,
    /// Attempts of a run with a model before the digest stands in.
    pub max_attempts: u32,
    /// Pause after the first failed attempt, in milliseconds; doubles with each further one.
    pub retry_base_ms: u64,
    /// Time limit of a run over all its attempts, in seconds; it restarts with every finished chunk.
    pub timeout_secs: u64,
    /// Time limit of one call of the model, in seconds.
    pub call_timeout_secs: u64,
    /// The model that summarises, by its id in the configuration; none: the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Most tokens of a summary with its list of identifiers; none: its part of the stack's share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_tokens: Option<u64>,
    /// What every summary of this agent is to attend to; 4,000 characters at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What summaries do with identifiers.
    pub identifiers: IdentifierPolicy,
    /// Most tokens that runs of one channel may take within an hour; 0: no cap.
    pub tokens_per_hour: u64,
    /// A run that is not urgent waits until the provider's cache has gone cold.
    pub when_cold: bool,
    /// Messages of the live history from which on a run is due, whatever the usage; 0: off.
    pub max_messages: u64,
    /// Most tokens of the summary stack, beside its share; 0: the share alone.
    pub stack_tokens: u64,
    /// A chat is told when something was lost from view or a run failed for good.
    pub notices: bool,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            background_threshold: 0.80,
            aggressive_threshold: 0.85,
            emergency_threshold: 0.95,
            background_fraction: 0.30,
            aggressive_fraction: 0.50,
            emergency_fraction: 0.0,
            reserve_ratio: 0.10,
            fan_out: 4,
            stack_share: 0.25,
            max_attempts: 3,
            retry_base_ms: 2_000,
            timeout_secs: 300,
            call_timeout_secs: 120,
            model: None,
            target_tokens: None,
            instructions: None,
            identifiers: IdentifierPolicy::Preserve,
            tokens_per_hour: 2_000_000,
            when_cold: false,
            max_messages: 0,
            stack_tokens: 0,
            notices: true,
        }
    }
}

/// A setting that is out of range or contradicts another.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct BadSetting {
    /// The key within its table, such as `[compaction]`.
    pub key: &'static str,
    pub value: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl CompactionSettings {
    /// The tier of a usage ratio.
    pub fn tier(&self, usage_ratio: f64) -> Tier {
        if usage_ratio >= self.emergency_threshold {
            Tier::Emergency
        } else if usage_ratio >= self.aggressive_threshold {
            Tier::Aggressive
        } else if usage_ratio >= self.background_threshold {
            Tier::Background
        } else {
            Tier::Calm
        }
    }

    /// The share of live messages that a run takes at a tier.
    pub fn fraction(&self, tier: Tier) -> f64 {
        match tier {
            Tier::Calm => 0.0,
            Tier::Background => self.background_fraction,
            Tier::Aggressive => self.aggressive_fraction,
            Tier::Emergency => self.emergency_fraction.max(self.aggressive_fraction),
        }
    }

    /// Checks ranges and order.
    ///
    /// # Errors
    /// The first setting that is out of range (shares lie above 0 and below 1, counts above 0), thresholds that do not
    /// rise from background to emergency, or limits that contradict each other.
    pub fn validate(&self) -> Result<(), BadSetting> {
        let shares = [
            ("background_threshold", self.background_threshold),
            ("aggressive_threshold", self.aggressive_threshold),
            ("emergency_threshold", self.emergency_threshold),
            ("background_fraction", self.background_fraction),
            ("aggressive_fraction", self.aggressive_fraction),
            ("stack_share", self.stack_share),
        ];
        for (key, value) in shares {
            if !(value > 0.0 && value < 1.0) {
                return Err(bad(key, value, "must be above 0 and below 1, such as 0.80 for 80 %"));
            }
        }
        if !(0.0..1.0).contains(&self.emergency_fraction) {
            let reason = "must be 0 or above, and below 1, such as 0.50 for at least half of the messages";
            return Err(bad("emergency_fraction", self.emergency_fraction, reason));
        }
        if !(0.0..=0.5).contains(&self.reserve_ratio) {
            return Err(bad("reserve_ratio", self.reserve_ratio, "must be from 0 to 0.5"));
        }
        if self.background_threshold >= self.aggressive_threshold {
            let reason = format!("must be above background_threshold = {}", self.background_threshold);
            return Err(bad("aggressive_threshold", self.aggressive_threshold, &reason));
        }
        if self.aggressive_threshold >= self.emergency_threshold {
            let reason = format!("must be above aggressive_threshold = {}", self.aggressive_threshold);
            return Err(bad("emergency_threshold", self.emergency_threshold, &reason));
        }
        if self.fan_out < 2 {
            return Err(bad("fan_out", f64::from(self.fan_out), "must be 2 or more"));
        }
        if self.max_attempts == 0 {
            return Err(bad("max_attempts", 0.0, "must be 1 or more"));
        }
        if self.timeout_secs == 0 {
            return Err(bad("timeout_secs", 0.0, "must be 1 or more"));
        }
        crate::ranges::runs(self)
    }
}

fn bad(key: &'static str, value: f64, reason: &str) -> BadSetting {
    BadSetting { key, value: value.to_string(), reason: reason.to_owned() }
}
