//! Servers that refuse, break off, fall silent or are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cairn_llm::{Anthropic, BadModel, OpenAi, Timeouts};
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, Wording};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

async fn failure_of(answer: Answer, stream: bool) -> ModelError {
    let server = FakeModel::start().await;
    server.push(Kind::Reply, answer);
    ask(&model(&server.base_url(), stream), request("x"))
        .await
        .expect_err("an answer that should have failed")
}

#[tokio::test]
async fn refusals_are_typed_over_the_wire() {
    for stream in [true, false] {
        assert!(matches!(failure_of(Answer::overflow(), stream).await, ModelError::ContextOverflow { .. }));
        assert_eq!(failure_of(Answer::error(403, "no"), stream).await.code(), "auth");
        assert_eq!(failure_of(Answer::error(400, "no"), stream).await.code(), "bad_request");
        let limited = failure_of(Answer::error(429, "slow").header("retry-after", "7"), stream).await;
        assert_eq!((limited.code(), limited.retry_after()), ("rate_limited", Some(Duration::from_secs(7))));
        let busy = failure_of(Answer::error(529, "busy").header("retry-after", "2"), stream).await;
        assert_eq!((busy.code(), busy.retry_after()), ("overloaded", Some(Duration::from_secs(2))));
    }
}

#[tokio::test]
async fn answers_that_break_off_are_failures() {
    let words = || Answer::text("one two three four five six seven eight nine ten");
    for stream in [true, false] {
        let server = FakeModel::start().await;
        let model = model(&server.base_url(), stream);
        ask(&model, request("w")).await.expect("an answer, whose end is marked");
        for _ in 0..3 {
            server.push(Kind::Reply, words().truncated());
            assert_eq!(ask(&model, request("x")).await.unwrap_err().code(), "protocol");
        }
        assert_eq!(ask(&model, request("y")).await.unwrap().text, "echo: y");
    }
    let failing = || words().failing(json!({"message": "the GPU is gone", "code": 503}));
    assert_eq!(failure_of(failing(), true).await.code(), "overloaded");
    assert_eq!(failure_of(failing(), false).await.code(), "overloaded");
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let html = "<!doctype html><html>hello</html>";
    for stream in [true, false] {
        for (content_type, body) in [
            ("text/html", html),
            ("text/plain", "hello"),
            ("application/json", html),
            ("application/json", ""),
            ("application/json", "{}"),
            ("text/event-stream", ""),
            ("text/event-stream", html),
        ] {
            let error = failure_of(Answer::raw(200, content_type, body), stream).await;
            assert_eq!(error.code(), "protocol", "{content_type} {body:?}: {error}");
        }
    }
    let whole = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
    let server = FakeModel::start().await;
    server.push(Kind::Reply, Answer::raw(200, "application/json; charset=utf-8", whole.to_string()));
    // A server that does not stream although it is asked to.
    assert_eq!(ask(&model(&server.base_url(), true), request("x")).await.unwrap().text, "hi");
}

/// Each answer once in both wire formats.
fn both(server: &FakeModel) -> [Box<dyn ChatModel>; 2] {
    let options = ServerOptions::new("m", server.base_url(), "fake");
    [Box::new(model(&server.base_url(), true)), Box::new(Anthropic::new(options).unwrap())]
}

