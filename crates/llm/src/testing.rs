//! What the tests of all formats build requests from, and how they read answers.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::json;

use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{Attempt, ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Purpose, Usage};
use cairn_types::tool::defs::ToolDef;

use crate::answer::{Assemble, Bounds, events, read};

pub(crate) type Events = Vec<Result<ModelEvent, ModelError>>;

pub(crate) fn request(messages: Vec<ChatMessage>) -> ChatRequest {
    ChatRequest {
        channel: ChannelId::local(&AgentId::new("main"), "c").unwrap(),
        purpose: Purpose::Reply { question: String::new() },
        system: vec!["prompt".to_owned(), "summaries".to_owned()],
        messages,
        turn_from: 0,
        tools: vec![tool()].into(),
        last_call: false,
        max_output_tokens: 100,
        attempt: Attempt::default(),
    }
}

pub(crate) fn tool() -> ToolDef {
    ToolDef { name: "find".to_owned(), description: "d".to_owned(), parameters: json!({"type": "object"}) }
}

pub(crate) fn user(text: &str) -> ChatMessage {
    ChatMessage::User { parts: vec![Part::text(text)] }
}

pub(crate) fn assistant(text: &str) -> ChatMessage {
    calls(text, &[])
}

/// What the model says, with calls of `find`.
pub(crate) fn calls(text: &str, ids: &[&str]) -> ChatMessage {
    let call =
        |id: &&str| ToolCall { id: (*id).to_owned(), name: "find".to_owned(), arguments: json!({"q": 1}) };
    ChatMessage::assistant(text, ids.iter().map(call).collect())
}

pub(crate) fn result(id: &str, text: &str) -> ChatMessage {
    ChatMessage::Tool { call_id: id.to_owned(), text: text.to_owned(), images: Vec::new() }
}

pub(crate) fn context(text: &str) -> ChatMessage {
    ChatMessage::Context { text: text.to_owned() }
}

pub(crate) fn image(media_type: &str) -> Part {
    Part::Image { name: Some("a.png".to_owned()), media_type: media_type.to_owned(), data: "AAAA".to_owned() }
}

/// The events of an answer that came in these pieces.
pub(crate) async fn answer_of(assembler: impl Assemble, chunks: Vec<Vec<u8>>) -> Events {
    let bytes = stream::iter(chunks.into_iter().map(Ok)).boxed();
    let bounds = Bounds { progress: Duration::from_secs(60), tokens: 100 };
    read(events(bytes), assembler, bounds, None).collect().await
}

/// What an answer says, whatever pieces it came in.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Whole {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) done: Option<(Finish, Option<Usage>)>,
}

pub(crate) fn whole(events: Events) -> Result<Whole, ModelError> {
    let mut whole = Whole::default();
    for event in events {
        assert!(whole.done.is_none(), "something comes after the end");
        match event? {
            ModelEvent::Text(text) => whole.text.push_str(&text),
            ModelEvent::Reasoning(text) => whole.reasoning.push_str(&text),
            ModelEvent::TextWasReasoning => whole.reasoning.push_str(&std::mem::take(&mut whole.text)),
            ModelEvent::ToolCall(call) => whole.calls.push(call),
            ModelEvent::Sent(_) | ModelEvent::Usage(_) | ModelEvent::State(_) => {}
            ModelEvent::Done { finish, usage, .. } => whole.done = Some((finish, usage)),
        }
    }
    assert!(whole.done.is_some(), "no end and no error");
    Ok(whole)
}
