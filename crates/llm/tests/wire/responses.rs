//! OpenAI's Responses API, with the fake model, which keeps nothing and wants back what it gave.

use std::time::Duration;

use cairn_llm::{BadModel, ServerOptions, Timeouts, body_of};
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, Wire};
use cairn_types::ids::TextId;
use cairn_types::provider_state::ProviderState;
use cairn_types::wire::format::{Sent, WireFormat};
use serde_json::{Value, json};

use super::*;

fn gpt(base_url: &str, stream: bool) -> OpenAi {
    let options = ServerOptions { stream, images: true, ..ServerOptions::new("m", base_url, "gpt") };
    OpenAi::with_responses(options).expect("good options")
}

/// An answer as an entry of the conversation, with what goes back; and how each of its requests was sent.
async fn answered(model: &OpenAi, request: ChatRequest) -> (ChatMessage, Vec<Sent>) {
    let (mut text, mut tool_calls, mut state, mut sent) = (String::new(), Vec::new(), None, Vec::new());
    let mut events = model.stream(request);
    while let Some(event) = events.next().await {
        match event.expect("an answer") {
            ModelEvent::Text(words) => text.push_str(&words),
            ModelEvent::ToolCall(call) => tool_calls.push(call),
            ModelEvent::State(given) => state = Some::<Box<ProviderState>>(given),
            ModelEvent::Sent(how) => sent.push(*how),
            ModelEvent::TextWasReasoning
            | ModelEvent::Reasoning(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Done { .. } => {}
        }
    }
    (ChatMessage::Assistant { text, tool_calls, provider_state: state }, sent)
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User { parts: vec![Part::text(text)] }
}

fn results(answer: &ChatMessage) -> Vec<ChatMessage> {
    let ChatMessage::Assistant { tool_calls, .. } = answer else { panic!("an answer") };
    let result = |call: &ToolCall| ChatMessage::Tool {
        call_id: call.id.clone(),
        text: "found".to_owned(),
        images: vec![Part::Image { name: None, media_type: "image/png".to_owned(), data: "AAAA".to_owned() }],
    };
    tool_calls.iter().map(result).collect()
}

/// The kinds of a request's items, those with an id of the server's with a star.
fn kinds(seen: &Seen) -> Vec<String> {
    let items = seen.raw.as_ref().expect("its own form")["input"].as_array().expect("a list").clone();
    let one = |item: &Value| {
        let text = |key: &str| item[key].as_str();
        match item.get("id") {
            Some(_) => format!("{}*", text("type").unwrap_or_default()),
            None => text("role").or(text("type")).unwrap_or_default().to_owned(),
        }
    };
    items.iter().map(one).collect()
}

#[tokio::test]
async fn words_reasoning_calls_and_usage_arrive_streaming_and_not() {
    for stream in [true, false] {
        let server = FakeModel::start().await;
        all_arrives(&server, &gpt(&server.base_url(), stream)).await;
        assert_eq!(server.seen()[0].wire, Wire::Responses);
    }
}

/// Two turns of several rounds, with words beside calls and pictures in results: the server refuses whatever it gave otherwise,
/// and what it gave without its reasoning.
#[tokio::test]
async fn reasoning_goes_back_within_the_tool_loop_and_is_dropped_with_the_turn() {
    let server = FakeModel::start().await;
    let model = gpt(&server.base_url(), true);
    let mut talk = request("look at this");
    talk.tools = vec![find()].into();
    for turn in 0..2 {
        talk.turn_from = talk.messages.len() - 1;
        for round in 0..2 {
            let call = Answer::text(format!("I look {round}")).reasoning("hm");
            server
                .push(Kind::Reply, call.and_call("find", json!({"q": 1})).and_call("find", json!({"q": 2})));
            let (answer, sent) = answered(&model, talk.clone()).await;
            let seen = server.seen().pop().expect("a request");
            assert_eq!(body_of(&sent[0].wire, &talk), *seen.sent, "it can be made again");
            assert_eq!(sent[0].body, Some(TextId::of(&seen.sent)));
            let results = results(&answer);
            talk.messages.push(answer);
            talk.messages.extend(results);
        }
        let last = ChatRequest { last_call: true, ..talk.clone() };
        let (answer, _) = answered(&model, last).await;
        talk.messages.extend([answer, user(&format!("and then? {turn}"))]);
    }
    server.assert_clean();
    let seen = server.seen();
    let open = ["reasoning*", "message*", "function_call*", "function_call*"];
    let results = ["function_call_output", "function_call_output"];
    let closed = ["assistant", "function_call", "function_call"];
    let expected: Vec<&str> = [&["system", "user"][..], &open, &results, &open, &results].concat();
    assert_eq!(kinds(&seen[2]), expected);
    assert_eq!(seen[2].body["tool_choice"], "none");
    let expected: Vec<&str> =
        [&["system", "user"][..], &closed, &results, &closed, &results, &["assistant", "user"]].concat();
    assert_eq!(kinds(&seen[3]), expected, "the turn is closed");
}

#[tokio::test]
async fn a_server_without_the_address_is_asked_over_chat_completions_from_then_on() {
    for status in [404, 405] {
        let server = FakeModel::builder().without_responses(status).start().await;
        let model = gpt(&server.base_url(), true);
        let mut sent = Vec::new();
        for _ in 0..2 {
            sent.extend(answered(&model, request("x")).await.1);
        }
        let wires: Vec<Wire> = server.seen().iter().map(|seen| seen.wire).collect();
        assert_eq!(wires, [Wire::Responses, Wire::OpenAi, Wire::OpenAi], "{status}");
        let formats: Vec<WireFormat> = sent.iter().map(|sent| sent.wire.format).collect();
        assert_eq!(formats, [WireFormat::Responses, WireFormat::Openai, WireFormat::Openai]);
        for (sent, seen) in sent.iter().zip(server.seen()) {
            assert_eq!(body_of(&sent.wire, &request("x")), *seen.sent, "each can be made again");
        }
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_says_nothing_about_the_address() {
    let refuse = |seen: &Seen| {
        let gone = "The model `gpt` does not exist or you do not have access to it.";
        (seen.n < 2).then(|| Answer::error(404, gone))
    };
    let server = FakeModel::builder().respond(refuse).start().await;
    let model = gpt(&server.base_url(), true);
    let error = ask(&model, request("x")).await.unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert_eq!(ask(&model, request("x")).await.unwrap().text, "echo: x");
    let wires: Vec<Wire> = server.seen().iter().map(|seen| seen.wire).collect();
    assert_eq!(wires, [Wire::Responses, Wire::OpenAi, Wire::Responses]);
}

/// Another key, another deployment: reasoning that was sealed elsewhere.
#[tokio::test]
async fn a_server_that_takes_back_no_reasoning_is_asked_without() {
    let server = FakeModel::start().await;
    let model = gpt(&server.base_url(), true);
    let mut talk = request("look at this");
    talk.tools = vec![find()].into();
    server.push(Kind::Reply, Answer::call("find", json!({"q": 1})));
    let (answer, _) = answered(&model, talk.clone()).await;
    talk.messages.push(answer.clone());
    talk.messages.extend(results(&answer));
    let sealed = |seen: &Seen| {
        let words = "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be \
                     decrypted or parsed.";
        seen.sent.contains("encrypted_content\":\"").then(|| Answer::error(400, words))
    };
    let other = FakeModel::builder().respond(sealed).start().await;
    let model = gpt(&other.base_url(), true);
    for _ in 0..2 {
        assert_eq!(ask(&model, talk.clone()).await.unwrap().text, "echo: look at this");
    }
    let with: Vec<bool> =
        other.seen().iter().map(|seen| kinds(seen).contains(&"reasoning*".to_owned())).collect();
    assert_eq!(with, [true, false, false]);
    other.assert_clean();
}

#[tokio::test]
async fn answers_that_break_off_stall_or_do_not_end_are_failures() {
    let words = || Answer::text("one two three four five six seven eight nine ten");
    let long = Duration::from_secs(60);
    let failure = async |answer: Answer, stream: bool, idle: Duration| {
        let server = FakeModel::start().await;
        server.push(Kind::Reply, answer);
        let timeouts = Timeouts { idle, first: long, ..Timeouts::default() };
        let options = ServerOptions { stream, timeouts, ..ServerOptions::new("m", server.base_url(), "gpt") };
        ask(&OpenAi::with_responses(options).unwrap(), request("x")).await.expect_err("a failure")
    };
    for stream in [true, false] {
        assert_eq!(failure(words().truncated(), stream, long).await.code(), "protocol");
        assert_eq!(failure(words().flooding(), stream, long).await.code(), "protocol");
        let failed = json!({"code": "server_error", "message": "The server had an error"});
        assert_eq!(failure(words().failing(failed), stream, long).await.code(), "server_failed");
    }
    assert_eq!(failure(words().hanging(), true, Duration::from_millis(50)).await.code(), "timeout");
    let whole_call = ServerOptions::new("m", "http://host/v1/responses", "x");
    assert!(matches!(OpenAi::with_responses(whole_call), Err(BadModel::BaseUrl { .. })));
}

#[tokio::test]
async fn ends_are_told() {
    let server = FakeModel::start().await;
    for (finish, expected) in
        [("length", Finish::Length), ("content_filter", Finish::ContentFilter), ("refusal", Finish::Refusal)]
    {
        server.push(Kind::Reply, Answer::text("half").finish(finish));
        let said = ask(&gpt(&server.base_url(), true), request("x")).await.unwrap();
        assert_eq!((said.text.as_str(), said.finish), ("half", expected));
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_asked_for_whole_answers() {
    whole_answers_are_asked_for(|url| Box::new(gpt(url, true))).await;
}
