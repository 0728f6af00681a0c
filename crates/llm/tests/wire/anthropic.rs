//! Anthropic's messages, with the fake model and its cache.

use std::time::Duration;

use cairn_llm::{Anthropic, BadModel, ServerOptions, Timeouts};
use cairn_testkit::model::{Answer, FakeModel, Kind, Rule, Wire, Wording};
use cairn_types::tool::defs::ToolDefs;
use secrecy::SecretString;
use serde_json::json;

use super::*;

fn claude(base_url: &str, stream: bool) -> Anthropic {
    let options = ServerOptions { stream, images: true, ..ServerOptions::new("m", base_url, "claude") };
    Anthropic::new(options).expect("good options")
}

fn now(text: &str) -> ChatMessage {
    ChatMessage::Context { text: format!("<context>\n{text}\n</context>") }
}

#[tokio::test]
async fn words_reasoning_calls_and_usage_arrive_streaming_and_not() {
    for stream in [true, false] {
        let server = FakeModel::start().await;
        all_arrives(&server, &claude(&server.base_url(), stream)).await;
        assert_eq!(server.seen()[0].wire, Wire::Anthropic);
    }
}

#[tokio::test]
async fn a_conversation_with_calls_and_pictures_is_well_formed_and_read_from_the_cache() {
    let server = FakeModel::start().await;
    let model = claude(&server.base_url(), true);
    let mut talk = request("look at this");
    talk.system = vec!["prompt ".repeat(1_200)];
    talk.system.push("[Compaction Summary]: what came before".to_owned());
    talk.tools = vec![find()].into();
    talk.messages[0] = ChatMessage::User {
        parts: vec![
            Part::text("look at this"),
            Part::Image { name: None, media_type: "image/png".to_owned(), data: "AAAA".to_owned() },
        ],
    };
    let mut before: Option<Usage> = None;
    for n in 0..4 {
        server
            .push(Kind::Reply, Answer::call("find", json!({"q": n})).and_call("find", json!({"q": "more"})));
        talk.messages.push(now("10:00"));
        let first = ask(&model, talk.clone()).await.unwrap();
        talk.messages.pop();
        let ids: Vec<_> = first.calls.iter().map(|call| call.id.clone()).collect();
        talk.messages.push(ChatMessage::assistant(first.text, first.calls));
        for id in ids {
            talk.messages.push(ChatMessage::Tool {
                call_id: id,
                text: format!("found {n}"),
                images: Vec::new(),
            });
        }
        talk.messages.push(now("10:01"));
        let second = ask(&model, talk.clone()).await.unwrap();
        talk.messages.pop();
        talk.messages.push(ChatMessage::assistant(second.text, Vec::new()));
        talk.messages.push(ChatMessage::User { parts: vec![Part::text(format!("and then? {n}"))] });
        for usage in [first.usage.unwrap(), second.usage.unwrap()] {
            if let Some(before) = before {
                // All that the request before it wrote, and what that one read.
                assert_eq!(usage.cached_tokens, before.cached_tokens + before.cache_write_tokens, "turn {n}");
            }
            assert!(usage.cache_write_tokens > 0);
            before = Some(usage);
        }
    }
    assert!(server.cached_share() > 0.5, "{}", server.cached_share());
    server.assert_clean();
}

#[tokio::test]
async fn compactions_have_no_breakpoints_and_the_fake_would_say_so() {
    let server = FakeModel::start().await;
    let model = claude(&server.base_url(), true);
    let mut talk = request("<transcript>hello</transcript>");
    talk.purpose = Purpose::Summarise { entries: Vec::new().into(), target_tokens: 100 };
    assert!(ask(&model, talk.clone()).await.unwrap().text.contains("fake summary 1"));
    server.assert_clean();
    talk.purpose = Purpose::Reply { question: String::new() };
    assert_eq!(ask(&model, talk).await.unwrap_err().code(), "bad_request");
    assert_eq!(server.violations()[0].rule, Rule::Cache);
}

