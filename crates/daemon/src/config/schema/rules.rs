//! Ranges and choices of values, as the checks of the configuration have them. A test offers the checks what is beyond.

use serde_json::{Map, Value, json};

use super::words::fallback;
use crate::config::models::{WINDOW_MAX, WINDOW_MIN};

const ANY: u64 = u64::MAX;

/// Whole numbers: the lowest and the highest that is taken.
pub(in crate::config) const RANGES: &[(&str, u64, u64)] = &[
    ("defaults.context_window", WINDOW_MIN, WINDOW_MAX),
    ("defaults.recall_limit", 0, 100),
    ("defaults.max_rounds", 1, 100),
    ("defaults.trust.approval_secs", 10, 86_400),
    ("defaults.compaction.fan_out", 2, ANY),
    ("defaults.compaction.max_attempts", 1, ANY),
    ("defaults.compaction.timeout_secs", 1, 86_400),
    ("defaults.compaction.call_timeout_secs", 1, 86_400),
    ("models.context_window", WINDOW_MIN, WINDOW_MAX),
    ("models.max_output_tokens", 1, WINDOW_MAX),
    ("models.first_timeout_secs", 1, 3_600),
    ("models.idle_timeout_secs", 1, 3_600),
    ("models.cache_ttl_secs", 0, 86_400),
    ("mcp.memory_mib", 0, 1 << 20),
    ("mcp.open_files", 0, 1 << 20),
    ("mcp.timeout_secs", 1, 86_400),
    ("mcp.start_timeout_secs", 1, 3_600),
    ("mcp.max_message_mib", 1, 1_024),
    ("fetch.max_kib", 1, 1 << 16),
    ("fetch.timeout_secs", 1, 600),
    ("fetch.max_redirects", 0, 20),
    ("discord.draft_interval_ms", 500, 60_000),
    ("discord.catch_up_hours", 0, 24 * 365),
    ("discord.catch_up_messages", 0, 10_000),
    ("discord.image_kib", 0, 20 << 10),
    ("discord.text_file_kib", 0, 4 << 10),
    ("limits.max_message_bytes", 1, 64 << 20),
    ("limits.admitted_messages", 1, 1_000_000),
    ("limits.channel_queue", 1, 1_000_000),
    ("limits.idle_secs", 1, 31_536_000),
    ("limits.turn_timeout_secs", 1, 86_400),
    ("limits.model_attempts", 1, 100),
    ("limits.tool_timeout_secs", 1, 86_400),
    ("limits.shutdown_secs", 0, 3_600),
    ("limits.unaddressed_queue", 1, 10_000),
    ("limits.model_down_tell_secs", 1, 3_600),
    ("limits.model_down_pause_max_secs", 1, 86_400),
    ("limits.model_cool_down_secs", 0, 86_400),
    ("limits.model_limited_secs", 0, 86_400),
    ("limits.model_cool_down_max_secs", 0, 86_400),
    ("retention.compress_days", 0, 36_500),
    ("retention.journal_days", 0, 36_500),
    ("retention.journal_mib", 0, 16_777_216),
    ("retention.memory_days", 0, 36_500),
    ("retention.memory_max", 0, 1_000_000),
    ("store.segment_mib", 1, 4_096),
    ("store.cache_mib", 1, 65_536),
];

/// Shares of the window: above 0 and below 1.
const SHARES: [&str; 6] = [
    "background_threshold",
    "aggressive_threshold",
    "emergency_threshold",
    "background_fraction",
    "aggressive_fraction",
    "stack_share",
];

/// Words of which one is to be chosen.
pub(in crate::config) const CHOICES: &[(&str, &[&str])] = &[
    ("defaults.engine", &["standard", "sliding"]),
    ("defaults.memory.share", &["chat", "person", "agent"]),
    ("defaults.compaction.identifiers", &["preserve", "anonymize", "off"]),
    ("defaults.pruning.mode", &["pressure", "cache-ttl", "off"]),
    ("discord.direct", &["pairing", "allowlist", "open", "off"]),
    ("discord.respond", &["mention", "all", "never"]),
    ("discord.places.respond", &["mention", "all", "never"]),
];

/// Of `classes`, whose keys are names of tools.
const CLASSES: [&str; 3] = ["auto", "always_offload", "keep_recent"];

/// Of every key of `[commands]` but `operators`.
const PERMISSIONS: [&str; 4] = ["everyone", "direct", "operators", "nobody"];

/// Adds to the schema of a key what is known of its values.
pub(super) fn apply(map: &mut Map<String, Value>, path: &str) {
    let path = fallback(path);
    let mut set = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    if let Some((_, low, high)) = RANGES.iter().find(|(known, ..)| *known == path) {
        set("minimum", json!(low));
        if *high != ANY {
            set("maximum", json!(high));
        }
    }
    if let Some((_, words)) = CHOICES.iter().find(|(known, _)| *known == path) {
        set("enum", json!(words));
    }
    match path.rsplit_once('.') {
        Some(("defaults.compaction", key)) if SHARES.contains(&key) => {
            set("exclusiveMinimum", json!(0));
            set("exclusiveMaximum", json!(1));
        }
        Some(("defaults.compaction", "emergency_fraction")) => {
            set("minimum", json!(0));
            set("exclusiveMaximum", json!(1));
        }
        Some(("defaults.compaction", "reserve_ratio")) => {
            set("minimum", json!(0));
            set("maximum", json!(0.5));
        }
        Some(("models", key)) if key.ends_with("_price") => set("minimum", json!(0)),
        Some(("retention", "memory_importance")) => set("maximum", json!(1)),
        Some(("limits", "spend_per_day")) => set("minimum", json!(0)),
        Some(("defaults.result_guard", "classes")) => {
            set("additionalProperties", json!({ "type": "string", "enum": CLASSES }));
        }
        Some(("commands", key)) if key != "operators" => set("enum", json!(PERMISSIONS)),
        Some(("models" | "agents" | "defaults", "id")) => set("pattern", json!("^[A-Za-z0-9._-]{1,64}$")),
        Some(("mcp", "id")) => set("pattern", json!("^[A-Za-z0-9-]{1,24}$")),
        _ => {}
    }
}
