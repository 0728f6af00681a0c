//! Where each key of the configuration in force comes from: a line of the file, or a default.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use toml::de::DeValue;

use super::Loaded;
use super::source::Source;

/// The line of each key in a file. Tables of a list are named by their id or name: `agents.main.compaction.fan_out`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<String, usize>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The key's own line.
    Line(usize),
    /// The line in `[defaults]` that an agent inherits from.
    Shared(usize),
    BuiltIn,
}

/// A key of the configuration in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyInForce {
    /// Its table, with the id of one of a list: `agents.main.compaction`.
    pub table: String,
    pub key: String,
    /// The value, without what looks like a secret.
    pub value: Value,
    pub origin: Origin,
}

impl Origin {
    /// The origin for people, such as `line 12` or `default`.
    pub fn told(self) -> String {
        match self {
            Self::Line(line) => format!("line {line}"),
            Self::Shared(line) => format!("[defaults], line {line}"),
            Self::BuiltIn => "default".to_owned(),
        }
    }
}

impl Origins {
    pub(super) fn of(source: &Source<'_>) -> Self {
        let mut lines = BTreeMap::new();
        source.each_key(&mut |path, line| {
            lines.insert(path.join("."), line);
        });
        Self(lines)
    }

    fn of_key(&self, table: &str, key: &str) -> Origin {
        let line = |table: &str| self.0.get(joined(table, key).as_str()).copied();
        let shared = || {
            let (_agent, rest) =
                table.strip_prefix("agents.").map(|rest| rest.split_once('.').unwrap_or((rest, "")))?;
            line(&joined("defaults", rest))
        };
        let own = line(table).map(Origin::Line);
        own.or_else(|| shared().map(Origin::Shared)).unwrap_or(Origin::BuiltIn)
    }
}

fn joined(table: &str, key: &str) -> String {
    [table, key].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

impl Loaded {
    /// Every key that is in force, table by table.
    pub fn keys_in_force(&self) -> Vec<KeyInForce> {
        let mut keys = Vec::new();
        self.flatten("", &self.to_json(), &mut keys);
        keys
    }

    /// Every key that is in force as text, a line for each.
    pub fn show_sources(&self) -> String {
        let file = self
            .file
            .as_ref()
            .map_or_else(|| "built-in defaults".to_owned(), |file| file.display().to_string());
        let mut text = format!("# lines of {file}\n");
        let mut table = None;
        for key in self.keys_in_force() {
            if table.as_ref() != Some(&key.table) {
                text.push_str(&format!("\n[{}]\n", key.table));
                table = Some(key.table.clone());
            }
            text.push_str(&format!("{} = {}  # {}\n", key.key, key.value, key.origin.told()));
        }
        text
    }

    /// Every key that is in force as JSON.
    pub fn sources_to_json(&self) -> Value {
        json!({ "file": self.file, "keys": self.keys_in_force() })
    }

    fn flatten(&self, table: &str, value: &Value, keys: &mut Vec<KeyInForce>) {
        let Some(map) = value.as_object() else { return };
        let (tables, plain): (Vec<_>, Vec<_>) = map.iter().partition(|(_, value)| is_table(value));
        for (key, value) in plain.into_iter().filter(|(_, value)| !value.is_null()) {
            let origin = self.origins.of_key(table, key);
            let (table, key) = (table.to_owned(), key.clone());
            keys.push(KeyInForce { table, key, value: value.clone(), origin });
        }
        for (key, value) in tables {
            let below = joined(table, key);
            match value.as_array() {
                None => self.flatten(&below, value, keys),
                Some(list) => {
                    for (idx, item) in list.iter().enumerate() {
                        let name = item["id"].as_str().or(item["name"].as_str());
                        let name = name.map_or_else(|| idx.to_string(), str::to_owned);
                        self.flatten(&joined(&below, &name), item, keys);
                    }
                }
            }
        }
    }
}

/// Whether a value is a table or a list of tables.
fn is_table(value: &Value) -> bool {
    let first = value.as_array().map(|list| list.first());
    first.map_or(value.is_object(), |first| first.is_some_and(Value::is_object))
}

impl Source<'_> {
    /// Calls `each` with the path and the line of every key that holds no table.
    fn each_key(&self, each: &mut impl FnMut(&[String], usize)) {
        self.walk(self.root(), &mut Vec::new(), each);
    }

    fn walk(&self, value: &DeValue<'_>, path: &mut Vec<String>, each: &mut impl FnMut(&[String], usize)) {
        let DeValue::Table(table) = value else { return };
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            match value.get_ref() {
                table @ DeValue::Table(_) => self.walk(table, path, each),
                DeValue::Array(list)
                    if list.iter().any(|item| matches!(item.get_ref(), DeValue::Table(_))) =>
                {
                    for (idx, item) in list.iter().enumerate() {
                        path.push(id_of(item.get_ref()).unwrap_or_else(|| idx.to_string()));
                        self.walk(item.get_ref(), path, each);
                        path.pop();
                    }
                }
                _ => each(path, self.line_of(&key.span())),
            }
            path.pop();
        }
    }
}

fn id_of(item: &DeValue<'_>) -> Option<String> {
    let DeValue::Table(table) = item else { return None };
    let of = |name: &str| table.iter().find(|(key, _)| key.get_ref() == name);
    let id = of("id").or_else(|| of("name"))?.1;
    match id.get_ref() {
        DeValue::String(id) => Some(id.to_string()),
        _ => None,
    }
}
