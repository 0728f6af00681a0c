//! What some servers refuse although a request can be asked without it, and how it is asked then.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

/// What some servers refuse although the request can be asked without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    NoStream,
    /// `tool_choice`.
    NoToolChoice,
    /// Ids of calls that do not have nine letters or digits: Mistral's, and chat templates of its models.
    ShortIds,
    /// Several calls in one answer: chat templates of Llama 3.1.
    OneCall,
}

/// All, in the order in which they are applied.
pub(crate) const REMEDIES: [Remedy; 4] =
    [Remedy::NoStream, Remedy::NoToolChoice, Remedy::ShortIds, Remedy::OneCall];

impl Remedy {
    /// Its name in the traces of calls.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoStream => "no_stream",
            Self::NoToolChoice => "no_tool_choice",
            Self::ShortIds => "short_ids",
            Self::OneCall => "one_call",
        }
    }
}

/// Changes a request so that it does without something. False: there was nothing of it.
pub(crate) fn apply(remedy: Remedy, body: &mut Value) -> bool {
    let Some(fields) = body.as_object_mut() else { return false };
    match remedy {
        Remedy::NoStream => {
            fields.remove("stream_options");
            fields.insert("stream".to_owned(), false.into()) == Some(true.into())
        }
        Remedy::NoToolChoice => fields.remove("tool_choice").is_some(),
        Remedy::ShortIds => fields.get_mut("messages").is_some_and(shorten_ids),
        Remedy::OneCall => fields.get_mut("messages").is_some_and(split_rounds),
    }
}

/// Gives calls, and with them their results, ids of nine characters. False: all have them.
fn shorten_ids(messages: &mut Value) -> bool {
    const IDS: [&str; 3] = ["id", "tool_call_id", "tool_use_id"];
    match messages {
        Value::Array(list) => list.iter_mut().map(shorten_ids).filter(|any| *any).count() > 0,
        Value::Object(fields) => {
            let mut any = false;
            for (name, value) in fields {
                any |= match value {
                    Value::String(id) if IDS.contains(&name.as_str()) => shorten_id(id),
                    Value::Array(_) if matches!(name.as_str(), "tool_calls" | "content") => {
                        shorten_ids(value)
                    }
                    _ => false,
                };
            }
            any
        }
        _ => false,
    }
}

fn shorten_id(id: &mut String) -> bool {
    if id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()) {
        return false;
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    *id = format!("{:09x}", hasher.finish() & 0xf_ffff_ffff);
    true
}

/// Splits every answer with several calls, for chat templates that take one call in an answer: a call, its result, the next
/// call, its result. Nothing is left out. Knows the shapes of both wire formats. False: no answer has several calls.
fn split_rounds(messages: &mut Value) -> bool {
    let Some(list) = messages.as_array_mut() else { return false };
    let mut split = Vec::with_capacity(list.len());
    let mut any = false;
    let mut rest = std::mem::take(list).into_iter().peekable();
    while let Some(message) = rest.next() {
        let n_calls = calls(&message).count();
        if n_calls < 2 {
            split.push(message);
            continue;
        }
        any = true;
        if message.get("tool_calls").is_some() {
            let mut results = Vec::new();
            while let Some(result) = rest.next_if(|next| next["role"] == "tool") {
                results.push(result);
            }
            split.extend(in_messages(message, results));
        } else {
            split.extend(in_blocks(message, rest.next()));
        }
    }
    *list = split;
    any
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    let list = |key: &str| message[key].as_array().into_iter().flatten();
    list("tool_calls").chain(list("content").filter(|block| block["type"] == "tool_use"))
}

/// OpenAI's: calls are a list of the message, each result is a message.
fn in_messages(mut answer: Value, mut results: Vec<Value>) -> Vec<Value> {
    let calls = answer["tool_calls"].take();
    let mut out = Vec::new();
    for call in calls.as_array().into_iter().flatten() {
        let content = answer["content"].take();
        out.push(json!({"role": "assistant", "content": content, "tool_calls": [call]}));
        if let Some(at) = results.iter().position(|result| result["tool_call_id"] == call["id"]) {
            out.push(results.remove(at));
        }
    }
    out.extend(results);
    out
}

/// Anthropic's: calls are blocks of the answer, results are blocks of the next message, which may say more behind them.
fn in_blocks(mut answer: Value, next: Option<Value>) -> Vec<Value> {
    let taken = |value: &mut Value| match value.take() {
        Value::Array(blocks) => blocks,
        _ => Vec::new(),
    };
    let mut next = next;
    let mut results = next.as_mut().map(|next| taken(&mut next["content"])).unwrap_or_default();
    let (calls, mut said): (Vec<_>, Vec<_>) =
        taken(&mut answer["content"]).into_iter().partition(|block| block["type"] == "tool_use");
    let mut out = Vec::new();
    let n_calls = calls.len();
    for (idx, call) in calls.into_iter().enumerate() {
        let result = results.iter().position(|block| block["tool_use_id"] == call["id"]);
        let mut behind: Vec<Value> = result.map(|at| results.remove(at)).into_iter().collect();
        if idx + 1 == n_calls {
            behind.append(&mut results);
        }
        said.push(call);
        out.push(json!({"role": "assistant", "content": std::mem::take(&mut said)}));
        if !behind.is_empty() {
            out.push(json!({"role": "user", "content": behind}));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_stands_before_its_result() {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let user = json!({"role": "user", "content": "hi"});
        let mut messages = json!([
            user,
            {"role": "assistant", "content": "I look", "tool_calls": [call("a"), call("b")]},
            result("b"), result("a"),
            {"role": "assistant", "content": null, "tool_calls": [call("c")]}, result("c"),
        ]);
        assert!(split_rounds(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": "I look", "tool_calls": [call("a")]}, result("a"),
            {"role": "assistant", "content": null, "tool_calls": [call("b")]}, result("b"),
            {"role": "assistant", "content": null, "tool_calls": [call("c")]}, result("c"),
        ]);
        assert_eq!(messages, expected);
        assert!(!split_rounds(&mut messages), "no answer has several calls any more");
        assert_eq!(messages, expected);
    }

    #[test]
    fn blocks_go_with_their_calls_and_what_follows_the_results_stays_last() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
        let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": id});
        let user = json!({"role": "user", "content": [text("hi")]});
        let mut messages = json!([
            user,
            {"role": "assistant", "content": [text("I look"), call("a"), call("b")]},
            {"role": "user", "content": [result("a"), result("b"), text("now")]},
        ]);
        assert!(split_rounds(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": [text("I look"), call("a")]},
            {"role": "user", "content": [result("a")]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "user", "content": [result("b"), text("now")]},
        ]);
        assert_eq!(messages, expected);
        assert!(!split_rounds(&mut messages));
    }
}
