//! What is wrong with arguments, in words for the model: which one, what it is, what is expected. Always short: what the
//! arguments hold is named by its beginning.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::short;

const FAULTS_MAX: usize = 5;

/// Longest words of one fault, in characters.
const FAULT_CHARS: usize = 400;

/// Most of a value, or of a place, that is shown, in characters.
const VALUE_CHARS: usize = 100;

/// Most of what is expected, in characters.
const EXPECTED_CHARS: usize = 240;

const NAMES_MAX: usize = 20;

/// All faults, the first [`FAULTS_MAX`] in words.
pub(super) fn words(validator: &Validator, schema: &Value, arguments: &Value) -> String {
    let mut errors = validator.iter_errors(arguments);
    let faults: Vec<String> =
        errors.by_ref().take(FAULTS_MAX).map(|error| short(fault(&error, schema), FAULT_CHARS)).collect();
    let more = errors.count();
    let mut out = faults.join("; ");
    if more > 0 {
        let _ = write!(out, "; and {more} more");
    }
    out
}

fn fault(error: &ValidationError<'_>, schema: &Value) -> String {
    let path = error.instance_path().to_string();
    let place = place(&path);
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            let what = beside(error, schema, "properties").and_then(|all| all.get(name)).and_then(kind_of);
            let what = what.map_or_else(String::new, |what| format!(" ({what})"));
            format!("{} is missing{what}", self::place(&path))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = beside(error, schema, "properties").and_then(Value::as_object);
            let known = known.map(|known| names(known.keys())).filter(|known| !known.is_empty());
            let known = known.map_or_else(|| "none".to_owned(), |known| short(known, EXPECTED_CHARS));
            format!("{place} has no {}; the known ones are {known}", names(unexpected))
        }
        Kind::Type { kind } => {
            let kinds = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            format!("{place} must be of type {kinds}, and is {}", shown(error.instance()))
        }
        Kind::Enum { options } => {
            let options = options.as_array().map(|all| all.iter().map(shown).collect::<Vec<_>>().join(", "));
            let options = short(options.unwrap_or_default(), EXPECTED_CHARS);
            format!("{place} must be one of {options}, and is {}", shown(error.instance()))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let forms = context.iter().filter_map(|faults| faults.first());
            let forms: Vec<_> = forms.take(3).map(|error| short(fault(error, schema), VALUE_CHARS)).collect();
            format!("{place} fits none of the forms it may have: {}", forms.join("; or "))
        }
        Kind::OneOfMultipleValid { .. } => {
            format!("{place} fits several of the forms of which it must have exactly one")
        }
        Kind::FalseSchema => format!("{place} must be left out"),
        Kind::Not { .. } => format!("{place} has a form that is not allowed"),
        _ => {
            let what = short(error.masked_with("it"), EXPECTED_CHARS);
            format!("{place}: {what} (it is {})", shown(error.instance()))
        }
    }
}

/// How a place in the arguments is named.
fn place(path: &str) -> String {
    match path.strip_prefix('/') {
        None => "the object of arguments".to_owned(),
        Some(path) => format!("`{}`", short(path, VALUE_CHARS)),
    }
}

/// A keyword's value in the schema that an error comes from.
fn beside<'a>(error: &ValidationError<'_>, schema: &'a Value, keyword: &str) -> Option<&'a Value> {
    let path = error.schema_path().to_string();
    // The error's own keyword is the last part; `required` may have an index after it.
    let path = path.trim_end_matches(|byte: char| byte.is_ascii_digit()).trim_end_matches('/');
    let (parent, _) = path.rsplit_once('/')?;
    schema.pointer(parent)?.get(keyword)
}

fn kind_of(schema: &Value) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

fn names<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    let mut all = all.into_iter();
    let listed: Vec<_> = all.by_ref().take(NAMES_MAX).map(|name| format!("`{}`", short(name, 60))).collect();
    let more = if all.next().is_some() { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}

fn shown(value: &Value) -> String {
    match value {
        // Not written as JSON first: it may be large.
        Value::String(text) => format!("\"{}\"", short(text, VALUE_CHARS)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        value => short(value, VALUE_CHARS),
    }
}
