//! Events out of the pieces of an answer: words at once, tool calls when they are whole.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use cairn_types::ids::TextId;
use cairn_types::message::ToolCall;
use cairn_types::model::{ChatRequest, Finish, ModelError, ModelEvent, Usage};
use cairn_types::provider_state::{ProviderItem, ProviderState, prefix_id};
use cairn_types::wire::format::WireFormat;
use cairn_types::wire::sse::ServerEvent;

use crate::answer::{self, Assemble, Ended, Progress};
use crate::failure;
use crate::json::{self, Joined};

/// Tokens as the server counts them; `input` are those that the cache neither held nor took.
#[derive(Default)]
struct Counts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// A tool call that is still arriving.
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    input: Option<Value>,
    json: String,
    joined: Joined,
}

/// Puts an answer together from its pieces.
#[derive(Default)]
pub(crate) struct Assembler {
    /// The model, as its server knows it.
    model: String,
    /// The request that it answers: signatures hold behind that alone.
    prefix: Option<TextId>,
    /// The blocks so far with their indices, in order.
    items: Vec<(u64, ProviderItem)>,
    calls: Vec<PartialCall>,
    text: Joined,
    reasoning: Joined,
    /// The piece under way, or one before it, has halves of characters.
    has_halves: bool,
    had_halves: bool,
    finish: Option<Finish>,
    counts: Counts,
    spoke: bool,
    ended: bool,
}

impl Assemble for Assembler {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
        if event.name == "error"
            && let Some(refusal) = failure::of_event(event)
        {
            return Err(refusal.error);
        }
        let piece = self.parse(event.data.as_bytes())?;
        let kind = piece["type"].as_str().unwrap_or(&event.name);
        let index = piece["index"].as_u64().unwrap_or_default();
        match kind {
            "ping" => return Ok(Progress::Alive),
            "message_stop" => {
                self.ended = true;
                return Ok(Progress::End);
            }
            "message_start" => {
                let mut events = self.begin(&piece["message"]);
                events.extend(self.usage().map(ModelEvent::Usage));
                return Ok(Progress::Piece(events));
            }
            _ => {}
        }
        self.count(&piece["usage"]);
        let event = match kind {
            "content_block_start" => self.open(index, &piece["content_block"]),
            "content_block_delta" | "message_delta" => self.go_on(index, &piece["delta"]),
            // The end of a block, and whatever the format may get.
            _ => None,
        };
        Ok(Progress::Piece(event.into_iter().collect()))
    }

    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let message = self.parse(body.as_bytes())?;
        self.ended = true;
        Ok(self.begin(&message))
    }

    fn is_marked(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    fn end(mut self, ended: Ended) -> Result<Vec<ModelEvent>, ModelError> {
        let is_whole = self.is_marked() || (ended == Ended::Whole && !self.is_within_call());
        if !is_whole {
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
            finish => finish.unwrap_or_default(),
        };
        let usage = self.usage();
        let mut events = self.last_halves();
        let n_calls = self.calls.len();
        for (idx, mut call) in self.calls.into_iter().enumerate() {
            call.json.extend(call.joined.end());
            if call.name.is_empty() || call.id.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name or no id".to_owned()));
            }
            let arguments = match call.input {
                // An input that came with its block; nothing says whether a cut let it be whole, unless another follows.
                Some(input) if call.json.trim().is_empty() && (finish.is_whole() || idx + 1 < n_calls) => {
                    input
                }
                _ => answer::arguments_of(call.json, finish),
            };
            events.push(ModelEvent::ToolCall(ToolCall { id: call.id, name: call.name, arguments }));
        }
        let mut items: Vec<ProviderItem> = self.items.into_iter().map(|(_, item)| item).collect();
        for item in items.iter_mut().filter(|_| self.had_halves) {
            if let ProviderItem::Opaque { value } = item {
                json::settle(value);
            }
        }
        // Only calls go on with the turn in which blocks have to go back.
        let state = ProviderState::of(WireFormat::Anthropic, &self.model, items).filter(|_| n_calls > 0);
        let state = state.map(|state| ProviderState { prefix: self.prefix, ..state });
        events.extend(state.map(|state| ModelEvent::State(Box::new(state))));
        events.push(ModelEvent::Done { finish, usage, quotes: false });
        Ok(events)
    }
}

/// Fields of a call that we read; others go back with it.
const CALL_FIELDS: [&str; 5] = ["type", "id", "name", "input", "cache_control"];

impl Assembler {
    pub(crate) fn new(model: &str, request: &ChatRequest) -> Self {
        Self { model: model.to_owned(), prefix: Some(prefix_id(request)), ..Self::default() }
    }

    fn parse(&mut self, data: &[u8]) -> Result<Value, ModelError> {
        let parsed = json::parse(data).map_err(|error| failure::malformed(&error, data))?;
        self.has_halves = parsed.has_halves;
        self.had_halves |= parsed.has_halves;
        match failure::error_in(&parsed.value) {
            Some(error) => Err(failure::from_object(error)),
            None => Ok(parsed.value),
        }
    }

    /// The halves of characters to which the other one never came.
    fn last_halves(&mut self) -> Vec<ModelEvent> {
        let mut events: Vec<ModelEvent> =
            self.reasoning.end().map(|half| ModelEvent::Reasoning(half.into())).into_iter().collect();
        if let Some(half) = self.text.end() {
            events.push(ModelEvent::Text(half.into()));
            let texts = self.items.iter_mut().rev().find_map(|(_, item)| match item {
                ProviderItem::Text { bytes, .. } => Some(bytes),
                _ => None,
            });
            texts.into_iter().for_each(|bytes| *bytes += half.len_utf8() as u64);
        }
        events
    }

