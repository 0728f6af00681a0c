//! What a server passes on as text although it is something else, on both wires, streamed and whole.

use cairn_llm::Anthropic;

use super::*;

async fn each_way(text: &str, check: impl Fn(Whole)) {
    for (anthropic, stream) in [(false, true), (false, false), (true, true), (true, false)] {
        let server = FakeModel::start().await;
        let options = ServerOptions { stream, ..ServerOptions::new("m", server.base_url(), "fake") };
        let model: Box<dyn ChatModel> = match anthropic {
            true => Box::new(Anthropic::new(options).unwrap()),
            false => Box::new(OpenAi::new(options).unwrap()),
        };
        server.push(Kind::Reply, Answer::text(text));
        let mut request = request("x");
        request.tools = vec![find()].into();
        check(ask(&*model, request).await.expect("an answer"));
        server.assert_clean();
    }
}

#[tokio::test]
async fn reasoning_in_tags_and_an_echoed_header_are_no_text() {
    each_way("<think>\nI greet.\n</think>\n\n[main | 2026-11-26 23:38] Hello!", |said| {
        assert_eq!((said.text.as_str(), said.reasoning.as_str()), ("Hello!", "\nI greet.\n"));
        assert_eq!(said.finish, Finish::Stop);
    })
    .await;
}

#[tokio::test]
async fn a_call_written_as_text_is_a_call() {
    each_way("I look.\n<tool_call>{\"name\": \"find\", \"arguments\": {\"q\": 1}}</tool_call>", |said| {
        let call =
            ToolCall { id: "call_1_t0".to_owned(), name: "find".to_owned(), arguments: json!({"q": 1}) };
        assert_eq!((said.text.as_str(), said.calls), ("I look.", vec![call]));
        assert_eq!(said.finish, Finish::ToolCalls);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_comes_both_ways_is_one() {
    let server = FakeModel::start().await;
    let text = "<tool_call>{\"name\": \"find\", \"arguments\": {\"q\": 1}}</tool_call>\n\
                <tool_call>{\"name\": \"find\", \"arguments\": {\"q\": 2}}</tool_call>";
    server.push(Kind::Reply, Answer::text(text).and_call("find", json!({"q": 1})));
    let mut request = request("x");
    request.tools = vec![find()].into();
    let said = ask(&model(&server.base_url(), true), request).await.unwrap();
    let arguments: Vec<_> = said.calls.iter().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({"q": 1}), json!({"q": 2})]);
}

/// What a stream says before the end, and whether it took text back.
async fn shown(model: &OpenAi) -> (Vec<ModelEvent>, bool) {
    let events: Vec<_> = model.stream(request("x")).map(|event| event.unwrap()).collect().await;
    let took_back = events.contains(&ModelEvent::TextWasReasoning);
    (events.into_iter().filter(|event| matches!(event, ModelEvent::Text(_))).collect(), took_back)
}

#[tokio::test]
async fn a_server_whose_answers_begin_amid_reasoning_shows_it_once() {
    let server = FakeModel::start().await;
    let model = model(&server.base_url(), true);
    let amid = "The user greets, so I greet.\n</think>\n\nHello!";
    for took_back in [true, false] {
        server.push(Kind::Reply, Answer::text(amid));
        let (text, took) = shown(&model).await;
        assert_eq!(took, took_back);
        assert_eq!(text.last(), Some(&ModelEvent::Text("Hello!".to_owned())));
        assert_eq!(text.len() > 1, took_back, "{text:?}");
    }
    server.push(Kind::Reply, Answer::text("Hello again!"));
    assert_eq!(shown(&model).await, (vec![ModelEvent::Text("Hello again!".to_owned())], false));
}
