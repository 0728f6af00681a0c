//! The server's rules, by requests that break one each.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::model::Rule;

/// A request within a turn: what the server gave goes back with its result.
fn request() -> Value {
    json!({
        "model": "gpt", "store": false, "stream": true, "max_output_tokens": 100,
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "find", "description": "d", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "prompt"}]},
            {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": encrypted("rs_3")},
            {"type": "message", "role": "assistant", "id": "msg_3", "status": "completed", "phase": "commentary",
             "content": [{"type": "output_text", "text": "I look", "annotations": []}]},
            {"type": "function_call", "id": "fc_3_0", "call_id": "c", "name": "find", "arguments": "{}", "status": "completed"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
        ],
    })
}

#[test]
fn what_was_given_is_taken_back_and_told_in_the_form_of_chat_completions() {
    assert_eq!(check(&request()), Ok(()));
    let mut plain = request();
    let items = plain["input"].as_array_mut().unwrap();
    items.remove(2);
    items[2] = json!({"type": "message", "role": "assistant", "content": "I look"});
    items[3].as_object_mut().unwrap().remove("id");
    assert_eq!(check(&plain), Ok(()), "without reasoning nothing has an id");
    for request in [request(), plain] {
        let call = json!({"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}});
        let expected = json!([
            {"role": "system", "content": "prompt"},
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": "I look", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ]);
        assert_eq!(canonical(&request)["messages"], expected);
    }
}

#[rstest]
#[case::an_unknown_field("/seed", json!(7), Rule::Shape, "Unknown parameter: 'seed'")]
#[case::a_field_of_chat_completions("/max_tokens", json!(7), Rule::Shape, "Unknown parameter: 'max_tokens'")]
#[case::kept("/store", json!(true), Rule::Shape, "`store`")]
#[case::too_few_tokens("/max_output_tokens", json!(1), Rule::Shape, ">= 16")]
#[case::an_unknown_field_of_an_item("/input/5/name", json!("f"), Rule::Shape, "Unknown parameter: 'input[5].name'")]
#[case::words_of_the_model("/input/1/content/0/type", json!("output_text"), Rule::Shape, "Invalid value: 'output_text'")]
#[case::an_effort_of_chat_completions("/reasoning_effort", json!("low"), Rule::Shape, "Unknown parameter")]
#[case::a_strict_tool("/tools/0/strict", json!(true), Rule::Shape, "Invalid schema")]
#[case::a_nested_tool("/tools/0/function", json!({}), Rule::Shape, "Unknown parameter: 'tools[0].function'")]
#[case::a_long_id("/input/4/call_id", json!("x".repeat(65)), Rule::Shape, "string too long")]
#[case::a_name_with_a_blank("/input/4/name", json!("f g"), Rule::Shape, "does not match pattern")]
#[case::no_summary("/input/2/summary", json!(null), Rule::Shape, "summary")]
#[case::changed("/input/2/encrypted_content", json!("gAAAA_incomplete"), Rule::Parted, "could not be verified")]
#[case::by_its_id_alone("/input/2/encrypted_content", json!(null), Rule::Parted, "Items are not persisted")]
#[case::another_call("/input/5/call_id", json!("d"), Rule::Parted, "No tool call found")]
fn a_request_that_breaks_a_rule_is_refused(
    #[case] at: &str,
    #[case] value: Value,
    #[case] rule: Rule,
    #[case] words: &str,
) {
    let mut broken = request();
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = if parent.is_empty() { &mut broken } else { broken.pointer_mut(parent).unwrap() };
    parent[key] = value;
    let (found, said) = check(&broken).unwrap_err();
    assert!(found == rule && said.contains(words), "{found:?}: {said}");
}

#[rstest]
#[case::reasoning_without_what_follows(&[3, 4, 5], "required following item")]
#[case::reasoning_before_an_item_of_another_answer(&[2, 5], "without its required 'reasoning' item: 'rs_3'")]
#[case::a_call_without_its_result(&[5], "No tool output found for function call c.")]
fn items_belong_together(#[case] left_out: &[usize], #[case] words: &str) {
    let mut broken = request();
    let items = broken["input"].as_array_mut().unwrap();
    for idx in left_out.iter().rev() {
        items.remove(*idx);
    }
    let (rule, said) = check(&broken).unwrap_err();
    assert!(rule == Rule::Parted && said.contains(words), "{said}");
}
