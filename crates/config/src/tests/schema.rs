//! The schema says of config files what the checks say, as far as a schema can.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::json;

use super::reference::{REFERENCE, with_all_keys};
use super::{error, fine, load};
use crate::schema;
use crate::schema::{TABLES, schema_at};

/// What the schema objects to in a config file.
fn objections(text: &str) -> Vec<String> {
    let document: toml::Value = toml::from_str(text).unwrap();
    let document = serde_json::to_value(document).unwrap();
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_reference_fits_with_its_examples_off_and_on() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
    let two_bots = "[[telegram]]\ntoken_env = \"A\"\n[[telegram]]\nname = \"b\"\ntoken_env = \"B\"\n";
    for text in [REFERENCE, &with_all_keys(), two_bots, ""] {
        assert_eq!(objections(text), Vec::<String>::new());
    }
}

#[test]
fn every_key_has_its_meaning_and_no_mark_of_ours() {
    let schema = schema();
    for table in TABLES.iter() {
        let here = schema_at(&schema, &table.path);
        assert_eq!(here["additionalProperties"], false, "{}", table.name());
        let properties = here["properties"].as_object().unwrap();
        let known: BTreeSet<&str> = table.keys.iter().copied().collect();
        let found: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(found, known, "{}", table.name());
        for (key, property) in properties {
            let is_table = property["type"] == "object" || property["items"]["type"] == "object";
            let said = property["description"].as_str().unwrap_or_default();
            assert!(is_table || said.len() > 8, "`{key}` of {}: {property}", table.name());
            let text = property.to_string();
            assert!(!text.contains("null") && !text.contains("\"x-"), "`{key}` of {}: {text}", table.name());
        }
    }
    let threshold = &schema_at(&schema, "defaults.compaction")["properties"]["background_threshold"];
    assert_eq!(threshold["default"], 0.8);
    let fan_out = &schema_at(&schema, "agents.compaction")["properties"]["fan_out"];
    assert!(
        fan_out["description"].as_str().unwrap().starts_with("Maximum number of neighbouring summaries"),
        "{fan_out}"
    );
    assert_eq!(fan_out.get("default"), None, "an agent that leaves it out takes that of [defaults]");
}

#[test]
fn what_is_typically_wrong_is_objected_to() {
    for (text, word) in [
        ("[defalts]\n", "defalts"),
        ("[defaults]\ncontext_windw = 1000\n", "context_windw"),
        ("[defaults]\nid = \"main\"\n", "id"),
        ("[defaults.compaction]\nbackground_threshold = 80\n", "background_threshold"),
        ("[defaults.compaction]\nbackground_threshold = \"0.8\"\n", "background_threshold"),
        ("[defaults.result_guard.classes]\nbrowse = \"sometimes\"\n", "classes"),
        ("[models]\nid = \"m\"\n", "models"),
        ("[[models]]\nmodel = \"x\"\n", "id"),
        ("[[models]]\nid = \"m\"\nprovider = \"openia\"\n", "provider"),
        ("[[models]]\nid = \"m\"\napi_key = \"sk\"\n", "api_key"),
        ("[[models]]\nid = \"a b\"\n", "id"),
        ("[telegram]\nservers = [1]\n", "servers"),
        ("[[telegram.places]]\nserver = 1\n", "server"),
        ("[discord]\nusers = [\"@ada\"]\n", "users"),
        ("[[discord]]\nusers = [\"@ada\"]\n", "users"),
        ("[[discord]]\nname = \"My bot\"\n", "name"),
        ("[discord]\nwebhook_url = \"https://a.example\"\n", "webhook_url"),
        ("[commands]\nnew = \"anyone\"\n", "new"),
        ("[log]\nformat = \"xml\"\n", "format"),
    ] {
        let found = objections(text);
        assert!(found.iter().any(|one| one.contains(word)), "{text} -> {found:?}");
        assert!(load(text).is_err(), "the checks take what the schema does not: {text}");
    }
}

/// A config file with that value of a key.
fn with(path: &str, value: &str) -> String {
    let (table, key) = path.rsplit_once('.').unwrap();
    let head = match table {
        "models" => "[[models]]\nid = \"m\"\nmodel = \"x\"".to_owned(),
        "mcp" => "[[mcp]]\nid = \"m\"\ncommand = \"x\"".to_owned(),
        "schedules" => {
            "[[schedules]]\nid = \"m\"\nchannel = \"x\"\nevery = \"day 7:00\"\nprompt = \"x\"".to_owned()
        }
        "discord" => "[discord]\ntoken_env = \"T\"".to_owned(),
        "discord.places" => "[discord]\ntoken_env = \"T\"\n[[discord.places]]\nchat = 7".to_owned(),
        table => format!("[{table}]"),
    };
    format!("{head}\n{key} = {value}\n")
}

/// Number keys with their lowest and highest value.
const RANGES: [(&str, Option<&str>, Option<&str>); 16] = [
    ("defaults.context_window", Some("511"), Some("100000001")),
    ("defaults.max_rounds", Some("0"), Some("101")),
    ("defaults.trust.approval_secs", Some("9"), Some("86401")),
    ("defaults.compaction.fan_out", Some("1"), None),
    ("defaults.compaction.stack_share", Some("0.0"), Some("1.0")),
    ("defaults.compaction.emergency_fraction", Some("-0.1"), Some("1.0")),
    ("defaults.pruning.shrink_bytes", Some("399"), Some("67108865")),
    ("models.max_output_tokens", Some("0"), None),
    ("mcp.start_timeout_secs", Some("0"), Some("3601")),
    ("discord.draft_interval_ms", Some("499"), Some("60001")),
    ("defaults.result_guard.free_share", Some("0.0"), Some("1.5")),
    ("models.cache_write_price", Some("-1.0"), None),
    ("store.segment_mib", Some("0"), Some("4097")),
    ("limits.max_message_bytes", Some("0"), None),
    ("limits.spend_per_day", Some("-0.5"), Some("nan")),
    ("retention.memory_importance", Some("-0.1"), Some("1.5")),
];

#[test]
fn the_ranges_of_the_schema_are_those_of_the_checks() {
    for (path, low, high) in RANGES {
        let key = path.rsplit('.').next().unwrap();
        for beyond in [low, high].into_iter().flatten() {
            let text = with(path, beyond);
            let message = error(&text);
            assert!(
                message.contains(&format!("`{key}` = ")) && message.contains("is out of range"),
                "{message}"
            );
            assert!(beyond == "nan" || !objections(&text).is_empty(), "{text}");
        }
    }
}

#[rstest]
#[case("defaults.engine", &["standard", "sliding"])]
#[case("defaults.memory.share", &["chat", "person", "agent"])]
#[case("defaults.compaction.identifiers", &["preserve", "anonymize", "off"])]
#[case("defaults.pruning.mode", &["pressure", "cache-ttl", "off"])]
#[case("discord.direct", &["pairing", "allowlist", "open", "off"])]
#[case("discord.respond", &["mention", "all", "never"])]
#[case("discord.places.respond", &["mention", "all", "never"])]
#[case("commands.new", &["everyone", "direct", "operators", "nobody"])]
fn the_words_of_a_key_are_those_of_the_schema(#[case] path: &str, #[case] words: &[&str]) {
    for word in words {
        let text = with(path, &json!(word).to_string());
        fine(&text);
        assert_eq!(objections(&text), Vec::<String>::new());
    }
    let text = with(path, "\"bogus\"");
    assert!(load(&text).is_err() && !objections(&text).is_empty(), "{text}");
}
