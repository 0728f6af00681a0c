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
    /// Where memories from a chat are recalled. "chat": only in that chat. "person": also, in a person's private chats
    /// with the bot, the things they said about themselves in groups; never in another group and never to others.
    /// "agent": everything in all chats of the agent, even things said privately; for households, and bots with a
    /// single user.
    pub share: Share,
}

/// When a window that was only discovered is too small to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WindowGuard {
    /// If a model's server lists a window below the first number, in tokens, and no window is configured, the next
    /// model of the chain is used instead (the last one is never skipped). Windows below the second number cause one
    /// warning.
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
    /// Clear results, too. false: only shorten them.
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
    /// Shorten old tool results in requests before anything is summarised; the stored results stay whole. "pressure":
    /// from the background threshold on. "cache-ttl": when the provider's cache has expired anyway. "off": never.
    pub mode: PruneMode,
    /// Mode "pressure": spare the newest results up to the first number of tokens, and do nothing if it saves less than
    /// the second; both shrink in proportion for windows below 200000 tokens. A result is first shortened to
    /// `shrink_bytes` (400 or more). If that is not enough, older ones are replaced by a line that says where to read
    /// them.
    #[schemars(range(max = 100_000_000))]
    pub protect_tokens: u64,
    #[schemars(range(max = 100_000_000))]
    pub min_win_tokens: u64,
    // The notice in a shrunk result takes 400 bytes.
    #[schemars(range(min = 400, max = 67_108_864))]
    pub shrink_bytes: usize,
    /// Mode "cache-ttl": from usage `soft_ratio` on, results of more than `soft_chars` characters that are older than
    /// the model's `cache_ttl_secs` keep `keep_chars` at each end; from `hard_ratio` on they are cleared. The results
    /// of the newest `keep_replies` replies are spared.
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
    /// Store tool results over `max_bytes` as artifacts outside the window. The model sees their beginning and end,
    /// equally long and within `max_bytes`, with a note on how to read the rest. All results of one round take at most
    /// `free_share` of the free window: small ones stay whole, large ones share the rest. false: results stay as they
    /// are, and are cut only if a request would not fit.
    pub enabled: bool,
    #[schemars(range(min = 1_000, max = 67_108_864))]
    pub max_bytes: usize,
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub free_share: f64,
    /// Days after which an unread artifact expires. 0: never. Copies of messages larger than the window are kept while
    /// the window shows the message, independent of this.
    #[schemars(range(max = 36_500))]
    pub artifact_days: u32,
    /// Maximum MiB of a channel's artifacts; above it, those that were read longest ago expire. 0: no limit.
    #[schemars(range(max = 1_048_576))]
    pub artifact_mib: u64,
    /// Tool classes, overriding a tool's own. Names: "SERVER/TOOL", "SERVER/*", "TOOL" of any server, or "*"; the most
    /// specific one applies. "auto": only large results become artifacts. "always_offload": results over 2000 bytes
    /// become artifacts with a short beginning and end (browsers). "keep_recent": large results also become artifacts,
    /// but are shown whole while they take no more than their share of the free window, and the newest one is not
    /// shortened later (file readers; `history_read`).
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
    /// Start compaction automatically. Emergencies happen in any case: a request is always made to fit.
    pub enabled: bool,
    /// Usage at which each tier starts: tokens of the whole request / (window - the answer's reserve). The values must
    /// rise. For long tasks 0.70, 0.85, 0.95; if the context must stay verbatim 0.90, 0.93, 0.97. `cairn tune` tries
    /// them on a conversation.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub background_threshold: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub aggressive_threshold: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub emergency_threshold: f64,
    /// Share of the conversation's messages that each tier removes, oldest first, in whole turns. The first two are
    /// summarised in the background. An emergency leaves a digest, made without a model, immediately. It removes as few
    /// turns as bring usage below aggressive_threshold, and at least this share of the messages: 0.50 for at least half
    /// of them.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub background_fraction: f64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub aggressive_fraction: f64,
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub emergency_fraction: f64,
    /// Share of the window, at its newest end, that automatic runs leave alone; at least the two latest turns. 0 to
    /// 0.5. `/compact` leaves only the last turn.
    #[schemars(range(min = 0, max = 0.5))]
    pub reserve_ratio: f64,
    /// Maximum number of neighbouring summaries merged into one when the summaries reach their share of the window; 2
    /// or more.
    #[schemars(range(min = 2))]
    pub fan_out: u32,
    /// Maximum share of the window for all summaries. Near it, a model merges the oldest ones into smaller ones; at it,
    /// they are merged without a model. No summary is dropped without a replacement.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub stack_share: f64,
    /// Attempts of a run before a digest, made without a model, is used as the summary. A digest is provisional: when a
    /// model works again, it summarises the original messages, within tokens_per_hour.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
    /// Pause after the first failed attempt, in milliseconds; it doubles with each further attempt.
    pub retry_base_ms: u64,
    /// An additional limit for summaries and markers together, in tokens. 0: only their share of the window applies.
    #[schemars(range(max = 100_000_000))]
    pub stack_tokens: u64,
    /// Time limit of a run over all its attempts, and of one model call, in seconds. The first restarts with each
    /// finished chunk of a long run. After it, the digest is used.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_secs: u64,
    #[schemars(range(min = 1, max = 86_400))]
    pub call_timeout_secs: u64,
    /// Maximum tokens per hour for one channel's runs. Above it, runs wait; a run that cannot wait works without a
    /// model. 0: no limit.
    pub tokens_per_hour: u64,
    /// The model that summarises, by its id. Not set: the agent's own models, which are also used if this model fails.
    /// A conversation larger than its window is summarised in chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"main")]
    pub model: Option<String>,
    /// Maximum tokens of one summary. Not set: a fifth of its source, at most a fifth of the summaries' share, but the
    /// full text while that share has room. The model corrects a summary that is too long once; then its least
    /// informative lines are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 50, max = 100_000_000), example = 800)]
    pub target_tokens: Option<u64>,
    /// Instructions for every summary; at most 4000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"Keep all prices and dates.")]
    pub instructions: Option<String>,
    /// Identifiers in summaries (paths, addresses, ids, numbers with units, function names, error messages).
    /// "preserve": those missing from the text are listed beside it, copied from the conversation without a model.
    /// "anonymize": stable placeholders replace them; an error message keeps its wording, and only the identifiers in it are
    /// replaced. "off": the model decides.
    pub identifiers: IdentifierPolicy,
    /// Delay a run that is not urgent (the background tier) until the provider's cache of the conversation has expired.
    pub when_cold: bool,
    /// Compact when the window holds more than this many messages, however small; the two latest turns always stay. 0:
    /// only the thresholds count.
    #[schemars(range(max = 1_000_000))]
    pub max_messages: u64,
    /// Notify a chat, at most once an hour, when messages left the model's view and no summary followed within a
    /// minute, or when a run finally failed. false: only in logs and events.
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
