//! Events out of the chunks of an answer: words at once, tool calls when they are whole.

use serde_json::{Map, Value};

use cairn_core::message::ToolCall;
use cairn_core::model::{Finish, ModelError, ModelEvent, Usage};
use cairn_core::provider_state::{ProviderItem, ProviderState};
use cairn_core::sse::ServerEvent;
use cairn_core::trace::WireFormat;

use crate::answer::{self, Assemble, Progress};
use crate::failure;

/// Says that the answer is complete.
const DONE: &str = "[DONE]";

/// A tool call that is still arriving.
#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Fields that we do not know, such as `extra_content` with a signature; they go back with the call.
    fields: Map<String, Value>,
}

/// Puts an answer together from its chunks.
pub(super) struct Assembler {
    /// The model, as its server knows it.
    model: String,
    /// Number of messages in the request: part of the ids that are minted.
    n_messages: usize,
    calls: Vec<PartialCall>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    spoke: bool,
    /// Bytes of text so far.
    n_bytes: u64,
    /// Fields of the message that its server wants back with its calls.
    fields: Map<String, Value>,
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

    fn end(mut self) -> Result<Vec<ModelEvent>, ModelError> {
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
        let mut events: Vec<ModelEvent> = Vec::with_capacity(self.calls.len() + 2);
        let mut items = Vec::new();
        if self.fields.contains_key("reasoning_details") {
            // They hold the same words, signed.
            self.fields.retain(|key, _| !key.starts_with("reasoning") || key == "reasoning_details");
        }
        if !self.fields.is_empty() {
            items.push(ProviderItem::Opaque { value: self.fields.into() });
        }
        items.push(ProviderItem::Text { bytes: self.n_bytes, fields: Map::new() });
        let mut ids: Vec<String> = Vec::new();
        for (idx, call) in self.calls.into_iter().enumerate() {
            if call.name.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name".to_owned()));
            }
            let mut id = call.id;
            let mut n = idx;
            // A server may use such ids itself.
            while id.is_empty() || ids.contains(&id) {
                id = format!("call_{n_messages}_{n}");
                n += 1;
            }
            ids.push(id.clone());
            items.push(ProviderItem::Call { fields: call.fields });
            events.push(ModelEvent::ToolCall(ToolCall {
                id,
                name: call.name,
                arguments: answer::arguments_of(call.arguments),
            }));
        }
        // Only calls of tools have servers ask for what was given with them.
        let state = ProviderState::of(WireFormat::Openai, &self.model, items).filter(|_| !events.is_empty());
        events.extend(state.map(|state| ModelEvent::State(Box::new(state))));
        events.push(ModelEvent::Done { finish, usage: self.usage, quotes: false });
        Ok(events)
    }
}

impl Assembler {
    pub(super) fn new(model: &str, n_messages: usize) -> Self {
        Self {
            model: model.to_owned(),
            n_messages,
            calls: Vec::new(),
            finish: None,
            usage: None,
            spoke: false,
            n_bytes: 0,
            fields: Map::new(),
            marked: false,
        }
    }

    /// Takes in one chunk: the data of an event, or a whole body. The two are the same but for `delta` and `message`.
    fn take(&mut self, data: &[u8]) -> Result<Vec<ModelEvent>, ModelError> {
        let chunk: Value = serde_json::from_slice(data).map_err(|error| failure::malformed(&error, data))?;
        if let Some(error) = error_in(&chunk) {
            return Err(failure::from_object(error));
        }
        if let Some(usage) = chunk.get("usage").and_then(usage_of) {
            self.usage = Some(usage);
        }
        let counted = self.usage.filter(|_| chunk.get("usage").is_some());
        let choices = match chunk.get("choices") {
            Some(Value::Array(choices)) => choices.as_slice(),
            Some(Value::Null) | None => &[],
            Some(_) => return Err(ModelError::Protocol("a chunk is no chat completion".to_owned())),
        };
        let mut events = Vec::new();
        for choice in choices.iter().filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            let delta = ["delta", "message"].into_iter().find_map(|key| choice.get(key)?.as_object());
            if let Some(delta) = delta {
                self.take_delta(delta, &mut events);
            }
            if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
                self.finish = Some(finish_of(reason)?);
            }
        }
        events.extend(counted.map(ModelEvent::Usage));
        Ok(events)
    }

    fn take_delta(&mut self, delta: &Map<String, Value>, events: &mut Vec<ModelEvent>) {
        let words = |key: &str| delta.get(key).map(words_of).filter(|text| !text.is_empty());
        events.extend(words("reasoning_content").or_else(|| words("reasoning")).map(ModelEvent::Reasoning));
        self.keep_fields(delta);
        for text in [words("content"), words("refusal")].into_iter().flatten() {
            self.spoke = true;
            self.n_bytes += text.len() as u64;
            events.push(ModelEvent::Text(text));
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        calls.enumerate().for_each(|(position, piece)| self.take_call(position, piece));
    }

    /// Keeps the fields that go back with the message. What comes in pieces is joined.
    fn keep_fields(&mut self, delta: &Map<String, Value>) {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(Value::String(piece)) = delta.get(key)
                && let Value::String(text) = self.fields.entry(key).or_insert_with(|| "".into())
            {
                text.push_str(piece);
            }
        }
        if let Some(Value::Array(pieces)) = delta.get("reasoning_details")
            && let Value::Array(details) =
                self.fields.entry("reasoning_details").or_insert_with(|| Value::Array(Vec::new()))
        {
            pieces.iter().for_each(|piece| join_detail(details, piece));
        }
        if let Some(extra @ Value::Object(_)) = delta.get("extra_content") {
            self.fields.insert("extra_content".to_owned(), extra.clone());
        }
    }

    /// Joins a piece to its call: by index, else by id, else by place. A known index with another id begins a new
    /// call: some servers number all calls 0.
    fn take_call(&mut self, position: usize, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().filter(|id| !id.is_empty());
        let name = piece["function"]["name"].as_str().unwrap_or_default();
        let found = match (index, id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == index),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id == id),
            (None, None) if name.is_empty() => Some(position).filter(|&idx| idx < self.calls.len()),
            (None, None) => None,
        };
        let found = found.filter(|&idx| {
            let call = &self.calls[idx];
            id.is_none_or(|id| call.id.is_empty() || call.id == id || name.is_empty())
        });
        let idx = found.unwrap_or_else(|| {
            self.calls.push(PartialCall { index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[idx];
        if let Some(id) = id {
            id.clone_into(&mut call.id);
        }
        if call.name != name {
            call.name.push_str(name);
        }
        let known = |key: &str| matches!(key, "index" | "id" | "type" | "function");
        let unknown =
            piece.as_object().into_iter().flatten().filter(|(key, value)| !known(key) && !value.is_null());
        call.fields.extend(unknown.map(|(key, value)| (key.clone(), value.clone())));
        match &piece["function"]["arguments"] {
            Value::String(text) => call.arguments.push_str(text),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }
}

/// OpenRouter streams its details in pieces: those of one index and type are one, whose texts go on.
fn join_detail(details: &mut Vec<Value>, piece: &Value) {
    let goes_on = |last: &&mut Value| {
        !piece["index"].is_null() && last["index"] == piece["index"] && last["type"] == piece["type"]
    };
    let Some(Value::Object(last)) = details.last_mut().filter(goes_on) else {
        details.push(piece.clone());
        return;
    };
    for (key, value) in piece.as_object().into_iter().flatten() {
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            (Some(_), Value::Null) => {}
            _ => drop(last.insert(key.clone(), value.clone())),
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
fn words_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
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