#[tokio::test]
async fn an_answer_without_an_end_mark_counts_where_the_server_never_marks_one() {
    let server = FakeModel::builder().expect_stable_prefix(false).start().await;
    for model in both(&server) {
        let n_before = server.requests().len();
        for n in 0..3 {
            server.push(Kind::Reply, Answer::text("all of the words of it").unmarked());
            let said = ask(&*model, request("x")).await.unwrap();
            assert_eq!((said.text.as_str(), said.finish), ("all of the words of it", Finish::Stop), "{n}");
        }
        server.push(Kind::Reply, Answer::call("find", json!({"q": "x"})).unmarked());
        let said = ask(&*model, request("x")).await.unwrap();
        assert_eq!((said.calls[0].arguments.clone(), said.finish), (json!({"q": "x"}), Finish::ToolCalls));
        assert_eq!(server.requests().len() - n_before, 4, "each is asked for once");
        // Once it has marked one, an answer without a mark is cut off.
        assert_eq!(ask(&*model, request("y")).await.unwrap().text, "echo: y");
        server.push(Kind::Reply, Answer::text("all of the words of it").unmarked());
        assert_eq!(ask(&*model, request("x")).await.unwrap_err().code(), "protocol");
    }
}

#[tokio::test]
async fn what_is_not_whole_by_itself_does_not_count_without_an_end_mark() {
    let words = r#"data: {"choices":[{"delta":{"content":"half"}}]}"#;
    let call = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"find","arguments":"{\"q\": \"a"}}]}}]}"#;
    for body in
        [call.to_owned(), format!("{words}\n\n{call}"), ": nothing\n\n".to_owned(), "data: {}\n\n".to_owned()]
    {
        let error = failure_of(Answer::raw(200, "text/event-stream", format!("{body}\n\n")), true).await;
        assert_eq!(error.code(), "protocol", "{body}");
    }
    // Neither does what ends with its connection: nobody knows why that ended.
    let (base_url, server) =
        answering(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{words}\n\n")).await;
    assert_eq!(ask(&model(&base_url, true), request("x")).await.unwrap_err().code(), "protocol");
    server.await.unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (base_url, server) = answering(format!("{head}{:x}\r\n{words}\n\n\r\n", words.len() + 2)).await;
    assert_eq!(ask(&model(&base_url, true), request("x")).await.unwrap_err().code(), "transport");
    server.await.unwrap();
}

