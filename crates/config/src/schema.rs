//! The schema of a config file, derived from the types: for `cairn config schema`, and for checking keys and ranges.

use std::sync::LazyLock;

use cairn_core::retention::RetentionSettings;
use cairn_core::settings::{
    CompactionSettings, HardClear, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use cairn_core::trust::TrustSettings;
use cairn_types::command::CommandPermissions;
use schemars::generate::SchemaSettings;
use serde::de::{Deserialize, Deserializer, Visitor, value::Error};
use serde_json::{Map, Value, json};

use super::error::Problem;
use super::hints;
use super::secrets::looks_secret;
use super::source::{Seg, Source};
use super::types::{
    AdminConfig, AgentConfig, ApiKeyConfig, Config, Embeddings, FetchConfig, Limits, Log, McpConfig,
    ModelConfig, Network, OpenAiApiConfig, PlaceKeys, RerankConfig, ScheduleConfig, SearchConfig,
    SpeakConfig, Store, TranscribeConfig,
};

/// Tables of a list that mean nothing without their name.
const NAMED: [&str; 4] = ["models", "agents", "mcp", "schedules"];

/// The unit of a number, by the end of its key.
const UNITS: [(&str, &str); 10] = [
    ("_secs", "of seconds "),
    ("_ms", "of milliseconds "),
    ("_days", "of days "),
    ("_hours", "of hours "),
    ("_mib", "of MiB "),
    ("_kib", "of KiB "),
    ("_bytes", "of bytes "),
    ("_tokens", "of tokens "),
    ("context_window", "of tokens "),
    ("_messages", "of messages "),
];

/// The schema with its `x-` marks for the reference.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(derived);

/// The schema of a config file, draft 2020-12.
pub fn schema() -> Value {
    let mut schema = SCHEMA.clone();
    for_each(&mut schema, &|map| map.retain(|key, _| !key.starts_with("x-")));
    // What an agent leaves out is not built in: it is in [defaults].
    for_each(&mut schema["properties"]["agents"], &|map| drop(map.remove("default")));
    schema
}

fn derived() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut root = settings.into_generator().into_root_schema_for::<Config>().to_value();
    for_each(&mut root, &tidy);
    root["title"] = "Cairn's configuration".into();
    root["description"] =
        "The file config.toml: models, agents, chat networks, limits. Nothing in it is required.".into();
    for table in all_tables() {
        share_words(&mut root, &table);
    }
    let tables = &mut root["properties"];
    for name in NAMED {
        tables[name]["items"]["required"] = json!(["id"]);
    }
    if let Some(keys) = tables["defaults"]["properties"].as_object_mut() {
        keys.remove("id");
    }
    for (table, others) in [
        ("telegram", &["x-discord", "x-bridges-only"][..]),
        ("discord", &["x-telegram-only", "x-bridges-only"]),
        ("bridges", &["x-discord", "x-telegram-only", "x-no-bridge"]),
    ] {
        for_each(&mut tables[table], &|map| {
            if let Some(keys) = map.get_mut("properties").and_then(Value::as_object_mut) {
                keys.retain(|_, key| others.iter().all(|other| key[other].is_null()));
            }
        });
        if table == "bridges" {
            // Their ids are any text.
            for_each(&mut tables[table], &free_ids);
        }
        // One bot is a table, several are a list of them.
        let mut one = tables[table].clone();
        if let Some(one) = one.as_object_mut() {
            one.remove("description");
        }
        if table == "bridges" {
            let description = tables[table]["description"].clone();
            tables[table] = json!({ "description": description, "type": "array", "items": one });
            continue;
        }
        tables[table]["type"] = json!(["object", "array"]);
        tables[table]["items"] = one;
    }
    root
}

/// Lets ids be any text, not only digits.
fn free_ids(map: &mut Map<String, Value>) {
    if map.get("type") == Some(&json!(["integer", "string"])) {
        map.remove("pattern");
    }
}

/// Changes a schema and all schemas in it.
fn for_each(schema: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    let Some(map) = schema.as_object_mut() else { return };
    change(map);
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = map.get_mut(below) {
            for_each(schema, change);
        }
    }
    if let Some(keys) = map.get_mut("properties").and_then(Value::as_object_mut) {
        keys.values_mut().for_each(|schema| for_each(schema, change));
    }
}

