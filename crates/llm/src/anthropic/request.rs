//! A request in the words of Anthropic's messages.
//!
//! Roles alternate there: neighbours of one role are blocks of one message. A block, once sent, is sent again byte for
//! byte; what is volatile is a block of its own at the end, or stands in the last result: words behind a result make
//! models end their answer, and servers that translate the format put them before it.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};

use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest, Purpose};
use cairn_types::provider_state::{Ordered, ProviderState};
use cairn_types::tool::defs::ToolDef;
use cairn_types::wire::format::Wire;

use crate::body::{Body, quoted};
use crate::breakpoints::{self, Breakpoints, Place};
use crate::call_ids::{CallIds, allowed};
use crate::phrases::{self, NO_WORDS};
use crate::remedy::Remedy;

const PICTURES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// How long the server keeps what it has read unless it is asked to keep it for an hour.
const SHORT_TTL: Duration = Duration::from_secs(300);

pub(crate) fn body(wire: &Wire, request: &ChatRequest) -> Body {
    let tools = wire.tools && !request.tools.is_empty();
    let calls = tools && !Remedy::CallsInWords.is_in(wire);
    let mut talk = Talk { images: wire.images, tools: calls, ..Talk::default() };
    let returns =
        |state: &ProviderState, is_open: bool| state.goes_back(wire, is_open) && !Remedy::NoState.is_in(wire);
    for (idx, message) in request.messages.iter().enumerate() {
        let is_open = idx >= request.turn_from;
        talk.take(message, is_open, |state| returns(state, is_open));
    }
    let mut system: Vec<Value> = request.system.iter().filter_map(|text| text_block(text)).collect();
    if matches!(request.purpose, Purpose::Reply { .. }) && !Remedy::NoBreakpoints.is_in(wire) {
        let mark = cache_mark(Duration::from_secs(wire.cache_ttl_secs));
        let n_left = talk.mark(&mark, wire.breakpoints);
        mark_system(&mut system, &mark, n_left);
    }
    let talk_lacks_thinking = talk.lacks_thinking;
    let mut body = json!({
        "model": wire.model,
        "max_tokens": request.max_output_tokens,
        "messages": talk.into_messages(),
        "stream": wire.stream,
    });
    if !system.is_empty() {
        body["system"] = system.into();
    }
    if tools && request.last_call {
        body["tool_choice"] = json!({"type": "none"});
    }
    let mut extra = Cow::Borrowed(&wire.extra);
    let is_manual = |thinking: &Value| thinking["type"] == "enabled";
    if talk_lacks_thinking && wire.extra.get("thinking").is_some_and(is_manual) {
        // With manual thinking each answer of the open turn that calls tools has to begin with its block.
        extra.to_mut().remove("thinking");
    }
    Body::new(body, &extra, tools.then_some((&request.tools, wire_tool)))
}

