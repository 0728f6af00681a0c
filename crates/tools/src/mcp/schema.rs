//! Whether what a server gives as the schema of a tool's arguments is one.

use serde_json::Value;

/// The schema of arguments as it is offered: of an object, and said to be.
///
/// # Errors
/// Why it is none.
pub(super) fn of_arguments(schema: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = schema else { return Err("it has no schema of its arguments".to_owned()) };
    let Value::Object(fields) = schema else { return Err("its schema is no object".to_owned()) };
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
        assert!(of_arguments(Some(&deep)).unwrap_err().contains("levels"));
    }
}
