//! An answer's events once more, its text taken apart: what a server passes on as text although it is reasoning, a tool call
//! or our own header ([`AnswerText`]).

use std::sync::Arc;

use cairn_core::answer_text::{AnswerText, Piece};
use cairn_types::message::ToolCall;
use cairn_types::model::{ChatRequest, Finish, ModelEvent};
use cairn_types::tool::defs::ToolDefs;
use cairn_types::wire::format::Wire;

use crate::server::Server;

pub(crate) struct Sorter {
    server: Arc<Server>,
    text: AnswerText,
    /// Number of messages in the request: part of the ids that are minted.
    n_messages: usize,
    /// Calls that came as calls.
    calls: Vec<ToolCall>,
    /// Calls that came as text.
    written: Vec<ToolCall>,
}

impl Sorter {
    /// For the answer to a request.
    pub(crate) fn new(server: &Arc<Server>, wire: &Wire, request: &ChatRequest) -> Self {
        let tools = if wire.tools { request.tools.clone() } else { ToolDefs::default() };
        let text = AnswerText::new(tools, server.begins_amid());
        let (server, n_messages) = (Arc::clone(server), request.messages.len());
        Self { server, text, n_messages, calls: Vec::new(), written: Vec::new() }
    }

    pub(crate) fn take(&mut self, event: ModelEvent) -> Vec<ModelEvent> {
        match event {
            ModelEvent::Text(text) => {
                let pieces = self.text.push(&text);
                self.sorted(pieces)
            }
            ModelEvent::ToolCall(call) => {
                self.calls.push(call.clone());
                vec![ModelEvent::ToolCall(call)]
            }
            ModelEvent::Done { finish, usage, quotes } => {
                let pieces = self.text.end(finish == Finish::Length);
                let mut events = self.sorted(pieces);
                if let Some(amid) = self.text.began_amid() {
                    self.server.learn_amid(amid);
                }
                let written = self.only_written();
                let finish =
                    if written.is_empty() || finish != Finish::Stop { finish } else { Finish::ToolCalls };
                events.extend(written.into_iter().map(ModelEvent::ToolCall));
                events.push(ModelEvent::Done { finish, usage, quotes });
                events
            }
            event => vec![event],
        }
    }

    fn sorted(&mut self, pieces: Vec<Piece>) -> Vec<ModelEvent> {
        let sorted = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(ModelEvent::Text(text)),
            Piece::Reasoning(text) => Some(ModelEvent::Reasoning(text)),
            Piece::TextWasReasoning => Some(ModelEvent::TextWasReasoning),
            Piece::Call { name, arguments, is_sound } => {
                self.server.note_written(is_sound);
                let id = format!("call_{}_t{}", self.n_messages, self.written.len());
                self.written.push(ToolCall { id, name, arguments });
                None
            }
        });
        sorted.collect()
    }

    /// Calls that came as text alone: some servers pass on both.
    fn only_written(&mut self) -> Vec<ToolCall> {
        let came = |call: &ToolCall| {
            self.calls.iter().any(|other| other.name == call.name && other.arguments == call.arguments)
        };
        let mut written = std::mem::take(&mut self.written);
        written.retain(|call| !came(call));
        written
    }
}
