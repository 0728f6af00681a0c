//! Anthropic's messages, with the fake model and its cache.

use std::time::Duration;

use cairn_core::tool_defs::ToolDefs;
use cairn_llm::{Anthropic, BadModel, ServerOptions, Timeouts};
use cairn_testkit::model::{Answer, FakeModel, Kind, Rule, Wire, Wording};
use secrecy::SecretString;
use serde_json::json;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
async fn the_window_is_what_the_server_says_of_the_model() {
    let server = FakeModel::builder().advertise(200_000).start().await;
    assert_eq!(claude(&server.base_url(), true).discover_window().await, Ok(Some(200_000)));
    let silent = FakeModel::start().await;
    assert_eq!(claude(&silent.base_url(), true).discover_window().await, Ok(None));
}

/// llama.cpp's server speaks the format and tells of its model in a list alone.
#[tokio::test]
async fn the_window_is_found_in_a_list_where_the_server_has_nothing_else() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let n = socket.read(&mut request).await.unwrap();
            let path =
                String::from_utf8_lossy(&request[..n]).split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, body) = match path.as_str() {
                "/v1/models" => {
                    (200, json!({"data": [{"id": "qwen.gguf", "meta": {"n_ctx_train": 131_072}}]}))
                }
                "/props" => (200, json!({"default_generation_settings": {"n_ctx": 8_192}})),
                _ => (404, json!({"error": {"message": "File Not Found"}})),
            };
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    let model = claude(&format!("http://{address}/v1"), true);
    assert_eq!(model.discover_window().await, Ok(Some(8_192)));
}

#[tokio::test]
async fn answers_that_break_off_stall_or_do_not_end_are_failures() {
    let words = || Answer::text("one two three four five six seven eight nine ten");
    let idle = Duration::from_millis(50);
    let failure = async |answer: Answer, stream: bool| {
        let server = FakeModel::start().await;
        let timeouts = Timeouts { idle, first: Duration::from_secs(60), ..Timeouts::default() };
        let options =
            ServerOptions { stream, timeouts, ..ServerOptions::new("m", server.base_url(), "claude") };
        let model = Anthropic::new(options).unwrap();
        ask(&model, request("w")).await.expect("an answer, whose end is marked");
        server.push(Kind::Reply, answer);
        ask(&model, request("x")).await.expect_err("a failure")
    };
    for stream in [true, false] {
        assert_eq!(failure(words().truncated(), stream).await.code(), "protocol");
        assert_eq!(failure(words().flooding(), stream).await.code(), "protocol");
        let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
        assert_eq!(failure(words().failing(overloaded), stream).await.code(), "overloaded");
    }
    assert_eq!(failure(words().hanging(), true).await, ModelError::Timeout(idle));
}

#[tokio::test]
async fn ends_are_told() {
    let server = FakeModel::start().await;
    for (finish, expected) in [
        ("max_tokens", Finish::Length),
        ("refusal", Finish::ContentFilter),
        ("pause_turn", Finish::Length),
        ("stop_sequence", Finish::Stop),
    ] {
        server.push(Kind::Reply, Answer::text("half").finish(finish));
        assert_eq!(ask(&claude(&server.base_url(), true), request("x")).await.unwrap().finish, expected);
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
