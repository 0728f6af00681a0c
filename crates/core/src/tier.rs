//! Thresholds, fractions and the tiers they make: the settings of an agent's compaction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compaction::check_instruction;
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

/// Compaction: when it runs, what it takes away, what stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompactionSettings {
    /// Runs are started by themselves. The emergency stays in any case: a request is always made to fit.
    pub enabled: bool,
    /// Usage at which a tier begins: tokens of the whole request / (window - the answer's reserve). They must rise. For
    /// long tasks 0.70, 0.85, 0.95; where every word of the context counts 0.90, 0.93, 0.97. `cairn tune` tries them on a
    /// conversation.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub background_threshold: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub aggressive_threshold: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub emergency_threshold: f64,
    /// Share of the conversation's messages that a tier takes away, oldest first, in whole turns. A run of the first two is
    /// summarised in the background. An emergency leaves a digest at once, made without a model; it takes as few turns as
    /// bring usage below aggressive_threshold, and at least this share of the messages: 0.50 for at least half of them.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub background_fraction: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub aggressive_fraction: f64,
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub emergency_fraction: f64,
    /// Share of the window, at its newest end, that no run takes by itself; at least the two latest turns. 0 to 0.5.
    /// `/compact` leaves the last turn alone.
    #[schemars(range(min = 0, max = 0.5))]
    pub reserve_ratio: f64,
    /// Summaries of one level that stand beside each other before the oldest are merged into one of the next; 2 or more.
    #[schemars(range(min = 2))]
    pub fan_out: u32,
    /// Share of the window that all summaries together may fill. Near it the oldest are merged into smaller ones by the
    /// model, at it without one. None ever leaves without words.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub stack_share: f64,
    /// Attempts of a run before a digest, made without a model, stands in for the summary. A digest is provisional: it is
    /// made again from the messages themselves when a model is well, within tokens_per_hour.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
    /// Pause after the first failed attempt, in milliseconds; it doubles with each further one.
    pub retry_base_ms: u64,
    /// Most tokens of the summaries and markers together, beside their share of the window. 0: the share alone.
    #[schemars(range(max = 100_000_000))]
    pub stack_tokens: u64,
    /// Time limit of a run over all its attempts, and of one call of a model, in seconds. The first starts again with every
    /// finished chunk of a long run. Beyond it the digest stands in.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_secs: u64,
    #[schemars(range(min = 1, max = 86_400))]
    pub call_timeout_secs: u64,
    /// Most tokens that runs of one channel may take within an hour. Beyond it a run waits, and one that cannot wait is made
    /// without a model. 0: no cap.
    pub tokens_per_hour: u64,
    /// The model that summarises, by its id. Not set: the agent's own models. Where it fails, they stand in. A conversation
    /// larger than its window goes in chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"main")]
    pub model: Option<String>,
    /// Most tokens of one summary. Not set: its part of the summaries' share. One that is longer is corrected once by its
    /// author, then shortened by sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 50, max = 100_000_000), example = 800)]
    pub target_tokens: Option<u64>,
    /// What every summary is to attend to; 4000 characters at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"Keep all prices and dates.")]
    pub instructions: Option<String>,
    /// What summaries do with identifiers (paths, addresses, ids, numbers with units, names of functions, error messages).
    /// "preserve": those that the prose lacks stand in a list beside it, copied from the conversation without a model.
    /// "anonymize": stable placeholders stand for them, in an error message for what it names. "off": the model does as it
    /// likes.
    pub identifiers: IdentifierPolicy,
    /// A run that is not urgent (the background tier) waits until the provider's cache of the conversation has gone cold.
    pub when_cold: bool,
    /// Beyond so many messages in sight a run is due, however small they are; the two latest turns stay in any case. 0:
    /// only the thresholds count.
    #[schemars(range(max = 1_000_000))]
    pub max_messages: u64,
    /// A chat is told, once an hour at most, when messages left the model's view and no summary followed within a minute, or
    /// when a run failed for good. false: only logs and events say so.
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

/// A setting that contradicts another.
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

    /// # Errors
    /// The first setting that contradicts another: thresholds have to rise from background to emergency.
    pub fn validate(&self) -> Result<(), BadSetting> {
        if self.background_threshold >= self.aggressive_threshold {
            let reason = format!("must be above background_threshold = {}", self.background_threshold);
            return Err(bad("aggressive_threshold", self.aggressive_threshold, reason));
        }
        if self.aggressive_threshold >= self.emergency_threshold {
            let reason = format!("must be above aggressive_threshold = {}", self.aggressive_threshold);
            return Err(bad("emergency_threshold", self.emergency_threshold, reason));
        }
        if let Some(target) = self.target_tokens.filter(|target| (1..*target).contains(&self.stack_tokens)) {
            let reason = format!("must not be above stack_tokens = {}", self.stack_tokens);
            return Err(bad("target_tokens", target, reason));
        }
        if (1..100).contains(&self.stack_tokens) {
            return Err(bad(
                "stack_tokens",
                self.stack_tokens,
                "must be 0 (the share alone), or 100 or more",
            ));
        }
        if self.max_messages == 1 {
            return Err(bad("max_messages", 1, "must be 0 (off), or 2 or more"));
        }
        if let Some(Err(error)) = self.instructions.as_deref().map(check_instruction) {
            return Err(bad("instructions", format!("{} characters", error.chars), error.to_string()));
        }
        Ok(())
    }
}

pub(crate) fn bad(key: &'static str, value: impl ToString, reason: impl Into<String>) -> BadSetting {
    BadSetting { key, value: value.to_string(), reason: reason.into() }
}
