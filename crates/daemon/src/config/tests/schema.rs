//! The schema says of config files what the checks say, as far as a schema can.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::reference::{REFERENCE, with_all_keys};
use super::{error, fine, load};
use crate::config::file::tables;
use crate::config::schema;
use crate::config::schema::{CHOICES, RANGES};

/// What the schema objects to in a config file.
fn objections(text: &str) -> Vec<String> {
    let document: toml::Value = toml::from_str(text).unwrap();
    let document = serde_json::to_value(document).unwrap();
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The schema of a table, by the keys on the way to it.
fn table_at<'s>(schema: &'s Value, path: &[&str]) -> &'s Value {
    path.iter().fold(schema, |table, key| {
        let next = &table["properties"][key];
        next.get("items").unwrap_or(next)
    })
}

#[test]
fn the_reference_fits_with_its_examples_off_and_on() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
    for text in [REFERENCE, &with_all_keys(), ""] {
        assert_eq!(objections(text), Vec::<String>::new());
    }
}

#[test]
fn tables_have_the_keys_that_the_file_may_have_each_with_its_meaning() {
    let schema = schema();
    for table in tables() {
        let here = table_at(&schema, table.path);
        assert_eq!(here["additionalProperties"], false, "{}", table.name);
        let properties = here["properties"].as_object().unwrap();
        let known: BTreeSet<&str> = table.keys.iter().copied().collect();
        let found: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(found, known, "{}", table.name);
        for (key, property) in properties {
            let is_table = property["type"] == "object" || property["items"]["type"] == "object";
            let said = property["description"].as_str().unwrap_or_default();
            assert!(is_table || said.len() > 8, "`{key}` of {}: {property}", table.name);
            assert!(!property.to_string().contains("null"), "`{key}` of {}: {property}", table.name);
        }
    }
    let threshold = &table_at(&schema, &["defaults", "compaction"])["properties"]["background_threshold"];
    assert_eq!(threshold["default"], 0.8);
    let fan_out = &table_at(&schema, &["agents", "compaction"])["properties"]["fan_out"];
    assert!(fan_out["description"].as_str().unwrap().starts_with("Summaries of one level"), "{fan_out}");
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
        "discord" => "[discord]\ntoken_env = \"T\"".to_owned(),
        "discord.places" => "[discord]\ntoken_env = \"T\"\n[[discord.places]]\nchat = 7".to_owned(),
        table => format!("[{table}]"),
    };
    format!("{head}\n{key} = {value}\n")
}

#[test]
fn ranges_are_those_of_the_checks() {
    for (path, low, high) in RANGES {
        let key = path.rsplit('.').next().unwrap();
        let beyond = [low.checked_sub(1), high.checked_add(1).filter(|n| *n <= i64::MAX as u64)];
        for n in beyond.into_iter().flatten() {
            let text = with(path, &n.to_string());
            assert!(error(&text).contains(&format!("`{key}`")), "{text}");
            assert!(!objections(&text).is_empty(), "{text}");
        }
        assert!(objections(&with(path, &low.to_string())).is_empty(), "{path} = {low}");
    }
}

#[test]
fn choices_are_those_of_the_types() {
    for (path, words) in CHOICES {
        for word in *words {
            let text = with(path, &json!(word).to_string());
            fine(&text);
            assert_eq!(objections(&text), Vec::<String>::new());
        }
        let text = with(path, "\"bogus\"");
        assert!(load(&text).is_err() && !objections(&text).is_empty(), "{text}");
    }
}
