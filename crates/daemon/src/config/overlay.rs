//! Tables whose keys fall back, each by itself, to the table below: an agent's over `[defaults]`, those over the built-in.

use std::collections::{BTreeMap, BTreeSet};

use cairn_core::memory::Share;
use cairn_core::provenance::TrustSettings;
use cairn_core::settings::{
    HardClear, IdentifierPolicy, MemorySettings, PruneMode, PruningSettings, ResultClass,
    ResultGuardSettings, WindowGuard,
};
use cairn_core::tier::CompactionSettings;
use schemars::JsonSchema;
use serde::Deserialize;

/// A table of optional keys over settings that are all there. `required` keys have a value in the settings, `optional`
/// ones may have none there, too.
macro_rules! overlay {
    ($(#[$doc:meta])* $name:ident over $base:ident {
        required { $($(#[$attr:meta])* $field:ident: $type:ty,)* }
        optional { $($maybe:ident: $maybe_type:ty,)* }
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
        #[serde(default)]
        pub(super) struct $name {
            $($(#[$attr])* $field: Option<$type>,)*
            $($maybe: Option<$maybe_type>,)*
        }

        impl $name {
            /// These keys laid over others.
            pub(super) fn over(&self, base: &$base) -> $base {
                $base {
                    $($field: self.$field.clone().unwrap_or_else(|| base.$field.clone()),)*
                    $($maybe: self.$maybe.clone().or_else(|| base.$maybe.clone()),)*
                }
            }
        }
    };
}

overlay! {
    /// `[defaults.compaction]` and `[agents.compaction]`.
    CompactionKeys over CompactionSettings {
        required {
            enabled: bool,
            background_threshold: f64,
            aggressive_threshold: f64,
            emergency_threshold: f64,
            background_fraction: f64,
            aggressive_fraction: f64,
            emergency_fraction: f64,
            reserve_ratio: f64,
            fan_out: u32,
            stack_share: f64,
            stack_tokens: u64,
            max_attempts: u32,
            retry_base_ms: u64,
            timeout_secs: u64,
            call_timeout_secs: u64,
            tokens_per_hour: u64,
            #[schemars(with = "Option<String>")]
            identifiers: IdentifierPolicy,
            when_cold: bool,
            max_messages: u64,
            notices: bool,
        }
        optional {
            model: String,
            target_tokens: u64,
            instructions: String,
        }
    }
}

overlay! {
    /// `[defaults.memory]` and `[agents.memory]`.
    MemoryKeys over MemorySettings {
        required {
            #[schemars(with = "Option<String>")]
            share: Share,
        }
        optional {}
    }
}

overlay! {
    /// `[defaults.trust]` and `[agents.trust]`.
    TrustKeys over TrustSettings {
        required {
            trusted: BTreeSet<String>,
            approvers: BTreeSet<String>,
            approval_secs: u64,
            always_allow: BTreeSet<String>,
        }
        optional {}
    }
}

overlay! {
    /// `[defaults.window_guard]` and `[agents.window_guard]`.
    WindowGuardKeys over WindowGuard {
        required {
            min_tokens: u64,
            warn_tokens: u64,
        }
        optional {}
    }
}

overlay! {
    /// `[defaults.pruning]` and `[agents.pruning]`.
    PruningKeys over PruningSettings {
        required {
            #[schemars(with = "Option<String>")]
            mode: PruneMode,
            protect_tokens: u64,
            min_win_tokens: u64,
            shrink_bytes: usize,
            soft_ratio: f64,
            hard_ratio: f64,
            soft_chars: usize,
            keep_chars: usize,
            keep_replies: usize,
            #[schemars(schema_with = "super::schema::hard_clear")]
            hard_clear: HardClear,
        }
        optional {}
    }
}

overlay! {
    /// `[defaults.result_guard]` and `[agents.result_guard]`.
    ResultGuardKeys over ResultGuardSettings {
        required {
            enabled: bool,
            max_bytes: usize,
            free_share: f64,
            artifact_days: u32,
            artifact_mib: u64,
            #[schemars(with = "Option<BTreeMap<String, String>>")]
            classes: BTreeMap<String, ResultClass>,
        }
        optional {}
    }
}