/// Turns the derived schema into what an editor should show.
fn tidy(map: &mut Map<String, Value>) {
    without_null(map);
    for noise in ["format", "title"] {
        map.remove(noise);
    }
    if map.get("default").is_some_and(|default| default.is_null() || default.is_object()) {
        map.remove("default");
    }
    if let Some(Value::String(said)) = map.get_mut("description") {
        // A doc comment has the source's line breaks: join the lines of each paragraph.
        *said = said.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    if map.contains_key("properties") {
        map.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Removes null from the schema: TOML has none, optional keys are left out.
fn without_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = map.get_mut("enum") {
        words.retain(|word| !word.is_null());
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

/// Gives a key without a description that of the key above it.
fn share_words(root: &mut Value, table: &Table) {
    let mut said = None;
    for key in &table.keys {
        let Some(key) = schema_mut(root, &table.path).and_then(|here| here["properties"].get_mut(key)) else {
            continue;
        };
        match (key.get("description"), &said) {
            (Some(own), _) => said = Some(own.clone()),
            (None, Some(said)) if key.get("properties").is_none() => key["description"] = said.clone(),
            (None, _) => {}
        }
    }
}

/// The schema of a table, by its path.
fn schema_mut<'s>(root: &'s mut Value, path: &str) -> Option<&'s mut Value> {
    let mut here = root;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        here = here.get_mut("properties")?.get_mut(key)?;
        if here.get("items").is_some() {
            here = &mut here["items"];
        }
    }
    Some(here)
}

pub(super) fn schema_at<'s>(root: &'s Value, path: &str) -> &'s Value {
    path.split('.').filter(|key| !key.is_empty()).fold(root, |here, key| {
        let next = &here["properties"][key];
        next.get("items").unwrap_or(next)
    })
}

/// A table of the file.
pub(super) struct Table {
    /// The keys on the way to it, separated by dots, without indices; empty for the top level.
    pub(super) path: String,
    /// Its keys, in the order of the reference.
    pub(super) keys: Vec<&'static str>,
}

impl Table {
    /// As a user writes its head, such as `[[agents]]`.
    pub(super) fn name(&self) -> String {
        match &*self.path {
            "" => "the top level".to_owned(),
            path if path == "bridges"
                || NAMED.contains(&path)
                || path.ends_with(".places")
                || path.ends_with(".keys") =>
            {
                format!("[[{path}]]")
            }
            path => format!("[{path}]"),
        }
    }
}

/// The tables of the file with their keys, in the order of the reference.
pub(super) static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let mut tables = all_tables();
    for table in &mut tables {
        let known = &schema_at(&SCHEMA, &table.path)["properties"];
        table.keys.retain(|key| known.get(key).is_some());
    }
    tables
});

/// All tables. Some list keys of [`Network`] or of agents that the table does not have.
fn all_tables() -> Vec<Table> {
    let agents = [
        ("", fields_of::<AgentConfig>()),
        (".memory", fields_of::<MemorySettings>()),
        (".trust", fields_of::<TrustSettings>()),
        (".compaction", fields_of::<CompactionSettings>()),
        (".window_guard", fields_of::<WindowGuard>()),
        (".pruning", fields_of::<PruningSettings>()),
        (".pruning.hard_clear", fields_of::<HardClear>()),
        (".result_guard", fields_of::<ResultGuardSettings>()),
    ];
    let others = [
        ("mcp", fields_of::<McpConfig>()),
        ("fetch", fields_of::<FetchConfig>()),
        ("search", fields_of::<SearchConfig>()),
        ("schedules", fields_of::<ScheduleConfig>()),
        ("discord", fields_of::<Network>()),
        ("discord.places", fields_of::<PlaceKeys>()),
        ("telegram", fields_of::<Network>()),
        ("telegram.places", fields_of::<PlaceKeys>()),
        ("bridges", fields_of::<Network>()),
        ("bridges.places", fields_of::<PlaceKeys>()),
        ("transcribe", fields_of::<TranscribeConfig>()),
        ("speak", fields_of::<SpeakConfig>()),
        ("commands", fields_of::<CommandPermissions>()),
        ("limits", fields_of::<Limits>()),
        ("log", fields_of::<Log>()),
        ("admin", fields_of::<AdminConfig>()),
        ("openai_api", fields_of::<OpenAiApiConfig>()),
        ("openai_api.keys", fields_of::<ApiKeyConfig>()),
        ("store", fields_of::<Store>()),
        ("embeddings", fields_of::<Embeddings>()),
        ("rerank", fields_of::<RerankConfig>()),
        ("retention", fields_of::<RetentionSettings>()),
    ];
    let below = |root: &'static str| agents.map(|(path, keys)| (format!("{root}{path}"), keys));
    let all = [(String::new(), fields_of::<Config>())]
        .into_iter()
        .chain(below("defaults"))
        .chain([("models".to_owned(), fields_of::<ModelConfig>())])
        .chain(below("agents"))
        .chain(others.map(|(path, keys)| (path.to_owned(), keys)));
    all.map(|(path, keys)| Table { path, keys: keys.to_vec() }).collect()
}

