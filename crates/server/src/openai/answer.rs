//! Answers in the shape of OpenAI's API: whole, or as a stream of chunks.

use cairn_types::message::{Finish, ToolCall};
use cairn_types::model::Usage;
use cairn_types::ports::Reply;
use serde_json::{Value, json};

/// What all parts of an answer have in common.
#[derive(Debug, Clone)]
pub(super) struct Completion {
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: i64,
    /// The agent.
    pub(super) model: String,
    pub(super) include_usage: bool,
}

impl Completion {
    /// The whole answer.
    pub(super) fn whole(&self, reply: &Reply) -> Value {
        let message = json!({ "role": "assistant", "content": reply.reply, "refusal": null });
        let choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply.finish),
        });
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [choice], "usage": usage(reply.usage),
        })
    }

    /// The answer up to where the client is to run tools.
    pub(super) fn calling(&self, text: &str, calls: &[ToolCall], usage_so_far: Usage) -> Value {
        let content = if text.is_empty() { Value::Null } else { json!(text) };
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let message =
            json!({ "role": "assistant", "content": content, "refusal": null, "tool_calls": calls });
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls" });
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [choice], "usage": usage(usage_so_far),
        })
    }

    /// The last chunks where the client is to run tools.
    pub(super) fn last_calling(&self, calls: &[ToolCall], usage_so_far: Usage) -> Vec<Value> {
        let indexed = |(idx, tool_call): (usize, &ToolCall)| {
            let mut tool_call = call(tool_call);
            tool_call["index"] = json!(idx);
            tool_call
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(indexed).collect();
        let mut chunks = vec![
            self.chunk(&json!({ "tool_calls": calls }), None),
            self.chunk(&json!({}), Some("tool_calls")),
        ];
        chunks.extend(self.usage_chunk(usage_so_far));
        chunks
    }

    /// A chunk of the stream.
    pub(super) fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
        self.with(json!([choice]))
    }

    /// The first chunk.
    pub(super) fn first(&self) -> Value {
        self.chunk(&json!({ "role": "assistant", "content": "", "refusal": null }), None)
    }

    /// The last chunks: why the answer ended, and its usage if the client wants it.
    pub(super) fn last(&self, reply: &Reply) -> Vec<Value> {
        let mut chunks = vec![self.chunk(&json!({}), Some(finish_reason(reply.finish)))];
        chunks.extend(self.usage_chunk(reply.usage));
        chunks
    }

    fn usage_chunk(&self, tokens: Usage) -> Option<Value> {
        self.include_usage.then(|| {
            let mut chunk = self.with(json!([]));
            chunk["usage"] = usage(tokens);
            chunk
        })
    }

    fn with(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

fn call(call: &ToolCall) -> Value {
    // What is no JSON is handed on as the model wrote it.
    let arguments = call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned);
    let arguments = if call.arguments.is_null() { "{}".to_owned() } else { arguments };
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

fn finish_reason(finish: Option<Finish>) -> &'static str {
    match finish {
        None | Some(Finish::Stop | Finish::ToolCalls) => "stop",
        Some(Finish::Length | Finish::ContextWindow | Finish::Pause) => "length",
        Some(Finish::Refusal | Finish::ContentFilter) => "content_filter",
    }
}

/// The tokens of the whole turn, with all its calls of models.
fn usage(usage: Usage) -> Value {
    let Usage { input_tokens, output_tokens, cached_tokens, .. } = usage;
    json!({
        "prompt_tokens": input_tokens, "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": { "cached_tokens": cached_tokens },
    })
}

/// The text of a stream. What was sent cannot be taken back: an answer that starts again goes on where it is the same, and
/// else follows as a paragraph.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The text of the answer as it is now.
    text: String,
    /// What was sent of the answer before it started again, as long as it repeats that.
    before: Option<String>,
}

impl Shown {
    /// More of the answer; what to send of it.
    pub(super) fn more(&mut self, text: &str) -> String {
        self.text.push_str(text);
        match self.before.take() {
            None => text.to_owned(),
            Some(before) if before.starts_with(&self.text) => {
                self.before = Some(before);
                String::new()
            }
            Some(before) => match self.text.strip_prefix(&before) {
                Some(rest) => rest.to_owned(),
                None => format!("\n\n{}", self.text),
            },
        }
    }

    /// The answer starts again.
    pub(super) fn restarted(&mut self) {
        let text = std::mem::take(&mut self.text);
        if self.before.is_none() && !text.is_empty() {
            self.before = Some(text);
        }
    }

    /// What is missing of the answer at its end: a slow client is not told each part.
    pub(super) fn missing(&mut self, reply: &str) -> String {
        if self.text.trim_end().ends_with(reply.trim_end()) {
            return String::new();
        }
        match reply.strip_prefix(&self.text) {
            Some(rest) => self.more(rest),
            None => self.more(&format!("\n\n{reply}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_starts_again_goes_on_where_it_repeats_itself() {
        let mut shown = Shown::default();
        assert_eq!((shown.more("The "), shown.more("cat")), ("The ".to_owned(), "cat".to_owned()));
        shown.restarted();
        assert_eq!((shown.more("The"), shown.more(" ca")), (String::new(), String::new()));
        shown.restarted();
        assert_eq!((shown.more("The c"), shown.more("at sat")), (String::new(), " sat".to_owned()));
        assert_eq!(shown.missing("The cat sat"), "");
        shown.restarted();
        assert_eq!((shown.more("A"), shown.more(" dog")), ("\n\nA".to_owned(), " dog".to_owned()));
        assert_eq!(shown.missing("A dog ran"), " ran");
    }

    #[test]
    fn what_a_slow_client_missed_follows_at_the_end() {
        assert_eq!(Shown::default().missing("hello"), "hello");
        let mut shown = Shown::default();
        shown.more("I look\n\n");
        assert_eq!(shown.missing("It is nine"), "\n\nIt is nine");
        let mut shown = Shown::default();
        shown.more("I look\n\nIt is nine\n");
        assert_eq!(shown.missing("It is nine"), "");
    }
}
