//! `cairn config schema`: a JSON schema of the config file, for editors. The structure is derived from the file's own types;
//! words come from the reference (`words`), ranges and choices from `rules`, which tests hold against the checks.

mod rules;
mod words;

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::commands::Commands;
use super::file::FileConfig;
use super::keys::fields_of;
use super::network::{NetworkKind, PlatformId};
use super::types::{Defaults, Retention};
use words::Words;

#[cfg(test)]
pub(super) use rules::{CHOICES, RANGES};

/// Tables of a list that mean nothing without their name.
const NAMED: [&str; 3] = ["models", "agents", "mcp"];

/// The schema of a config file, draft 2020-12.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut root = settings.into_generator().into_root_schema_for::<FileConfig>().to_value();
    let words = Words::of_reference();
    finish(&mut root, "", &words);
    root["title"] = "Cairn's configuration".into();
    root["description"] =
        "The file config.toml: models, agents, chat networks, limits. Nothing in it is required.".into();
    let tables = &mut root["properties"];
    for name in NAMED {
        tables[name]["items"]["required"] = json!(["id"]);
    }
    remove(&mut tables["defaults"], &["id"]);
    for kind in NetworkKind::ALL {
        remove(&mut tables[kind.name()], kind.foreign_keys());
        if kind.foreign_keys().contains(&"servers") {
            remove(&mut tables[kind.name()]["properties"]["places"]["items"], &["server"]);
        }
    }
    let built_in = serde_json::to_value(Defaults::default()).unwrap_or_default();
    fill_in(&mut tables["defaults"], &built_in);
    root
}

fn remove(table: &mut Value, keys: &[&str]) {
    if let Some(properties) = table.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Makes of what is derived what an editor is to show. `path`: the keys on the way, parted by dots, without indices.
fn finish(schema: &mut Value, path: &str, words: &Words) {
    let Some(map) = schema.as_object_mut() else { return };
    without_null(map);
    for noise in ["format", "title"] {
        map.remove(noise);
    }
    if map.get("default").is_some_and(|default| default.is_null() || default.is_object()) {
        map.remove("default");
    }
    if let Some(said) = words.of(path) {
        map.insert("description".to_owned(), said.into());
    }
    rules::apply(map, path);
    if let Some(items) = map.get_mut("items") {
        finish(items, path, words);
    }
    let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (key, property) in properties {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        finish(property, &path, words);
    }
    map.insert("additionalProperties".to_owned(), false.into());
}

/// TOML has no null: what is optional is left out.
fn without_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|one| one["type"] != "null");
        if let [only] = choices.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            for (key, value) in only.as_object().cloned().unwrap_or_default() {
                map.entry(key).or_insert(value);
            }
        }
    }
}

/// Adds the built-in value of each key that has one.
fn fill_in(table: &mut Value, built_in: &Value) {
    let Some(properties) = table.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (key, property) in properties {
        match built_in.get(key) {
            Some(inner) if inner.is_object() && property.get("properties").is_some() => {
                fill_in(property, inner)
            }
            Some(value) if !value.is_null() && !value.is_object() => property["default"] = value.clone(),
            Some(_) | None => {}
        }
    }
}

/// `hard_clear`, whose type is the core's.
pub(super) fn hard_clear(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "properties": { "enabled": { "type": "boolean" } } })
}

/// `[retention]`, whose type is the core's: numbers, with their built-in values.
pub(super) fn retention(_: &mut SchemaGenerator) -> Schema {
    let built_in = serde_json::to_value(Retention::default()).unwrap_or_default();
    let key = |name: &&str| {
        let value = built_in[*name].clone();
        let kind = if value.is_u64() { "integer" } else { "number" };
        ((*name).to_owned(), json!({ "type": kind, "minimum": 0, "default": value }))
    };
    let properties: Map<String, Value> = fields_of::<Retention>().iter().map(key).collect();
    json_schema!({ "type": "object", "properties": properties, "description": "What of an old state is kept smaller." })
}

impl JsonSchema for PlatformId {
    fn schema_name() -> Cow<'static, str> {
        "PlatformId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "pattern": "^ *-?[0-9]+ *$" })
    }
}

impl JsonSchema for Commands {
    fn schema_name() -> Cow<'static, str> {
        "Commands".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let built_in = serde_json::to_value(Self::default()).unwrap_or_default();
        let key = |name: &&str| {
            let schema = match *name {
                "operators" => json!({ "type": "array", "items": { "type": "string" } }),
                _ => json!({ "type": "string" }),
            };
            let mut schema = schema;
            schema["default"] = built_in[*name].clone();
            ((*name).to_owned(), schema)
        };
        let properties: Map<String, Value> = fields_of::<Self>().iter().map(key).collect();
        json_schema!({
            "type": "object", "properties": properties, "description": "Operators, and who may use which command.",
        })
    }
}
