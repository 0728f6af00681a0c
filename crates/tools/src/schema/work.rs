//! How much work it is to check arguments, found out before it is done: a schema in which every part asks for two others
//! would take longer than anybody waits.

use serde_json::{Map, Value};

use super::form::{SAME_VALUE, below, target};

/// Most steps of a check; one takes about a tenth of a microsecond.
const STEPS_MAX: usize = 200_000;

/// Most schemas that a check is within at once.
const DEPTH_MAX: usize = 512;

const LEVELS_MAX: usize = 64;

/// Bytes of a text times bytes of a pattern that count as one step.
const MATCH_BYTES: usize = 512;

/// Whether a check ends soon, whatever the arguments hold.
pub(super) fn within_bounds(schema: &Value, arguments: &Value) -> Result<(), String> {
    if !within_levels(arguments, LEVELS_MAX) {
        return Err(format!("they are nested more than {LEVELS_MAX} levels deep"));
    }
    let mut check = Check { root: schema, steps: STEPS_MAX };
    let done = check.fit(schema, arguments, 0);
    done.ok_or_else(|| {
        "they are too large to be checked against its schema; give fewer or smaller values".to_owned()
    })
}

fn within_levels(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else {
        return false;
    };
    match value {
        Value::Array(list) => list.iter().all(|value| within_levels(value, levels)),
        Value::Object(map) => map.values().all(|value| within_levels(value, levels)),
        _ => true,
    }
}

/// A check that is only counted: it goes wherever a real one could.
struct Check<'a> {
    root: &'a Value,
    steps: usize,
}

impl Check<'_> {
    /// Takes steps; `None`: there are none left.
    fn take(&mut self, steps: usize) -> Option<()> {
        self.steps = self.steps.checked_sub(steps)?;
        Some(())
    }

    fn fit(&mut self, schema: &Value, value: &Value, depth: usize) -> Option<()> {
        self.take(1)?;
        let Value::Object(schema) = schema else {
            return Some(());
        };
        if depth > DEPTH_MAX {
            return None;
        }
        // What was not evaluated is found by evaluating the rest once more.
        let unevaluated =
            schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
        for _ in 0..=usize::from(unevaluated) {
            self.fit_same(schema, value, depth)?;
        }
        match value {
            Value::Object(members) => self.fit_members(schema, members, depth),
            Value::Array(items) => self.fit_items(schema, items, depth),
            Value::String(text) => self.fit_text(schema, text),
            _ => Some(()),
        }
    }

    /// The schemas that the same value has to fit.
    fn fit_same(&mut self, schema: &Map<String, Value>, value: &Value, depth: usize) -> Option<()> {
        self.take(schema.len())?;
        if let Some(Value::Array(values)) = schema.get("enum") {
            self.take(values.len())?;
        }
        let mut next: Vec<&Value> = Vec::new();
        below(schema, |keyword, schema| {
            if SAME_VALUE.contains(&keyword) {
                next.push(schema);
            }
        });
        let reference = schema.get("$ref").and_then(Value::as_str);
        next.extend(reference.and_then(|reference| target(self.root, reference)));
        next.into_iter().try_for_each(|schema| self.fit(schema, value, depth + 1))
    }

    fn fit_members(
        &mut self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Option<()> {
        let named = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        for (name, value) in members {
            self.take(1)?;
            let own = named.and_then(|named| named.get(name));
            if let Some(schema) = own {
                self.fit(schema, value, depth + 1)?;
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                self.take(1 + name.len() * pattern.len() / MATCH_BYTES)?;
                self.fit(schema, value, depth + 1)?;
            }
            for keyword in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(schema) = schema.get(keyword).filter(|_| own.is_none()) {
                    self.fit(schema, value, depth + 1)?;
                }
            }
            if let Some(schema) = schema.get("propertyNames") {
                self.fit(schema, &Value::String(name.clone()), depth + 1)?;
            }
        }
        Some(())
    }

    fn fit_items(&mut self, schema: &Map<String, Value>, items: &[Value], depth: usize) -> Option<()> {
        for keyword in ["items", "prefixItems"] {
            if let Some(Value::Array(schemas)) = schema.get(keyword) {
                for (schema, value) in schemas.iter().zip(items) {
                    self.fit(schema, value, depth + 1)?;
                }
            }
        }
        for keyword in ["items", "additionalItems", "contains", "unevaluatedItems"] {
            if let Some(schema) = schema.get(keyword).filter(|schema| schema.is_object()) {
                items.iter().try_for_each(|value| self.fit(schema, value, depth + 1))?;
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.take(items.len())?;
        }
        Some(())
    }

    fn fit_text(&mut self, schema: &Map<String, Value>, text: &str) -> Option<()> {
        match schema.get("pattern") {
            Some(Value::String(pattern)) => self.take(text.len() * pattern.len() / MATCH_BYTES),
            _ => Some(()),
        }
    }
}
