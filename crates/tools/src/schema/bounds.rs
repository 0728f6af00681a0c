//! Limits for schemas and for checking arguments. Limits on size and depth are not enough: in a schema of two kilobytes
//! each part can refer twice to the next, which takes practically forever, or a part can refer to itself, which
//! overflows the stack. So the work of a check is counted before it is done.

use jsonschema::Draft;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::short;

/// Greatest depth of a schema, and of arguments.
const LEVELS_MAX: usize = 64;

/// Most values in a schema: objects, lists, strings and numbers.
const VALUES_MAX: usize = 20_000;

/// Most bytes of text in a schema.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Most regular expressions in a schema; [`super::PATTERN_BYTES`] limits each.
const PATTERNS_MAX: usize = 64;

/// Most steps of a check; one takes about a tenth of a microsecond.
const STEPS_MAX: usize = 200_000;

/// Greatest nesting of schemas during a check.
const NESTED_MAX: usize = 512;

/// Bytes of text times bytes of pattern that count as one step.
const MATCH_BYTES: usize = 512;

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
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
const LISTS: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords whose schemas apply to the same value, not to a part of it.
const SAME_VALUE: [&str; 9] =
    ["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"];

/// Keywords for references that no tool needs. They are refused, since counting does not follow them.
const REFERENCES: [&str; 6] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef"];

/// The drafts that are tried, in this order, until one accepts the schema.
pub(super) const DRAFTS: [Draft; 3] = [Draft::Draft202012, Draft::Draft7, Draft::Draft4];

/// Prepares a schema for compiling: removes its id, and patterns that need a backtracking engine.
///
/// # Errors
/// It is no schema of an object, or exceeds a limit.
pub(super) fn checked(schema: &Value) -> Result<Value, String> {
    let Value::Object(root) = schema else {
        return Err("it is no JSON object".to_owned());
    };
    if root.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its `type` is not \"object\"".to_owned());
    }
    if !within_levels(schema, LEVELS_MAX) {
        return Err(format!("it has more than {LEVELS_MAX} levels"));
    }
    let (n_values, n_bytes) = size(schema);
    if n_values > VALUES_MAX || n_bytes > TEXT_BYTES_MAX {
        return Err(format!(
            "it is too large: at most {VALUES_MAX} values and {} KiB of text",
            TEXT_BYTES_MAX >> 10
        ));
    }
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        // Only local references are accepted, so the id is not needed.
        ["$schema", "$id", "id"].iter().for_each(|name| drop(root.remove(*name)));
    }
    let (mut n_patterns, mut references) = (0, Vec::new());
    walk(&mut schema, &mut n_patterns, &mut references)?;
    if n_patterns > PATTERNS_MAX {
        return Err(format!("it has too many patterns: at most {PATTERNS_MAX}"));
    }
    match references.iter().find(|reference| target(&schema, reference).is_none()) {
        Some(reference) => Err(format!("its `$ref` {} leads nowhere", short(reference, 100))),
        None => Ok(schema),
    }
}

fn within_levels(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(list) => list.iter().all(|value| within_levels(value, levels)),
        Value::Object(map) => map.values().all(|value| within_levels(value, levels)),
        _ => true,
    }
}

/// The number of values and the bytes of text. The depth must be limited already.
fn size(value: &Value) -> (usize, usize) {
    let add = |(values, bytes): (usize, usize), more: (usize, usize)| (values + more.0, bytes + more.1);
    match value {
        Value::Object(map) => {
            map.iter().fold((1, 0), |sum, (name, value)| add(add(sum, (0, name.len())), size(value)))
        }
        Value::Array(list) => list.iter().fold((1, 0), |sum, value| add(sum, size(value))),
        Value::String(text) => (1, text.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, 0),
    }
}

/// Refuses non-local references, collects local ones, counts patterns, and removes those that cannot be matched in
/// linear time.
fn walk(schema: &mut Value, n_patterns: &mut usize, references: &mut Vec<String>) -> Result<(), String> {
    let Value::Object(map) = schema else { return Ok(()) };
    if let Some(name) = REFERENCES.iter().find(|name| map.contains_key(**name)) {
        return Err(format!("it uses `{name}`; only `$ref` to a part of itself is taken"));
    }
    if let Some(reference) = map.get("$ref") {
        let local = reference.as_str().filter(|text| *text == "#" || text.starts_with("#/"));
        references.push(local.map(ToOwned::to_owned).ok_or_else(|| {
            let shown = short(reference, 100);
            format!("its `$ref` {shown} is not one to a part of itself (`#/…`); nothing is fetched")
        })?);
    }
    if map.get("pattern").and_then(Value::as_str).is_some_and(looks_around) {
        map.remove("pattern");
    }
    let by_pattern = map.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
    *n_patterns += by_pattern + usize::from(map.get("pattern").is_some_and(Value::is_string));
    for (keyword, value) in map.iter_mut() {
        match value {
            Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                map.values_mut().try_for_each(|value| walk(value, n_patterns, references))?;
            }
            Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                list.iter_mut().try_for_each(|value| walk(value, n_patterns, references))?;
            }
            value if ONE.contains(&keyword.as_str()) => walk(value, n_patterns, references)?,
            _ => {}
        }
    }
    Ok(())
}

