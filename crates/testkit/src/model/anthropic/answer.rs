//! Answers in the form of Anthropic's messages.

use serde_json::{Value, json};

use super::super::Seen;
use super::super::answer::{End, Said, half};
use super::super::serve::{Counted, pieces};

fn usage(Counted { input, output }: Counted) -> Value {
    json!({
        "input_tokens": input.tokens.saturating_sub(input.cached + input.written),
        "cache_read_input_tokens": input.cached,
        "cache_creation_input_tokens": input.written,
        "output_tokens": output,
    })
}

fn stop_reason(said: &Said) -> &str {
    match said.finish.as_deref() {
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        Some(other) => other,
        None if said.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
}

/// What signs its thinking; none: it has no such block.
fn signature(said: &Said) -> Option<&str> {
    said.signature.as_deref().or((!said.reasoning.is_empty()).then_some("sig"))
}

fn calls(said: &Said, n: usize) -> impl Iterator<Item = (Value, String)> {
    said.calls.iter().enumerate().map(move |(idx, (name, _))| {
        let call = json!({"type": "tool_use", "id": format!("toolu_f{n}_{idx}"), "name": name, "input": {}});
        (call, said.sent_arguments(idx))
    })
}

pub(in super::super) fn whole(said: &Said, seen: &Seen, counted: Counted) -> Value {
    let mut content = Vec::new();
    if let Some(signature) = signature(said) {
        content.push(json!({"type": "thinking", "thinking": said.reasoning, "signature": signature}));
    }
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text}));
    }
    content.extend(calls(said, seen.n).map(|(mut call, input)| {
        if let Ok(input) = serde_json::from_str(&input) {
            call["input"] = input;
        }
        call
    }));
    json!({
        "id": format!("msg_{}", seen.n), "type": "message", "role": "assistant", "model": seen.body["model"],
        "content": content, "stop_reason": stop_reason(said), "stop_sequence": null, "usage": usage(counted),
    })
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn start(idx: usize, block: &Value) -> String {
    event(&json!({"type": "content_block_start", "index": idx, "content_block": block}))
}

fn delta(idx: usize, delta: Value) -> String {
    event(&json!({"type": "content_block_delta", "index": idx, "delta": delta}))
}

/// Words of the block of text, which has that index.
pub(in super::super) fn piece(idx: usize, text: &str) -> String {
    delta(idx, json!({"type": "text_delta", "text": text}))
}

/// The events of a streamed answer, as text.
pub(in super::super) fn events(said: &Said, seen: &Seen, counted: Counted) -> Vec<String> {
    let mut message = whole(&Said::default(), seen, counted);
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = 1.into();
    let mut events =
        vec![event(&json!({"type": "message_start", "message": message})), event(&json!({"type": "ping"}))];
    let mut idx = 0;
    let end = |idx: &mut usize, events: &mut Vec<String>| {
        events.push(event(&json!({"type": "content_block_stop", "index": *idx})));
        *idx += 1;
    };
    if let Some(signature) = signature(said) {
        events.push(start(idx, &json!({"type": "thinking", "thinking": "", "signature": ""})));
        let words = pieces(&said.reasoning).into_iter();
        events.extend(words.map(|text| delta(idx, json!({"type": "thinking_delta", "thinking": text}))));
        events.push(delta(idx, json!({"type": "signature_delta", "signature": signature})));
        end(&mut idx, &mut events);
    }
    let words = pieces(&said.text);
    if !words.is_empty() {
        events.push(start(idx, &json!({"type": "text", "text": ""})));
        let n_words = said.n_words(words.len());
        events.extend(words.iter().take(n_words).map(|text| piece(idx, text)));
    }
    match &said.end {
        End::Complete | End::Unmarked => {}
        End::Truncated | End::Hanging | End::Flooding => return events,
        End::Error(error) => {
            events.push(event(&json!({"type": "error", "error": error})));
            return events;
        }
    }
    if !words.is_empty() {
        end(&mut idx, &mut events);
    }
    for (call, input) in calls(said, seen.n) {
        events.push(start(idx, &call));
        let (head, tail) = input.split_at(half(&input).len());
        for part in [head, tail] {
            events.push(delta(idx, json!({"type": "input_json_delta", "partial_json": part})));
        }
        end(&mut idx, &mut events);
    }
    if said.end == End::Unmarked {
        return events;
    }
    let stop = json!({"stop_reason": stop_reason(said), "stop_sequence": null});
    let output = counted.output;
    events.push(event(&json!({"type": "message_delta", "delta": stop, "usage": {"output_tokens": output}})));
    events.push(event(&json!({"type": "message_stop"})));
    events
}
