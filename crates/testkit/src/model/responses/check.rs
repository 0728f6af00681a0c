//! What a request must be like, over and above what all requests must be. Fields by the types of OpenAI's SDK
//! (<https://github.com/openai/openai-python/tree/main/src/openai/types/responses>), rules and words by its server:
//! <https://developers.openai.com/api/docs/guides/reasoning>, <https://developers.openai.com/api/docs/guides/function-calling>,
//! <https://github.com/vercel/ai/issues/7099> (reasoning and what follows it), <https://github.com/github/copilot-sdk/issues/615>
//! (nothing is found by its id), <https://github.com/openai/openai-agents-python/issues/673> (calls without results),
//! <https://github.com/earendil-works/pi/issues/6265> (the least `max_output_tokens`).

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::Rule;
use super::{encrypted, kind, list, text};

type Checked = Result<(), (Rule, String)>;

/// All fields of a request.
const FIELDS: [&str; 27] = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
];

const LEAST_OUTPUT_TOKENS: u64 = 16;

/// Longest id of a call.
const MAX_CALL_ID: usize = 64;

fn shape(text: String) -> Checked {
    Err((Rule::Shape, text))
}

pub(in super::super) fn check(request: &Value) -> Checked {
    fields(request, "", &FIELDS)?;
    if request["store"] != false {
        return shape("`store` is not false: the server would keep the conversation".to_owned());
    }
    if let Some(most) = request["max_output_tokens"].as_u64().filter(|most| *most < LEAST_OUTPUT_TOKENS) {
        return shape(format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_OUTPUT_TOKENS}, but \
             got {most} instead."
        ));
    }
    if let Some(reasoning) = request.get("reasoning") {
        fields(reasoning, "reasoning.", &["context", "effort", "generate_summary", "mode", "summary"])?;
    }
    if request
        .get("tool_choice")
        .is_some_and(|choice| choice.is_string() && list(request, "tools").is_empty())
    {
        return shape("Tool choices are only allowed when 'tools' are specified.".to_owned());
    }
    if list(request, "input").is_empty() {
        return Err((Rule::Empty, "it has no input".to_owned()));
    }
    list(request, "tools").iter().enumerate().try_for_each(|(idx, tool)| check_tool(idx, tool))?;
    list(request, "input").iter().enumerate().try_for_each(|(idx, item)| check_item(idx, item))?;
    check_given(list(request, "input"))?;
    check_calls(list(request, "input"))
}

/// It has no other fields.
fn fields(value: &Value, path: &str, known: &[&str]) -> Checked {
    let unknown = value.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str()));
    match unknown {
        Some((key, _)) => shape(format!("Unknown parameter: '{path}{key}'.")),
        None => Ok(()),
    }
}