    /// The arguments of a call have begun and not ended.
    fn is_within_call(&self) -> bool {
        let is_open =
            |json: &str| !json.trim().is_empty() && serde_json::from_str::<IgnoredAny>(json).is_err();
        self.calls.iter().any(|call| is_open(&call.json))
    }

    /// A whole answer, or what a stream says of it first.
    fn begin(&mut self, message: &Value) -> Vec<ModelEvent> {
        self.count(&message["usage"]);
        self.stop(&message["stop_reason"]);
        let blocks = (0..).zip(message["content"].as_array().into_iter().flatten());
        blocks.filter_map(|(index, block)| self.open(index, block)).collect()
    }

    /// Begins a block. Reasoning is kept as it is, also where it is empty or encrypted.
    fn open(&mut self, index: u64, block: &Value) -> Option<ModelEvent> {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "text" => {
                self.items.push((index, ProviderItem::Text { bytes: 0, fields: Map::new() }));
                self.say(index, text("text"))
            }
            "thinking" | "redacted_thinking" => {
                self.items.push((index, ProviderItem::Opaque { value: block.clone() }));
                self.think(text("thinking"))
            }
            "tool_use" => {
                let fields = block.as_object().into_iter().flatten();
                let unknown = fields.filter(|(key, _)| !CALL_FIELDS.contains(&key.as_str()));
                let fields = unknown.map(|(key, value)| (key.clone(), value.clone())).collect();
                self.items.push((index, ProviderItem::Call { fields }));
                self.calls.push(PartialCall {
                    index,
                    id: text("id").to_owned(),
                    name: text("name").to_owned(),
                    input: block.get("input").cloned(),
                    json: String::new(),
                    joined: Joined::default(),
                });
                None
            }
            _ => None,
        }
    }

    fn go_on(&mut self, index: u64, delta: &Value) -> Option<ModelEvent> {
        self.stop(&delta["stop_reason"]);
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        match text("type") {
            "text_delta" => self.say(index, text("text")),
            "thinking_delta" => {
                self.join(index, "thinking", text("thinking"));
                self.think(text("thinking"))
            }
            "signature_delta" => {
                self.join(index, "signature", text("signature"));
                None
            }
            "input_json_delta" => {
                // Some servers number the pieces of a call otherwise than its beginning.
                let newest = self.calls.len().checked_sub(1)?;
                let of_index = self.calls.iter().rposition(|call| call.index == index);
                let call = &mut self.calls[of_index.unwrap_or(newest)];
                call.json.push_str(&call.joined.next(text("partial_json"), self.has_halves));
                None
            }
            _ => None,
        }
    }

    /// A field of a block goes on.
    fn join(&mut self, index: u64, key: &str, more: &str) {
        let Some((_, ProviderItem::Opaque { value })) = self.item(index) else { return };
        match value.get_mut(key) {
            Some(Value::String(text)) => text.push_str(more),
            _ => value[key] = more.into(),
        }
    }

    fn item(&mut self, index: u64) -> Option<&mut (u64, ProviderItem)> {
        self.items.iter_mut().rev().find(|(of, _)| *of == index)
    }

    fn say(&mut self, index: u64, text: &str) -> Option<ModelEvent> {
        self.spoke |= !text.is_empty();
        let text = self.text.next(text, self.has_halves);
        if let Some((_, ProviderItem::Text { bytes, .. })) = self.item(index) {
            *bytes += text.len() as u64;
        }
        (!text.is_empty()).then(|| ModelEvent::Text(text.into_owned()))
    }

    fn think(&mut self, text: &str) -> Option<ModelEvent> {
        let text = self.reasoning.next(text, self.has_halves);
        (!text.is_empty()).then(|| ModelEvent::Reasoning(text.into_owned()))
    }

    fn stop(&mut self, reason: &Value) {
        let Some(reason) = reason.as_str() else { return };
        self.finish = Some(match reason {
            "tool_use" => Finish::ToolCalls,
            // https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
            "max_tokens" => Finish::Length,
            "model_context_window_exceeded" => Finish::ContextWindow,
            "pause_turn" => Finish::Pause,
            "refusal" => Finish::Refusal,
            _ => Finish::Stop,
        });
    }

    /// Later counts take the place of earlier ones.
    fn count(&mut self, usage: &Value) {
        for (key, count) in [
            ("input_tokens", &mut self.counts.input),
            ("output_tokens", &mut self.counts.output),
            ("cache_read_input_tokens", &mut self.counts.cache_read),
            ("cache_creation_input_tokens", &mut self.counts.cache_write),
        ] {
            *count = usage[key].as_u64().unwrap_or(*count);
        }
    }

    /// Tokens of the whole request, those read from and written to the cache among them.
    fn usage(&self) -> Option<Usage> {
        let Counts { input, output: output_tokens, cache_read, cache_write } = self.counts;
        let input_tokens = input.saturating_add(cache_read).saturating_add(cache_write);
        let (cached_tokens, cache_write_tokens) = (cache_read, cache_write);
        (input_tokens > 0).then_some(Usage { input_tokens, output_tokens, cached_tokens, cache_write_tokens })
    }
}