/// The keys of a struct with derived `Deserialize`, in order, as written in a file.
fn fields_of<T: Deserialize<'static>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // The probe hands no value out, so this always "fails" once it has seen the names.
    let _seen = T::deserialize(Probe { fields: &mut fields });
    fields
}

/// A deserializer that notes the names of the fields it is asked for.
struct Probe<'a> {
    fields: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.fields = fields;
        Err(serde::de::Error::custom("only a probe"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// What is wrong with a file by the schema.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) unknown: Vec<Problem>,
    pub(super) out_of_range: Vec<Problem>,
}

impl Findings {
    pub(super) fn of(source: &Source<'_>, file: &toml::Table) -> Self {
        let mut findings = Self::default();
        findings.table(source, &SCHEMA, &mut Vec::new(), file);
        findings
    }

    fn table(&mut self, source: &Source<'_>, schema: &Value, path: &mut Vec<Seg>, table: &toml::Table) {
        // A table without known keys is a map: `classes`, `env`.
        let Some(known) = schema["properties"].as_object() else { return };
        for (key, value) in table {
            path.push(Seg::Key(key.clone()));
            match known.get(key) {
                Some(schema) => self.value(source, schema, path, value),
                None => {
                    let (message, hint) = unknown_key(path, value);
                    self.unknown.push(Problem::new(message).at(source.key_place(path)).hint(hint));
                }
            }
            path.pop();
        }
    }

    fn value(&mut self, source: &Source<'_>, schema: &Value, path: &mut Vec<Seg>, value: &toml::Value) {
        match value {
            toml::Value::Table(table) => self.table(source, schema, path, table),
            toml::Value::Array(items) => {
                for (idx, item) in items.iter().enumerate() {
                    path.push(Seg::Index(idx));
                    self.value(source, &schema["items"], path, item);
                    path.pop();
                }
            }
            value => {
                let key = keys_of(path).last().copied().unwrap_or_default();
                if let Some((message, hint)) = out_of_range(schema, key, value) {
                    self.out_of_range.push(Problem::new(message).at(source.value_place(path)).hint(hint));
                }
            }
        }
    }
}

fn keys_of(path: &[Seg]) -> Vec<&str> {
    let keys = path.iter().filter_map(|seg| match seg {
        Seg::Key(key) => Some(key.as_str()),
        Seg::Index(_) => None,
    });
    keys.collect()
}

/// What is wrong with a number, and a hint; `None`: it is within its range.
fn out_of_range(schema: &Value, key: &str, value: &toml::Value) -> Option<(String, String)> {
    #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
    let number = value.as_float().or(value.as_integer().map(|number| number as f64))?;
    let bound = |name: &str| schema[name].as_f64();
    let lowest = bound("minimum").map(|low| (low, number >= low, "from"));
    let above = bound("exclusiveMinimum").map(|low| (low, number > low, "above"));
    let highest = bound("maximum").map(|high| (high, number <= high, "to"));
    let below = bound("exclusiveMaximum").map(|high| (high, number < high, "and below"));
    let (low, high) = (lowest.or(above), highest.or(below));
    if [low, high].iter().flatten().all(|(_, holds, _)| *holds) {
        return None;
    }
    let range = match (low, high) {
        (Some((low, _, from)), Some((high, _, to))) => format!("{from} {low} {to} {high}"),
        (Some((low, ..)), None) => format!("that is {low} or more"),
        (None, high) => format!("up to {}", high.map_or(f64::MAX, |(high, ..)| high)),
    };
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit);
    let usual = [&schema["default"], &schema["examples"][0]]
        .into_iter()
        .find(|usual| usual.as_f64().is_some_and(|usual| usual.fract() != 0.0));
    let such_as = usual.map(|usual| format!(", such as {usual}")).unwrap_or_default();
    let shown = value.as_integer().map_or_else(|| number.to_string(), |number| number.to_string());
    Some((format!("`{key}` = {shown} is out of range"), format!("write a number {unit}{range}{such_as}")))
}

