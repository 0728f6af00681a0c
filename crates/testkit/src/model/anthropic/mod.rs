//! Anthropic's messages: `/v1/messages`, checked, measured and answered as the real server does.

mod answer;
mod check;

use cairn_core::tune::Block;
use serde_json::{Value, json};

use super::measure::Count;
use super::wire::messages;

pub(super) use answer::{events, piece, whole};
pub(super) use check::{check, check_roles};

/// The blocks of a message, as `(role, block)`.
fn blocks(request: &Value) -> impl Iterator<Item = (&str, &Value)> {
    messages(request).iter().flat_map(|message| {
        let role = super::wire::role(message);
        let blocks = message.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        blocks.iter().map(move |block| (role, block))
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The request in the form of chat completions, by which requests are told apart, compared and shown: each block of a
/// person is a message of its own, so that merging neighbours changes nothing.
pub(super) fn canonical(request: &Value) -> Value {
    let mut out: Vec<Value> = Vec::new();
    let system: Vec<&str> = list(request, "system").iter().map(|block| text(block, "text")).collect();
    if !system.is_empty() {
        out.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    let mut pictures: Vec<Value> = Vec::new();
    for (role, block) in blocks(request) {
        if text(block, "type") != "tool_result" {
            out.append(&mut pictures);
        }
        match (role, text(block, "type")) {
            ("assistant", "thinking" | "redacted_thinking") => {}
            ("assistant", "tool_use") => call(&mut out, block),
            (role, "text") => out.push(json!({"role": role, "content": block["text"]})),
            (_, "tool_result") => {
                let (content, shown) = result(block);
                out.push(json!({"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}));
                pictures.extend(shown);
            }
            (role, _) => out.push(json!({"role": role, "content": [{"type": "image_url"}]})),
        }
    }
    out.append(&mut pictures);
    let function = |tool: &Value| {
        json!({"type": "function", "function": {
            "name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"],
        }})
    };
    let tools: Vec<Value> = list(request, "tools").iter().map(function).collect();
    let mut body = json!({"model": request["model"], "messages": out, "max_tokens": request["max_tokens"]});
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    for key in ["stream", "temperature", "top_p"] {
        if let Some(value) = request.get(key) {
            body[key] = value.clone();
        }
    }
    body
}

/// A result's words, and its pictures as messages: chat completions have them after the last result of the round.
fn result(block: &Value) -> (Value, Vec<Value>) {
    if block["content"].is_string() {
        return (block["content"].clone(), Vec::new());
    }
    let (pictures, words): (Vec<&Value>, Vec<&Value>) =
        list(block, "content").iter().partition(|part| text(part, "type") == "image");
    let shown = pictures.iter().map(|_| json!({"role": "user", "content": [{"type": "image_url"}]}));
    let words: Vec<&str> = words.into_iter().map(|part| text(part, "text")).collect();
    (words.join("\n").into(), shown.collect())
}

/// Adds a call to the message of the model that it belongs to.
fn call(out: &mut Vec<Value>, block: &Value) {
    let call = json!({"id": block["id"], "type": "function", "function": {
        "name": block["name"], "arguments": block["input"].to_string(),
    }});
    match out.last_mut() {
        Some(last) if last["role"] == "assistant" => match last["tool_calls"].as_array_mut() {
            Some(calls) => calls.push(call),
            None => last["tool_calls"] = json!([call]),
        },
        _ => out.push(json!({"role": "assistant", "content": null, "tool_calls": [call]})),
    }
}

/// What a cache sees: tools, system, messages, block by block, with their breakpoints. Anthropic's own server counts neighbouring
/// calls, and neighbouring results, as one block when it looks back; others that have its models count each.
pub(super) fn cached_blocks(count: Count, request: &Value) -> Vec<Block> {
    let system = list(request, "system").iter().map(|block| ("system", block));
    let tools = list(request, "tools").iter().map(|tool| ("tool", tool));
    tools.chain(system).chain(blocks(request)).map(|(place, block)| one(count, place, block)).collect()
}

fn one(count: Count, place: &str, block: &Value) -> Block {
    let mut plain = block.clone();
    let mark = plain.as_object_mut().and_then(|block| block.remove("cache_control")).is_some();
    let words = |keys: &[&str]| {
        let text = |key: &&str| match block.get(*key) {
            Some(Value::String(text)) => count.tokens(text),
            Some(Value::Null) | None => 0,
            Some(other) => count.tokens(&other.to_string()),
        };
        keys.iter().map(text).sum::<u64>()
    };
    let tokens = match text(block, "type") {
        "image" => Count::PICTURE_TOKENS,
        "thinking" => words(&["thinking", "signature"]),
        "tool_use" => words(&["name", "input"]),
        "tool_result" => {
            let (content, pictures) = result(block);
            count.tokens(content.as_str().unwrap_or_default()) + Count::PICTURE_TOKENS * pictures.len() as u64
        }
        _ if place == "tool" => words(&["name", "description", "input_schema"]),
        _ => words(&["text"]),
    };
    Block { key: super::measure::hash(&json!([place, plain])), tokens: tokens + Count::FRAME_TOKENS, mark }
}

#[cfg(test)]
mod tests;
