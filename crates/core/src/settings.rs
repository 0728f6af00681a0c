//! Settings of an agent's compaction and of what guards the window beside it. Docs, defaults and ranges of the fields are what users see: the
//! configuration's reference and its schema are made from them.

use std::collections::BTreeMap;

use cairn_types::tool::result_class::ResultClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cairn_types::memory::Share;
use cairn_types::tier::Tier;
use cairn_types::tool::closest;

/// How far memories are recalled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemorySettings {
    /// How far what was learnt in a chat is recalled. "chat": in that chat alone. "person": what people said of themselves
    /// in a group also in their own private chats with the bot, never in another group and never to others. "agent":
    /// everything in all chats of the agent, what was said privately too; for households, and bots that one operator talks
    /// to alone.
    pub share: Share,
}

/// When a window that was only discovered is too small to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WindowGuard {
    /// A model whose server lists a window below the first number, in tokens, which nobody has set otherwise, is passed
    /// over for the next of the chain (the last one never is). Any window below the second number is warned about, once.
    #[schemars(range(max = 100_000_000))]
    pub min_tokens: u64,
    #[schemars(range(max = 100_000_000))]
    pub warn_tokens: u64,
}

impl Default for WindowGuard {
    fn default() -> Self {
        Self { min_tokens: 16_000, warn_tokens: 32_000 }
    }
}

impl WindowGuard {
    /// # Errors
    /// The settings contradict each other.
    pub fn validate(&self) -> Result<(), BadSetting> {
        if self.min_tokens > self.warn_tokens {
            let reason = format!("must not be above warn_tokens = {}", self.warn_tokens);
            return Err(bad("min_tokens", self.min_tokens, reason));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PruneMode {
    Off,
    /// From the background threshold on, before any run.
    #[default]
    Pressure,
    /// When the provider's cache has gone cold anyway.
    CacheTtl,
}

/// Clearing old results altogether, in the mode "cache-ttl".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HardClear {
    /// false: results are shortened, never cleared.
    pub enabled: bool,
}

impl Default for HardClear {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// How results of tools are pruned in what is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PruningSettings {
    /// Old results of tools are sent shorter before anything is summarised; what is kept stays whole, and readable.
    /// "pressure": from the background threshold on. "cache-ttl": once the provider's cache has gone cold anyway. "off":
    /// never.
    pub mode: PruneMode,
    /// Mode "pressure": the newest results of so many tokens are spared, and nothing is done for less than the second
    /// number; both shrink in proportion with windows below 200000 tokens. A result shrinks to so many bytes first (400 or
    /// more); when that is not enough, older ones give way to a line that says where they can be read.
    #[schemars(range(max = 100_000_000))]
    pub protect_tokens: u64,
    #[schemars(range(max = 100_000_000))]
    pub min_win_tokens: u64,
    // The notice in a shrunk result takes 400 bytes.
    #[schemars(range(min = 400, max = 67_108_864))]
    pub shrink_bytes: usize,
    /// Mode "cache-ttl": from this usage on results of more than `soft_chars` characters that are older than the model's
    /// `cache_ttl_secs` keep `keep_chars` of head and of tail; from `hard_ratio` on they are cleared. The results of the newest
    /// replies are spared.
    #[schemars(range(min = 0, max = 1))]
    pub soft_ratio: f64,
    #[schemars(range(min = 0, max = 1))]
    pub hard_ratio: f64,
    #[schemars(range(min = 200, max = 67_108_864))]
    pub soft_chars: usize,
    #[schemars(range(min = 1, max = 67_108_864))]
    pub keep_chars: usize,
    #[schemars(range(max = 1_000))]
    pub keep_replies: usize,
    pub hard_clear: HardClear,
}

impl Default for PruningSettings {
    fn default() -> Self {
        Self {
            mode: PruneMode::Pressure,
            protect_tokens: 40_000,
            min_win_tokens: 20_000,
            shrink_bytes: 3_000,
            soft_ratio: 0.30,
            hard_ratio: 0.50,
            soft_chars: 4_000,
            keep_chars: 1_500,
            keep_replies: 3,
            hard_clear: HardClear::default(),
        }
    }
}

impl PruningSettings {
    /// # Errors
    /// The settings contradict each other.
    pub fn validate(&self) -> Result<(), BadSetting> {
        if self.soft_ratio > self.hard_ratio {
            let reason = format!("must not be below soft_ratio = {}", self.soft_ratio);
            return Err(bad("hard_ratio", self.hard_ratio, reason));
        }
        if self.keep_chars.saturating_mul(2) >= self.soft_chars {
            let reason = format!(
                "must be below half of soft_chars = {}: head and tail are kept, and something is to be won",
                self.soft_chars
            );
            return Err(bad("keep_chars", self.keep_chars, reason));
        }
        Ok(())
    }
}

/// What becomes of large results of tools when they arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResultGuardSettings {
    /// Results of tools over `max_bytes` are kept outside of the window as artifacts: the model sees equal head and tail,
    /// within `max_bytes`, around a note by which it can read on. All results of one round together take at most
    /// `free_share` of the free window: small ones stay whole, large ones share the rest. false: results stay as they are,
    /// and are cut only where a request would not fit.
    pub enabled: bool,
    #[schemars(range(min = 1_000, max = 67_108_864))]
    pub max_bytes: usize,
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub free_share: f64,
    /// Days after which an artifact that nobody has read expires. 0: never. Copies of messages that are larger than the
    /// window are kept while it shows the message, whatever stands here.
    #[schemars(range(max = 36_500))]
    pub artifact_days: u32,
    /// Most MiB that the artifacts of a channel take: over it, those that were read longest ago expire. 0: no limit.
    #[schemars(range(max = 1_048_576))]
    pub artifact_mib: u64,
    /// Classes of tools, over the tool's own. Names: "SERVER/TOOL", "SERVER/*", "TOOL" of any server, or "*"; of several
    /// the closest counts. "auto": only large results become artifacts; "always_offload": results over 2000 bytes become
    /// artifacts with a short head and tail (browsers); "keep_recent": a large result becomes one, too, but is shown whole
    /// while it takes no more than its part of the free window, and its newest result is spared from pruning (file readers;
    /// `history_read`).
    pub classes: BTreeMap<String, ResultClass>,
}

impl ResultGuardSettings {
    /// The class of a tool: as the entry says that names it most closely, or as a built-in tool is; `None` leaves it to the
    /// tool. `tool`: the name that models know it by.
    pub fn class(&self, tool: &str) -> Option<ResultClass> {
        let built_in = (tool == "history_read").then_some(ResultClass::KeepRecent);
        let entry = closest(self.classes.keys(), tool).and_then(|(entry, _)| self.classes.get(entry));
        entry.copied().or(built_in)
    }
}

impl Default for ResultGuardSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_bytes: 50_000,
            free_share: 0.5,
            artifact_days: 0,
            artifact_mib: 0,
            classes: BTreeMap::new(),
        }
    }
}

