//! Arguments of calls, checked against the schemas of their tools. Schemas are written by strangers: whatever one holds,
//! compiling it and checking by it end soon, read no file and no network, and leave the stack whole.

mod fault;
mod form;
#[cfg(test)]
mod tests;
mod work;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use cairn_core::model::ToolDef;
use cairn_core::ports::ArgumentCheck;
use jsonschema::{Draft, PatternOptions, Validator};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use form::Form;

/// Most schemas that are kept compiled.
const KEPT_MAX: usize = 1_024;

/// Bytes that all regular expressions of a schema may take when compiled; each gets its share of it.
const PATTERNS_BYTES: usize = 4 << 20;

/// Bounds of that share.
const PATTERN_BYTES: (usize, usize) = (32 << 10, 1 << 20);

/// Whether models' calls can be checked by that schema of a tool's arguments; to be asked when a tool is approved.
///
/// # Errors
/// Why not, for the operator.
pub fn sound(schema: &Value) -> Result<(), String> {
    Checked::new(schema).map(drop)
}

/// Schemas of tools, each compiled at its first use.
#[derive(Default)]
pub struct Schemas {
    by_name: Mutex<HashMap<String, Arc<Known>>>,
}

/// What is known of a tool's schema.
struct Known {
    schema: Value,
    checked: Result<Checked, String>,
}

impl Schemas {
    /// The tool's schema, compiled. A name whose schema has changed is compiled again.
    fn known(&self, def: &ToolDef) -> Arc<Known> {
        let kept = self.by_name.lock().get(&def.name).cloned();
        if let Some(known) = kept.filter(|known| known.schema == def.parameters) {
            return known;
        }
        let known =
            Arc::new(Known { schema: def.parameters.clone(), checked: Checked::new(&def.parameters) });
        let mut by_name = self.by_name.lock();
        if by_name.len() >= KEPT_MAX && !by_name.contains_key(&def.name) {
            // Rare, and what is still used comes back at its next use.
            by_name.clear();
        }
        by_name.insert(def.name.clone(), known.clone());
        known
    }
}

impl ArgumentCheck for Schemas {
    fn check(&self, def: &ToolDef, arguments: &Value) -> Result<(), String> {
        let nothing = Value::Object(Map::new());
        let arguments = match arguments {
            Value::Null => &nothing,
            Value::String(written) => return Err(not_an_object(written)),
            arguments => arguments,
        };
        let known = self.known(def);
        let checked = known.checked.as_ref();
        let checked = checked
            .map_err(|error| format!("`{}` cannot be called: its schema is unsound: {error}", def.name))?;
        checked
            .check(arguments)
            .map_err(|faults| format!("the arguments of `{}` are wrong: {faults}", def.name))
    }
}

/// What is said of arguments that came as a text: what the model wrote is no JSON, or is JSON within a string.
fn not_an_object(written: &str) -> String {
    match serde_json::from_str::<Value>(written) {
        Err(error) => format!("the arguments are not valid JSON: {error}"),
        Ok(_) => "the arguments must be a JSON object, and are a string; give the object itself".to_owned(),
    }
}

struct Checked {
    schema: Value,
    validator: Validator,
}

impl Checked {
    fn new(schema: &Value) -> Result<Self, String> {
        let Form { schema, drafts, n_patterns } = form::of(schema)?;
        let share = (PATTERNS_BYTES / n_patterns.max(1)).clamp(PATTERN_BYTES.0, PATTERN_BYTES.1);
        let mut failed = None;
        for draft in drafts {
            match compile(&schema, *draft, share) {
                Ok(validator) => return Ok(Self { schema, validator }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_default())
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        work::within_bounds(&self.schema, arguments)?;
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        Err(fault::words(&self.validator, &self.schema, arguments))
    }
}

fn compile(schema: &Value, draft: Draft, pattern_bytes: usize) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(pattern_bytes).dfa_size_limit(pattern_bytes);
    let options = jsonschema::options().with_draft(draft).offline();
    // What a format means differs from one checker to the next: it is the tool's to say.
    let options = options.should_validate_formats(false).with_pattern_options(patterns);
    options.build(schema).map_err(|error| {
        let place = error.instance_path().to_string();
        let place =
            if place.is_empty() { "at the top".to_owned() } else { format!("at {}", short(place, 100)) };
        format!("{place}: {}", short(error.masked(), 300))
    })
}

/// The first characters of what it shows.
fn short(text: impl Display, max_chars: usize) -> String {
    let text = text.to_string();
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