/// Whether a regular expression uses look-around or back-references, which take more than linear time.
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

/// The part that a local reference (`#`, `#/…`) points to.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
    root.pointer(&pointer)
}

/// Checks that validating these arguments takes a limited number of steps.
///
/// # Errors
/// It may take too many; the text is for the model.
pub(super) fn is_soon_done(schema: &Value, arguments: &Value) -> Result<(), String> {
    if !within_levels(arguments, LEVELS_MAX) {
        return Err(format!("they are nested more than {LEVELS_MAX} levels deep"));
    }
    let counted = Count { root: schema, steps: STEPS_MAX }.fit(schema, arguments, 0);
    counted.ok_or_else(|| {
        "they are too large to be checked against its schema; give fewer or smaller values".to_owned()
    })
}

/// Counts the steps of a check by visiting every part that a real one could. `None`: no steps are left.
struct Count<'a> {
    root: &'a Value,
    steps: usize,
}

impl Count<'_> {
    fn take(&mut self, steps: usize) -> Option<()> {
        self.steps = self.steps.checked_sub(steps)?;
        Some(())
    }

    fn fit(&mut self, schema: &Value, value: &Value, nested: usize) -> Option<()> {
        self.take(1)?;
        let Value::Object(schema) = schema else { return Some(()) };
        if nested > NESTED_MAX {
            return None;
        }
        // Unevaluated parts are found by a second evaluation of the rest.
        let unevaluated =
            schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
        for _ in 0..=usize::from(unevaluated) {
            self.fit_same(schema, value, nested + 1)?;
        }
        match value {
            Value::Object(members) => self.fit_members(schema, members, nested + 1),
            Value::Array(items) => self.fit_items(schema, items, nested + 1),
            Value::String(text) => self.match_pattern(schema.get("pattern"), text),
            _ => Some(()),
        }
    }

    /// Counts the schemas that apply to the same value.
    fn fit_same(&mut self, schema: &Map<String, Value>, value: &Value, nested: usize) -> Option<()> {
        self.take(schema.len() + schema.get("enum").and_then(Value::as_array).map_or(0, Vec::len))?;
        for (keyword, below) in schema.iter().filter(|(keyword, _)| SAME_VALUE.contains(&keyword.as_str())) {
            match below {
                Value::Array(list) => list.iter().try_for_each(|schema| self.fit(schema, value, nested))?,
                Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                    map.values().try_for_each(|schema| self.fit(schema, value, nested))?;
                }
                one => self.fit(one, value, nested)?,
            }
        }
        let reference = schema.get("$ref").and_then(Value::as_str);
        match reference.and_then(|reference| target(self.root, reference)) {
            Some(target) => self.fit(target, value, nested),
            None => Some(()),
        }
    }

    fn fit_members(
        &mut self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        nested: usize,
    ) -> Option<()> {
        let map = |keyword: &str| schema.get(keyword).and_then(Value::as_object);
        let (named, patterns) = (map("properties"), map("patternProperties"));
        for (name, value) in members {
            self.take(1)?;
            let own = named.and_then(|named| named.get(name));
            if let Some(schema) = own {
                self.fit(schema, value, nested)?;
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                self.take(1 + name.len() * pattern.len() / MATCH_BYTES)?;
                self.fit(schema, value, nested)?;
            }
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(schema) = schema.get(keyword).filter(|_| own.is_none()) {
                    self.fit(schema, value, nested)?;
                }
            }
            if let Some(schema) = schema.get("propertyNames") {
                self.fit(schema, &Value::String(name.clone()), nested)?;
            }
        }
        Some(())
    }

    fn fit_items(&mut self, schema: &Map<String, Value>, items: &[Value], nested: usize) -> Option<()> {
        for keyword in ["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"] {
            match schema.get(keyword) {
                Some(Value::Array(schemas)) => {
                    let mut pairs = schemas.iter().zip(items);
                    pairs.try_for_each(|(schema, value)| self.fit(schema, value, nested))?;
                }
                Some(schema) => items.iter().try_for_each(|value| self.fit(schema, value, nested))?,
                None => {}
            }
        }
        self.take(if schema.get("uniqueItems") == Some(&Value::Bool(true)) { items.len() } else { 0 })
    }

    fn match_pattern(&mut self, pattern: Option<&Value>, text: &str) -> Option<()> {
        let pattern = pattern.and_then(Value::as_str).unwrap_or_default();
        self.take(text.len() * pattern.len() / MATCH_BYTES)
    }
}