/// What a summary does with identifiers: paths, addresses, ids, numbers of a shape of their own, names of functions, error
/// messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdentifierPolicy {
    /// They stand in a list beside the prose, copied from the source without a model.
    #[default]
    Preserve,
    /// Stable placeholders stand for them.
    Anonymize,
    Off,
}

/// Longest instruction that a run takes, in characters.
pub const INSTRUCTION_MAX_CHARS: usize = 4_000;

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
    /// Most neighbouring summaries that are merged into one where the summaries near their share of the window; 2 or more.
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
    /// Most tokens of one summary. Not set: a fifth of what it summarises, up to a fifth of the summaries' share, and what its
    /// author wrote while the share has room. One that is too long is corrected once by its author, then its least informative
    /// lines go.
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
            background_fraction: 0.50,
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

/// An instruction that no run takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the instruction has {chars} characters, {INSTRUCTION_MAX_CHARS} at most are taken; say in a few sentences what the \
     summary is to attend to"
)]
pub struct InstructionTooLong {
    /// Characters that it has.
    pub chars: usize,
}

/// Checks what somebody asks a summary to attend to.
///
/// # Errors
/// It is longer than [`INSTRUCTION_MAX_CHARS`].
pub fn check_instruction(text: &str) -> Result<(), InstructionTooLong> {
    // Bytes first: nobody counts the characters of a megabyte.
    if text.len() <= INSTRUCTION_MAX_CHARS {
        return Ok(());
    }
    let chars = text.chars().count();
    if chars > INSTRUCTION_MAX_CHARS { Err(InstructionTooLong { chars }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OFFLOAD: ResultClass = ResultClass::AlwaysOffload;
    const RECENT: ResultClass = ResultClass::KeepRecent;

    #[rstest]
    #[case(&[("browse", OFFLOAD)], "web__browse", Some(OFFLOAD))]
    #[case(&[("web/browse", OFFLOAD)], "web__browse", Some(OFFLOAD))]
    #[case(&[("web/*", OFFLOAD)], "web__browse", Some(OFFLOAD))]
    #[case(&[("web__browse", OFFLOAD)], "web__browse", Some(OFFLOAD))]
    #[case(&[("browse", OFFLOAD)], "browse", Some(OFFLOAD))]
    #[case(&[("web/*", OFFLOAD), ("web/browse", RECENT)], "web__browse", Some(RECENT))]
    #[case(&[("web/*", OFFLOAD), ("browse", RECENT)], "web__browse", Some(RECENT))]
    #[case(&[("other/browse", OFFLOAD)], "web__browse", None)]
    #[case(&[], "history_read", Some(RECENT))]
    #[case(&[("history_read", OFFLOAD)], "history_read", Some(OFFLOAD))]
    fn a_class_takes_the_names_that_people_see(
        #[case] classes: &[(&str, ResultClass)],
        #[case] tool: &str,
        #[case] class: Option<ResultClass>,
    ) {
        let classes = classes.iter().map(|(entry, class)| ((*entry).to_owned(), *class)).collect();
        let settings = ResultGuardSettings { classes, ..ResultGuardSettings::default() };
        assert_eq!(settings.class(tool), class);
    }

    #[rstest]
    #[case(0, 0, true)]
    #[case(32_000, 32_000, true)]
    #[case(32_001, 32_000, false)]
    fn a_window_that_is_used_is_warned_about_first(#[case] min: u64, #[case] warn: u64, #[case] fits: bool) {
        assert_eq!(WindowGuard { min_tokens: min, warn_tokens: warn }.validate().is_ok(), fits);
    }

    #[rstest]
    #[case(|_: &mut PruningSettings| {}, None)]
    #[case(|s: &mut PruningSettings| s.soft_ratio = 0.6, Some("hard_ratio"))]
    #[case(|s: &mut PruningSettings| s.hard_ratio = s.soft_ratio, None)]
    #[case(|s: &mut PruningSettings| s.keep_chars = 1_999, None)]
    #[case(|s: &mut PruningSettings| s.keep_chars = 2_000, Some("keep_chars"))]
    #[case(|s: &mut PruningSettings| s.keep_chars = usize::MAX, Some("keep_chars"))]
    fn settings_of_pruning_agree(#[case] change: fn(&mut PruningSettings), #[case] expected: Option<&str>) {
        let mut settings = PruningSettings::default();
        change(&mut settings);
        assert_eq!(settings.validate().err().map(|bad| bad.key), expected);
    }
}
