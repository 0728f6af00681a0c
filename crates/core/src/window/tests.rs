//! Where what is volatile stands, and what a provider's state does to it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::conversation::Conversation;
use crate::testing;
use cairn_types::event::{Event, MessageEvent, Record, TurnEnd, TurnEvent, TurnOutcome};
use cairn_types::ids::{AgentId, ChannelId, Seq, TurnId};
use cairn_types::message::{Entry, Part, Pending, Role, ToolCall, entry_tokens, fingerprint};
use cairn_types::model::{ChatMessage, Usage};
use cairn_types::provider_state::{ProviderItem, ProviderState, prefix_id};
use cairn_types::trace::CallTrace;
use cairn_types::wire::format::WireFormat;

fn at(secs: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(secs)
}

struct Talk {
    conversation: Conversation,
    agent: crate::agent::AgentSettings,
}

impl Talk {
    /// A channel in which a person has asked something, in an open turn.
    fn asked() -> Self {
        let conversation = Conversation::new(ChannelId::local(&AgentId::new("main"), "c").unwrap());
        let mut talk = Self { conversation, agent: testing::agent(32_000, 1_000) };
        let (author, parts) = (testing::author("local/ann", "Ann"), vec![Part::text("where?")]);
        let message = Pending {
            message: "m1".into(),
            turn: TurnId::from("t1"),
            at: at(0),
            spoken: false,
            reminder: None,
            fingerprint: fingerprint(&author, &parts),
            author,
            parts,
            addressed: true,
            direct: false,
            chat_name: None,
            language: None,
            provenance: cairn_types::message::Provenance::default(),
            tokens: 10,
        };
        talk.add(Event::Message(MessageEvent::Accepted(message)));
        let (turn, messages) = (TurnId::from("t1"), vec!["m1".into()]);
        talk.add(Event::Turn(TurnEvent::Started { turn, messages, first_seq: Seq(1) }));
        talk
    }

    fn add(&mut self, event: Event) {
        let n = self.conversation.last_n + 1;
        let record = Record { channel: Some(self.conversation.channel.clone()), n, at: at(0), event };
        self.conversation.apply(&record).unwrap();
    }

    /// The model's first call, made at that second: it calls a tool, and gave a state of that format.
    fn calls(&mut self, secs: i64, format: WireFormat) {
        let mut entry =
            Entry::new(Seq(2), &TurnId::from("t1"), self.conversation.generation, at(secs), Role::Assistant);
        entry.tool_calls =
            vec![ToolCall { id: "c1".to_owned(), name: "find".to_owned(), arguments: json!({}) }];
        let items = vec![
            ProviderItem::Opaque { value: json!({"type": "thinking", "thinking": "hm", "signature": "s"}) },
            ProviderItem::Call { fields: serde_json::Map::new() },
        ];
        let mut state = ProviderState::of(format, "fake", items).unwrap();
        state.prefix = Some(prefix_id(&self.request(secs, false)));
        entry.provider_state = Some(Box::new(state));
        entry.tokens = entry_tokens(&entry);
        self.add(Event::Turn(TurnEvent::EntryAdded { entry }));
        let trace = CallTrace {
            at_n: 2,
            asked_at: at(secs),
            frame: "f".into(),
            body: None,
            last_call: false,
            first_ms: None,
            total_ms: 1,
            waited_ms: 0,
            cost: None,
            failure: None,
            tried: Vec::new(),
            work: None,
        };
        self.add(Event::Turn(TurnEvent::UsageReported {
            model: "fake".to_owned(),
            estimated: 10,
            usage: Usage::default(),
            disbelieved: None,
            is_estimate: true,
            caused_by: std::collections::BTreeSet::new(),
            set_window: None,
            trace: Some(Box::new(trace)),
        }));
        let mut result =
            Entry::new(Seq(3), &TurnId::from("t1"), self.conversation.generation, at(secs), Role::Tool);
        result.tool_call_id = Some("c1".to_owned());
        result.parts = vec![Part::text("there")];
        self.add(Event::Turn(TurnEvent::EntryAdded { entry: result }));
    }

    fn request(&self, secs: i64, last_call: bool) -> ChatRequest {
        let tail =
            Tail { now: at(secs), zone: TimeZone::UTC, recalled: Vec::new(), quotes: Vec::new(), last_call };
        assemble(&self.conversation, &self.agent, &tail).unwrap().request
    }
}

/// A letter for each message: user, context, assistant (capital: with state), tool.
fn shape(request: &ChatRequest) -> String {
    let letter = |message: &ChatMessage| match message {
        ChatMessage::User { .. } => 'u',
        ChatMessage::Context { .. } => 'c',
        ChatMessage::Assistant { provider_state: None, .. } => 'a',
        ChatMessage::Assistant { .. } => 'A',
        ChatMessage::Tool { .. } => 't',
    };
    request.messages.iter().map(letter).collect()
}

#[test]
fn an_answer_that_is_bound_to_its_request_finds_it_unchanged() {
    let mut talk = Talk::asked();
    let first = talk.request(60, false);
    talk.calls(60, WireFormat::Anthropic);
    let second = talk.request(600, false);
    assert_eq!((shape(&first), shape(&second)), ("uc".to_owned(), "ucAt".to_owned()));
    assert_eq!(first.messages[..2], second.messages[..2], "the clock stands where and as it stood");
    assert_eq!(second.turn_from, 0);
    let last = talk.request(900, true);
    assert_eq!(shape(&last), "ucAtc", "that no more tools are called is said at the end");
    assert_eq!(last.messages[..4], second.messages[..]);
}

#[test]
fn elsewhere_what_is_volatile_stays_at_the_end() {
    let mut talk = Talk::asked();
    talk.calls(60, WireFormat::Openai);
    let request = talk.request(600, true);
    assert_eq!(shape(&request), "uAtc");
    let Some(ChatMessage::Context { text }) = request.messages.last() else { panic!("no context") };
    assert!(text.contains("00:10"), "{text}");
}

#[test]
fn a_changed_prompt_takes_bound_state_away_and_a_closed_turn_its_tokens() {
    let mut talk = Talk::asked();
    talk.calls(60, WireFormat::Anthropic);
    let with_state = measure(&talk.conversation, &talk.agent).regions.live.tokens;
    talk.agent.system_prompt.push_str(" Be brief.");
    assert_eq!(shape(&talk.request(600, false)), "ucat");
    let mut end = TurnEnd {
        turn: TurnId::from("t1"),
        outcome: TurnOutcome::Unanswered,
        model: None,
        usage: Usage::default(),
        recalled: Vec::new(),
    };
    end.model = Some("fake".to_owned());
    talk.add(Event::Turn(TurnEvent::Ended(end)));
    let without = measure(&talk.conversation, &talk.agent).regions.live.tokens;
    assert!(without < with_state, "{without} of {with_state}");
    assert!(talk.conversation.live.iter().all(|entry| entry.provider_state.is_none()));
}
