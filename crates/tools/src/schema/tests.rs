//! Arguments and schemas as models and strangers write them.

use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::json;

use super::*;

fn tool(parameters: Value) -> ToolDef {
    ToolDef { name: "files__edit".to_owned(), description: String::new(), parameters }
}

/// Checks arguments on a stack as threads of the runtime have it; panics when the check takes long.
fn check(parameters: Value, arguments: Value) -> Result<(), String> {
    let check = move || {
        let begun = Instant::now();
        let result = Schemas::default().check(&tool(parameters), &arguments);
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
        result
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap()
}

fn edit() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1 },
            "mode": { "enum": ["append", "replace"] },
            "lines": { "type": "integer", "minimum": 1 },
            "edits": { "type": "array", "items": { "$ref": "#/definitions/edit" }, "maxItems": 2 },
            "target": { "anyOf": [{ "type": "string" }, { "type": "object", "required": ["id"] }] },
        },
        "required": ["path"],
        "additionalProperties": false,
        "definitions": {
            "edit": {
                "type": "object",
                "properties": { "old": { "type": "string" }, "new": { "type": "string" } },
                "required": ["old", "new"],
                "additionalProperties": false,
            },
        },
    })
}

#[rstest]
#[case(json!({ "path": "a" }))]
#[case(json!({ "path": "a", "mode": "append", "lines": 3, "edits": [{ "old": "x", "new": "y" }] }))]
#[case(json!({ "path": "a", "target": { "id": 1 } }))]
fn arguments_that_fit_pass(#[case] arguments: Value) {
    assert_eq!(check(edit(), arguments), Ok(()));
}

#[rstest]
#[case(json!({}), "the object of arguments: \"path\" is missing")]
#[case(Value::Null, "the object of arguments: \"path\" is missing")]
#[case(json!([]), "the object of arguments: it is not of type \"object\" (it is an array)")]
#[case(json!({ "path": 7 }), "`path`: it is not of type \"string\" (it is 7)")]
#[case(json!({ "path": "" }), "`path`: it is shorter than 1 character (it is \"\")")]
#[case(
    json!({ "path": "a", "mode": "delete" }),
    "`mode`: it is not one of \"append\" or \"replace\" (it is \"delete\")"
)]
#[case(json!({ "path": "a", "lines": 0 }), "`lines`: it is less than the minimum of 1 (it is 0)")]
#[case(json!({ "path": "a", "lines": "3" }), "`lines`: it is not of type \"integer\" (it is \"3\")")]
#[case(
    json!({ "path": "a", "line": 3 }),
    "the object of arguments has no `line`; the known ones are `edits`, `lines`, `mode`, `path`, `target`"
)]
#[case(json!({ "path": "a", "edits": [{ "old": "x" }] }), "`edits/0`: \"new\" is missing")]
#[case(
    json!({ "path": "a", "edits": [{ "old": "x", "new": "y", "at": 1 }] }),
    "`edits/0` has no `at`; the known ones are `new`, `old`"
)]
#[case(json!({ "path": "a", "edits": [1, 2, 3] }), "`edits`: it has more than 2 items (it is an array)")]
#[case(
    json!({ "path": "a", "target": {} }),
    "`target` fits none of the forms it may have: `target`: it is not of type \"string\" (it is an object); or \
     `target`: \"id\" is missing"
)]
fn the_error_names_the_argument_and_what_is_expected(#[case] arguments: Value, #[case] words: &str) {
    let error = check(edit(), arguments).unwrap_err();
    assert!(error.starts_with("the arguments of `files__edit` are wrong: "), "{error}");
    assert!(error.contains(words), "{error}");
}

#[rstest]
#[case("{\"path\": ", "the arguments are not valid JSON: EOF while parsing a value at line 1 column 9")]
#[case("{\"path\": \"a\"}", "the arguments must be a JSON object, and are a string")]
fn what_is_no_json_is_said_to_be_none(#[case] written: &str, #[case] words: &str) {
    let error = check(edit(), Value::String(written.to_owned())).unwrap_err();
    assert!(error.contains(words), "{error}");
}

#[test]
fn no_arguments_fit_a_tool_that_needs_none() {
    assert_eq!(check(json!({ "type": "object" }), Value::Null), Ok(()));
    assert_eq!(check(json!({ "type": "object", "properties": {} }), json!({})), Ok(()));
}

#[test]
fn errors_are_short_whatever_the_arguments_hold() {
    let long = "x".repeat(100_000);
    let strings = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let many: Map<String, Value> =
        (0..1_000).map(|n| (format!("{long}{n}"), Value::String(long.clone()))).take(20).collect();
    let error = check(strings, Value::Object(many)).unwrap_err();
    assert!(error.len() < 2_500 && error.ends_with("; and 15 more"), "{} bytes: {error}", error.len());
    assert!(!error.contains(&"x".repeat(102)), "{error}");

    let unknown: Map<String, Value> = (0..1_000).map(|n| (format!("{n}{long}"), json!(1))).take(50).collect();
    let error = check(edit(), Value::Object(unknown)).unwrap_err();
    assert!(error.len() < 2_500, "{} bytes", error.len());

    let values: Vec<String> = (0..5_000).map(|n| format!("value {n}")).collect();
    let huge = json!({ "type": "object", "properties": { "a": { "enum": values } } });
    let error = check(huge, json!({ "a": long })).unwrap_err();
    assert!(error.len() < 600, "{} bytes", error.len());
}

