//! The form of a schema: whether it can be one at all, within bounds that keep whatever reads it from harm.

use std::collections::HashMap;

use jsonschema::Draft;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::short;

const DEPTH_MAX: usize = 64;

/// Values in a schema: objects, lists, strings, numbers.
const VALUES_MAX: usize = 20_000;

/// Bytes of all its texts.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Regular expressions in a schema, and bytes of all of them.
const PATTERNS_MAX: usize = 256;
const PATTERN_TEXT_MAX: usize = 16 << 10;

/// Schemas that one value may have to fit at once, one within another.
const CHAIN_MAX: usize = 128;

/// Keywords whose value is a schema.
pub(super) const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
pub(super) const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords whose value has schemas by names.
pub(super) const MAPS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords that refer in ways that no tool needs.
const REFERENCES: [&str; 5] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"];

pub(super) struct Form {
    /// To be compiled: without its own name, and without patterns that only a backtracking engine takes.
    pub(super) schema: Value,
    /// The drafts to read it by, the likeliest first.
    pub(super) drafts: &'static [Draft],
    pub(super) n_patterns: usize,
}

pub(super) fn of(schema: &Value) -> Result<Form, String> {
    let Value::Object(root) = schema else {
        return Err("it is no JSON object".to_owned());
    };
    if root.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its `type` is not \"object\"".to_owned());
    }
    let (mut values, mut bytes) = (0, 0);
    measure(schema, 1, &mut values, &mut bytes)?;
    let drafts = drafts(root.get("$schema").and_then(Value::as_str));
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        // Only references to its own parts are taken, so that its name is of no use.
        for name in ["$schema", "$id", "id"] {
            root.remove(name);
        }
    }
    let mut scan = Scan { n_patterns: 0, pattern_bytes: 0, references: Vec::new() };
    scan.mend(&mut schema)?;
    for reference in &scan.references {
        if target(&schema, reference).is_none() {
            return Err(format!("its `$ref` {} leads nowhere", short(reference, 100)));
        }
    }
    let mut chains = Chains { root: &schema, lengths: HashMap::new() };
    chains.walk(&schema)?;
    Ok(Form { n_patterns: scan.n_patterns, schema, drafts })
}

/// Counts values and bytes, and refuses what is too large before anything else reads it.
fn measure(value: &Value, depth: usize, values: &mut usize, bytes: &mut usize) -> Result<(), String> {
    *values += 1;
    if depth > DEPTH_MAX {
        return Err(format!("it has more than {DEPTH_MAX} levels"));
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                *bytes += name.len();
                measure(value, depth + 1, values, bytes)?;
            }
        }
        Value::Array(list) => {
            for value in list {
                measure(value, depth + 1, values, bytes)?;
            }
        }
        Value::String(text) => *bytes += text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    if *values > VALUES_MAX || *bytes > TEXT_BYTES_MAX {
        return Err(format!(
            "it is too large: at most {VALUES_MAX} values and {} KiB of text",
            TEXT_BYTES_MAX >> 10
        ));
    }
    Ok(())
}

fn drafts(named: Option<&str>) -> &'static [Draft] {
    let Some(named) = named else {
        return &[Draft::Draft202012, Draft::Draft7];
    };
    for (name, draft) in [
        ("draft-04", &[Draft::Draft4]),
        ("draft-06", &[Draft::Draft6]),
        ("draft-07", &[Draft::Draft7]),
        ("2019-09", &[Draft::Draft201909]),
    ] {
        if named.contains(name) {
            return draft;
        }
    }
    &[Draft::Draft202012, Draft::Draft7]
}

/// Calls `each` with every schema right below one.
pub(super) fn below<'a>(schema: &'a Map<String, Value>, mut each: impl FnMut(&'a str, &'a Value)) {
    for (keyword, value) in schema {
        match value {
            Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                map.values().for_each(|value| each(keyword, value));
            }
            Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                list.iter().for_each(|value| each(keyword, value));
            }
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword.as_str()) => each(keyword, value),
            _ => {}
        }
    }
}

/// What a local reference (`#`, `#/…`) names.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let pointer = percent_decode_str(pointer).decode_utf8().ok()?;
    if pointer.is_empty() { Some(root) } else { root.pointer(&pointer) }
}

/// What a walk over all schemas finds.
struct Scan {
    n_patterns: usize,
    pattern_bytes: usize,
    references: Vec<String>,
}

