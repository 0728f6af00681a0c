//! Checks tool arguments against schemas. Schemas come from strangers: for any schema, compiling and checking take
//! limited time, read no file and no network, and do not overflow the stack.

mod bounds;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use cairn_types::ports::ArgumentCheck;
use cairn_types::tool::defs::ToolDef;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Most compiled schemas that are kept.
const COMPILED_MAX: usize = 1_024;

/// Largest size of a compiled regular expression, in bytes.
const PATTERN_BYTES: usize = 128 << 10;

/// Most errors reported to the model, and the longest text of one, in characters.
const ERRORS_MAX: usize = 5;
const ERROR_CHARS: usize = 400;

/// Longest value or path in an error, in characters.
const VALUE_CHARS: usize = 100;

const NAMES_MAX: usize = 20;

/// Checks that arguments can be validated against this schema. Called when a tool is approved.
///
/// # Errors
/// Why not, as text for the operator.
pub fn sound(schema: &Value) -> Result<(), String> {
    Compiled::new(schema).map(drop)
}

/// Compiled schemas by tool name; each is compiled at its first use.
#[derive(Default)]
pub struct Schemas {
    by_name: Mutex<HashMap<String, Arc<ToolSchema>>>,
}

struct ToolSchema {
    /// The tool's original schema.
    schema: Value,
    compiled: Result<Compiled, String>,
}

impl Schemas {
    /// The compiled schema of a tool. It is recompiled if the tool's schema has changed.
    fn of_tool(&self, def: &ToolDef) -> Arc<ToolSchema> {
        let kept = self.by_name.lock().get(&def.name).cloned();
        if let Some(known) = kept.filter(|known| known.schema == def.parameters) {
            return known;
        }
        let schema = def.parameters.clone();
        let known = Arc::new(ToolSchema { compiled: Compiled::new(&schema), schema });
        let mut by_name = self.by_name.lock();
        if by_name.len() >= COMPILED_MAX && !by_name.contains_key(&def.name) {
            // Drops any one; it is recompiled if it is used again.
            let any = by_name.keys().next().cloned();
            any.and_then(|name| by_name.remove(&name));
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
        let tool = self.of_tool(def);
        let compiled = tool.compiled.as_ref();
        let compiled = compiled
            .map_err(|error| format!("`{}` cannot be called: its schema is unsound: {error}", def.name))?;
        compiled
            .check(arguments)
            .map_err(|errors| format!("the arguments of `{}` are wrong: {errors}", def.name))
    }
}

/// The error for arguments that are a string: either invalid JSON, or JSON inside a string.
fn not_an_object(written: &str) -> String {
    match serde_json::from_str::<Value>(written) {
        Err(error) => format!("the arguments are not valid JSON: {error}"),
        Ok(_) => "the arguments must be a JSON object, and are a string; give the object itself".to_owned(),
    }
}

struct Compiled {
    schema: Value,
    validator: Validator,
}

impl Compiled {
    fn new(schema: &Value) -> Result<Self, String> {
        let schema = bounds::checked(schema)?;
        let mut first_error = None;
        for draft in bounds::DRAFTS {
            match compile(&schema, draft) {
                Ok(validator) => return Ok(Self { schema, validator }),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_default())
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        bounds::is_soon_done(&self.schema, arguments)?;
        let mut errors = self.validator.iter_errors(arguments);
        let shown: Vec<String> = errors.by_ref().take(ERRORS_MAX).map(|error| self.explain(&error)).collect();
        match (shown.join("; "), errors.count()) {
            (shown, _) if shown.is_empty() => Ok(()),
            (shown, 0) => Err(shown),
            (shown, more) => Err(format!("{shown}; and {more} more")),
        }
    }

    /// An error as text for the model: the argument, its value, and what is expected. Values are shortened.
    fn explain(&self, error: &ValidationError<'_>) -> String {
        let path = error.instance_path().to_string();
        let place = match path.strip_prefix('/') {
            None => "the object of arguments".to_owned(),
            Some(path) => format!("`{}`", short(path, VALUE_CHARS)),
        };
        let words = match error.kind() {
            Kind::Required { property } => format!("{place}: {property} is missing"),
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                let known = self.properties_beside(error).map(|known| names(known.keys()));
                let known = known.filter(|known| !known.is_empty()).unwrap_or_else(|| "none".to_owned());
                format!("{place} has no {}; the known ones are {known}", names(unexpected))
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                let forms = context.iter().filter_map(|errors| errors.first()).take(3);
                let forms: Vec<String> = forms.map(|error| short(self.explain(error), VALUE_CHARS)).collect();
                format!("{place} fits none of the forms it may have: {}", forms.join("; or "))
            }
            _ => format!("{place}: {} (it is {})", error.masked_with("it"), shown(error.instance())),
        };
        short(words, ERROR_CHARS)
    }

    /// The properties declared next to the keyword that failed.
    fn properties_beside(&self, error: &ValidationError<'_>) -> Option<&Map<String, Value>> {
        let path = error.schema_path().to_string();
        let (parent, _) = path.rsplit_once('/')?;
        self.schema.pointer(parent)?.get("properties")?.as_object()
    }
}

fn compile(schema: &Value, draft: Draft) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    let options = jsonschema::options().with_draft(draft).offline();
    // Formats are not checked: validators differ in their meaning, so that is left to the tool.
    let options = options.should_validate_formats(false).with_pattern_options(patterns);
    options.build(schema).map_err(|error| {
        let place = error.instance_path().to_string();
        let place =
            if place.is_empty() { "at the top".to_owned() } else { format!("at {}", short(place, 100)) };
        format!("{place}: {}", short(error.masked(), 300))
    })
}

fn names<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    let mut all = all.into_iter();
    let listed: Vec<_> = all.by_ref().take(NAMES_MAX).map(|name| format!("`{}`", short(name, 60))).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}

fn shown(value: &Value) -> String {
    match value {
        // Without converting it to JSON first, since it may be large.
        Value::String(text) => format!("\"{}\"", short(text, VALUE_CHARS)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value => short(value, VALUE_CHARS),
    }
}

/// The displayed value, cut to `max_chars`.
fn short(text: impl Display, max_chars: usize) -> String {
    let text = text.to_string();
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
