//! A request in the words of OpenAI's Responses API:
//! <https://developers.openai.com/api/reference/resources/responses/methods/create>.
//!
//! Nothing is kept on the server. So what the model thought goes back encrypted, within the tool loop, in its place: the server
//! refuses a reasoning item without the item that it was given with. People and the model take turns, as servers that translate
//! the items for a chat template need it.

use serde_json::{Map, Value, json};

use cairn_types::message::{Part, ToolCall, text_of};
use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::provider_state::{Ordered, ProviderState};
use cairn_types::tool::defs::ToolDef;
use cairn_types::wire::format::Wire;

use crate::body::{Body, quoted};
use crate::breakpoints;
use crate::call_ids::{CallIds, allowed};
use crate::phrases::{self, NO_WORDS};
use crate::remedy::Remedy;

/// The server refuses a smaller limit of the answer.
const LEAST_OUTPUT_TOKENS: u64 = 16;

pub(crate) fn body(wire: &Wire, request: &ChatRequest) -> Body {
    let tools = wire.tools && !request.tools.is_empty();
    let calls = tools && !Remedy::CallsInWords.is_in(wire);
    let returns = !Remedy::NoState.is_in(wire);
    let mut talk = Talk { images: wire.images, tools: calls, apart: wire.breakpoints, ..Talk::default() };
    talk.system(&request.system);
    for (idx, message) in request.messages.iter().enumerate() {
        talk.take(message, |state| returns && state.goes_back(wire, idx >= request.turn_from));
    }
    let mut body = json!({
        "model": wire.model,
        "input": talk.input,
        "stream": wire.stream,
        "store": false,
        "max_output_tokens": request.max_output_tokens.max(LEAST_OUTPUT_TOKENS),
    });
    if wire.breakpoints {
        breakpoints::add(&mut body, "input", "input_text", request, &talk.volatile);
    }
    if returns {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if tools && request.last_call {
        body["tool_choice"] = "none".into();
    }
    Body::new(body, &fields_of(&wire.extra), tools.then_some((&request.tools, wire_tool)))
}

/// The configured fields, with the effort where this format has it.
fn fields_of(extra: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = extra.clone();
    if let Some(effort) = fields.remove("reasoning_effort") {
        let reasoning = fields.entry("reasoning").or_insert_with(|| json!({}));
        if let Some(reasoning) = reasoning.as_object_mut() {
            reasoning.insert("effort".to_owned(), effort);
        }
    }
    fields
}

/// Without `strict` the server would take schemas for strict ones, which ours and those of tool servers are not.
fn wire_tool(tool: &ToolDef, parameters: &str) -> String {
    let (name, description) = (quoted(&tool.name), quoted(&tool.description));
    format!(
        r#"{{"description":{description},"name":{name},"parameters":{parameters},"strict":false,"type":"function"}}"#
    )
}

/// Who speaks in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

fn speaker(item: &Value) -> Speaker {
    match (item["role"].as_str(), item["type"].as_str()) {
        (Some("system"), _) => Speaker::System,
        (Some("user"), _) => Speaker::User,
        (_, Some("function_call_output")) => Speaker::Tool,
        _ => Speaker::Assistant,
    }
}

/// The conversation on its way to the wire.
#[derive(Default)]
struct Talk {
    images: bool,
    /// Calls are items; otherwise they are told in words.
    tools: bool,
    /// The volatile tail is a part of its own, so that a breakpoint may stand before it.
    apart: bool,
    input: Vec<Value>,
    /// What is never read again from a cache: the numbers of item and part.
    volatile: Vec<(usize, usize)>,
    ids: CallIds,
}

impl Talk {
    fn system(&mut self, blocks: &[String]) {
        let blocks = blocks.iter().filter(|block| !block.trim().is_empty());
        let parts: Vec<Value> = blocks.map(|block| input_text(block)).collect();
        if !parts.is_empty() {
            self.input.push(json!({"type": "message", "role": "system", "content": parts}));
        }
    }

    /// `returns`: whether what a provider gave goes back with its message.
    fn take(&mut self, message: &ChatMessage, returns: impl Fn(&ProviderState) -> bool) {
        match message {
            ChatMessage::User { parts } => {
                if self.last() == Some(Speaker::Tool) {
                    self.say(phrases::NO_ANSWER);
                }
                self.user(user_content(parts, self.images));
            }
            ChatMessage::Assistant { text, tool_calls, provider_state } => {
                let state = provider_state.as_deref().filter(|state| self.tools && returns(state));
                self.assistant(text, tool_calls, state);
            }
            ChatMessage::Tool { call_id, text, images } => self.result(call_id, text, images),
            ChatMessage::Context { text } => self.context(text),
        }
    }

    fn last(&self) -> Option<Speaker> {
        self.input.last().map(speaker)
    }

    fn user(&mut self, content: Vec<Value>) {
        let last = self.input.last_mut().filter(|last| speaker(last) == Speaker::User);
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(parts) => parts.extend(content),
            None => self.input.push(json!({"type": "message", "role": "user", "content": content})),
        }
    }

    fn assistant(&mut self, text: &str, calls: &[ToolCall], state: Option<&ProviderState>) {
        if text.is_empty() && calls.is_empty() {
            return;
        }
        if matches!(self.last(), None | Some(Speaker::System)) {
            self.user(vec![input_text(phrases::GOES_ON)]);
        }
        let given = state.map(|state| state.in_order(text, calls.len()));
        // Where an answer was changed since, nothing of what goes back has its place any more.
        let Some(given) = given.filter(|given| given.iter().all(has_its_place)) else {
            self.say(text);
            calls.iter().for_each(|call| self.call(call, None));
            return;
        };
        for item in given {
            match item {
                Ordered::Opaque(value) => self.input.push(value.clone()),
                Ordered::Text(text, fields) => self.message(text, fields),
                Ordered::Call(idx, fields) => self.call(&calls[idx], fields),
            }
        }
    }

    /// What the model said, without anything that a server gave with it.
    fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.input.last_mut().and_then(|last| said(last)) {
            Some(before) => *before = format!("{before}\n\n{text}"),
            None => self.input.push(json!({"type": "message", "role": "assistant", "content": text})),
        }
    }

    /// A message as the server gave it. What has no words is a gap between two.
    fn message(&mut self, text: &str, fields: Option<&Map<String, Value>>) {
        if text.trim().is_empty() {
            return;
        }
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        self.item(json!({"type": "message", "role": "assistant", "content": content}), fields);
    }

    /// A call of the past. Where the model once wrote no valid JSON object, its raw text is wrapped in one.
    fn call(&mut self, call: &ToolCall, fields: Option<&Map<String, Value>>) {
        let id = self.ids.of_call(call);
        if !self.tools {
            self.say(&phrases::call(call));
            return;
        }
        let arguments = match &call.arguments {
            Value::Object(_) => call.arguments.to_string(),
            other => json!({"raw": other}).to_string(),
        };
        let name = allowed(&call.name);
        self.item(
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}),
            fields,
        );
    }

    /// Adds an item with the fields that its server gave beside ours.
    fn item(&mut self, mut item: Value, fields: Option<&Map<String, Value>>) {
        for (key, value) in fields.into_iter().flatten() {
            item[key.as_str()] = value.clone();
        }
        self.input.push(item);
    }

    /// The pictures of a result stand in it. Its words name them all, those that are not sent too.
    fn result(&mut self, call_id: &str, text: &str, images: &[Part]) {
        let (id, name) = self.ids.of_result(call_id);
        let pictures = images.iter().filter_map(|part| self.picture(part));
        if !self.tools {
            let parts = std::iter::once(input_text(&phrases::result(name, text))).chain(pictures).collect();
            self.user(parts);
            return;
        }
        let text = if text.trim().is_empty() { NO_WORDS } else { text };
        let pictures: Vec<Value> = pictures.collect();
        let output = match pictures.is_empty() {
            // Some servers take nothing else.
            true => Value::from(text),
            false => std::iter::once(input_text(text)).chain(pictures).collect(),
        };
        self.input.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
    }

    fn picture(&self, part: &Part) -> Option<Value> {
        self.images.then(|| picture(part)).flatten()
    }

    /// What is volatile goes to the end of the last item, a result too: a person's message behind a result would be taken for
    /// a new question.
    fn context(&mut self, text: &str) {
        match self.input.last_mut().filter(|last| speaker(last) == Speaker::Tool) {
            Some(result) => {
                result["output"] = match result["output"].take() {
                    Value::Array(mut parts) => {
                        parts.push(input_text(text));
                        parts.into()
                    }
                    words if self.apart => {
                        let words = words.as_str().unwrap_or_default();
                        // Texts of parts are read without anything between them.
                        json!([input_text(words), input_text(&format!("\n\n{text}"))])
                    }
                    words => format!("{}\n\n{text}", words.as_str().unwrap_or_default()).into(),
                };
            }
            None => self.user(vec![input_text(text)]),
        }
        let parts =
            self.input.last().and_then(|last| last["content"].as_array().or(last["output"].as_array()));
        self.volatile.push((self.input.len().saturating_sub(1), parts.map_or(1, Vec::len) - 1));
    }
}

