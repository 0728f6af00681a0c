//! What is sent to a model's server: the fields of a request, and behind them its tools, whose schemas are not written again
//! for each. What was sent once is made again by the same functions.

use std::borrow::Cow;

use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::tool::defs::{ToolDef, ToolDefs};
use cairn_types::wire::format::{Wire, WireFormat};
use serde_json::{Map, Value};

use crate::remedy::{REMEDIES, Remedy, apply};
use crate::{anthropic, openai, responses};

/// The body of a request as it is, or was, sent.
pub fn body_of(wire: &Wire, request: &ChatRequest) -> String {
    Body::of(wire, request).text()
}

pub(crate) struct Body {
    /// All but the tools; an object.
    pub(crate) fields: Value,
    /// The list of the tools as JSON; none: it has none.
    tools: Option<String>,
}

impl Body {
    /// The body without what the wire's remedies leave out. The embedded model reads it in the form that most servers get.
    pub(crate) fn of(wire: &Wire, request: &ChatRequest) -> Self {
        let mut reduced = Cow::Borrowed(wire);
        if Remedy::Images.is_in(wire) && wire.images {
            reduced.to_mut().images = false;
        }
        if Remedy::NoTools.is_in(wire) && wire.tools {
            reduced.to_mut().tools = false;
        }
        if Remedy::NoExtra.is_in(wire) && !wire.extra.is_empty() {
            reduced.to_mut().extra.clear();
        }
        // Where the system prompt is part of a message, that has no parts of its own.
        let no_breakpoints =
            [Remedy::NoBreakpoints, Remedy::PlainSystem].iter().any(|remedy| remedy.is_in(wire));
        if no_breakpoints && wire.breakpoints {
            reduced.to_mut().breakpoints = false;
        }
        let last = Remedy::LastMessage.is_in(wire).then(|| last_message(request));
        let request = last.as_ref().unwrap_or(request);
        let mut body = match wire.format {
            WireFormat::Openai | WireFormat::Offline => openai::request::body(&reduced, request),
            WireFormat::Responses => responses::request::body(&reduced, request),
            WireFormat::Anthropic => anthropic::request::body(&reduced, request),
        };
        for remedy in REMEDIES.into_iter().filter(|remedy| remedy.is_in(wire)) {
            apply(remedy, &mut body.fields);
        }
        body
    }

    /// `extra`: further fields. `write`: a tool as the format has it, given its parameters as JSON; none: the request is without tools.
    pub(crate) fn new(
        mut fields: Value,
        extra: &Map<String, Value>,
        tools: Option<(&ToolDefs, WriteTool)>,
    ) -> Self {
        for (key, value) in extra {
            if fields.get(key).is_none() {
                fields[key.as_str()] = value.clone();
            }
        }
        let list = |(tools, write): (&ToolDefs, WriteTool)| {
            let written: Vec<String> =
                tools.written().map(|(tool, parameters)| write(tool, parameters)).collect();
            format!("[{}]", written.join(","))
        };
        Self { fields, tools: tools.map(list) }
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    /// All of it as JSON.
    pub(crate) fn text(&self) -> String {
        let mut text = self.fields.to_string();
        if let Some(tools) = &self.tools {
            text.pop();
            text.push_str(",\"tools\":");
            text.push_str(tools);
            text.push('}');
        }
        text
    }
}

/// The request with the system prompt and the last message of a person alone.
fn last_message(request: &ChatRequest) -> ChatRequest {
    let said = |message: &&ChatMessage| matches!(message, ChatMessage::User { .. });
    let last = request.messages.iter().rev().find(said).cloned();
    let system = request.system.iter().take(1).cloned().collect();
    ChatRequest { system, messages: last.into_iter().collect(), turn_from: 0, ..request.clone() }
}

/// Writes a tool, given its parameters as JSON.
pub(crate) type WriteTool = fn(&ToolDef, &str) -> String;

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
