//! Events out of the pieces of an answer: words at once, tool calls when they are whole.
//! <https://developers.openai.com/api/reference/resources/responses/streaming-events>
//!
//! An answer is a list of items. Each is announced, goes on in pieces, and is told as a whole when it is done; at the end the
//! whole answer is told once more. Some servers leave out one or the other.

use std::collections::HashSet;

use serde_json::{Map, Value};

use cairn_types::message::ToolCall;
use cairn_types::model::{Finish, ModelError, ModelEvent, Usage};
use cairn_types::provider_state::{ProviderItem, ProviderState};
use cairn_types::wire::format::WireFormat;
use cairn_types::wire::sse::ServerEvent;

use crate::answer::{self, Assemble, Ended, Progress};
use crate::failure;
use crate::json::{self, Joined};

/// Stands between two messages, and between two parts of a summary of reasoning.
const GAP: &str = "\n\n";

/// Fields of a message that we read; others go back with it.
const MESSAGE_FIELDS: [&str; 3] = ["type", "role", "content"];

/// Fields of a call that we read; others go back with it.
const CALL_FIELDS: [&str; 4] = ["type", "call_id", "name", "arguments"];

/// Puts an answer together from its pieces.
pub(crate) struct Assembler {
    /// The model, as its server knows it.
    model: String,
    /// Number of messages in the request: part of the ids that are minted.
    n_messages: usize,
    /// In the order in which they came.
    items: Vec<Item>,
    /// The piece that is read has halves of characters.
    has_halves: bool,
    /// Words that nothing told before the end.
    rest: Vec<ModelEvent>,
    /// How it ended.
    finish: Option<Finish>,
    /// The model declined to answer.
    refused: bool,
    usage: Option<Usage>,
}

/// An item of an answer.
struct Item {
    /// Its place, where the server says it.
    index: Option<u64>,
    /// What the server said of it last.
    value: Value,
    /// Bytes of its words that were passed on.
    n_bytes: usize,
    /// Bytes of the gap before them.
    n_gap: usize,
    arguments: String,
    /// Joins its text or arguments.
    joined: Joined,
    is_done: bool,
}

impl Item {
    fn is(&self, kind: &str) -> bool {
        self.value["type"] == kind
    }

    /// Fields that we do not read.
    fn fields(&self, known: &[&str]) -> Map<String, Value> {
        let fields = self.value.as_object().into_iter().flatten().filter(|_| self.is_done);
        let unknown = fields.filter(|(key, value)| !known.contains(&key.as_str()) && !value.is_null());
        unknown.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Assemble for Assembler {
    fn take_in(&mut self, event: &ServerEvent) -> Result<Progress, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Progress::End);
        }
        let data = event.data.as_bytes();
        let parsed = json::parse(data).map_err(|error| failure::malformed(&error, data))?;
        let mut piece = parsed.value;
        self.has_halves = parsed.has_halves;
        if self.has_halves && piece.get("delta").is_none() {
            json::settle(&mut piece);
        }
        let kind = piece["type"].as_str().unwrap_or(&event.name);
        if kind == "error" || !piece["error"].is_null() {
            return Err(failure::from_object(&piece));
        }
        let delta = piece["delta"].as_str().unwrap_or_default();
        let events = match kind {
            "response.created" | "response.queued" | "response.in_progress" | "keepalive" | "ping" => {
                return Ok(Progress::Alive);
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.rest = self.finish(&kind["response.".len()..], &piece["response"])?;
                return Ok(Progress::End);
            }
            "response.output_item.added" => {
                self.open(piece["output_index"].as_u64(), &piece["item"]);
                Vec::new()
            }
            "response.output_item.done" => {
                let index = piece["output_index"].as_u64();
                self.close(self.find(index, &piece["item"]["id"]), index, &piece["item"])
            }
            "response.output_text.delta" => self.say(&piece, delta),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(&piece, delta)
            }
            "response.reasoning_summary_part.added" if piece["summary_index"].as_u64() > Some(0) => {
                self.reason(&piece, GAP)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reason(&piece, delta)
            }
            "response.function_call_arguments.delta" => {
                if let Some(idx) = self.of(&piece) {
                    let item = &mut self.items[idx];
                    item.arguments.push_str(&item.joined.next(delta, self.has_halves));
                }
                Vec::new()
            }
            // Ends that the end of the item says once more, and whatever the format may get.
            _ => Vec::new(),
        };
        Ok(Progress::Piece(events))
    }

    fn whole(&mut self, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let response: Value =
            json::parse_whole(body).map_err(|error| failure::malformed(&error, body.as_bytes()))?;
        if !response["error"].is_null() {
            return Err(failure::from_object(&response["error"]));
        }
        if !response["output"].is_array() {
            return Err(ModelError::Protocol("the answer is no response: it has no output".to_owned()));
        }
        self.finish(response["status"].as_str().unwrap_or("completed"), &response)
    }

    fn is_marked(&self) -> bool {
        self.finish.is_some()
    }

    /// Servers of this API all mark the end.
    fn end(mut self, _ended: Ended) -> Result<Vec<ModelEvent>, ModelError> {
        let Some(finish) = self.finish else {
            return Err(ModelError::Protocol("the stream ended before the answer did".to_owned()));
        };
        let (mut events, usage) = (std::mem::take(&mut self.rest), self.usage);
        let calls = self.calls(finish)?;
        let finish = match finish {
            Finish::Stop if self.refused => Finish::Refusal,
            Finish::Stop if !calls.is_empty() => Finish::ToolCalls,
            finish => finish,
        };
        // Only calls go on with the turn in which items have to go back.
        let state = if calls.is_empty() { None } else { self.state() };
        events.extend(calls.into_iter().map(ModelEvent::ToolCall));
        events.extend(state.map(|state| ModelEvent::State(Box::new(state))));
        events.push(ModelEvent::Done { finish, usage, quotes: false });
        Ok(events)
    }
}