fn has_its_place(item: &Ordered<'_>) -> bool {
    !matches!(item, Ordered::Text(_, None) | Ordered::Call(_, None))
}

/// The words of a plain message of the model, which may go on.
fn said(item: &mut Value) -> Option<&mut String> {
    match item.get_mut("content") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn picture(part: &Part) -> Option<Value> {
    let Part::Image { media_type, data, .. } = part else { return None };
    let url = format!("data:{media_type};base64,{data}");
    Some(json!({"type": "input_image", "image_url": url, "detail": "auto"}))
}

/// What a person says: words between pictures are one part.
fn user_content(parts: &[Part], images: bool) -> Vec<Value> {
    let mut content: Vec<Value> = Vec::new();
    let mut words = String::new();
    for part in parts {
        match picture(part).filter(|_| images) {
            Some(picture) => {
                push_words(&mut content, &mut words);
                content.push(picture);
            }
            None => {
                if !words.is_empty() {
                    words.push('\n');
                }
                words.push_str(&text_of(std::slice::from_ref(part)));
            }
        }
    }
    push_words(&mut content, &mut words);
    if content.is_empty() {
        content.push(input_text(NO_WORDS));
    }
    content
}

fn push_words(content: &mut Vec<Value>, words: &mut String) {
    if !words.trim().is_empty() {
        content.push(input_text(words));
    }
    words.clear();
}
