//! What providers want back with answers that called tools, and servers that refuse one thing of a request.

use cairn_llm::Anthropic;
use cairn_testkit::model::Provider;
use cairn_types::ids::TextId;
use cairn_types::message::ToolCall;
use cairn_types::model::{Attempt, ChatMessage, ModelEvent};
use cairn_types::provider_state::ProviderState;
use rstest::rstest;

use super::*;

/// A client of the server, as after a restart.
fn client(provider: Provider, server: &FakeModel) -> Box<dyn ChatModel> {
    let options = ServerOptions::new("m", server.base_url(), "fake");
    match provider {
        Provider::ClaudeThinking => {
            let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
            let extra_body = thinking.as_object().cloned().unwrap_or_default();
            Box::new(Anthropic::new(ServerOptions { extra_body, ..options }).expect("good options"))
        }
        Provider::DeepSeek | Provider::Gemini3 | Provider::Gpt56OnChat => {
            Box::new(OpenAi::new(options).expect("good options"))
        }
    }
}

struct Said {
    text: String,
    calls: Vec<ToolCall>,
    state: Option<Box<ProviderState>>,
    remedies: Vec<String>,
}

async fn said(model: &dyn ChatModel, request: &ChatRequest) -> Result<Said, ModelError> {
    let mut said = Said { text: String::new(), calls: Vec::new(), state: None, remedies: Vec::new() };
    let mut events = model.stream(request.clone());
    while let Some(event) = events.next().await {
        match event? {
            ModelEvent::Text(text) => said.text.push_str(&text),
            ModelEvent::ToolCall(call) => said.calls.push(call),
            ModelEvent::State(state) => said.state = Some(state),
            ModelEvent::Sent(sent) => said.remedies = sent.wire.remedies,
            ModelEvent::TextWasReasoning
            | ModelEvent::Reasoning(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Done { .. } => {}
        }
    }
    Ok(said)
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User { parts: vec![Part::text(text)] }
}

fn find() -> ToolDef {
    ToolDef {
        name: "find".to_owned(),
        description: "Finds.".to_owned(),
        parameters: json!({"type": "object"}),
    }
}

/// A turn with two rounds of tools; what is said goes into the request.
async fn turn(model: &dyn ChatModel, server: &FakeModel, request: &mut ChatRequest, n: usize) {
    request.turn_from = request.messages.len();
    request.messages.push(user(&format!("question {n}")));
    for round in 0..2 {
        server.push(
            Kind::Reply,
            Answer::call("find", json!({"round": round})).and_call("find", json!({"q": 2})),
        );
        let Said { text, calls, state, .. } = said(model, request).await.expect("an answer");
        assert_eq!(calls.len(), 2, "turn {n}, round {round}: {text}");
        let results = calls.iter().map(|call| ChatMessage::Tool {
            call_id: call.id.clone(),
            text: "found".to_owned(),
            images: Vec::new(),
        });
        let results: Vec<ChatMessage> = results.collect();
        request.messages.push(ChatMessage::Assistant { text, tool_calls: calls, provider_state: state });
        request.messages.extend(results);
    }
    let Said { text, calls, .. } = said(model, request).await.expect("an answer");
    assert!(calls.is_empty() && !text.is_empty());
    request.messages.push(ChatMessage::assistant(text, Vec::new()));
}

/// The turn is closed: a provider that needs it no longer gets nothing of it.
fn close(request: &mut ChatRequest) {
    for message in &mut request.messages {
        if let ChatMessage::Assistant { provider_state, .. } = message {
            provider_state.take_if(|state| !state.outlives_turn());
        }
    }
}

#[rstest]
#[case(Provider::DeepSeek)]
#[case(Provider::Gemini3)]
#[case(Provider::Gpt56OnChat)]
#[case(Provider::ClaudeThinking)]
#[tokio::test]
async fn what_a_provider_wants_back_it_gets_over_turns_and_restarts(#[case] provider: Provider) {
    let server = FakeModel::builder().provider(provider).expect_stable_prefix(false).start().await;
    let mut request = ChatRequest { tools: vec![find()].into(), messages: Vec::new(), ..request("") };
    for n in 0..3 {
        let model = client(provider, &server);
        turn(&*model, &server, &mut request, n).await;
        close(&mut request);
    }
    // Only what is not known from the start costs a refusal, once for each start.
    let refusals = if provider == Provider::Gpt56OnChat { 3 } else { 0 };
    assert_eq!(server.violations().len(), refusals, "{:#?}", server.violations());
}

#[rstest]
#[case(Provider::DeepSeek, "empty_reasoning")]
#[case(Provider::Gemini3, "sign_calls")]
#[tokio::test]
async fn calls_that_another_model_made_get_what_the_server_takes_instead(
    #[case] provider: Provider,
    #[case] remedy: &str,
) {
    let server = FakeModel::builder().provider(provider).expect_stable_prefix(false).start().await;
    let call = ToolCall { id: "old".to_owned(), name: "find".to_owned(), arguments: json!({}) };
    let mut request = ChatRequest { tools: vec![find()].into(), ..request("where?") };
    request.messages.push(ChatMessage::assistant("", vec![call]));
    request.messages.push(ChatMessage::Tool {
        call_id: "old".into(),
        text: "there".into(),
        images: Vec::new(),
    });
    request.messages.push(ChatMessage::assistant("There.", Vec::new()));
    request.messages.push(user("and now?"));
    request.turn_from = 4;
    let model = client(provider, &server);
    for n in 1..=2 {
        let answer = said(&*model, &request).await.expect("an answer");
        assert_eq!(answer.remedies, [remedy], "request {n}");
        assert_eq!(server.violations().len(), 1, "it is refused once");
    }
}

/// A request with everything that a server might refuse.
fn rich() -> ChatRequest {
    let call = ToolCall { id: "old".to_owned(), name: "find".to_owned(), arguments: json!({}) };
    let picture = Part::Image { name: None, media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let mut request =
        ChatRequest { tools: vec![find()].into(), attempt: Attempt::Simplified, ..request("where?") };
    let items = vec![
        cairn_types::provider_state::ProviderItem::Opaque { value: json!({"reasoning_content": "hm"}) },
        cairn_types::provider_state::ProviderItem::Call { fields: serde_json::Map::new() },
    ];
    let state = ProviderState::of(cairn_types::wire::format::WireFormat::Openai, "fake", items).map(Box::new);
    request.messages.push(ChatMessage::Assistant {
        text: String::new(),
        tool_calls: vec![call],
        provider_state: state,
    });
    request.messages.push(ChatMessage::Tool {
        call_id: "old".into(),
        text: "there".into(),
        images: Vec::new(),
    });
    request.messages.push(ChatMessage::assistant("There.", Vec::new()));
    request.messages.push(ChatMessage::User { parts: vec![Part::text("and this?"), picture] });
    request.turn_from = 4;
    request.last_call = true;
    request
}

fn has(body: &serde_json::Value, needle: &str) -> bool {
    body.to_string().contains(needle)
}

type Feature = fn(&serde_json::Value) -> bool;

const FEATURES: [(&str, Feature); 8] = [
    ("tools", |body| body.get("tools").is_some()),
    ("past calls", |body| has(body, "\"tool_calls\"")),
    ("reasoning", |body| has(body, "reasoning_content")),
    ("tool_choice", |body| body.get("tool_choice").is_some()),
    ("pictures", |body| has(body, "image_url")),
    ("a system message", |body| body["messages"][0]["role"] == "system"),
    ("streaming", |body| body["stream"] == true),
    ("configured fields", |body| body.get("temperature").is_some()),
];

#[tokio::test]
async fn whatever_single_thing_a_server_refuses_the_request_is_answered_without_it() {
    for (name, feature) in FEATURES {
        let server = FakeModel::builder().lenient().refuses(feature).start().await;
        let extra_body = json!({"temperature": 0.5}).as_object().cloned().unwrap_or_default();
        let options =
            ServerOptions { images: true, extra_body, ..ServerOptions::new("m", server.base_url(), "fake") };
        let model = OpenAi::new(options).expect("good options");
        let request = rich();
        let whole = ChatRequest { attempt: Attempt::Whole, ..request.clone() };
        let refused = said(&model, &whole).await.err();
        assert!(refused.is_some_and(|error| error.may_be_of_content()), "{name}");
        let answer = said(&model, &request).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!answer.text.is_empty(), "{name}");
        let sent = server.seen().len();
        let again = said(&model, &whole).await.unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert!(!again.remedies.is_empty() && server.seen().len() == sent + 1, "{name}: it is remembered");
    }
}

#[tokio::test]
async fn a_server_that_refuses_several_things_is_asked_with_the_last_message_alone() {
    let server = FakeModel::builder()
        .lenient()
        .refuses(|body| FEATURES.iter().any(|(_, feature)| feature(body)) || has(body, "where?"))
        .start()
        .await;
    let extra_body = json!({"temperature": 0.5}).as_object().cloned().unwrap_or_default();
    let options =
        ServerOptions { images: true, extra_body, ..ServerOptions::new("m", server.base_url(), "fake") };
    let model = OpenAi::new(options).expect("good options");
    let request = rich();
    assert!(said(&model, &request).await.is_err());
    let answer =
        said(&model, &ChatRequest { attempt: Attempt::Bare, ..request.clone() }).await.expect("an answer");
    assert!(answer.text.contains("and this?"), "{}", answer.text);
    let sent = server.seen().pop().expect("a request").sent;
    assert!(!sent.contains("where?") && sent.contains("prompt"), "{sent}");
    // What was sent can be made again.
    let wire = {
        let mut events = model.stream(ChatRequest { attempt: Attempt::Bare, ..request.clone() });
        match events.next().await {
            Some(Ok(ModelEvent::Sent(sent))) => sent,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(Some(TextId::of(&cairn_llm::body_of(&wire.wire, &request))), wire.body);
}