fn check_name(path: &str, value: &str) -> Checked {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !value.is_empty() && value.chars().all(fine) {
        return Ok(());
    }
    shape(format!(
        "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    ))
}

fn check_tool(idx: usize, tool: &Value) -> Checked {
    fields(tool, &format!("tools[{idx}]."), &["description", "name", "parameters", "strict", "type"])?;
    check_name(&format!("tools[{idx}].name"), text(tool, "name"))?;
    if tool["type"] != "function" || !tool["parameters"].is_object() {
        return shape(format!("Missing required parameter: 'tools[{idx}].parameters'."));
    }
    // Schemas of tool servers are not what the server takes for strict ones, and it takes them for that by itself.
    match tool["strict"] == false {
        true => Ok(()),
        false => shape(format!(
            "Invalid schema for function '{}': 'required' is required to be supplied and to be an array including \
             every key in properties.",
            text(tool, "name")
        )),
    }
}

fn check_item(idx: usize, item: &Value) -> Checked {
    // llama.cpp's server takes no message of the model without it.
    if item.get("type").is_none() && text(item, "role") == "assistant" {
        return shape("Cannot determine type of 'item'".to_owned());
    }
    let path = format!("input[{idx}].");
    match (kind(item), text(item, "role")) {
        ("message", "assistant") => {
            fields(item, &path, &["content", "id", "phase", "role", "status", "type"])?;
            for part in list(item, "content") {
                fields(part, &path, &["annotations", "logprobs", "refusal", "text", "type"])?;
                if part["type"] != "refusal"
                    && (part["type"] != "output_text" || !part["annotations"].is_array())
                {
                    return shape(format!(
                        "Invalid value: '{}'. Supported values are: 'output_text' and 'refusal'.",
                        text(part, "type")
                    ));
                }
            }
            Ok(())
        }
        ("message", "user" | "system" | "developer") => {
            fields(item, &path, &["content", "role", "status", "type"])?;
            list(item, "content").iter().try_for_each(|part| check_part(&path, part))
        }
        ("function_call", _) => {
            fields(item, &path, &["arguments", "call_id", "id", "name", "namespace", "status", "type"])?;
            check_name(&format!("{path}name"), text(item, "name"))?;
            check_call_id(&path, item)
        }
        ("function_call_output", _) => {
            fields(item, &path, &["call_id", "id", "output", "status", "type"])?;
            check_call_id(&path, item)?;
            list(item, "output").iter().try_for_each(|part| check_part(&path, part))
        }
        ("reasoning", _) => {
            fields(item, &path, &["content", "encrypted_content", "id", "status", "summary", "type"])?;
            if item["summary"].is_array() {
                return Ok(());
            }
            shape(format!("Missing required parameter: '{path}summary'."))
        }
        (kind, role) => shape(format!("Invalid value: '{kind}' from '{role}' at {path}")),
    }
}

fn check_call_id(path: &str, item: &Value) -> Checked {
    let length = text(item, "call_id").len();
    match length {
        0 => shape(format!("Missing required parameter: '{path}call_id'.")),
        1..=MAX_CALL_ID => Ok(()),
        _ => shape(format!(
            "Invalid '{path}call_id': string too long. Expected a string with maximum length {MAX_CALL_ID}, but got a \
             string with length {length} instead."
        )),
    }
}

fn check_part(path: &str, part: &Value) -> Checked {
    match text(part, "type") {
        "input_text" => {
            fields(part, path, &["prompt_cache_breakpoint", "text", "type"])?;
            if text(part, "text").trim().is_empty() {
                return Err((Rule::Empty, format!("a part of {path} says nothing")));
            }
            Ok(())
        }
        "input_image" => {
            fields(part, path, &["detail", "file_id", "image_url", "prompt_cache_breakpoint", "type"])?;
            match text(part, "image_url").starts_with("data:image/") && part["detail"].is_string() {
                true => Ok(()),
                false => shape(format!("Invalid '{path}image_url'.")),
            }
        }
        other => shape(format!(
            "Invalid value: '{other}'. Supported values are: 'input_text', 'input_image' and 'input_file'."
        )),
    }
}

/// The number of the answer that an id of ours is of.
fn answer_of(item: &Value) -> Option<&str> {
    let number = ["rs_", "msg_", "fc_"].iter().find_map(|prefix| text(item, "id").strip_prefix(prefix))?;
    number.split('_').next()
}

/// Reasoning comes back as it was given, before the item that it was given with, and an item that has its id comes back behind
/// its reasoning.
fn check_given(input: &[Value]) -> Checked {
    let mut open = None;
    for (idx, item) in input.iter().enumerate() {
        let id = text(item, "id");
        let parted = |words: String| Err((Rule::Parted, words));
        match kind(item) {
            "reasoning" if text(item, "encrypted_content").is_empty() => {
                return parted(format!(
                    "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with \
                     `store` set to true, or remove this item from your input."
                ));
            }
            "reasoning" if item["encrypted_content"] != encrypted(id) => {
                return parted(format!(
                    "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
                     decrypted or parsed."
                ));
            }
            "reasoning" => {
                let follows = |next: &&Value| {
                    let is_answer = kind(next) == "function_call" || next["role"] == "assistant";
                    is_answer && (next.get("id").is_none() || answer_of(next) == answer_of(item))
                };
                if input.get(idx + 1).filter(follows).is_none() {
                    return parted(format!(
                        "Item '{id}' of type 'reasoning' was provided without its required following item."
                    ));
                }
                open = answer_of(item);
            }
            "function_call_output" => open = None,
            _ if id.is_empty() => open = None,
            kind if answer_of(item) != open => {
                let n = answer_of(item).unwrap_or_default();
                return parted(format!(
                    "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: 'rs_{n}'."
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Each call has its result, and each result its call before it.
fn check_calls(input: &[Value]) -> Checked {
    let mut owed: Vec<&str> = Vec::new();
    let mut called = HashSet::new();
    for item in input {
        let id = text(item, "call_id");
        match kind(item) {
            "function_call" if !called.insert(id) => {
                return shape(format!("Duplicate item found with call_id {id}."));
            }
            "function_call" => owed.push(id),
            "function_call_output" => match owed.iter().position(|of| *of == id) {
                Some(at) => drop(owed.remove(at)),
                None => {
                    let words = format!("No tool call found for function call output with call_id {id}.");
                    return Err((Rule::Parted, words));
                }
            },
            _ => {}
        }
    }
    match owed.first() {
        Some(id) => Err((Rule::Parted, format!("No tool output found for function call {id}."))),
        None => Ok(()),
    }
}
