//! Events out of the pieces of an answer: words at once, tool calls when they are whole.

use serde::Deserialize;
use serde_json::Value;

use cairn_core::message::ToolCall;
use cairn_core::model::{Finish, ModelError, ModelEvent, Usage};
use cairn_core::sse::ServerEvent;

use crate::answer::{self, Assemble, Progress};
use crate::failure;

/// A block of an answer: at its start in a stream, or whole.
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    input: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// An event of a stream; which fields it has depends on its kind.
#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    content_block: Option<Block>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    usage: Option<Counts>,
}

/// A whole answer, or what a stream says of it first.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Counts>,
}

/// Tokens as the server counts them; `input_tokens` are those that the cache neither held nor took.
#[derive(Deserialize, Default, Clone, Copy)]
struct Counts {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

/// A tool call that is still arriving.
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    input: Option<Value>,
    json: String,
}

/// Puts an answer together from its pieces.
#[derive(Default)]
pub(super) struct Assembler {
    calls: Vec<PartialCall>,
    finish: Option<Finish>,
    counts: Counts,
    spoke: bool,
    ended: bool,
}

impl Assemble for Assembler {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
        let data = event.data.as_bytes();
        let parse = |error: serde_json::Error| malformed(&error, data);
        if event.name == "error" {
            let error = serde_json::from_str(&event.data).unwrap_or_else(|_| event.data.as_str().into());
            return Err(failure::from_object(&error));
        }
        let value: Value = serde_json::from_slice(data).map_err(parse)?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&event.name).to_owned();
        if kind == "error" || value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::from_object(&value));
        }
        match kind.as_str() {
            "ping" => Ok(Progress::Alive),
            "message_stop" => {
                self.ended = true;
                Ok(Progress::End)
            }
            "message_start" | "content_block_start" | "content_block_delta" | "message_delta" => {
                let piece: Piece = serde_json::from_value(value).map_err(parse)?;
                Ok(Progress::Piece(self.take(piece)))
            }
            // The end of a block, and whatever the format may get.
            _ => Ok(Progress::Piece(Vec::new())),
        }
    }

    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let parse = |error: serde_json::Error| malformed(&error, body.as_bytes());
        let value: Value = serde_json::from_str(body).map_err(parse)?;
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::from_object(&value));
        }
        let message: Message = serde_json::from_value(value).map_err(parse)?;
        self.ended = true;
        Ok(self.begin(message))
    }

    fn end(self) -> Result<Vec<ModelEvent>, ModelError> {
        if !self.ended {
            return Err(ModelError::Protocol("the stream ended before the answer did".to_owned()));
        }
        if self.finish.is_none() && !self.spoke && self.calls.is_empty() {
            return Err(ModelError::Protocol("the answer is empty".to_owned()));
        }
        let finish = match self.finish {
            Some(Finish::ToolCalls) if self.calls.is_empty() => {
                return Err(ModelError::Protocol("the answer announces tool calls and has none".to_owned()));
            }
            Some(Finish::Stop) | None if !self.calls.is_empty() => Finish::ToolCalls,
            finish => finish.unwrap_or(Finish::Stop),
        };
        let usage = self.usage();
        let mut events = Vec::with_capacity(self.calls.len() + 1);
        for call in self.calls {
            if call.name.is_empty() || call.id.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name or no id".to_owned()));
            }
            let arguments = match call.input {
                Some(input) if call.json.trim().is_empty() => input,
                _ => answer::arguments_of(call.json),
            };
            events.push(ModelEvent::ToolCall(ToolCall { id: call.id, name: call.name, arguments }));
        }
        events.push(ModelEvent::Done { finish, usage, quotes: false });
        Ok(events)
    }
}

impl Assembler {
    fn take(&mut self, piece: Piece) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        if let Some(message) = piece.message {
            events.extend(self.begin(message));
        }
        if let Some(usage) = piece.usage {
            self.count(usage);
        }
        if let Some(block) = piece.content_block {
            events.extend(self.open(piece.index, block));
        }
        if let Some(delta) = piece.delta {
            events.extend(self.go_on(piece.index, delta));
        }
        events
    }

    fn begin(&mut self, message: Message) -> Vec<ModelEvent> {
        if let Some(usage) = message.usage {
            self.count(usage);
        }
        self.stop(message.stop_reason.as_deref());
        let blocks = (0..).zip(message.content);
        blocks.filter_map(|(index, block)| self.open(index, block)).collect()
    }

    /// Begins a block. Those that only mean something to the server, such as reasoning that it hides, are passed over.
    fn open(&mut self, index: u64, block: Block) -> Option<ModelEvent> {
        match block.kind.as_str() {
            "text" => self.say(block.text),
            "thinking" => reasoning(block.thinking),
            "tool_use" => {
                self.calls.push(PartialCall {
                    index,
                    id: block.id.unwrap_or_default(),
                    name: block.name.unwrap_or_default(),
                    input: block.input,
                    json: String::new(),
                });
                None
            }
            _ => None,
        }
    }

    fn go_on(&mut self, index: u64, delta: Delta) -> Option<ModelEvent> {
        self.stop(delta.stop_reason.as_deref());
        match delta.kind.as_str() {
            "text_delta" => self.say(delta.text),
            "thinking_delta" => reasoning(delta.thinking),
            "input_json_delta" => {
                let call = self.calls.iter_mut().rev().find(|call| call.index == index)?;
                call.json.push_str(delta.partial_json.as_deref().unwrap_or_default());
                None
            }
            _ => None,
        }
    }

    fn say(&mut self, text: Option<String>) -> Option<ModelEvent> {
        let text = text.filter(|text| !text.is_empty())?;
        self.spoke = true;
        Some(ModelEvent::Text(text))
    }

    fn stop(&mut self, reason: Option<&str>) {
        let Some(reason) = reason else { return };
        self.finish = Some(match reason {
            "tool_use" => Finish::ToolCalls,
            // A paused turn is to be taken up again, which we never ask for: what there is, is cut off.
            "max_tokens" | "model_context_window_exceeded" | "pause_turn" => Finish::Length,
            "refusal" => Finish::ContentFilter,
            _ => Finish::Stop,
        });
    }

    /// Later counts take the place of earlier ones.
    fn count(&mut self, counts: Counts) {
        let Counts { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } =
            counts;
        let known = &mut self.counts;
        known.input_tokens = input_tokens.or(known.input_tokens);
        known.output_tokens = output_tokens.or(known.output_tokens);
        known.cache_read_input_tokens = cache_read_input_tokens.or(known.cache_read_input_tokens);
        known.cache_creation_input_tokens = cache_creation_input_tokens.or(known.cache_creation_input_tokens);
    }

    /// Tokens of the whole request, those read from and written to the cache among them.
    fn usage(&self) -> Option<Usage> {
        let cached_tokens = self.counts.cache_read_input_tokens.unwrap_or(0);
        let cache_write_tokens = self.counts.cache_creation_input_tokens.unwrap_or(0);
        let rest = self.counts.input_tokens.unwrap_or(0);
        let input_tokens = rest.saturating_add(cached_tokens).saturating_add(cache_write_tokens);
        let output_tokens = self.counts.output_tokens.unwrap_or(0);
        (input_tokens > 0).then_some(Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens })
    }
}

fn reasoning(text: Option<String>) -> Option<ModelEvent> {
    text.filter(|text| !text.is_empty()).map(ModelEvent::Reasoning)
}

fn malformed(error: &serde_json::Error, data: &[u8]) -> ModelError {
    failure::malformed(error, data, "is no message")
}
