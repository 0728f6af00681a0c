//! Rounds of several calls as rounds of one call each, for chat templates that take one call in an answer (Llama 3.1).

use serde_json::{Value, json};

/// Splits every answer with several calls: a call, its result, the next call, its result. Nothing is left out. Knows the
/// shapes of both wire formats. False: no answer has several calls.
pub(crate) fn split(messages: &mut Value) -> bool {
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
        assert!(split(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": "I look", "tool_calls": [call("a")]}, result("a"),
            {"role": "assistant", "content": null, "tool_calls": [call("b")]}, result("b"),
            {"role": "assistant", "content": null, "tool_calls": [call("c")]}, result("c"),
        ]);
        assert_eq!(messages, expected);
        assert!(!split(&mut messages), "no answer has several calls any more");
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
        assert!(split(&mut messages));
        let expected = json!([
            user,
            {"role": "assistant", "content": [text("I look"), call("a")]},
            {"role": "user", "content": [result("a")]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "user", "content": [result("b"), text("now")]},
        ]);
        assert_eq!(messages, expected);
        assert!(!split(&mut messages));
    }
}