fn wire_tool(tool: &ToolDef, parameters: &str) -> String {
    let (name, description) = (quoted(&tool.name), quoted(&tool.description));
    format!(r#"{{"description":{description},"input_schema":{parameters},"name":{name}}}"#)
}

/// What tells the server to keep all up to a block in its cache.
fn cache_mark(ttl: Duration) -> Value {
    if ttl > SHORT_TTL { json!({"type": "ephemeral", "ttl": "1h"}) } else { json!({"type": "ephemeral"}) }
}

/// The end of the summaries has a breakpoint, and while there are some left the end of the system prompt, which covers the tools.
fn mark_system(system: &mut [Value], mark: &Value, n_left: usize) {
    let n_blocks = system.len();
    for (idx, block) in system.iter_mut().enumerate() {
        if idx + 1 == n_blocks || idx == 0 && n_left > 1 {
            block["cache_control"] = mark.clone();
        }
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
}

struct Block {
    speaker: Speaker,
    /// It changes from request to request.
    volatile: bool,
    value: Value,
}

impl Block {
    fn is_result(&self) -> bool {
        self.value["type"] == "tool_result"
    }

    fn place(&self) -> Place {
        match self.speaker {
            _ if self.volatile => Place::Volatile,
            Speaker::Assistant => Place::Model,
            Speaker::User if self.is_result() => Place::Result,
            Speaker::User => Place::Person,
        }
    }
}

/// The conversation on its way to the wire.
#[derive(Default)]
struct Talk {
    images: bool,
    tools: bool,
    blocks: Vec<Block>,
    ids: CallIds,
    /// An answer of the open turn calls tools and has no thinking that goes back.
    lacks_thinking: bool,
}

impl Talk {
    /// `is_open`: it is of the turn that the request goes on with. `returns`: whether what a provider gave goes back.
    fn take(&mut self, message: &ChatMessage, is_open: bool, returns: impl Fn(&ProviderState) -> bool) {
        match message {
            ChatMessage::User { parts } => self.user(parts),
            ChatMessage::Assistant { text, tool_calls, provider_state } => {
                let state = provider_state.as_deref().filter(|state| self.tools && returns(state));
                self.lacks_thinking |= is_open && self.tools && !tool_calls.is_empty() && state.is_none();
                self.assistant(text, tool_calls, state);
            }
            ChatMessage::Tool { call_id, text, images } => self.result(call_id, text, images),
            ChatMessage::Context { text } => self.context(text),
        }
    }

    fn say(&mut self, speaker: Speaker, value: Value) {
        self.blocks.push(Block { speaker, volatile: false, value });
    }

    /// What is volatile. The last result holds it, where there is one; no breakpoint stands on that result then.
    fn context(&mut self, text: &str) {
        let Some(value) = text_block(text) else { return };
        match self.blocks.last_mut().filter(|last| last.is_result()) {
            Some(result) => {
                let mut parts = match result.value["content"].take() {
                    Value::Array(parts) => parts,
                    words => vec![json!({"type": "text", "text": words})],
                };
                // Some servers join the texts of a result without anything between them.
                parts.push(json!({"type": "text", "text": format!("\n\n{text}")}));
                result.value["content"] = parts.into();
                result.volatile = true;
            }
            None => self.blocks.push(Block { speaker: Speaker::User, volatile: true, value }),
        }
    }

    fn user(&mut self, parts: &[Part]) {
        if self.blocks.last().is_some_and(Block::is_result) {
            self.say(Speaker::Assistant, json!({"type": "text", "text": phrases::NO_ANSWER}));
        }
        let mut said = false;
        for part in parts {
            let words = || text_block(&cairn_types::message::text_of(std::slice::from_ref(part)));
            if let Some(block) = self.picture(part).or_else(words) {
                said = true;
                self.say(Speaker::User, block);
            }
        }
        if !said {
            self.say(Speaker::User, json!({"type": "text", "text": NO_WORDS}));
        }
    }

    /// A picture, as far as the model and the format take it.
    fn picture(&self, part: &Part) -> Option<Value> {
        match part {
            Part::Image { media_type, data, .. }
                if self.images && PICTURES.contains(&media_type.as_str()) =>
            {
                let source = json!({"type": "base64", "media_type": media_type, "data": data});
                Some(json!({"type": "image", "source": source}))
            }
            Part::Text { .. } | Part::Image { .. } | Part::File { .. } => None,
        }
    }

    fn assistant(&mut self, text: &str, calls: &[ToolCall], state: Option<&ProviderState>) {
        let Some(state) = state else {
            self.say_text(text);
            calls.iter().for_each(|call| self.call(call, None));
            return;
        };
        for item in state.in_order(text, calls.len()) {
            match item {
                Ordered::Opaque(value) => self.say(Speaker::Assistant, value.clone()),
                Ordered::Text(text, _) => self.say_text(text),
                Ordered::Call(idx, fields) => self.call(&calls[idx], fields),
            }
        }
    }

    fn say_text(&mut self, text: &str) {
        if let Some(block) = text_block(text) {
            self.say(Speaker::Assistant, block);
        }
    }

    /// `fields`: those that its server gave beside ours.
    fn call(&mut self, call: &ToolCall, fields: Option<&Map<String, Value>>) {
        let id = self.ids.of_call(call);
        if !self.tools {
            self.say(Speaker::Assistant, json!({"type": "text", "text": phrases::call(call)}));
            return;
        }
        let input = match &call.arguments {
            Value::Object(_) => call.arguments.clone(),
            other => json!({"raw": other}),
        };
        let mut block = json!({"type": "tool_use", "id": id, "name": allowed(&call.name), "input": input});
        for (key, value) in fields.into_iter().flatten() {
            block[key.as_str()] = value.clone();
        }
        self.say(Speaker::Assistant, block);
    }

    /// The pictures of a result stand in its block. Its words name them all, those that are not sent too.
    fn result(&mut self, call_id: &str, text: &str, images: &[Part]) {
        let (id, name) = self.ids.of_result(call_id);
        let pictures: Vec<Value> = images.iter().filter_map(|part| self.picture(part)).collect();
        if !self.tools {
            let block = json!({"type": "text", "text": phrases::result(name, text)});
            self.say(Speaker::User, block);
            pictures.into_iter().for_each(|picture| self.say(Speaker::User, picture));
            return;
        }
        let text = if text.trim().is_empty() { NO_WORDS } else { text };
        let content = if pictures.is_empty() {
            Value::from(text)
        } else {
            std::iter::once(json!({"type": "text", "text": text})).chain(pictures).collect()
        };
        self.say(Speaker::User, json!({"type": "tool_result", "tool_use_id": id, "content": content}));
    }

    /// Breakpoints of the conversation; how many are left. `said`: requests have one behind people's words before a turn's rounds.
    fn mark(&mut self, mark: &Value, said: bool) -> usize {
        let places: Vec<Place> = self.blocks.iter().map(Block::place).collect();
        let found = Breakpoints::of(&places, true);
        let found = if said { found } else { found.map(Breakpoints::without_said) };
        for idx in found.iter().flat_map(Breakpoints::blocks) {
            self.blocks[idx].value["cache_control"] = mark.clone();
        }
        breakpoints::left_for_system(found.as_ref())
    }

    fn into_messages(self) -> Vec<Value> {
        let mut messages: Vec<(Speaker, Vec<Value>)> = Vec::new();
        if self.blocks.first().is_some_and(|block| block.speaker == Speaker::Assistant) {
            messages.push((Speaker::User, vec![json!({"type": "text", "text": phrases::GOES_ON})]));
        }
        for block in self.blocks {
            match messages.last_mut() {
                Some((speaker, blocks)) if *speaker == block.speaker => blocks.push(block.value),
                _ => messages.push((block.speaker, vec![block.value])),
            }
        }
        let wire = |(speaker, blocks)| {
            let role = if speaker == Speaker::User { "user" } else { "assistant" };
            json!({"role": role, "content": Value::Array(blocks)})
        };
        messages.into_iter().map(wire).collect()
    }
}
