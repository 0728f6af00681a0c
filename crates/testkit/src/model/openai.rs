//! Answers in the form of OpenAI's chat completions.

use serde_json::{Value, json};

use super::Seen;
use super::answer::{End, Said, half};
use super::serve::{Counted, pieces};

fn usage(Counted { input, output }: Counted) -> Value {
    json!({
        "prompt_tokens": input.tokens,
        "completion_tokens": output,
        "total_tokens": input.tokens + output,
        "prompt_tokens_details": {"cached_tokens": input.cached, "cache_write_tokens": input.written},
    })
}

fn finish_of(said: &Said) -> &str {
    match &said.finish {
        Some(finish) => finish,
        None if said.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn wire_calls(said: &Said, n: usize) -> Vec<Value> {
    let call = |(idx, (name, _)): (usize, &(String, Value))| {
        json!({
            "index": idx, "id": format!("call_f{n}_{idx}"), "type": "function",
            "function": {"name": name, "arguments": said.sent_arguments(idx)},
        })
    };
    let mut calls: Vec<Value> = said.calls.iter().enumerate().map(call).collect();
    if let (Some(first), Some(Value::Object(fields))) = (calls.first_mut(), &said.call_fields) {
        fields.iter().for_each(|(key, value)| first[key.as_str()] = value.clone());
    }
    calls
}

pub(super) fn whole(said: &Said, seen: &Seen, counted: Counted) -> Value {
    let content = if said.text.is_empty() { Value::Null } else { said.text.as_str().into() };
    let mut message = json!({"role": "assistant", "content": content});
    if !said.reasoning.is_empty() {
        message["reasoning_content"] = said.reasoning.as_str().into();
    }
    if !said.calls.is_empty() {
        message["tool_calls"] = wire_calls(said, seen.n).into();
    }
    json!({
        "id": format!("fake-{}", seen.n), "object": "chat.completion", "created": 0, "model": seen.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_of(said)}], "usage": usage(counted),
    })
}

fn chunk(seen: &Seen, choices: &Value, usage: Option<&Value>) -> String {
    let mut chunk = json!({
        "id": format!("fake-{}", seen.n), "object": "chat.completion.chunk", "created": 0,
        "model": seen.body["model"], "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage.clone();
    }
    format!("data: {chunk}\n\n")
}

fn delta(seen: &Seen, delta: &Value) -> String {
    chunk(seen, &json!([{"index": 0, "delta": delta, "finish_reason": null}]), None)
}

pub(super) fn piece(seen: &Seen, text: &str) -> String {
    delta(seen, &json!({"content": text}))
}

/// The events of a streamed answer, as text.
pub(super) fn events(said: &Said, seen: &Seen, counted: Counted) -> Vec<String> {
    let mut events = vec![delta(seen, &json!({"role": "assistant", "content": ""}))];
    let thoughts = pieces(&said.reasoning).into_iter();
    events.extend(thoughts.map(|text| delta(seen, &json!({"reasoning_content": text}))));
    let words = pieces(&said.text);
    let n_words = said.n_words(words.len());
    events.extend(words.iter().take(n_words).map(|text| piece(seen, text)));
    match &said.end {
        End::Complete | End::Unmarked => {}
        End::Truncated | End::Hanging | End::Flooding => return events,
        End::Error(error) => {
            events.push(format!("data: {}\n\n", json!({"error": error})));
            return events;
        }
    }
    for call in wire_calls(said, seen.n) {
        events.extend(call_pieces(&call).iter().map(|call| delta(seen, &json!({"tool_calls": [call]}))));
    }
    if said.end == End::Unmarked {
        return events;
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish_of(said)}]);
    events.push(chunk(seen, &end, None));
    let asked = seen.body.pointer("/stream_options/include_usage").and_then(Value::as_bool) == Some(true);
    if asked {
        events.push(chunk(seen, &json!([]), Some(&usage(counted))));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// A call in pieces: its head with half of the arguments, then the other half.
fn call_pieces(call: &Value) -> [Value; 2] {
    let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
    let (head, tail) = arguments.split_at(half(arguments).len());
    let mut first = call.clone();
    first["function"]["arguments"] = head.into();
    [first, json!({"index": call["index"], "function": {"arguments": tail}})]
}