/// What is wrong with a number for a key of a table, such as `defaults.compaction`, in a sentence.
pub fn range_trouble(table: &str, key: &str, value: &toml::Value) -> Option<String> {
    let schema = &schema_at(&SCHEMA, table)["properties"][key];
    out_of_range(schema, key, value).map(|(message, hint)| format!("{message}; {hint}"))
}

/// The message and the hint for an unknown key.
fn unknown_key(path: &[Seg], value: &toml::Value) -> (String, String) {
    let names = keys_of(path);
    let (key, parents) = names.split_last().map_or(("", &[][..]), |(key, parents)| (*key, parents));
    let above = parents.join(".");
    let here = TABLES.iter().find(|table| table.path == above);
    let message = match here {
        Some(table) => format!("unknown key `{key}` in {}", table.name()),
        None => format!("unknown key `{}`", names.join(".")),
    };
    let words = ["key", "token", "secret", "password"];
    let is_secret = value.as_str().is_some_and(looks_secret) || words.iter().any(|word| key.ends_with(word));
    let other_name = hints::of_key(key, &above);
    let hint = match (key, &*above) {
        _ if !is_secret && other_name.is_some() => other_name.unwrap_or_default(),
        ("token", _) | (_, "discord" | "telegram" | "bridges") if is_secret => {
            "tokens are not written into this file: name a variable by `token_env` or a file by `token_file`"
                .to_owned()
        }
        _ if is_secret => {
            let of = if above == "models" { "" } else { " of [[models]]" };
            format!(
                "keys are not written into this file: name a variable by `api_key_env` or a file by `api_key_file`{of}"
            )
        }
        ("id", "defaults") => "`id` belongs in [[agents]]".to_owned(),
        ("cdn_url" | "gateway_url" | "servers" | "shards", "telegram")
        | ("server", "telegram.places")
        | ("cdn_url" | "gateway_url" | "servers" | "shards", "bridges")
        | ("server", "bridges.places") => {
            "only Discord has it; chats and groups are named by `chats` and `chat`".to_owned()
        }
        ("webhook_url" | "webhook_listen", "discord" | "bridges") => {
            "only Telegram has it; Discord is connected to, and bridges connect to `listen` or the socket"
                .to_owned()
        }
        _ => {
            let near = here.and_then(|table| nearest(key, &table.keys));
            // Prefer an agent's own tables to those of [defaults].
            let below = |table: &&Table| table.path.starts_with(&above) && table.keys.contains(&key);
            let elsewhere = TABLES.iter().find(|table| !above.is_empty() && below(table));
            let elsewhere = elsewhere.or_else(|| TABLES.iter().find(|table| table.keys.contains(&key)));
            match (near, elsewhere, here) {
                (Some(near), ..) => format!("did you mean `{near}`?"),
                (None, Some(table), _) => format!("`{key}` belongs in {}", table.name()),
                (None, None, Some(table)) => format!("known keys here: {}", table.keys.join(", ")),
                (None, None, None) => "config/config.toml names every key".to_owned(),
            }
        }
    };
    (message, hint)
}

/// The known word nearest to what was written, if it is near enough to be meant.
pub fn nearest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    let scored = known.iter().map(|word| (strsim::osa_distance(&written, word), *word));
    let (steps, word) = scored.min_by_key(|(steps, _)| *steps)?;
    let longer = written.chars().count().max(word.len());
    (steps <= (longer / 3).max(1) && steps < longer).then_some(word)
}