impl Assembler {
    pub(crate) fn new(model: &str, n_messages: usize) -> Self {
        Self {
            model: model.to_owned(),
            n_messages,
            items: Vec::new(),
            has_halves: false,
            rest: Vec::new(),
            finish: None,
            refused: false,
            usage: None,
        }
    }

    /// The item of a place, or else of an id.
    fn find(&self, index: Option<u64>, id: &Value) -> Option<usize> {
        let of_index = self.items.iter().rposition(|item| index.is_some() && item.index == index);
        of_index.or_else(|| self.items.iter().rposition(|item| !id.is_null() && item.value["id"] == *id))
    }

    /// The item that a piece belongs to.
    fn of(&self, piece: &Value) -> Option<usize> {
        self.find(piece["output_index"].as_u64(), &piece["item_id"])
    }

    fn open(&mut self, index: Option<u64>, value: &Value) -> usize {
        let value = value.clone();
        self.items.push(Item {
            index,
            value,
            n_bytes: 0,
            n_gap: 0,
            arguments: String::new(),
            joined: Joined::default(),
            is_done: false,
        });
        self.items.len() - 1
    }

    /// Takes in an item as a whole; what was not told in pieces is told now.
    fn close(&mut self, at: Option<usize>, index: Option<u64>, value: &Value) -> Vec<ModelEvent> {
        let idx = match at {
            Some(idx) if !self.items[idx].is_done => idx,
            Some(idx) if self.items[idx].value["id"] == value["id"] => return Vec::new(),
            // Some servers give all of them one place.
            Some(_) | None => self.open(index, value),
        };
        let item = &mut self.items[idx];
        (item.value, item.is_done, item.joined) = (value.clone(), true, Joined::default());
        match value["type"].as_str() {
            Some("message") => {
                self.refused |= parts(&value["content"]).any(|part| part["type"] == "refusal");
                let words = words_of(&value["content"], "");
                let rest = words.get(self.items[idx].n_bytes..).unwrap_or_default();
                self.speak(idx, rest)
            }
            Some("reasoning") if item.n_bytes == 0 => {
                let keys = ["summary", "content"].iter();
                let words = keys.map(|key| words_of(&value[*key], GAP)).find(|words| !words.is_empty());
                words.map(ModelEvent::Reasoning).into_iter().collect()
            }
            Some("function_call") => {
                match &value["arguments"] {
                    Value::Null => {}
                    Value::String(text) if text.is_empty() => {}
                    Value::String(text) => item.arguments.clone_from(text),
                    whole => item.arguments = whole.to_string(),
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Words of a message go on.
    fn say(&mut self, piece: &Value, words: &str) -> Vec<ModelEvent> {
        let unannounced = || serde_json::json!({"type": "message", "id": piece["item_id"]});
        let idx = self.of(piece);
        let idx = idx.unwrap_or_else(|| self.open(piece["output_index"].as_u64(), &unannounced()));
        self.speak(idx, words)
    }

    fn speak(&mut self, idx: usize, words: &str) -> Vec<ModelEvent> {
        if words.is_empty() {
            return Vec::new();
        }
        let is_next = self.items[idx].n_bytes == 0
            && self.items.iter().any(|item| item.is("message") && item.n_bytes > 0);
        let item = &mut self.items[idx];
        let words = item.joined.next(words, self.has_halves).into_owned();
        if words.is_empty() {
            return Vec::new();
        }
        item.n_bytes += words.len();
        let words = ModelEvent::Text(words);
        if !is_next {
            return vec![words];
        }
        item.n_gap = GAP.len();
        vec![ModelEvent::Text(GAP.to_owned()), words]
    }

    fn reason(&mut self, piece: &Value, words: &str) -> Vec<ModelEvent> {
        if words.is_empty() {
            return Vec::new();
        }
        let Some(idx) = self.of(piece) else { return vec![ModelEvent::Reasoning(words.to_owned())] };
        let item = &mut self.items[idx];
        let words = item.joined.next(words, self.has_halves).into_owned();
        item.n_bytes += words.len();
        if words.is_empty() { Vec::new() } else { vec![ModelEvent::Reasoning(words)] }
    }

    /// Takes in the end of the answer with all that is known of it; what was not told before is told now.
    fn finish(&mut self, status: &str, response: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        self.finish = Some(match status {
            "completed" => Finish::Stop,
            "incomplete" if response["incomplete_details"]["reason"] == "content_filter" => {
                Finish::ContentFilter
            }
            "incomplete" => Finish::Length,
            "failed" => return Err(failure::from_object(&response["error"])),
            other => {
                return Err(ModelError::Protocol(format!("the answer is {}", failure::shorten(other))));
            }
        });
        self.usage = usage_of(&response["usage"]).or(self.usage);
        let mut events = Vec::new();
        let has_places = self.items.iter().all(|item| item.index.is_some());
        for (position, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
            let found = self.find(Some(position), &item["id"]);
            if found.is_some() || has_places {
                events.extend(self.close(found, Some(position), item));
            }
        }
        Ok(events)
    }

    fn calls(&mut self, finish: Finish) -> Result<Vec<ToolCall>, ModelError> {
        let mut ids = HashSet::new();
        let mut calls = Vec::new();
        for item in self.items.iter_mut().filter(|item| item.is("function_call")) {
            let text = |key: &str| item.value[key].as_str().unwrap_or_default().to_owned();
            let (name, mut id) = (text("name"), text("call_id"));
            if name.is_empty() {
                return Err(ModelError::Protocol("a tool call has no name".to_owned()));
            }
            let mut n = calls.len();
            // A server may use such ids itself.
            while id.is_empty() || !ids.insert(id.clone()) {
                id = format!("call_{}_{n}", self.n_messages);
                n += 1;
            }
            let arguments = answer::arguments_of(std::mem::take(&mut item.arguments), finish);
            calls.push(ToolCall { id, name, arguments });
        }
        Ok(calls)
    }

    /// What goes back. Behind the last call nothing follows that an item of the server's own could belong to.
    fn state(self) -> Option<ProviderState> {
        let mut items = Vec::new();
        for item in self.items {
            let text = |n_bytes: usize, fields| ProviderItem::Text { bytes: n_bytes as u64, fields };
            if item.is("message") {
                items.extend((item.n_gap > 0).then(|| text(item.n_gap, Map::new())));
                items.push(text(item.n_bytes, item.fields(&MESSAGE_FIELDS)));
            } else if item.is("function_call") {
                items.push(ProviderItem::Call { fields: item.fields(&CALL_FIELDS) });
            } else if item.is_done {
                items.push(ProviderItem::Opaque { value: item.value });
            }
        }
        while matches!(items.last(), Some(ProviderItem::Opaque { .. })) {
            items.pop();
        }
        ProviderState::of(WireFormat::Responses, &self.model, items)
    }
}

fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

/// Words of a content, or of a summary.
fn words_of(content: &Value, between: &str) -> String {
    if let Value::String(text) = content {
        return text.clone();
    }
    let words = |part: &'_ Value| {
        ["text", "refusal"].into_iter().find_map(|key| part[key].as_str().map(str::to_owned))
    };
    parts(content).filter_map(words).collect::<Vec<_>>().join(between)
}

/// Tokens as the server counts them; `None` when it says nothing of worth.
fn usage_of(usage: &Value) -> Option<Usage> {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let input_tokens = number("/input_tokens").filter(|&tokens| tokens > 0)?;
    let of_input = |key: &str| number(&format!("/input_tokens_details/{key}")).unwrap_or(0);
    Some(Usage {
        input_tokens,
        output_tokens: number("/output_tokens").unwrap_or(0),
        cached_tokens: of_input("cached_tokens"),
        cache_write_tokens: of_input("cache_write_tokens"),
    })
}
