//! What goes back to whom, in which order, and what a changed request takes away.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::ids::{AgentId, ChannelId};
use crate::message::{Part, ToolCall};
use crate::model::{Attempt, Purpose};

fn text(bytes: u64) -> ProviderItem {
    ProviderItem::Text { bytes, fields: Map::new() }
}

fn call(fields: Value) -> ProviderItem {
    ProviderItem::Call { fields: fields.as_object().cloned().unwrap_or_default() }
}

fn opaque(value: Value) -> ProviderItem {
    ProviderItem::Opaque { value }
}

fn state(format: WireFormat, items: Vec<ProviderItem>) -> ProviderState {
    ProviderState::of(format, "large", items).expect("something is to go back")
}

fn wire(format: WireFormat, model: &str) -> Wire {
    Wire {
        format,
        model: model.to_owned(),
        images: false,
        tools: true,
        stream: true,
        limit_key: String::new(),
        cache_ttl_secs: 300,
        breakpoints: false,
        extra: Map::new(),
        remedies: Vec::new(),
    }
}

#[rstest]
#[case::chat_in_its_turn(WireFormat::Openai, WireFormat::Openai, "large", true, true)]
#[case::chat_later(WireFormat::Openai, WireFormat::Openai, "large", false, true)]
#[case::chat_to_another_model(WireFormat::Openai, WireFormat::Openai, "small", true, false)]
#[case::thinking_in_its_turn(WireFormat::Anthropic, WireFormat::Anthropic, "large", true, true)]
#[case::thinking_later(WireFormat::Anthropic, WireFormat::Anthropic, "large", false, false)]
#[case::reasoning_items_in_their_turn(WireFormat::Responses, WireFormat::Responses, "large", true, true)]
#[case::reasoning_items_later(WireFormat::Responses, WireFormat::Responses, "large", false, false)]
#[case::reasoning_items_over_chat(WireFormat::Responses, WireFormat::Openai, "large", true, false)]
#[case::thinking_over_another_wire(WireFormat::Anthropic, WireFormat::Openai, "large", true, false)]
fn what_was_given_goes_back_to_who_gave_it(
    #[case] made: WireFormat,
    #[case] asked: WireFormat,
    #[case] model: &str,
    #[case] is_open: bool,
    #[case] expected: bool,
) {
    let state = state(made, vec![opaque(json!({"reasoning_content": "hm"})), call(json!({}))]);
    assert_eq!(state.goes_back(&wire(asked, model), is_open), expected);
}

#[test]
fn an_answer_of_which_nothing_has_to_go_back_keeps_nothing() {
    assert_eq!(ProviderState::of(WireFormat::Openai, "m", vec![text(4), call(json!({}))]), None);
    assert!(ProviderState::of(WireFormat::Openai, "m", vec![call(json!({"extra_content": {}}))]).is_some());
}

#[test]
fn blocks_keep_their_places_between_texts_and_calls() {
    let (one, two) =
        (json!({"type": "thinking", "signature": "a"}), json!({"type": "thinking", "signature": "b"}));
    let items = vec![
        opaque(one.clone()),
        text(3),
        call(json!({})),
        opaque(two.clone()),
        text(4),
        call(json!({"x": 1})),
    ];
    let state = state(WireFormat::Anthropic, items);
    let fields = json!({"x": 1});
    let (none, fields) = (Map::new(), fields.as_object().unwrap());
    assert_eq!(
        state.in_order("abcdé!", 2),
        [
            Ordered::Opaque(&one),
            Ordered::Text("abc", Some(&none)),
            Ordered::Call(0, Some(&none)),
            Ordered::Opaque(&two),
            Ordered::Text("dé!", Some(&none)),
            Ordered::Call(1, Some(fields)),
        ]
    );
    // The text was changed since, a call left out, or a cut would fall into a character: nothing of the answer is lost.
    for (text, n_calls) in [("abc", 2), ("abcdé!", 1), ("abéééé!", 2)] {
        let ordered = state.in_order(text, n_calls);
        let texts = ordered.iter().filter_map(|item| match item {
            Ordered::Text(text, _) => Some(*text),
            Ordered::Opaque(_) | Ordered::Call(..) => None,
        });
        assert_eq!(texts.collect::<String>(), text);
        assert_eq!(ordered.iter().filter(|item| matches!(item, Ordered::Call(..))).count(), n_calls);
        assert_eq!(ordered[..2], [Ordered::Opaque(&one), Ordered::Opaque(&two)]);
    }
}

#[rstest]
#[case(json!({"reasoning_content": "hm"}), true)]
#[case(json!({"reasoning_content": ""}), false)]
#[case(json!({"type": "thinking", "thinking": "hm", "signature": "s"}), true)]
#[case(json!({"type": "redacted_thinking", "data": "s"}), false)]
fn reasoning_in_words_is_kept_once(#[case] value: Value, #[case] expected: bool) {
    assert_eq!(state(WireFormat::Openai, vec![opaque(value)]).has_reasoning(), expected);
}

/// A request in the middle of a turn: a question, an answer with a call that is bound to it, the result.
fn request(asked: &str) -> ChatRequest {
    let user = |text: &str| ChatMessage::User { parts: vec![Part::text(text)] };
    ChatRequest {
        channel: ChannelId::local(&AgentId::new("main"), "c").unwrap(),
        purpose: Purpose::Reply { question: String::new() },
        system: vec!["prompt".to_owned()],
        messages: vec![user(asked)],
        turn_from: 0,
        tools: Vec::new().into(),
        last_call: false,
        max_output_tokens: 100,
        attempt: Attempt::default(),
    }
}

fn answered(request: &mut ChatRequest, id: &str) {
    let mut state = state(
        WireFormat::Anthropic,
        vec![opaque(json!({"type": "thinking", "signature": id})), call(json!({}))],
    );
    state.prefix = Some(prefix_id(request));
    let tool_calls = vec![ToolCall { id: id.to_owned(), name: "find".to_owned(), arguments: json!({}) }];
    let provider_state = Some(Box::new(state));
    request.messages.push(ChatMessage::Assistant { text: String::new(), tool_calls, provider_state });
    request.messages.push(ChatMessage::Tool {
        call_id: id.to_owned(),
        text: "found".to_owned(),
        images: Vec::new(),
    });
}

fn n_states(request: &ChatRequest) -> usize {
    let has =
        |message: &&ChatMessage| matches!(message, ChatMessage::Assistant { provider_state: Some(_), .. });
    request.messages.iter().filter(has).count()
}

#[test]
fn what_is_bound_to_its_request_goes_when_that_changes_and_all_behind_it() {
    let mut whole = request("where?");
    answered(&mut whole, "1");
    answered(&mut whole, "2");
    let dropped = |change: fn(&mut ChatRequest)| {
        let mut request = whole.clone();
        change(&mut request);
        drop_unbound(&mut request);
        2 - n_states(&request)
    };
    assert_eq!(dropped(|_| {}), 0);
    assert_eq!(dropped(|request| request.system[0].push('!')), 2);
    assert_eq!(dropped(|request| request.system.push("a summary".to_owned())), 2);
    assert_eq!(dropped(|request| request.messages[0] = ChatMessage::Context { text: "now".to_owned() }), 2);
    let shorter = |request: &mut ChatRequest| {
        request.messages[2] =
            ChatMessage::Tool { call_id: "1".to_owned(), text: "f".to_owned(), images: Vec::new() };
    };
    assert_eq!(dropped(shorter), 1, "the first answer stands behind what it answered");
}
