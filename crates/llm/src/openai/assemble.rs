//! Events out of the chunks of an answer: words at once, tool calls when they are whole.

use serde_json::{Map, Value};

use cairn_types::model::{Finish, ModelError, ModelEvent, Usage};
use cairn_types::provider_state::{ProviderItem, ProviderState};
use cairn_types::wire::format::WireFormat;
use cairn_types::wire::sse::ServerEvent;

use crate::answer::{Assemble, Ended, Progress};
use crate::failure;
use crate::json::{self, Joined};

use super::calls::PartialCalls;

/// Says that the answer is complete.
const DONE: &str = "[DONE]";

/// Puts an answer together from its chunks.
pub(crate) struct Assembler {
    /// The model, as its server knows it.
    model: String,
    /// Number of messages in the request: part of the ids that are minted.
    n_messages: usize,
    calls: PartialCalls,
    text: Joined,
    reasoning: Joined,
    /// A chunk had halves of characters.
    had_halves: bool,
    finish: Option<Finish>,
    usage: Option<Usage>,
    spoke: bool,
    /// Bytes of text so far.
    n_bytes: u64,
    /// Fields of the message that its server wants back with its calls.
    fields: Map<String, Value>,
    /// The words came as a refusal: <https://platform.openai.com/docs/guides/structured-outputs#refusals>
    declined: bool,
    /// The server said `[DONE]`, or the answer came whole.
    marked: bool,
}

impl Assemble for Assembler {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
        if event.data.trim() == DONE {
            self.marked = true;
            return Ok(Progress::End);
        }
        if event.name == "error"
            && let Some(refusal) = failure::of_event(event)
        {
            return Err(refusal.error);
        }
        self.take(event.data.as_bytes()).map(Progress::Piece)
    }

    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
        self.marked = true;
        self.take(body.as_bytes())
    }

    fn is_marked(&self) -> bool {
        self.marked || self.finish.is_some()
    }

    fn end(mut self, ended: Ended) -> Result<Vec<ModelEvent>, ModelError> {
        let is_whole = self.is_marked() || (ended == Ended::Whole && !self.calls.are_open());
        if !is_whole {
            return Err(ModelError::Protocol("the stream ended before the answer did".to_owned()));
        }
        if self.finish.is_none() && !self.spoke && self.calls.is_empty() {
            return Err(ModelError::Protocol("the answer is empty".to_owned()));
        }
        let finish = match self.finish {
            Some(Finish::Stop) | None if !self.calls.is_empty() => Finish::ToolCalls,
            Some(Finish::ToolCalls) if self.calls.is_empty() && self.spoke => Finish::Stop,
            Some(Finish::ToolCalls) if self.calls.is_empty() => {
                return Err(ModelError::Protocol("the answer announces tool calls and has none".to_owned()));
            }
            // The reason for a refusal is `stop`, like that of any other answer.
            Some(Finish::Stop) | None if self.declined => Finish::Refusal,
            finish => finish.unwrap_or_default(),
        };
        let mut events: Vec<ModelEvent> =
            self.reasoning.end().map(|half| ModelEvent::Reasoning(half.into())).into_iter().collect();
        if let Some(half) = self.text.end() {
            self.n_bytes += half.len_utf8() as u64;
            events.push(ModelEvent::Text(half.into()));
        }
        let has_calls = !self.calls.is_empty();
        let mut items = Vec::new();
        if self.fields.contains_key("reasoning_details") {
            // They hold the same words, signed.
            self.fields.retain(|key, _| !key.starts_with("reasoning") || key == "reasoning_details");
        }
        if !self.fields.is_empty() {
            let mut value = Value::from(self.fields);
            if self.had_halves {
                json::settle(&mut value);
            }
            items.push(ProviderItem::Opaque { value });
        }
        items.push(ProviderItem::Text { bytes: self.n_bytes, fields: Map::new() });
        for (call, fields) in self.calls.end(self.n_messages, finish)? {
            items.push(ProviderItem::Call { fields });
            events.push(ModelEvent::ToolCall(call));
        }
        // Only calls of tools have servers ask for what was given with them.
        let state = ProviderState::of(WireFormat::Openai, &self.model, items).filter(|_| has_calls);
        events.extend(state.map(|state| ModelEvent::State(Box::new(state))));
        events.push(ModelEvent::Done { finish, usage: self.usage, quotes: false });
        Ok(events)
    }
}

impl Assembler {
    pub(crate) fn new(model: &str, n_messages: usize) -> Self {
        Self {
            model: model.to_owned(),
            n_messages,
            calls: PartialCalls::default(),
            text: Joined::default(),
            reasoning: Joined::default(),
            had_halves: false,
            finish: None,
            usage: None,
            spoke: false,
            n_bytes: 0,
            fields: Map::new(),
            declined: false,
            marked: false,
        }
    }

    /// Takes in one chunk: the data of an event, or a whole body. The two are the same but for `delta` and `message`.
    fn take(&mut self, data: &[u8]) -> Result<Vec<ModelEvent>, ModelError> {
        let parsed = json::parse(data).map_err(|error| failure::malformed(&error, data))?;
        let chunk = &parsed.value;
        self.had_halves |= parsed.has_halves;
        if let Some(error) = failure::error_in(chunk) {
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
                self.take_delta(delta, parsed.has_halves, &mut events);
            }
            if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
                self.finish = Some(finish_of(reason)?);
            }
        }
        events.extend(counted.map(ModelEvent::Usage));
        Ok(events)
    }

    fn take_delta(&mut self, delta: &Map<String, Value>, has_halves: bool, events: &mut Vec<ModelEvent>) {
        let words = |key: &str| delta.get(key).map(words_of).filter(|text| !text.is_empty());
        if let Some(words) = words("reasoning_content").or_else(|| words("reasoning")) {
            let words = self.reasoning.next(&words, has_halves);
            events.extend((!words.is_empty()).then(|| ModelEvent::Reasoning(words.into_owned())));
        }
        self.keep_fields(delta);
        let refusal = words("refusal");
        self.declined |= refusal.is_some();
        for words in [words("content"), refusal].into_iter().flatten() {
            self.spoke = true;
            let words = self.text.next(&words, has_halves);
            self.n_bytes += words.len() as u64;
            events.extend((!words.is_empty()).then(|| ModelEvent::Text(words.into_owned())));
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        self.calls.take(calls.map_or(&[], Vec::as_slice), has_halves);
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
        "refusal" => Ok(Finish::Refusal),
        // Proxies pass these on as Anthropic names them.
        "model_context_window_exceeded" => Ok(Finish::ContextWindow),
        "pause_turn" => Ok(Finish::Pause),
        "error" => Err(ModelError::Protocol("the answer ended with an error that is not told".to_owned())),
        _ => Ok(Finish::Stop),
    }
}

/// Tokens as the server counts them; `None` when it says nothing of worth.
fn usage_of(usage: &Value) -> Option<Usage> {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let input_tokens = number("/prompt_tokens")?;
    // Some servers count only what their cache lacked: these may be more.
    let cached_tokens = number("/prompt_tokens_details/cached_tokens")
        .or_else(|| number("/prompt_cache_hit_tokens"))
        .unwrap_or(0);
    if input_tokens == 0 && cached_tokens == 0 {
        return None;
    }
    let cache_write_tokens = number("/prompt_tokens_details/cache_write_tokens").unwrap_or(0);
    let cache_write_tokens = match input_tokens.checked_sub(cached_tokens) {
        Some(rest) => cache_write_tokens.min(rest),
        None => cache_write_tokens,
    };
    let output_tokens = number("/completion_tokens").unwrap_or(0);
    Some(Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens })
}