#[test]
fn a_changed_schema_is_read_again_and_the_cache_is_bounded() {
    let schemas = Schemas::default();
    let loose = tool(json!({ "type": "object" }));
    assert_eq!(schemas.check(&loose, &json!({})), Ok(()));
    let strict = tool(json!({ "type": "object", "required": ["a"] }));
    schemas.check(&strict, &json!({})).unwrap_err();
    assert_eq!(schemas.check(&loose, &json!({})), Ok(()));
    for n in 0..COMPILED_MAX + 10 {
        let def = ToolDef { name: format!("tool{n}"), ..loose.clone() };
        assert_eq!(schemas.check(&def, &json!({})), Ok(()));
    }
    assert!(schemas.by_name.lock().len() <= COMPILED_MAX);
}

#[rstest]
#[case::no_schema(json!("text"), "no JSON object")]
#[case::boolean(json!(true), "no JSON object")]
#[case::no_type(json!({ "properties": {} }), "`type`")]
#[case::another_type(json!({ "type": "string" }), "`type`")]
#[case::several_types(json!({ "type": ["object", "null"] }), "`type`")]
#[case::unknown_type(json!({ "type": "object", "properties": { "a": { "type": "strnig" } } }), "at /properties/a")]
#[case::properties_are_a_list(json!({ "type": "object", "properties": [] }), "at /properties")]
#[case::old_required(json!({ "type": "object", "properties": { "a": { "required": true } } }), "at /properties/a")]
#[case::bad_pattern(json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }), "at /properties/a")]
#[case::remote(json!({ "type": "object", "$ref": "https://example.com/schema" }), "nothing is fetched")]
#[case::file(json!({ "type": "object", "properties": { "a": { "$ref": "file:///etc/passwd" } } }), "nothing is fetched")]
#[case::no_reference(json!({ "type": "object", "properties": { "a": { "$ref": 7 } } }), "nothing is fetched")]
#[case::dangling(json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/b" } } }), "leads nowhere")]
#[case::anchors(json!({ "type": "object", "$dynamicRef": "#a" }), "$dynamicRef")]
#[case::inner_name(json!({ "type": "object", "properties": { "a": { "$id": "https://x.example/" } } }), "$id")]
#[case::large_pattern(
    json!({ "type": "object", "properties": { "a": { "pattern": "^(([a-z]{1000}){1000}){1000}$" } } }),
    "at /properties/a"
)]
#[case::looking_names(json!({ "type": "object", "patternProperties": { "^(?!a)": {} } }), "at /patternProperties")]
fn a_schema_that_is_none_is_refused(#[case] schema: Value, #[case] words: &str) {
    let error = sound(&schema).unwrap_err();
    assert!(error.contains(words), "{error}");
    let error = check(schema, json!({})).unwrap_err();
    assert!(error.contains("`files__edit` cannot be called"), "{error}");
}

#[rstest]
#[case::named(json!({ "$id": "https://x.example/a", "type": "object" }))]
#[case::unknown_dialect(json!({ "$schema": "https://x.example/dialect", "type": "object" }))]
#[case::tuples_of_old(
    json!({ "type": "object", "properties": { "a": { "type": "array", "items": [{ "type": "string" }] } } })
)]
#[case::draft_4(
    json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
        "properties": { "a": { "minimum": 1, "exclusiveMinimum": true } } })
)]
#[case::looks_ahead(json!({ "type": "object", "properties": { "a": { "pattern": "^(?!-)[a-z]+$" } } }))]
#[case::keywords_as_names(
    json!({ "type": "object", "properties": { "$ref": { "type": "string" }, "$id": {}, "pattern": { "type": "string" } } })
)]
#[case::escaped_reference(
    json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a%20b~1c" } }, "$defs": { "a b/c": {} } })
)]
#[case::tree(
    json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } })
)]
fn a_schema_as_servers_write_them_is_sound(#[case] schema: Value) {
    assert_eq!(sound(&schema), Ok(()));
    assert_eq!(check(schema, json!({})), Ok(()));
}

