//! How a turn ends: the events of its last record batch. What a chat is owed for it is among them.

use std::collections::BTreeSet;

use cairn_core::approval::ApprovalOutcome;
use cairn_core::conversation::{Conversation, OpenTurn};
use cairn_core::event::{ApprovalEvent, DeliveryEvent, Event, Receipt, TurnEnd, TurnEvent, TurnOutcome};
use cairn_core::ids::{LOCAL_PLATFORM, MessageId, OutboxId, Seq, TurnId};
use cairn_core::message::{Part, Role, ToolCall, fingerprint};
use cairn_core::model::Usage;
use cairn_core::notice::long_messages;
use cairn_core::ports::TurnFailure;
use cairn_core::tool::{Effect, ToolOutcome, ToolUse, logged_arguments};
use cairn_core::window::entry_tokens;

use super::ChannelState;
use crate::failure;
use crate::shared::Shared;
use crate::tools::effect_of;
use crate::turn::{Said, draft_entry};

/// The end of a turn on its way to the journal.
pub(super) struct Closing {
    pub(super) events: Vec<Event>,
    pub(super) end: TurnEnd,
    /// The words of the reply, or why there is none.
    pub(super) answer: Result<String, TurnFailure>,
    /// What is to be known about the reply.
    pub(super) notice: Option<String>,
    pub(super) messages: Vec<MessageId>,
}

impl Closing {
    pub(super) fn turn(&self) -> &TurnId {
        &self.end.turn
    }
}

/// What the chat shows of a draft when its turn ends.
#[derive(Debug, Clone, PartialEq)]
enum Drafted {
    No,
    There(MessageId),
    Unknown,
}

/// `shown`: what came of the draft and is not journalled yet.
fn drafted(open: &OpenTurn, shown: &[Event]) -> Drafted {
    let mut drafted = match &open.draft {
        None => Drafted::No,
        Some(draft) => match (&draft.message, draft.attempted_at) {
            (Some(message), _) => Drafted::There(message.clone()),
            (None, Some(_)) => Drafted::Unknown,
            (None, None) => Drafted::No,
        },
    };
    for event in shown {
        match event {
            Event::Delivery(DeliveryEvent::Sent { message, .. }) => drafted = Drafted::There(message.clone()),
            Event::Delivery(DeliveryEvent::PutOff { .. }) => drafted = Drafted::No,
            _ => {}
        }
    }
    drafted
}

impl ChannelState {
    /// The end of a turn with a reply. A chat is owed it: in the place of its draft, where it shows one.
    pub(super) fn answered(&self, said: Said, shown: Vec<Event>) -> Option<Closing> {
        let delivers = self.handle.id.platform() != LOCAL_PLATFORM;
        let settings = self.handle.settings();
        self.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let notice = long_messages(conversation, &settings, &open.messages, said.cut);
            let draft = drafted(open, &shown);
            let mut events = shown;
            events.extend(close_calls(&self.shared, conversation, "the turn went on without it"));
            let answer = said.entry.text();
            events.push(Event::Turn(TurnEvent::EntryAdded { entry: said.entry }));
            events.extend(said.reported);
            stamp(conversation, &mut events);
            let seq = events.iter().find_map(|event| match event {
                Event::Turn(TurnEvent::EntryAdded { entry }) if entry.role == Role::Assistant => Some(entry.seq),
                _ => None,
            })?;
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome: TurnOutcome::Answered { reply: seq },
                model: Some(said.model),
                usage: said.usage,
                recalled: conversation.recalled.clone(),
            };
            if delivers {
                let id = OutboxId::from(format!("{}:{seq}", conversation.channel));
                events.push(intent(open, id.clone(), seq, None, &draft));
                if draft == Drafted::Unknown {
                    let reason = "the connection broke while a draft of it was sent".to_owned();
                    tracing::error!(channel = %conversation.channel, delivery = %id, reason,
                        "a reply is not sent, since nobody knows whether its draft is there; look in the chat, then retry or drop it (`cairn outbox`)");
                    metrics::counter!("cairn_deliveries_total",
                        "platform" => conversation.channel.platform().to_owned(), "outcome" => "unknown")
                    .increment(1);
                    let receipt = Receipt::Unknown { part: 0, reason };
                    events.push(Event::Delivery(DeliveryEvent::Settled { id, receipt }));
                }
            }
            events.push(Event::Turn(TurnEvent::Ended(end.clone())));
            Some(Closing { events, end, answer: Ok(answer), notice, messages: open.messages.clone() })
        })
    }

    /// The end of a turn that failed. A chat is owed a note that says so.
    pub(super) fn failed(&self, failure: TurnFailure, shown: Vec<Event>) -> Option<Closing> {
        let outcome = TurnOutcome::Failed { code: failure.code.clone(), message: failure.message.clone() };
        let note = Some(failure::note(&failure.code).to_owned());
        self.unanswered(outcome, failure, "the turn failed", note, shown)
    }

    /// The end of a turn that a command stopped. It is told by the command's answer; only a draft gets a mark.
    pub(super) fn stopped(&self, shown: Vec<Event>) -> Option<Closing> {
        let draft = self
            .handle
            .read(|conversation| conversation.open_turn.as_ref().map(|open| drafted(open, &shown)));
        let note = matches!(draft, Some(Drafted::There(_)))
            .then(|| format!("{}\n\n*(stopped)*", self.handle.subscribers.so_far()).trim_start().to_owned());
        let call_result = "the turn was stopped";
        self.unanswered(TurnOutcome::Stopped, failure::stopped(), call_result, note, shown)
    }

    /// The end of a turn that was given up.
    pub(super) fn dead_lettered(&self) -> Option<Closing> {
        let failure = failure::dead_letter();
        let note = Some(failure::note(&failure.code).to_owned());
        self.unanswered(TurnOutcome::DeadLettered, failure, "the turn was given up", note, Vec::new())
    }

    /// The end of a turn without a reply. `note`: what a chat is told.
    fn unanswered(
        &self,
        outcome: TurnOutcome,
        failure: TurnFailure,
        call_result: &str,
        note: Option<String>,
        shown: Vec<Event>,
    ) -> Option<Closing> {
        let delivers = self.handle.id.platform() != LOCAL_PLATFORM;
        self.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let draft = drafted(open, &shown);
            let mut events = shown;
            events.extend(close_calls(&self.shared, conversation, call_result));
            stamp(conversation, &mut events);
            let end = TurnEnd {
                turn: open.id.clone(),
                outcome,
                model: None,
                usage: Usage::default(),
                recalled: conversation.recalled.clone(),
            };
            if let Some(note) = note.filter(|_| delivers) {
                let id = OutboxId::from(format!("{}:{}:end", conversation.channel, open.id));
                events.push(intent(open, id, newest(conversation), Some(note), &draft));
            }
            events.push(Event::Turn(TurnEvent::Ended(end.clone())));
            let messages = open.messages.clone();
            Some(Closing { events, end, answer: Err(failure), notice: None, messages })
        })
    }
}