impl Scan {
    /// Refuses keywords that refer elsewhere, notes local references, and takes out patterns that cannot be checked here.
    fn mend(&mut self, schema: &mut Value) -> Result<(), String> {
        let Value::Object(map) = schema else {
            return Ok(());
        };
        if let Some(reference) = map.get("$ref") {
            let local = reference.as_str().filter(|text| *text == "#" || text.starts_with("#/"));
            let Some(local) = local else {
                return Err(format!(
                    "its `$ref` {} is not one to a part of itself (`#/…`); nothing is fetched",
                    short(reference, 100)
                ));
            };
            self.references.push(local.to_owned());
        }
        if let Some(name) = REFERENCES.iter().find(|name| map.contains_key(**name)) {
            return Err(format!("it uses `{name}`; only `$ref` to a part of itself is taken"));
        }
        if map.get("$id").is_some_and(Value::is_string) {
            return Err("a part of it has an `$id` of its own".to_owned());
        }
        if let Some(Value::String(pattern)) = map.get("pattern") {
            if looks_around(pattern) {
                map.remove("pattern");
            } else {
                let bytes = pattern.len();
                self.count(bytes)?;
            }
        }
        if let Some(Value::Object(by_pattern)) = map.get("patternProperties") {
            for pattern in by_pattern.keys() {
                if looks_around(pattern) {
                    return Err(format!(
                        "its `patternProperties` {} cannot be checked in linear time (look-around or \
                         back-reference)",
                        short(pattern, 100)
                    ));
                }
                self.count(pattern.len())?;
            }
        }
        self.mend_below(map)
    }

    fn mend_below(&mut self, map: &mut Map<String, Value>) -> Result<(), String> {
        for (keyword, value) in map.iter_mut() {
            match value {
                Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                    map.values_mut().try_for_each(|value| self.mend(value))?;
                }
                Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                    list.iter_mut().try_for_each(|value| self.mend(value))?;
                }
                value if ONE.contains(&keyword.as_str()) => self.mend(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), String> {
        self.n_patterns += 1;
        self.pattern_bytes += bytes;
        if self.n_patterns > PATTERNS_MAX || self.pattern_bytes > PATTERN_TEXT_MAX {
            return Err(format!(
                "it has too many patterns: at most {PATTERNS_MAX}, of {} KiB in all",
                PATTERN_TEXT_MAX >> 10
            ));
        }
        Ok(())
    }
}

/// A regular expression that takes more than linear time: looking around, or back.
fn looks_around(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    let mut idx = 0;
    while let Some(rest) = bytes.get(idx..).filter(|rest| !rest.is_empty()) {
        match rest {
            [b'\\', b'1'..=b'9' | b'k', ..] => return true,
            [b'\\', ..] => idx += 2,
            [b'(', b'?', b'=' | b'!', ..] | [b'(', b'?', b'<', b'=' | b'!', ..] => return true,
            _ => idx += 1,
        }
    }
    false
}

/// Keywords whose schemas the same value has to fit, not a part of it.
pub(super) const SAME_VALUE: [&str; 9] =
    ["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"];

/// The longest chain of schemas that one value has to fit, from each schema on.
struct Chains<'a> {
    root: &'a Value,
    /// By the schema's address; `None`: its chain is being followed.
    lengths: HashMap<*const Value, Option<usize>>,
}

impl<'a> Chains<'a> {
    /// Follows the chains of a schema and of all below it.
    fn walk(&mut self, schema: &'a Value) -> Result<(), String> {
        self.length(schema, 0)?;
        let Value::Object(map) = schema else {
            return Ok(());
        };
        let mut result = Ok(());
        below(map, |_, schema| {
            if result.is_ok() {
                result = self.walk(schema);
            }
        });
        result
    }

    fn length(&mut self, schema: &'a Value, above: usize) -> Result<usize, String> {
        let key = std::ptr::from_ref(schema);
        match self.lengths.get(&key) {
            Some(Some(length)) => return Ok(*length),
            Some(None) => return Err("it refers to itself without end".to_owned()),
            None => {}
        }
        let Value::Object(map) = schema else {
            return Ok(0);
        };
        self.lengths.insert(key, None);
        let mut next: Vec<&Value> = Vec::new();
        below(map, |keyword, schema| {
            if SAME_VALUE.contains(&keyword) {
                next.push(schema);
            }
        });
        next.extend(
            map.get("$ref").and_then(Value::as_str).and_then(|reference| target(self.root, reference)),
        );
        let mut length = 0;
        for schema in next {
            let too_long = "one value has to fit too many schemas, one within another";
            if above > CHAIN_MAX {
                return Err(too_long.to_owned());
            }
            length = length.max(1 + self.length(schema, above + 1)?);
            if length > CHAIN_MAX {
                return Err(too_long.to_owned());
            }
        }
        self.lengths.insert(key, Some(length));
        Ok(length)
    }
}
