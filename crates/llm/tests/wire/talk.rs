//! Talk with the fake model.

use std::sync::Arc;

use cairn_llm::{Anthropic, OpenAi, body_of};
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_types::ids::TextId;
use cairn_types::tool::defs::ToolDef;
use cairn_types::wire::format::Sent;
use secrecy::SecretString;
use serde_json::json;

use super::*;

#[tokio::test]
async fn words_reasoning_calls_and_usage_arrive_streaming_and_not() {
    for stream in [true, false] {
        let server = FakeModel::start().await;
        all_arrives(&server, &model(&server.base_url(), stream)).await;
    }
}

#[tokio::test]
async fn a_call_that_was_cut_is_told_from_a_whole_one() {
    let server = FakeModel::start().await;
    for stream in [true, false] {
        a_cut_call_is_no_call(&server, &model(&server.base_url(), stream)).await;
    }
}

#[tokio::test]
async fn a_tool_loop_is_one_conversation_to_the_server() {
    let server = FakeModel::start().await;
    let model = model(&server.base_url(), true);
    server.push(Kind::Reply, Answer::call("find", json!({"q": 1})));
    let mut talk = request("look it up");
    talk.system = vec!["prompt ".repeat(1_200)];
    talk.tools = vec![ToolDef {
        name: "find".to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object"}),
    }]
    .into();
    let now = |text: &str| ChatMessage::Context { text: format!("<context>\n{text}\n</context>") };
    talk.messages.push(now("10:00"));
    let first = ask(&model, talk.clone()).await.unwrap();
    talk.messages.pop();
    talk.messages.push(ChatMessage::assistant(first.text, first.calls.clone()));
    talk.messages.push(ChatMessage::Tool {
        call_id: first.calls[0].id.clone(),
        text: "found".to_owned(),
        images: Vec::new(),
    });
    talk.messages.push(now("10:01"));
    let second = ask(&model, talk).await.unwrap();
    assert_eq!(second.text, "echo: look it up");
    assert!(second.usage.is_some_and(|usage| usage.cached_tokens > 0), "{:?}", second.usage);
    server.assert_clean();
}

#[tokio::test]
async fn the_key_is_sent_and_shown_nowhere_else() {
    let server = FakeModel::start().await;
    let key = SecretString::from("sk-very-secret\n");
    let options = ServerOptions { api_key: Some(key), ..ServerOptions::new("m", server.base_url(), "fake") };
    let model = OpenAi::new(options.clone()).unwrap();
    assert!(!format!("{model:?} {options:?}").contains("very-secret"));
    server.push(Kind::Reply, Answer::error(401, "Incorrect API key: sk-very-secret"));
    let error = ask(&model, request("x")).await.unwrap_err();
    assert_eq!(server.seen()[0].authorization.as_deref(), Some("Bearer sk-very-secret"));
    assert_eq!(error, ModelError::Auth("HTTP 401: Incorrect API key: [key]".to_owned()));
}

#[tokio::test]
async fn a_dropped_stream_hangs_up() {
    let server = Arc::new(FakeModel::start().await);
    server.push(Kind::Reply, Answer::text("one two three four five six seven eight nine").hanging());
    let mut events = model(&server.base_url(), true).stream(request("x"));
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Sent(_)))));
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Text(_)))));
    drop(events);
    server.wait_until("the hang-up", |server| server.tally(Kind::Reply).abandoned == 1).await;
}

/// A request is told as it is sent, each time, and the same body is made of that again.
#[tokio::test]
async fn what_is_told_of_a_request_is_what_the_server_got() {
    for anthropic in [false, true] {
        let server = FakeModel::builder().streaming(Streaming::Refused).start().await;
        let options = ServerOptions::new("m", server.base_url(), "fake");
        let model: Box<dyn ChatModel> = match anthropic {
            true => Box::new(Anthropic::new(options).unwrap()),
            false => Box::new(OpenAi::new(options).unwrap()),
        };
        let asked = request("x");
        let told: Vec<Sent> = model
            .stream(asked.clone())
            .filter_map(|event| {
                let sent = match event.unwrap() {
                    ModelEvent::Sent(sent) => Some(*sent),
                    _ => None,
                };
                std::future::ready(sent)
            })
            .collect()
            .await;
        let remedies: Vec<Vec<String>> = told.iter().map(|sent| sent.wire.remedies.clone()).collect();
        assert_eq!(remedies, [vec![], vec!["no_stream".to_owned()]]);
        for (sent, seen) in told.iter().zip(server.seen()) {
            assert_eq!(body_of(&sent.wire, &asked), *seen.sent);
            assert_eq!(sent.body, Some(TextId::of(&seen.sent)));
        }
    }
}