/// What is owed to the chat of the open turn.
fn intent(open: &OpenTurn, id: OutboxId, seq: Seq, note: Option<String>, draft: &Drafted) -> Event {
    let edits = match draft {
        Drafted::There(message) => Some(message.clone()),
        Drafted::No | Drafted::Unknown => None,
    };
    let (turn, reply_to) = (open.id.clone(), open.reply_to.clone());
    Event::Delivery(DeliveryEvent::Intended {
        id,
        turn,
        seq,
        note,
        approval: None,
        reply_to,
        edits,
        draft: false,
    })
}

/// The newest entry.
pub(super) fn newest(conversation: &Conversation) -> Seq {
    Seq(conversation.next_seq.0.saturating_sub(1))
}

/// Gives the entries among the events their numbers, turn, time and weight.
pub(super) fn stamp(conversation: &Conversation, events: &mut [Event]) {
    let Some(open) = &conversation.open_turn else { return };
    let mut seq: Seq = conversation.next_seq;
    for event in events {
        if let Event::Turn(TurnEvent::EntryAdded { entry }) = event {
            entry.seq = seq;
            entry.turn = open.id.clone();
            entry.generation = conversation.generation;
            entry.at = conversation.answer_time(entry.at);
            entry.tokens = entry_tokens(entry);
            seq = seq.next();
        }
    }
}

/// Results for the calls of the open turn that have none: no call stays without one. Those that may have been carried out
/// say so; requests for a yes that are still open are void. `reason`: why the calls end here.
pub(super) fn close_calls(shared: &Shared, conversation: &Conversation, reason: &str) -> Vec<Event> {
    let Some(open) = &conversation.open_turn else { return Vec::new() };
    let mut owed: Vec<&ToolCall> = Vec::new();
    let mut caused_by = BTreeSet::new();
    for entry in conversation.live.iter().filter(|entry| entry.turn == open.id) {
        caused_by.extend(entry.author.iter().map(|author| author.id.clone()));
        owed.extend(&entry.tool_calls);
        owed.retain(|call| entry.tool_call_id.as_deref() != Some(call.id.as_str()));
    }
    let mut events = Vec::new();
    for call in owed {
        let approval = open.approvals.iter().find(|approval| approval.call == call.id);
        let effect = effect_of(shared, &call.name);
        let text = if effect == Effect::Changes && approval.is_none() {
            format!("cut short: {reason}; whether it was carried out is not known: look before you repeat it")
        } else {
            format!("not run: {reason}")
        };
        let mut entry = draft_entry(Role::Tool, conversation.last_at);
        entry.parts = vec![Part::text(format!("[{text}]"))];
        entry.tool_call_id = Some(call.id.clone());
        events.push(Event::Turn(TurnEvent::ToolUsed(ToolUse {
            turn: open.id.clone(),
            call: call.id.clone(),
            tool: call.name.clone(),
            effect,
            caused_by: caused_by.clone(),
            arguments: logged_arguments(&call.arguments),
            outcome: ToolOutcome::Stopped,
            error: Some(text),
            duration_ms: 0,
            bytes: 0,
            approval: approval.map(|approval| approval.id.clone()),
            allowed_by: None,
        })));
        events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
    }
    events.extend(open.approvals.iter().map(|approval| {
        Event::Approval(ApprovalEvent::Settled {
            id: approval.id.clone(),
            outcome: ApprovalOutcome::Void,
            by: None,
        })
    }));
    events
}

/// The messages with their fingerprints, as far as their entries are in the window.
pub(super) fn prints_of(conversation: &Conversation, messages: &[MessageId]) -> Vec<(MessageId, String)> {
    let turn: Option<&TurnId> = conversation.open_turn.as_ref().map(|open| &open.id);
    let of_turn = conversation.live.iter().rev().take_while(|entry| Some(&entry.turn) == turn);
    of_turn
        .filter_map(|entry| {
            let message = entry.message.as_ref().filter(|message| messages.contains(message))?;
            Some((message.clone(), fingerprint(entry.author.as_ref()?, &entry.parts)))
        })
        .collect()
}