#[tokio::test]
async fn the_key_is_sent_in_its_header_and_shown_nowhere() {
    let server = FakeModel::start().await;
    let key = SecretString::from("sk-ant-secret\n");
    let options =
        ServerOptions { api_key: Some(key), ..ServerOptions::new("m", server.base_url(), "claude") };
    let model = Anthropic::new(options.clone()).unwrap();
    assert!(!format!("{model:?} {options:?}").contains("ant-secret"));
    server.push(
        Kind::Reply,
        Answer::anthropic_error(401, "authentication_error", "invalid x-api-key: sk-ant-secret"),
    );
    let error = ask(&model, request("x")).await.unwrap_err();
    assert_eq!(server.seen()[0].authorization.as_deref(), Some("sk-ant-secret"));
    assert_eq!(error, ModelError::Auth("HTTP 401: invalid x-api-key: [key]".to_owned()));
    let whole_call = ServerOptions::new("m", "http://host/v1/messages", "x");
    assert!(matches!(Anthropic::new(whole_call), Err(BadModel::BaseUrl { .. })));
}

#[tokio::test]
async fn answers_that_break_off_stall_or_do_not_end_are_failures() {
    let words = || Answer::text("one two three four five six seven eight nine ten");
    let (idle, long) = (Duration::from_secs(2), Duration::from_secs(60));
    let failure = async |answer: Answer, stream: bool, idle: Duration| {
        let server = FakeModel::start().await;
        let timeouts = Timeouts { idle, first: long, ..Timeouts::default() };
        let options =
            ServerOptions { stream, timeouts, ..ServerOptions::new("m", server.base_url(), "claude") };
        let model = Anthropic::new(options).unwrap();
        ask(&model, request("w")).await.expect("an answer, whose end is marked");
        server.push(Kind::Reply, answer);
        ask(&model, request("x")).await.expect_err("a failure")
    };
    for stream in [true, false] {
        assert_eq!(failure(words().truncated(), stream, long).await.code(), "protocol");
        assert_eq!(failure(words().flooding(), stream, long).await.code(), "protocol");
        let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
        assert_eq!(failure(words().failing(overloaded), stream, long).await.code(), "overloaded");
    }
    assert_eq!(failure(words().hanging(), true, idle).await, ModelError::Timeout(idle));
}

#[tokio::test]
async fn ends_are_told() {
    let server = FakeModel::start().await;
    for (finish, expected) in [
        ("max_tokens", Finish::Length),
        ("refusal", Finish::Refusal),
        ("pause_turn", Finish::Pause),
        ("stop_sequence", Finish::Stop),
    ] {
        server.push(Kind::Reply, Answer::text("half").finish(finish));
        assert_eq!(ask(&claude(&server.base_url(), true), request("x")).await.unwrap().finish, expected);
    }
}

#[tokio::test]
async fn a_call_that_was_cut_is_told_from_a_whole_one() {
    let server = FakeModel::start().await;
    for stream in [true, false] {
        a_cut_call_is_no_call(&server, &claude(&server.base_url(), stream)).await;
    }
}

#[tokio::test]
async fn a_model_without_tools_is_told_of_calls_in_words() {
    let server = FakeModel::builder().no_tools(Wording::Bedrock).start().await;
    let model = claude(&server.base_url(), true);
    let mut talk = request("look it up");
    talk.tools = vec![find()].into();
    let call = ToolCall { id: "1".to_owned(), name: "find".to_owned(), arguments: json!({}) };
    talk.messages.push(ChatMessage::assistant("", vec![call]));
    talk.messages.push(ChatMessage::Tool {
        call_id: "1".to_owned(),
        text: "found".to_owned(),
        images: Vec::new(),
    });
    assert_eq!(ask(&model, talk.clone()).await.unwrap_err().code(), "no_tools");
    talk.tools = ToolDefs::default();
    assert_eq!(ask(&model, talk).await.unwrap().text, "echo: [result of find]\nfound");
    server.assert_clean();
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_asked_for_whole_answers() {
    whole_answers_are_asked_for(|url| Box::new(claude(url, true))).await;
}
