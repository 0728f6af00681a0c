//! Whether what a server gives as the schema of a tool's arguments is one.

use serde_json::{Map, Value};

/// Deepest that schemas may be nested.
const DEPTH_MAX: usize = 32;

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// Keywords whose value is a schema.
const ONE: [&str; 9] = [
    "additionalProperties",
    "items",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Keywords whose value has schemas by names.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The schema of arguments as it is offered: of an object, and said to be.
///
/// # Errors
/// Why it is none.
pub(super) fn of_arguments(schema: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = schema else { return Err("it has no schema of its arguments".to_owned()) };
    let Value::Object(fields) = schema else { return Err("its schema is no object".to_owned()) };
    check_object(fields, 0)?;
    let mut fields = fields.clone();
    let kind = fields.entry("type").or_insert_with(|| Value::from("object"));
    if kind != "object" {
        return Err("its schema is not of an object".to_owned());
    }
    let schema = Value::Object(fields);
    // What calls cannot be checked by is of no use to anybody who approves it.
    crate::schema::sound(&schema).map_err(|error| format!("its schema is unsound: {error}"))?;
    Ok(schema)
}

fn check(schema: &Value, depth: usize) -> Result<(), String> {
    match schema {
        Value::Bool(_) => Ok(()),
        Value::Object(fields) => check_object(fields, depth),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("its schema has something else where a schema belongs".to_owned())
        }
    }
}

fn check_object(fields: &Map<String, Value>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("its schema is nested deeper than {DEPTH_MAX} levels"));
    }
    check_keywords(fields)?;
    for key in ONE {
        match fields.get(key) {
            // An older form: one schema for each item.
            Some(Value::Array(items)) if key == "items" => {
                items.iter().try_for_each(|item| check(item, depth + 1))?;
            }
            Some(schema) => check(schema, depth + 1)?,
            None => {}
        }
    }
    for key in LISTS {
        match fields.get(key) {
            None => {}
            Some(Value::Array(items)) => items.iter().try_for_each(|item| check(item, depth + 1))?,
            Some(_) => return Err(format!("`{key}` in its schema is no list")),
        }
    }
    for key in NAMED {
        match fields.get(key) {
            None => {}
            Some(Value::Object(named)) => named.values().try_for_each(|item| check(item, depth + 1))?,
            Some(_) => return Err(format!("`{key}` in its schema is no object")),
        }
    }
    Ok(())
}

fn check_keywords(fields: &Map<String, Value>) -> Result<(), String> {
    let is_type = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    let type_is_fine = match fields.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().all(is_type),
        Some(kind) => is_type(kind),
    };
    if !type_is_fine {
        return Err("its schema names a type that there is not".to_owned());
    }
    match fields.get("required") {
        None => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(_) => return Err("`required` in its schema is no list of names".to_owned()),
    }
    if fields.get("enum").is_some_and(|values| !values.is_array()) {
        return Err("`enum` in its schema is no list".to_owned());
    }
    match fields.get("$ref") {
        None => Ok(()),
        Some(Value::String(to)) if to.starts_with('#') => Ok(()),
        Some(_) => Err("its schema refers to another document".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "type": "object" }))]
    #[case(json!({}))]
    #[case(json!({ "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": ["string", "null"], "enum": ["x"] }, "b": { "$ref": "#/$defs/b" }, "c": true },
        "$defs": { "b": { "type": "array", "items": { "anyOf": [{ "type": "integer" }] } } } }))]
    #[case(json!({ "type": "object", "properties": { "required": { "type": "boolean" }, "type": { "type": "string" } } }))]
    fn a_schema_of_an_object_is_taken(#[case] schema: Value) {
        assert_eq!(of_arguments(Some(&schema)).unwrap()["type"], "object");
    }

    #[rstest]
    #[case(Value::Null)]
    #[case(json!("string"))]
    #[case(json!([]))]
    #[case(json!({ "type": "string" }))]
    #[case(json!({ "type": "obejct" }))]
    #[case(json!({ "type": "object", "properties": ["a"] }))]
    #[case(json!({ "type": "object", "properties": { "a": "string" } }))]
    #[case(json!({ "type": "object", "properties": { "a": { "type": 7 } } }))]
    #[case(json!({ "type": "object", "required": "a" }))]
    #[case(json!({ "type": "object", "properties": { "a": { "$ref": "http://10.0.0.1/schema" } } }))]
    #[case(json!({ "type": "object", "anyOf": {} }))]
    fn what_is_no_schema_is_not(#[case] schema: Value) {
        assert!(of_arguments(Some(&schema)).is_err(), "{schema}");
    }

    #[test]
    fn a_tool_without_a_schema_and_one_without_a_bottom_are_refused() {
        assert!(of_arguments(None).is_err());
        let deep =
            (0..60).fold(json!({ "type": "object" }), |inner, _| json!({ "properties": { "a": inner } }));
        assert!(of_arguments(Some(&deep)).unwrap_err().contains("deeper"));
    }
}
