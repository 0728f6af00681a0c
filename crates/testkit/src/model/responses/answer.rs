//! Answers in the form of the Responses API:
//! <https://developers.openai.com/api/reference/resources/responses/streaming-events>. Each begins with encrypted reasoning.

use serde_json::{Value, json};

use super::super::Seen;
use super::super::answer::{End, Said};
use super::super::serve::{Counted, pieces};
use super::encrypted;

fn usage(Counted { input, output }: Counted) -> Value {
    json!({
        "input_tokens": input.tokens,
        "input_tokens_details": {"cached_tokens": input.cached, "cache_write_tokens": input.written},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.tokens + output,
    })
}

/// The items of an answer: reasoning, a message, calls.
fn items(said: &Said, n: usize) -> Vec<Value> {
    let thought = (!said.reasoning.is_empty()).then_some(&said.reasoning);
    let summary: Vec<Value> =
        thought.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    let id = format!("rs_{n}");
    let content = encrypted(&id);
    let mut items =
        vec![json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": content})];
    if !said.text.is_empty() {
        let phase = if said.calls.is_empty() { "final_answer" } else { "commentary" };
        items.push(json!({
            "type": "message", "id": format!("msg_{n}"), "role": "assistant", "status": "completed", "phase": phase,
            "content": [part(said)],
        }));
    }
    items.extend(said.calls.iter().enumerate().map(|(idx, (name, arguments))| {
        json!({
            "type": "function_call", "id": format!("fc_{n}_{idx}"), "call_id": format!("call_f{n}_{idx}"),
            "name": name, "arguments": arguments.to_string(), "status": "completed",
        })
    }));
    items
}

fn refuses(said: &Said) -> bool {
    said.finish.as_deref() == Some("refusal")
}

fn part(said: &Said) -> Value {
    match refuses(said) {
        true => json!({"type": "refusal", "refusal": said.text}),
        false => json!({"type": "output_text", "text": said.text, "annotations": []}),
    }
}

/// Whether all words come.
fn is_whole(said: &Said) -> bool {
    matches!(said.end, End::Complete | End::Unmarked)
}

/// Why an answer is incomplete.
fn incomplete(said: &Said) -> Option<&str> {
    match said.finish.as_deref()? {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    }
}

pub(in super::super) fn whole(said: &Said, seen: &Seen, counted: Counted) -> Value {
    let reason = incomplete(said);
    let status = if reason.is_some() { "incomplete" } else { "completed" };
    json!({
        "id": format!("resp_{}", seen.n), "object": "response", "created_at": 0, "model": seen.body["model"],
        "status": status, "error": null, "output": items(said, seen.n), "usage": usage(counted),
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
    })
}

/// The events of a stream, numbered.
#[derive(Default)]
struct Events(Vec<String>);

impl Events {
    fn push(&mut self, kind: &str, mut data: Value) {
        data["type"] = kind.into();
        data["sequence_number"] = self.0.len().into();
        self.0.push(format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn of_item(&mut self, kind: &str, (index, item): (usize, &Value), mut data: Value) {
        data["output_index"] = index.into();
        data["item_id"] = item["id"].clone();
        self.push(kind, data);
    }
}

/// Words of the message of an answer.
pub(in super::super) fn piece(text: &str) -> String {
    let mut events = Events::default();
    let data = json!({"output_index": 1, "content_index": 0, "delta": text});
    events.push("response.output_text.delta", data);
    events.0.concat()
}

/// The events of a streamed answer, as text.
pub(in super::super) fn events(said: &Said, seen: &Seen, counted: Counted) -> Vec<String> {
    let mut events = Events::default();
    let mut begun = whole(&Said::default(), seen, counted);
    (begun["status"], begun["usage"], begun["output"]) = ("in_progress".into(), Value::Null, json!([]));
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    events.push("keepalive", json!({}));
    for at in items(said, seen.n).iter().enumerate() {
        if !is_whole(said) && at.1["type"] == "function_call" {
            break;
        }
        item(&mut events, at, said);
    }
    match &said.end {
        End::Complete => {}
        End::Unmarked | End::Truncated | End::Hanging | End::Flooding => return events.0,
        End::Error(error) => {
            let data = json!({"code": error["code"], "message": error["message"], "param": null});
            events.push("error", data);
            return events.0;
        }
    }
    let response = whole(said, seen, counted);
    let kind = format!("response.{}", response["status"].as_str().unwrap_or_default());
    events.push(&kind, json!({"response": response}));
    events.0
}

/// An item: announced, in pieces, and whole. The words of an answer that breaks off end in the middle.
fn item(events: &mut Events, at: (usize, &Value), said: &Said) {
    let item = at.1;
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    match item["type"].as_str() {
        Some("reasoning") => {
            begun["encrypted_content"] = "gAAAA_incomplete".into();
            begun["summary"] = json!([]);
        }
        Some("message") => begun["content"] = json!([]),
        _ => begun["arguments"] = "".into(),
    }
    events.push("response.output_item.added", json!({"output_index": at.0, "item": begun}));
    match item["type"].as_str() {
        Some("reasoning") => {
            for text in pieces(&said.reasoning) {
                let data = json!({"summary_index": 0, "delta": text});
                events.of_item("response.reasoning_summary_text.delta", at, data);
            }
        }
        Some("message") => {
            let data =
                json!({"content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}});
            events.of_item("response.content_part.added", at, data);
            let words = pieces(&said.text);
            let n_words = said.n_words(words.len());
            let kind = if refuses(said) { "response.refusal.delta" } else { "response.output_text.delta" };
            for text in &words[..n_words] {
                events.of_item(kind, at, json!({"content_index": 0, "delta": text}));
            }
            if !is_whole(said) {
                return;
            }
            events.of_item("response.content_part.done", at, json!({"content_index": 0, "part": part(said)}));
        }
        _ => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let middle = arguments.char_indices().nth(arguments.chars().count() / 2).map_or(0, |(at, _)| at);
            for half in [&arguments[..middle], &arguments[middle..]] {
                events.of_item("response.function_call_arguments.delta", at, json!({"delta": half}));
            }
            let data = json!({"arguments": arguments, "name": item["name"]});
            events.of_item("response.function_call_arguments.done", at, data);
        }
    }
    events.push("response.output_item.done", json!({"output_index": at.0, "item": item}));
}
