//! Settings of what guards the window beside compaction; `config/config.toml` is the reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::memory::Share;
use crate::tool::closest;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySettings {
    /// How far what was learnt in a chat is recalled.
    pub share: Share,
}

/// When a window that was only discovered is too small to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowGuard {
    /// A model whose discovered window is smaller, in tokens, is passed over for the next of the chain.
    pub min_tokens: u64,
    /// A window that is smaller, in tokens, is warned about.
    pub warn_tokens: u64,
}

impl Default for WindowGuard {
    fn default() -> Self {
        Self { min_tokens: 16_000, warn_tokens: 32_000 }
    }
}

/// When results of tools are pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PruneMode {
    Off,
    /// From the background threshold on, before any run.
    #[default]
    Pressure,
    /// When the provider's cache has gone cold anyway.
    CacheTtl,
}

/// Clearing old results altogether, in the mode [`PruneMode::CacheTtl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardClear {
    /// They are cleared; otherwise only shortened.
    pub enabled: bool,
}

impl Default for HardClear {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// How results of tools are pruned in what is sent; what is kept stays whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PruningSettings {
    pub mode: PruneMode,
    /// Newest tokens of results that are spared (mode `pressure`); less in windows below 200,000 tokens, in proportion.
    pub protect_tokens: u64,
    /// Least tokens that a batch must win (mode `pressure`); less in small windows, in proportion.
    pub min_win_tokens: u64,
    /// Bytes to which a result shrinks at first (mode `pressure`).
    pub shrink_bytes: usize,
    /// Usage from which old results are shortened (mode `cache-ttl`).
    pub soft_ratio: f64,
    /// Usage from which old results are cleared (mode `cache-ttl`).
    pub hard_ratio: f64,
    /// Results of more characters are shortened (mode `cache-ttl`).
    pub soft_chars: usize,
    /// Characters of head and of tail that a shortened result keeps (mode `cache-ttl`).
    pub keep_chars: usize,
    /// Newest replies whose results are spared (mode `cache-ttl`).
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

/// How the results of a tool are treated when they arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultClass {
    #[default]
    Auto,
    /// All but the smallest become artifacts (browsers).
    AlwaysOffload,
    /// The newest stays whole while it leaves room; it becomes a reference when pruned (file readers).
    KeepRecent,
}

/// What becomes of large results of tools when they arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultGuardSettings {
    pub enabled: bool,
    /// Results of more bytes are large.
    pub max_bytes: usize,
    /// Most of the free window that all results of one round take together.
    pub free_share: f64,
    /// Days after which an artifact that nobody read expires; 0: never.
    pub artifact_days: u32,
    /// Most MiB that the artifacts of a channel take: over it, those that were read longest ago expire; 0: no limit.
    pub artifact_mib: u64,
    /// Classes of tools: by `TOOL`, `SERVER/TOOL`, `SERVER/*` or `*`; what is not named is as the tool says.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentifierPolicy {
    /// They stand in a list beside the prose, copied from the source without a model.
    #[default]
    Preserve,
    /// Stable placeholders stand for them.
    Anonymize,
    Off,
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
}
