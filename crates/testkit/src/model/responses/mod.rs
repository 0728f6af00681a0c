//! OpenAI's Responses API: `/v1/responses`, checked and answered as the real server does. It keeps nothing: what it gave is
//! known again by what is in it.

mod answer;
mod check;

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

pub(super) use answer::{events, piece, whole};
pub(super) use check::check;

/// What the server gives of the reasoning of an item, and wants back unchanged.
fn encrypted(id: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (id, "sealed").hash(&mut hasher);
    format!("gAAAA{:016x}", hasher.finish())
}

/// What a part behind which a breakpoint stands has.
const MARK: &str = "prompt_cache_breakpoint";

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What an item is.
fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" => "message",
        kind => kind,
    }
}

/// The request in the form of chat completions, by which requests are told apart, compared and shown. What the model says and
/// calls at once is one message; reasoning, and pictures in results, are left out.
pub(super) fn canonical(request: &Value) -> Value {
    let mut out: Vec<Value> = Vec::new();
    for item in list(request, "input") {
        match (kind(item), text(item, "role")) {
            ("message", "assistant") => say(&mut out, &words(&item["content"])),
            ("message", "system" | "developer") => {
                let blocks: Vec<&str> = list(item, "content").iter().map(|part| text(part, "text")).collect();
                let words = blocks.join("\n\n").into();
                let content = marked(&item["content"]).unwrap_or(words);
                out.push(json!({"role": "system", "content": content}));
            }
            ("message", role) => {
                let parts: Vec<Value> = list(item, "content").iter().map(part).collect();
                out.push(json!({"role": role, "content": parts}));
            }
            ("function_call", _) => {
                let call = json!({"id": item["call_id"], "type": "function", "function": {
                    "name": item["name"], "arguments": item["arguments"],
                }});
                match said(&mut out)["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => said(&mut out)["tool_calls"] = json!([call]),
                }
            }
            ("function_call_output", _) => {
                let content = marked(&item["output"]).unwrap_or_else(|| words(&item["output"]).into());
                out.push(json!({"role": "tool", "tool_call_id": item["call_id"], "content": content}));
            }
            _ => {}
        }
    }
    let function = |tool: &Value| {
        json!({"type": "function", "function": {
            "name": tool["name"], "description": tool["description"], "parameters": tool["parameters"],
        }})
    };
    let tools: Vec<Value> = list(request, "tools").iter().map(function).collect();
    let mut body = json!({
        "model": request["model"], "messages": out, "max_completion_tokens": request["max_output_tokens"],
    });
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    let fields =
        ["stream", "temperature", "top_p", "tool_choice", "prompt_cache_options", "prompt_cache_key"];
    for key in fields {
        if let Some(value) = request.get(key) {
            body[key] = value.clone();
        }
    }
    if let Some(effort) = request.pointer("/reasoning/effort") {
        body["reasoning_effort"] = effort.clone();
    }
    body
}

/// A part in the form of chat completions.
fn part(part: &Value) -> Value {
    let mut out = match text(part, "type") {
        "input_text" => json!({"type": "text", "text": part["text"]}),
        _ => json!({"type": "image_url"}),
    };
    if let Some(mark) = part.get(MARK) {
        out[MARK] = mark.clone();
    }
    out
}

/// The parts of a content or an output that has breakpoints.
fn marked(content: &Value) -> Option<Value> {
    let parts = content.as_array().filter(|parts| parts.iter().any(|part| part.get(MARK).is_some()))?;
    Some(parts.iter().map(part).collect())
}

/// The words of a content or an output.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().map(|part| text(part, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// The message of the model that goes on.
fn said(out: &mut Vec<Value>) -> &mut Value {
    if out.last().is_none_or(|last| last["role"] != "assistant") {
        out.push(json!({"role": "assistant", "content": null}));
    }
    let last = out.len() - 1;
    &mut out[last]
}

fn say(out: &mut Vec<Value>, words: &str) {
    let message = said(out);
    message["content"] = match message["content"].as_str() {
        Some(before) => format!("{before}\n{words}").into(),
        None => words.into(),
    };
}

#[cfg(test)]
mod tests;
