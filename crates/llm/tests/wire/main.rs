//! The OpenAI-compatible adapter over real sockets: against the fake model, and against servers that misbehave.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod anthropic;
mod cache;
mod faults;
mod providers;
mod responses;
mod talk;
mod text;
mod windows;

use cairn_llm::{OpenAi, ServerOptions};
use cairn_testkit::model::{Answer, FakeModel, Kind, Streaming};
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{Attempt, ChatMessage, ChatRequest, Finish, ModelError, ModelEvent, Purpose, Usage};
use cairn_types::ports::ChatModel;
use cairn_types::tool::defs::{ToolDef, ToolDefs};
use futures::StreamExt;
use serde_json::json;

fn request(text: &str) -> ChatRequest {
    ChatRequest {
        channel: ChannelId::local(&AgentId::new("main"), "c").expect("a good name"),
        purpose: Purpose::Reply { question: text.to_owned() },
        system: vec!["prompt".to_owned()],
        messages: vec![ChatMessage::User { parts: vec![Part::text(text)] }],
        turn_from: 0,
        tools: ToolDefs::default(),
        last_call: false,
        max_output_tokens: 100,
        attempt: Attempt::default(),
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

fn find() -> ToolDef {
    ToolDef { name: "find".to_owned(), description: "d".to_owned(), parameters: json!({"type": "object"}) }
}

/// All that an answer may hold arrives whole, from a model at the address that it is given.
async fn all_arrives(server: &FakeModel, model: &dyn ChatModel) {
    server.push(
        Kind::Reply,
        Answer::text("Grüße aus dem Süden, \u{1F980} und zurück")
            .reasoning("I think for a while about it")
            .and_call("find", json!({"q": "é\u{1F980}"}))
            .and_call("read", json!({})),
    );
    let said = ask(model, request("hello")).await.expect("an answer");
    assert_eq!(said.text, "Grüße aus dem Süden, \u{1F980} und zurück");
    assert_eq!(said.reasoning, "I think for a while about it");
    let calls: Vec<_> = said.calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
    assert_eq!(calls, [("find", json!({"q": "é\u{1F980}"})), ("read", json!({}))]);
    assert_eq!(said.finish, Finish::ToolCalls);
    assert!(said.usage.is_some_and(|usage| usage.input_tokens > 0 && usage.output_tokens > 0));
    server.assert_clean();
}

/// Of an answer that ended within the arguments of its last call, only the calls before that may be made.
async fn a_cut_call_is_no_call(server: &FakeModel, model: &dyn ChatModel) {
    let answer = Answer::text("wait").and_call("find", json!({"q": "apples"})).and_call("read", json!({}));
    server.push(Kind::Reply, answer.cut_in_call());
    let said = ask(model, request("x")).await.expect("an answer");
    let made = said.calls.iter().filter(|call| said.finish.allows(call)).map(|call| call.name.as_str());
    assert_eq!((said.finish, made.collect::<Vec<_>>()), (Finish::Length, vec!["find"]));
}

/// A server that does not stream is asked for whole answers from the first refusal on.
async fn whole_answers_are_asked_for(make: impl Fn(&str) -> Box<dyn ChatModel>) {
    for streaming in [Streaming::Refused, Streaming::Ignored] {
        let server = FakeModel::builder().streaming(streaming).start().await;
        let model = make(&server.base_url());
        for n in 0..3 {
            assert_eq!(ask(&*model, request("x")).await.expect("an answer").text, "echo: x", "request {n}");
        }
        let asked: Vec<_> = server.requests().iter().map(|body| body["stream"] == true).collect();
        let expected: &[bool] = match streaming {
            Streaming::Refused => &[true, false, false, false],
            Streaming::Ignored | Streaming::Yes => &[true, false, false],
        };
        assert_eq!(asked, expected, "{streaming:?}");
        assert!(server.requests()[1..].iter().all(|body| body.get("stream_options").is_none()));
    }
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
            ModelEvent::TextWasReasoning => whole.reasoning.push_str(&std::mem::take(&mut whole.text)),
            ModelEvent::ToolCall(call) => whole.calls.push(call),
            ModelEvent::Sent(_) | ModelEvent::State(_) | ModelEvent::Usage(_) => {}
            ModelEvent::Done { finish, usage, .. } => {
                (whole.finish, whole.usage, done) = (finish, usage, true);
            }
        }
    }
    assert!(done, "the answer has neither end nor error");
    Ok(whole)
}
