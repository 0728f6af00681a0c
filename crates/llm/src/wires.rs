//! The wire formats: which code writes a request in one, and which reads the answer.

use std::borrow::Cow;
use std::sync::Arc;

use cairn_types::model::{ChatMessage, ChatRequest, ModelError, ModelEvent};
use cairn_types::wire::format::{Wire, WireFormat};
use futures::stream::BoxStream;

use crate::answer::{Bounds, Opened};
use crate::body::Body;
use crate::remedy::{REMEDIES, Remedy, apply};
use crate::server::Server;

/// The body of a request as it is, or was, sent.
pub fn body_of(wire: &Wire, request: &ChatRequest) -> String {
    body(wire, request).text()
}

/// The body without what the wire's remedies leave out. The embedded model reads it in the form that most servers get.
pub(crate) fn body(wire: &Wire, request: &ChatRequest) -> Body {
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
    let no_breakpoints = [Remedy::NoBreakpoints, Remedy::PlainSystem].iter().any(|remedy| remedy.is_in(wire));
    if no_breakpoints && wire.breakpoints {
        reduced.to_mut().breakpoints = false;
    }
    let last = Remedy::LastMessage.is_in(wire).then(|| last_message(request));
    let request = last.as_ref().unwrap_or(request);
    let mut body = match wire.format {
        WireFormat::Openai | WireFormat::Offline => crate::openai::request::body(&reduced, request),
        WireFormat::Responses => crate::responses::request::body(&reduced, request),
        WireFormat::Anthropic => crate::anthropic::request::body(&reduced, request),
    };
    for remedy in REMEDIES.into_iter().filter(|remedy| remedy.is_in(wire)) {
        apply(remedy, &mut body.fields);
    }
    body
}

/// What the answer says to a request over that wire.
pub(crate) fn read(
    opened: Opened,
    server: &Arc<Server>,
    wire: &Wire,
    request: &ChatRequest,
    bounds: Bounds,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let n_messages = request.messages.len();
    match wire.format {
        WireFormat::Openai | WireFormat::Offline => {
            opened.read_by(crate::openai::assemble::Assembler::new(&wire.model, n_messages), server, bounds)
        }
        WireFormat::Responses => opened.read_by(
            crate::responses::assemble::Assembler::new(&wire.model, n_messages),
            server,
            bounds,
        ),
        WireFormat::Anthropic => {
            opened.read_by(crate::anthropic::assemble::Assembler::new(&wire.model, request), server, bounds)
        }
    }
}

/// The request with the system prompt and the last message of a person alone.
fn last_message(request: &ChatRequest) -> ChatRequest {
    let said = |message: &&ChatMessage| matches!(message, ChatMessage::User { .. });
    let last = request.messages.iter().rev().find(said).cloned();
    let system = request.system.iter().take(1).cloned().collect();
    ChatRequest { system, messages: last.into_iter().collect(), turn_from: 0, ..request.clone() }
}
