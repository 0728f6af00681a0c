//! Events out of the chunks of an answer: words at once, tool calls when they are whole.

use serde::Deserialize;
use serde_json::Value;

use cairn_core::message::ToolCall;
use cairn_core::model::{Finish, ModelError, ModelEvent, Usage};
use cairn_core::sse::ServerEvent;

use crate::answer::{self, Assemble, Progress};
use crate::failure;

/// Says that the answer is complete.
const DONE: &str = "[DONE]";

/// One chunk of a stream, or a whole answer: the same but for `delta` and `message`.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

/// A tool call that is still arriving.
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// Puts an answer together from its chunks.
pub(super) struct Assembler {
    /// Number of messages in the request: part of the ids that are minted.
    n_messages: usize,
    calls: Vec<PartialCall>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    spoke: bool,
    /// The server said `[DONE]`, or the answer came whole.
    marked: bool,
}

impl Assemble for Assembler {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
        if event.data.trim() == DONE {
            self.marked = true;
            return Ok(Progress::End);
        }
        // An error event's data is wrapped, so that it is told from an answer.
        if event.name == "error" && !event.data.contains("\"error\"") {
            let error = serde_json::from_str(&event.data).unwrap_or_else(|_| event.data.as_str().into());
            return Err(failure::from_object(&error));
        }
        self.take(event.data.as_bytes()).map(Progress::Piece)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
        self.marked = true;
        self.take(body.as_bytes())
    }

    fn end(self) -> Result<Vec<ModelEvent>, ModelError> {
        let marked = self.marked;
        if self.finish.is_none() && !(marked && (self.spoke || !self.calls.is_empty())) {
            let missing =
                if marked { "the answer is empty" } else { "the stream ended before the answer did" };
            return Err(ModelError::Protocol(missing.to_owned()));
        }
        let finish = match self.finish {
            Some(Finish::Stop) | None if !self.calls.is_empty() => Finish::ToolCalls,
            Some(Finish::ToolCalls) if self.calls.is_empty() && self.spoke => Finish::Stop,
            Some(Finish::ToolCalls) if self.calls.is_empty() => {
                return Err(ModelError::Protocol("the answer announces tool calls and has none".to_owned()));
            }
            finish => finish.unwrap_or(Finish::Stop),
        };
        let n_messages = self.n_messages;
        let mut events: Vec<ModelEvent> = Vec::with_capacity(self.calls.len() + 1);
        let mut ids: Vec<String> = Vec::new();
        for (idx, call) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name".to_owned()));
            }
            let usable = !call.id.is_empty() && !ids.contains(&call.id);
            let id = if usable { call.id } else { format!("call_{n_messages}_{idx}") };
            ids.push(id.clone());
            events.push(ModelEvent::ToolCall(ToolCall {
                id,
                name: call.name,
                arguments: answer::arguments_of(call.arguments),
            }));
        }
        events.push(ModelEvent::Done { finish, usage: self.usage, quotes: false });
        Ok(events)
    }
}

impl Assembler {
    pub(super) fn new(n_messages: usize) -> Self {
        Self { n_messages, calls: Vec::new(), finish: None, usage: None, spoke: false, marked: false }
    }

    /// Takes in one chunk: the data of an event, or a whole body.
    fn take(&mut self, data: &[u8]) -> Result<Vec<ModelEvent>, ModelError> {
        let value: Value = serde_json::from_slice(data)
            .map_err(|error| failure::malformed(&error, data, "is no chat completion"))?;
        if let Some(error) = error_in(&value) {
            return Err(failure::from_object(error));
        }
        let chunk: Chunk = serde_json::from_value(value)
            .map_err(|error| failure::malformed(&error, data, "is no chat completion"))?;
        if let Some(usage) = chunk.usage.as_ref().and_then(usage_of) {
            self.usage = Some(usage);
        }
        let mut events = Vec::new();
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta.or(choice.message) {
                self.take_delta(delta, &mut events);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(finish_of(&reason)?);
            }
        }
        Ok(events)
    }

    fn take_delta(&mut self, delta: Delta, events: &mut Vec<ModelEvent>) {
        let reasoning = delta.reasoning_content.filter(|text| !text.is_empty()).or(delta.reasoning);
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            events.push(ModelEvent::Reasoning(text));
        }
        let words = [delta.content.map(words_of), delta.refusal];
        for text in words.into_iter().flatten().filter(|text| !text.is_empty()) {
            self.spoke = true;
            events.push(ModelEvent::Text(text));
        }
        for (position, piece) in delta.tool_calls.unwrap_or_default().into_iter().enumerate() {
            self.take_call(position, piece);
        }
    }

    /// Joins a piece to its call: by index, else by id, else by place. A known index with another id begins a new
    /// call: some servers number all calls 0.
    fn take_call(&mut self, position: usize, piece: CallPiece) {
        let id = piece.id.filter(|id| !id.is_empty());
        let (name, arguments) = match piece.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (String::new(), None),
        };
        let found = match (piece.index, &id) {
            (Some(index), _) => self.calls.iter().rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id == *id),
            (None, None) if name.is_empty() => Some(position).filter(|&idx| idx < self.calls.len()),
            (None, None) => None,
        };
        let found = found.filter(|&idx| {
            let call = &self.calls[idx];
            id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id || name.is_empty())
        });
        let idx = found.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index: piece.index,
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[idx];
        if let Some(id) = id {
            call.id = id;
        }
        if call.name != name {
            call.name.push_str(&name);
        }
        match arguments {
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments = whole.to_string(),
        }
    }
}

/// An error object where an answer should be.
fn error_in(value: &Value) -> Option<&Value> {
    match value.get("error") {
        Some(Value::Null | Value::Bool(false)) | None => {}
        Some(error) => return Some(error),
    }
    let is_error = |key: &str| value.get(key).and_then(Value::as_str) == Some("error");
    (is_error("object") || is_error("type")).then_some(value)
}

/// Words of a content: a string, or parts with words.
fn words_of(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text")).filter_map(Value::as_str).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn finish_of(reason: &str) -> Result<Finish, ModelError> {
    match reason {
        "length" | "max_tokens" => Ok(Finish::Length),
        "tool_calls" | "function_call" => Ok(Finish::ToolCalls),
        "content_filter" => Ok(Finish::ContentFilter),
        "error" => Err(ModelError::Protocol("the answer ended with an error that is not told".to_owned())),
        _ => Ok(Finish::Stop),
    }
}

/// Tokens as the server counts them; `None` when it says nothing of worth.
fn usage_of(usage: &Value) -> Option<Usage> {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let input_tokens = number("/prompt_tokens").filter(|&tokens| tokens > 0)?;
    let cached_tokens = number("/prompt_tokens_details/cached_tokens")
        .or_else(|| number("/prompt_cache_hit_tokens"))
        .unwrap_or(0)
        .min(input_tokens);
    let output_tokens = number("/completion_tokens").unwrap_or(0);
    Some(Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens: 0 })
}