#[test]
fn a_tree_is_checked_to_its_leaves() {
    let tree = json!({ "type": "object", "additionalProperties": false,
        "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } });
    let mut leaf = json!({ "wrong": 1 });
    for _ in 0..20 {
        leaf = json!({ "children": [leaf] });
    }
    let error = check(tree, leaf).unwrap_err();
    assert!(error.contains("has no `wrong`; the known ones are `children`"), "{error}");
}

/// Schemas made to take long, or to break whoever reads them.
mod hostile {
    use super::*;

    fn nested(levels: usize, keyword: &str) -> Value {
        let mut schema = json!({ "type": "string" });
        for _ in 0..levels {
            schema = match keyword {
                "properties" => json!({ "properties": { "a": schema } }),
                "allOf" => json!({ "allOf": [schema] }),
                keyword => json!({ keyword: schema }),
            };
        }
        json!({ "type": "object", "properties": { "a": schema } })
    }

    #[rstest]
    #[case("properties")]
    #[case("items")]
    #[case("not")]
    #[case("allOf")]
    #[case("default")]
    fn nesting_is_bounded(#[case] keyword: &str) {
        let error = sound(&nested(65, keyword)).unwrap_err();
        assert!(error.contains("more than 64 levels"), "{error}");
        // As deep as is taken, on a small stack.
        assert_eq!(check(nested(20, keyword), json!({})), Ok(()));
    }

    #[test]
    fn size_is_bounded() {
        let values: Vec<usize> = (0..30_000).collect();
        let many = json!({ "type": "object", "properties": { "a": { "enum": values } } });
        assert!(sound(&many).unwrap_err().contains("too large"));
        let long = json!({ "type": "object", "description": "x".repeat(300_000) });
        assert!(sound(&long).unwrap_err().contains("too large"));
        let patterns: Map<String, Value> =
            (0..300).map(|n| (format!("a{n}"), json!({ "pattern": "a" }))).collect();
        let error = sound(&json!({ "type": "object", "properties": patterns })).unwrap_err();
        assert!(error.contains("too many patterns"), "{error}");
    }

    /// Each definition asks twice for the next.
    fn doubling(levels: usize, keyword: &str) -> Value {
        let mut defs = Map::new();
        for n in 0..levels {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            defs.insert(format!("d{n}"), json!({ keyword: [next, next] }));
        }
        defs.insert(format!("d{levels}"), json!({ "type": "string" }));
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs })
    }

    #[rstest]
    #[case("allOf")]
    #[case("anyOf")]
    #[case("oneOf")]
    fn definitions_that_double_are_not_followed(#[case] keyword: &str) {
        assert_eq!(check(doubling(8, "allOf"), json!({ "a": "x" })), Ok(()));
        let error = check(doubling(50, keyword), json!({ "a": 1 })).unwrap_err();
        assert!(error.contains("too large to be checked"), "{error}");
    }

    #[test]
    fn a_tree_that_doubles_at_every_level_is_not_followed() {
        let tree = json!({ "type": "object",
            "properties": { "a": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }, { "type": "null" }] } } });
        let mut arguments = json!({ "a": 1 });
        for _ in 0..50 {
            arguments = json!({ "a": arguments });
        }
        let error = check(tree, arguments).unwrap_err();
        assert!(error.contains("too large to be checked"), "{error}");
    }

    #[test]
    fn long_chains_of_references_leave_the_stack_whole() {
        let chain = |n_links: usize, link: fn(Value) -> Value| {
            let mut defs = Map::new();
            for n in 0..n_links {
                defs.insert(format!("d{n}"), link(json!({ "$ref": format!("#/$defs/d{}", n + 1) })));
            }
            defs.insert(format!("d{n_links}"), json!({}));
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs })
        };
        let error = check(chain(3_000, |next| next), json!({ "a": 1 })).unwrap_err();
        assert!(error.contains("too large to be checked"), "{error}");
        let members = chain(3_000, |next| json!({ "properties": { "a": next } }));
        assert_eq!(check(members, json!({ "a": { "a": 1 } })), Ok(()));
    }

    #[rstest]
    #[case::itself(json!({ "type": "object", "allOf": [{ "$ref": "#" }] }))]
    #[case::each_other(
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } },
            "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } } })
    )]
    fn a_schema_that_asks_for_itself_is_not_followed(#[case] schema: Value) {
        let error = check(schema, json!({ "a": 1 })).unwrap_err();
        assert!(error.contains("too large to be checked"), "{error}");
    }

    #[rstest]
    #[case("^(a+)+$")]
    #[case("^(a|aa)+$")]
    #[case("^([a-zA-Z]+)*$")]
    #[case("(.*a){20}$")]
    #[case("^(?=(a+)+$)")]
    #[case(r"^(a+)\1+$")]
    fn patterns_take_linear_time(#[case] pattern: &str) {
        let schema = json!({ "type": "object", "properties": { "a": { "pattern": pattern } } });
        let _ = check(schema, json!({ "a": format!("{}!", "a".repeat(50_000)) }));
    }

    #[test]
    fn deep_and_wide_arguments_are_bounded() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let error = check(json!({ "type": "object" }), json!({ "a": deep })).unwrap_err();
        assert!(error.contains("more than 64 levels"), "{error}");

        let unique =
            json!({ "type": "object", "properties": { "a": { "type": "array", "uniqueItems": true } } });
        let items: Vec<Value> = (0..50_000).map(|n| json!({ "n": n })).collect();
        assert_eq!(check(unique, json!({ "a": items })), Ok(()));
    }
}