#[tokio::test]
async fn a_stream_is_read_under_any_type() {
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n\
                     event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
                     {\"type\":\"text\",\"text\":\"hi\"}}\n\n\
                     event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
                     event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let server = FakeModel::builder().expect_stable_prefix(false).start().await;
    let types =
        ["text/plain; charset=utf-8", "application/octet-stream", "application/json", "TEXT/HTML", "", "x"];
    for (model, body) in both(&server).into_iter().zip([openai, anthropic]) {
        for content_type in types {
            for before in ["", "\u{feff}", ": a comment\n\n", "\r\n \n\n", "id: 1\n", "retry: 5\n\n"] {
                server.push(Kind::Reply, Answer::raw(200, content_type, format!("{before}{body}")));
                let said = ask(&*model, request("x")).await;
                assert_eq!(said.unwrap().text, "hi", "{content_type}, behind {before:?}");
            }
        }
    }
    assert!(server.requests().iter().all(|body| body["stream"] == true), "it streams, whatever it calls it");
}

#[tokio::test]
async fn an_error_in_a_stream_keeps_its_words_in_every_shape() {
    let server = FakeModel::builder().expect_stable_prefix(false).start().await;
    let words = "model not loaded: out of memory";
    let error = json!({"error": {"message": words, "type": "server_error", "code": 500}});
    let bodies = [
        error.to_string(),
        format!("{error:#}"),
        format!("{error}\n\ndata: [DONE]\n\n"),
        format!("error: {error}\n\ndata: [DONE]\n\n"),
        format!("error: {words}\n\n"),
        format!("event: error\ndata: {words}\n\n"),
        format!("data: {error}\n\n"),
        format!(": ping\n\n{error}\n\n"),
        format!("data: {}\n\n", json!({"errors": [{"message": words}]})),
        format!("data: {}\n\n", json!({"detail": words})),
        json!({"detail": words}).to_string(),
        json!({"message": words, "code": 50_000}).to_string(),
    ];
    for model in both(&server) {
        for body in &bodies {
            for content_type in ["text/event-stream", "application/json"] {
                server.push(Kind::Reply, Answer::raw(200, content_type, body.clone()));
                let error = ask(&*model, request("x")).await.unwrap_err();
                assert!(error.to_string().contains(words), "{content_type} {body}: {error}");
                assert_eq!(error.code(), "server_failed", "{content_type} {body}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_that_begins_a_stream_is_a_refusal_as_by_a_status() {
    let refuse = |seen: &Seen| {
        let error = json!({"error": {"message": "tool_choice is not supported", "code": 400}});
        let asked = !seen.body["tool_choice"].is_null();
        asked.then(|| Answer::raw(200, "text/event-stream", format!(": wait\n\ndata: {error}\n\n")))
    };
    let server = FakeModel::builder().respond(refuse).start().await;
    let model = model(&server.base_url(), true);
    for _ in 0..2 {
        assert_eq!(ask(&model, with_a_result("call_1")).await.unwrap().text, "echo: x");
    }
    let chosen: Vec<bool> = server.requests().iter().map(|body| body["tool_choice"] == "none").collect();
    assert_eq!(chosen, [true, false, false]);
}

#[tokio::test]
async fn a_body_without_bounds_is_given_up() {
    let huge = " ".repeat(17 << 20);
    assert_eq!(
        failure_of(Answer::raw(200, "application/json", huge.clone()), false).await.code(),
        "protocol"
    );
    assert_eq!(
        failure_of(Answer::raw(200, "text/event-stream", huge.clone()), true).await.code(),
        "protocol"
    );
    assert_eq!(failure_of(Answer::raw(500, "text/plain", huge), true).await.code(), "overloaded");
}

#[tokio::test]
async fn an_overflow_in_each_servers_words_names_the_window() {
    for wording in Wording::ALL {
        let error = failure_of(wording.overflow(8_192, 9_000, 1_000), true).await;
        let ModelError::ContextOverflow { limit, .. } = error else { panic!("{wording:?}: {error:?}") };
        assert_eq!(limit, wording.names_window().then_some(8_192), "{wording:?}");
    }
}

#[tokio::test]
async fn a_model_without_tools_is_known_in_each_servers_words() {
    for wording in Wording::ALL {
        let server = FakeModel::builder().no_tools(*wording).start().await;
        let model = model(&server.base_url(), true);
        let mut talk = request("x");
        talk.tools = vec![find()].into();
        assert_eq!(ask(&model, talk).await.unwrap_err().code(), "no_tools", "{wording:?}");
        assert_eq!(ask(&model, request("x")).await.unwrap().text, "echo: x");
        // A request without tools is not refused for them, whatever the server says.
        server.push(Kind::Reply, wording.no_tools());
        assert_eq!(ask(&model, request("x")).await.unwrap_err().code(), "bad_request", "{wording:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_asked_for_whole_answers() {
    whole_answers_are_asked_for(|url| Box::new(model(url, true))).await;
    // One that fails without streaming, too, is asked for a stream again.
    let server = FakeModel::start().await;
    let model = model(&server.base_url(), true);
    for _ in 0..2 {
        server.push(Kind::Reply, Answer::error(400, "streaming is not supported"));
    }
    assert_eq!(ask(&model, request("x")).await.unwrap_err().code(), "bad_request");
    assert_eq!(ask(&model, request("x")).await.unwrap().text, "echo: x");
    assert_eq!(server.requests()[2]["stream"], true);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = FakeModel::start().await;
    let to = format!("{}/chat/completions", elsewhere.base_url());
    let error = failure_of(Answer::raw(307, "text/plain", "").header("location", &to), true).await;
    assert_eq!(error.code(), "bad_request");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let timeouts = |first_ms, idle_ms| Timeouts {
        first: Duration::from_millis(first_ms),
        idle: Duration::from_millis(idle_ms),
        ..Timeouts::default()
    };
    let server = FakeModel::start().await;
    let with = |timeouts| {
        OpenAi::new(ServerOptions { timeouts, ..ServerOptions::new("m", server.base_url(), "fake") }).unwrap()
    };
    server.push(Kind::Reply, Answer::text("one two three four five six seven eight nine ten").hanging());
    let error = ask(&with(timeouts(60_000, 50)), request("x")).await.unwrap_err();
    assert_eq!(error, ModelError::Timeout(Duration::from_millis(50)));
    let _gate = server.hold(Kind::Reply);
    let error = ask(&with(timeouts(50, 60_000)), request("x")).await.unwrap_err();
    assert_eq!(error, ModelError::Timeout(Duration::from_millis(50)));
}

/// A server that answers its one request with these bytes and closes; gives its address.
async fn answering(bytes: String) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let _n_read = socket.read(&mut request).await.unwrap();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
    });
    (base_url, server)
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_transport_error() {
    // The second chunk is announced and never comes.
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (base_url, server) = answering(format!("{head}{:x}\r\n{chunk}\r\n40\r\ndata", chunk.len())).await;
    let error = ask(&model(&base_url, true), request("x")).await.unwrap_err();
    assert_eq!(error.code(), "transport", "{error}");
    server.await.unwrap();
    let error = ask(&model(&base_url, true), request("x")).await.unwrap_err();
    assert_eq!(error.code(), "transport", "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!error.may_have_cost(), "nothing was sent: {error}");
    // It reads the request, and has nothing to say.
    let (base_url, server) = answering(String::new()).await;
    let error = ask(&model(&base_url, true), request("x")).await.unwrap_err();
    assert_eq!((error.code(), error.may_have_cost()), ("transport", true), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_without_types_and_length_is_understood() {
    let chunk = json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let (base_url, server) = answering(format!("HTTP/1.1 200 OK\r\n\r\ndata: {chunk}\n\ndata: [DONE]")).await;
    assert_eq!(ask(&model(&base_url, true), request("x")).await.unwrap().text, "hi");
    server.await.unwrap();
}

#[test]
fn addresses_and_keys_that_cannot_be_used_are_refused() {
    let refused = |base_url: &str| OpenAi::new(ServerOptions::new("m", base_url, "x")).err();
    for base_url in [
        "",
        "localhost:8080",
        "ftp://host/v1",
        "http://",
        "http://me:pass@host/v1",
        "http://host/v1/chat/completions/",
    ] {
        let Some(BadModel::BaseUrl { .. }) = refused(base_url) else { panic!("{base_url} is taken") };
    }
    assert!(!refused("http://me:pass@host/v1").unwrap().to_string().contains("pass@"));
    assert_eq!(refused(" https://host/v1/ "), None);
    let key = Some(secrecy::SecretString::from("a\nb"));
    let options = ServerOptions { api_key: key, ..ServerOptions::new("m", "http://host/v1", "x") };
    assert!(matches!(OpenAi::new(options), Err(BadModel::ApiKey { .. })));
}

/// A question, a call with its result, and that no more calls are made.
fn with_a_result(id: &str) -> ChatRequest {
    let call = ToolCall { id: id.to_owned(), name: "find".to_owned(), arguments: json!({}) };
    let mut request = ChatRequest { tools: vec![find()].into(), last_call: true, ..request("x") };
    request.messages.extend([
        ChatMessage::assistant("", vec![call]),
        ChatMessage::Tool { call_id: id.to_owned(), text: "found".to_owned(), images: Vec::new() },
        ChatMessage::Context { text: "now".to_owned() },
    ]);
    request
}

#[tokio::test]
async fn the_last_call_forbids_tools_and_lists_them() {
    let server = FakeModel::start().await;
    ask(&model(&server.base_url(), true), with_a_result("call_1")).await.unwrap();
    let sent = server.requests().pop().unwrap();
    assert_eq!((&sent["tool_choice"], sent["tools"].as_array().unwrap().len()), (&json!("none"), 1));
    ask(&model(&server.base_url(), true), ChatRequest { last_call: false, ..with_a_result("call_1") })
        .await
        .unwrap();
    assert!(server.requests().pop().unwrap().get("tool_choice").is_none());
    server.assert_clean();
}

#[tokio::test]
async fn a_server_that_takes_no_tool_choice_is_asked_without_it() {
    let refuse = |seen: &Seen| {
        let words = "deepseek-reasoner does not support this tool_choice";
        (!seen.body["tool_choice"].is_null()).then(|| Answer::error(400, words))
    };
    let server = FakeModel::builder().respond(refuse).start().await;
    let model = model(&server.base_url(), true);
    for _ in 0..2 {
        assert_eq!(ask(&model, with_a_result("call_1")).await.unwrap().text, "echo: x");
    }
    let chosen: Vec<bool> = server.requests().iter().map(|body| body["tool_choice"] == "none").collect();
    assert_eq!(chosen, [true, false, false], "it is left out once it was refused");
    assert!(server.requests().iter().all(|body| body["tools"].is_array()));
}

#[tokio::test]
async fn the_limit_of_an_answer_goes_by_the_name_that_the_server_takes() {
    // OpenAI's words for its newer models, and those of a plain validator.
    let refused = [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "[{'type': 'extra_forbidden', 'loc': ['body', 'max_completion_tokens'], 'msg': 'Extra inputs are not permitted'}]",
    ];
    let keys = ["max_tokens", "max_completion_tokens"];
    let taken = Arc::new(AtomicUsize::new(1));
    let respond = {
        let taken = Arc::clone(&taken);
        move |seen: &Seen| {
            let wrong = 1 - taken.load(Ordering::Relaxed);
            seen.body.get(keys[wrong]).map(|_| Answer::error(400, refused[wrong]))
        }
    };
    let server = FakeModel::builder().expect_stable_prefix(false).respond(respond).start().await;
    let model = model(&server.base_url(), true);
    let mut names = Vec::new();
    // The name that it takes changes, and changes back, as when a gateway changes what is behind it.
    for name in [1, 1, 0, 0, 1] {
        taken.store(name, Ordering::Relaxed);
        assert_eq!(ask(&model, request("x")).await.unwrap().text, "echo: x");
    }
    for body in server.requests() {
        names.push(keys.iter().position(|key| body.get(key).is_some()).unwrap());
        assert_eq!(body[keys[names[names.len() - 1]]], 100);
    }
    assert_eq!(names, [0, 1, 1, 1, 0, 0, 0, 1], "each is refused once");
}

#[tokio::test]
async fn azure_gets_its_version_and_its_key_as_it_wants_them() {
    // https://learn.microsoft.com/azure/ai-services/openai/reference: POST
    // {endpoint}/openai/deployments/{deployment}/chat/completions?api-version=…, with the header `api-key`.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let n_read = socket.read(&mut request).await.unwrap();
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
        socket.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..n_read]).to_lowercase()
    });
    let base_url = format!("http://{address}/openai/deployments/gpt/?api-version=2024-10-21");
    let key = Some(secrecy::SecretString::from("k3y"));
    let options = ServerOptions { api_key: key, ..ServerOptions::new("m", base_url, "gpt") };
    assert_eq!(ask(&OpenAi::new(options).unwrap(), request("x")).await.unwrap().text, "hi");
    let sent = server.await.unwrap();
    let line = "post /openai/deployments/gpt/chat/completions?api-version=2024-10-21 http/1.1\r\n";
    assert!(sent.starts_with(line), "{sent}");
    assert!(sent.contains("\r\napi-key: k3y\r\n") && !sent.contains("authorization"), "{sent}");
    assert!(sent.contains("\"max_completion_tokens\":100"), "{sent}");
}

#[tokio::test]
async fn a_server_that_wants_short_ids_of_calls_gets_them() {
    let fits = |id: &serde_json::Value| id.as_str().is_some_and(|id| id.len() == 9);
    let refuse = move |seen: &Seen| {
        let words = "Tool call IDs should be alphanumeric strings with length 9!";
        let messages = &seen.body["messages"];
        let (call, result) = (&messages[2]["tool_calls"][0]["id"], &messages[3]["tool_call_id"]);
        assert_eq!(call, result);
        (!fits(call)).then(|| Answer::error(500, words))
    };
    let server = FakeModel::builder().expect_stable_prefix(false).respond(refuse).start().await;
    let model = model(&server.base_url(), true);
    for id in ["functions.find:0", "functions.find:1", "abc123XYZ"] {
        assert_eq!(ask(&model, with_a_result(id)).await.unwrap().text, "echo: x", "{id}");
    }
    let sent = server.requests();
    assert_eq!(sent.len(), 4, "one refusal is enough");
    assert_ne!(sent[1]["messages"][3]["tool_call_id"], sent[2]["messages"][3]["tool_call_id"]);
    assert_eq!(sent[3]["messages"][3]["tool_call_id"], "abc123XYZ", "what fits stays");
    server.assert_clean();
}

/// A question, two calls in one answer, and their results.
fn with_two_results() -> ChatRequest {
    let mut request = ChatRequest { tools: vec![find()].into(), ..request("x") };
    let call = |id: &str| ToolCall { id: id.to_owned(), name: "find".to_owned(), arguments: json!({}) };
    let result =
        |id: &str| ChatMessage::Tool { call_id: id.to_owned(), text: id.to_owned(), images: Vec::new() };
    request.messages.extend([
        ChatMessage::assistant("I look", vec![call("a"), call("b")]),
        result("a"),
        result("b"),
        ChatMessage::Context { text: "now".to_owned() },
    ]);
    request
}

/// In both wire formats.
#[tokio::test]
async fn a_chat_template_that_takes_one_call_gets_them_one_by_one() {
    let refuse = |seen: &Seen| {
        let messages = seen.body["messages"].as_array().unwrap();
        let several = messages
            .iter()
            .any(|message| message["tool_calls"].as_array().is_some_and(|calls| calls.len() > 1));
        // In llama.cpp's words.
        let words = "Unable to generate parser for this template. Automatic parser generation failed: \n------------\n\
                     While executing CallExpression at line 71, column 32 in source:\n... Error: Jinja Exception: \
                     This model only supports single tool-calls at once!";
        several.then(|| Answer::error(400, words))
    };
    let server = FakeModel::builder().expect_stable_prefix(false).respond(refuse).start().await;
    let options = ServerOptions::new("m", server.base_url(), "fake");
    let models: [Box<dyn ChatModel>; 2] =
        [Box::new(model(&server.base_url(), true)), Box::new(Anthropic::new(options).unwrap())];
    for (n, model) in models.iter().enumerate() {
        for _ in 0..2 {
            assert!(ask(&**model, with_two_results()).await.unwrap().text.starts_with("echo: "));
        }
        let sent = server.requests();
        assert_eq!(sent.len(), 3 * (n + 1), "one refusal is enough");
        assert_eq!(
            sent.last().unwrap()["messages"].to_string().matches("\"a\"").count(),
            3,
            "nothing is lost"
        );
    }
    server.assert_clean();
}

#[tokio::test]
async fn a_chat_template_that_knows_no_results_is_one_of_a_model_without_tools() {
    let words = "Conversation roles must alternate user/assistant/user/assistant/...";
    let server = FakeModel::builder().fault(Answer::error(500, words)).start().await;
    let model = model(&server.base_url(), true);
    assert_eq!(ask(&model, with_a_result("call_1")).await.unwrap_err().code(), "no_tools");
    assert_eq!(ask(&model, request("x")).await.unwrap_err().code(), "bad_request", "no tools, no results");
}
