//! The OpenAI-compatible adapter over real sockets: against the fake model, and against servers that misbehave.

mod anthropic;
mod faults;
mod talk;

use cairn_core::ids::{AgentId, ChannelId};
use cairn_core::message::{Part, ToolCall};
use cairn_core::model::{ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Purpose, Usage};
use cairn_core::ports::ChatModel;
use cairn_llm::{OpenAi, ServerOptions};
use futures::StreamExt;

/// A request with one message.
fn request(text: &str) -> ChatRequest {
    ChatRequest {
        channel: ChannelId::local(&AgentId::new("main"), "c").expect("a good name"),
        purpose: Purpose::Reply { question: text.to_owned() },
        system: vec!["prompt".to_owned()],
        messages: vec![ChatMessage::User { parts: vec![Part::text(text)] }],
        tools: Vec::new(),
        max_output_tokens: 100,
    }
}

/// A model at an address; `stream` as in its options.
fn model(base_url: &str, stream: bool) -> OpenAi {
    OpenAi::new(ServerOptions { stream, ..ServerOptions::new("m", base_url, "fake") }).expect("good options")
}

/// What an answer says, put together.
#[derive(Debug, PartialEq)]
struct Whole {
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    finish: Finish,
    usage: Option<Usage>,
}

async fn ask(model: &dyn ChatModel, request: ChatRequest) -> Result<Whole, ModelError> {
    let mut events = model.stream(request);
    let mut whole = Whole {
        text: String::new(),
        reasoning: String::new(),
        calls: Vec::new(),
        finish: Finish::Stop,
        usage: None,
    };
    let mut done = false;
    while let Some(event) = events.next().await {
        assert!(!done, "something comes after the end: {event:?}");
        match event? {
            ModelEvent::Text(text) => whole.text.push_str(&text),
            ModelEvent::Reasoning(text) => whole.reasoning.push_str(&text),
            ModelEvent::ToolCall(call) => whole.calls.push(call),
            ModelEvent::Done { finish, usage, .. } => {
                (whole.finish, whole.usage, done) = (finish, usage, true);
            }
        }
    }
    assert!(done, "the answer has neither end nor error");
    Ok(whole)
}
