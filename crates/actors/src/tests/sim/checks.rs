//! What always holds, checked after each step: of what is journalled, what models are asked, what is sent and what tools do.

use std::collections::{BTreeMap, BTreeSet};

use cairn_core::compaction::request_tokens;
use cairn_core::conversation::Conversation;
use cairn_types::event::{
    ApprovalEvent, CompactionEvent, DeliveryEvent, Event, MessageEvent, NewRecord, Receipt, Record, RunEnd,
    RunOutcome, TurnEvent,
};
use cairn_types::ids::{ApprovalId, ChannelId, LOCAL_PLATFORM, MessageId, OutboxId, Seq, TurnId};
use cairn_types::message::{Role, text_of};
use cairn_types::model::{ChatMessage, ChatRequest, Purpose};
use cairn_types::ports::{Answer, SendPart};
use cairn_types::tool::approval::ApprovalOutcome;

use super::SYSTEM_PROMPT;
use super::people::mark;
use super::scene::Scene;
use crate::tests::common::store::MemStore;

type Known = (ChannelId, MessageId);

#[derive(Default)]
pub(super) struct Checks {
    calls: u64,
    accepted: BTreeMap<Known, usize>,
    deleted: BTreeSet<Known>,
    /// Those whose deletion was acknowledged, or was journalled in an earlier life.
    gone: BTreeSet<Known>,
    /// Messages that a turn took up.
    taken: BTreeSet<Known>,
    /// The place among the accepted of the last one that a turn of the channel took up.
    taken_last: BTreeMap<ChannelId, usize>,
    /// Who waits for an answer, by how many.
    waiting: BTreeMap<Known, u32>,
    amended: BTreeSet<Known>,
    open: BTreeMap<ChannelId, TurnId>,
    ended: BTreeSet<(ChannelId, TurnId)>,
    deliveries: BTreeMap<OutboxId, Delivery>,
    arrived: BTreeMap<(OutboxId, u32), MessageId>,
    /// Approvals by the number of their call.
    approvals: BTreeMap<u64, (ApprovalId, Option<ApprovalOutcome>)>,
    altered: BTreeSet<u64>,
    prefixes: BTreeMap<ChannelId, Prefix>,
    /// A cause was journalled: the next request may have been made before it was folded in.
    changed: BTreeSet<ChannelId>,
    /// The open turn there takes a smaller window to be its model's.
    narrowed: BTreeSet<ChannelId>,
}

#[derive(Default)]
struct Delivery {
    channel: Option<ChannelId>,
    place: usize,
    is_draft: bool,
    /// The part whose fate is unknown.
    attempted: Option<u32>,
    last_attempt: Option<u32>,
    is_over: bool,
    /// An operator had it tried again, whatever is there.
    is_retried: bool,
}

/// The last request for a reply of a channel.
struct Prefix {
    request: ChatRequest,
    /// Something was journalled since that may change it.
    is_void: bool,
}

impl Checks {
    /// A number for a call of a tool.
    pub(super) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// How much reached the world: requests are not counted.
    pub(super) fn effects(&self) -> usize {
        self.arrived.len() + self.altered.len()
    }

    pub(super) fn undelivered(&self, channel: &ChannelId) -> Vec<OutboxId> {
        let of_channel =
            |delivery: &&Delivery| delivery.channel.as_ref() == Some(channel) && !delivery.is_draft;
        let found = self.deliveries.iter().filter(|(_, delivery)| of_channel(delivery));
        found.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn journalled(
        &mut self,
        scene: &Scene,
        kept: &MemStore,
        records: &[Record],
        lost: &[NewRecord],
    ) {
        let mut written =
            records.iter().map(|record| &record.event).chain(lost.iter().map(|record| &record.event));
        let is_new = written.any(|event| matches!(event, Event::Turn(TurnEvent::SessionStarted { .. })));
        let mut channels = BTreeSet::new();
        for record in records {
            let Some(channel) = &record.channel else { continue };
            channels.insert(channel);
            if may_change_prefix(&record.event) {
                self.changed.insert(channel.clone());
                if let Some(prefix) = self.prefixes.get_mut(channel) {
                    prefix.is_void = true;
                }
            }
            match &record.event {
                Event::Message(event) => self.message(scene, channel, event),
                Event::Turn(event) => self.turn(scene, channel, event),
                Event::Delivery(event) => self.delivery(scene, channel, event),
                Event::Approval(event) => self.approval(event),
                Event::Compaction(CompactionEvent::RunEnded(end)) => run_ended(scene, end, is_new),
                _ => {}
            }
        }
        for channel in channels {
            kept.folded(channel, |folded| covers(scene, &folded.conversation));
        }
    }

    fn message(&mut self, scene: &Scene, channel: &ChannelId, event: &MessageEvent) {
        match event {
            MessageEvent::Accepted(pending) => {
                let place = self.accepted.len();
                let twice = self.accepted.insert((channel.clone(), pending.message.clone()), place).is_some();
                scene.check(!twice || channel.platform() == LOCAL_PLATFORM, || {
                    format!("a message is taken in once: {} in {channel}", pending.message)
                });
            }
            MessageEvent::Deleted { message, .. } => {
                self.deleted.insert((channel.clone(), message.clone()));
            }
            MessageEvent::Edited { .. }
            | MessageEvent::Reacted { .. }
            | MessageEvent::SystemSet { .. }
            | MessageEvent::CommandTaken { .. }
            | MessageEvent::Refused { .. } => {}
        }
    }

    fn turn(&mut self, scene: &Scene, channel: &ChannelId, event: &TurnEvent) {
        match event {
            TurnEvent::Started { turn, messages, .. } => {
                self.take_up(channel, turn, messages);
                for message in messages.iter().filter(|_| channel.platform() != LOCAL_PLATFORM) {
                    let place = self.accepted.get(&(channel.clone(), message.clone())).copied();
                    scene.check(place.is_some(), || format!("a turn has only what was taken in: {message}"));
                    let last = self.taken_last.insert(channel.clone(), place.unwrap_or_default());
                    scene
                        .check(last < place, || format!("messages keep their order: {message} in {channel}"));
                }
            }
            TurnEvent::Joined { turn, messages, .. } => {
                scene.check(self.open.get(channel) == Some(turn), || {
                    format!("only an open turn is joined: {turn}")
                });
                let places =
                    messages.iter().map(|message| self.accepted.get(&(channel.clone(), message.clone())));
                let in_order = places.clone().is_sorted() && places.flatten().count() == messages.len();
                scene.check(in_order, || format!("what joins was taken in, in this order: {messages:?}"));
                self.taken.extend(messages.iter().map(|message| (channel.clone(), message.clone())));
            }
            TurnEvent::Reopened { turn, messages } => self.take_up(channel, turn, messages),
            TurnEvent::Ended(end) => {
                let open = self.open.remove(channel);
                self.narrowed.remove(channel);
                scene.check(open.as_ref() == Some(&end.turn), || {
                    format!("a turn ends once: {} in {channel}, where {open:?} was open", end.turn)
                });
                self.ended.insert((channel.clone(), end.turn.clone()));
            }
            _ => {}
        }
    }

    fn take_up(&mut self, channel: &ChannelId, turn: &TurnId, messages: &[MessageId]) {
        self.open.insert(channel.clone(), turn.clone());
        self.taken.extend(messages.iter().map(|message| (channel.clone(), message.clone())));
    }

    fn delivery(&mut self, scene: &Scene, channel: &ChannelId, event: &DeliveryEvent) {
        let place = self.deliveries.len();
        let known = self.deliveries.entry(event.id().clone()).or_default();
        match event {
            DeliveryEvent::Intended { draft, .. } => {
                let first = known.channel.is_none();
                scene.check(first || *draft, || format!("a delivery is intended once: {}", event.id()));
                (known.channel, known.is_draft) = (Some(channel.clone()), *draft);
                known.place = if first { place } else { known.place };
            }
            DeliveryEvent::Attempted { part, .. } => {
                (known.attempted, known.last_attempt) = (Some(*part), Some(*part));
            }
            DeliveryEvent::PutOff { .. } | DeliveryEvent::Sent { .. } => known.attempted = None,
            DeliveryEvent::Retried { .. } => {
                (known.is_over, known.is_retried, known.attempted) = (false, true, None);
            }
            DeliveryEvent::Dropped { .. } => known.is_over = true,
            DeliveryEvent::Settled { receipt, .. } => {
                known.is_over = true;
                if let Receipt::Delivered { messages } = receipt {
                    let there: BTreeSet<_> = self.arrived.values().collect();
                    scene.check(messages.iter().all(|message| there.contains(message)), || {
                        format!("what counts as delivered is there: {}", event.id())
                    });
                }
            }
        }
    }

    fn approval(&mut self, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Asked { approval } => {
                if let Some(n) = approval.arguments["n"].as_u64() {
                    self.approvals.insert(n, (approval.id.clone(), None));
                }
            }
            ApprovalEvent::Settled { id, outcome, .. } => {
                for (_, settled) in self.approvals.values_mut().filter(|(asked, _)| asked == id) {
                    *settled = Some(*outcome);
                }
            }
        }
    }

    /// A message was acknowledged to who sent it.
    pub(super) fn acknowledged(&self, scene: &Scene, channel: &ChannelId, message: &MessageId) {
        scene.check(self.accepted.contains_key(&(channel.clone(), message.clone())), || {
            format!("nothing is acknowledged that is not in the journal: {message} in {channel}")
        });
    }

    /// The daemon is gone, and with it who waited.
    pub(super) fn nobody_waits(&mut self) {
        self.waiting.clear();
        self.gone.clone_from(&self.deleted);
    }

    /// A deletion was acknowledged. One of a message that was not there yet is none.
    pub(super) fn is_gone(&mut self, known: Known) {
        if self.deleted.contains(&known) {
            self.gone.insert(known);
        }
    }

    /// What is deleted is sent to no model again, but for what summaries and results of tools took from it before.
    fn asks_nothing_deleted(&self, scene: &Scene, request: &ChatRequest) {
        let texts: Vec<String> = match &request.purpose {
            Purpose::Reply { .. } => {
                let said = request.messages.iter().filter_map(|message| match message {
                    ChatMessage::User { parts } => Some(text_of(parts)),
                    _ => None,
                });
                said.collect()
            }
            Purpose::Summarise { entries, .. } => {
                entries.iter().filter(|entry| entry.role == Role::User).map(|entry| entry.text()).collect()
            }
            Purpose::Merge { .. } => Vec::new(),
        };
        for (_, message) in self.gone.iter().filter(|(channel, _)| *channel == request.channel) {
            let mark = mark(message);
            scene.check(!texts.iter().any(|text| text.contains(&mark)), || {
                format!("a deleted message is sent to no model: {message} in {}", request.channel)
            });
        }
    }

    pub(super) fn amended(&mut self, channel: &ChannelId, message: &MessageId) {
        self.amended.insert((channel.clone(), message.clone()));
    }

    /// It may be gone, or be meant for somebody else since: nobody owes it an answer of its own.
    pub(super) fn is_amended(&self, channel: &ChannelId, message: &MessageId) -> bool {
        self.amended.contains(&(channel.clone(), message.clone()))
    }

    pub(super) fn waits(&mut self, channel: &ChannelId, message: &MessageId) {
        *self.waiting.entry((channel.clone(), message.clone())).or_default() += 1;
    }

    pub(super) fn waits_no_more(&mut self, channel: &ChannelId, message: &MessageId) {
        if let Some(n) = self.waiting.get_mut(&(channel.clone(), message.clone())) {
            *n -= 1;
        }
    }

    /// Who waits was told of an end.
    pub(super) fn answered(&self, scene: &Scene, channel: &ChannelId, answer: &Answer) {
        if let Answer::Reply(reply) = answer {
            scene.check(self.ended.contains(&(channel.clone(), reply.turn.clone())), || {
                format!("no answer before its turn's end is in the journal: {} in {channel}", reply.turn)
            });
        }
    }

    /// A model is asked.
    pub(super) fn asked(&mut self, scene: &Scene, request: &ChatRequest) {
        let channel = &request.channel;
        whole_pairs(scene, request);
        self.asks_nothing_deleted(scene, request);
        let window = scene.mood.window_tokens();
        // The words are English: an exact count, which takes long, is needed near the bound alone.
        let tokens = Some(bytes(request) / 4).filter(|tokens| tokens * 10 < window * 7);
        let tokens = tokens.unwrap_or_else(|| request_tokens(request));
        scene.check(tokens <= window, || {
            format!("a request fits the window: {tokens} of {window} in {channel}")
        });
        if !matches!(request.purpose, Purpose::Reply { .. }) {
            return;
        }
        scene.check(self.open.contains_key(channel), || {
            format!("a model is asked for an open turn: {channel}")
        });
        scene.check(request.system.first().is_some_and(|prompt| prompt.starts_with(SYSTEM_PROMPT)), || {
            format!("the system prompt is whole: {channel}")
        });
        let is_late = self.changed.remove(channel);
        let is_void = is_late || tokens * 10 > window * 7 || self.narrowed.contains(channel);
        let before = self.prefixes.insert(channel.clone(), Prefix { request: request.clone(), is_void });
        let Some(before) = before.filter(|before| !before.is_void) else { return };
        let was = before.request.messages.as_slice();
        let was = match was {
            [was @ .., ChatMessage::Context { .. }] => was,
            was => was,
        };
        let differs = was.iter().zip(&request.messages).position(|(was, is)| was != is);
        let same = request.messages.starts_with(was)
            && request.system == before.request.system
            && request.tools == before.request.tools;
        scene.check(same, || {
            let words = |request: &ChatRequest| differs.map(|idx| format!("{:?}", request.messages[idx]));
            let (was, is) = (words(&before.request), words(request));
            format!("a prefix changes only for a cause: {channel}\n  was {was:?}\n  is  {is:?}")
        });
    }

    /// A model says that a request is too large, or refuses it without a reason.
    pub(super) fn overflowed(&mut self, channel: &ChannelId) {
        self.narrowed.insert(channel.clone());
        self.prefixes.remove(channel);
    }

    /// A part leaves.
    pub(super) fn is_sent(&self, scene: &Scene, part: &SendPart) {
        let (id, n) = (&part.delivery, part.part);
        let Some(known) = self.deliveries.get(id).filter(|known| known.channel.is_some()) else {
            return scene.broken(format!("nothing is sent whose intent is not in the journal: {id}"));
        };
        // Where the network guards against doubles, a repetition may overlap with the receipt of the send before it.
        let repeats =
            (scene.mood.guards || id.as_str().contains(":unsure:")) && known.last_attempt == Some(n);
        scene.check(known.attempted == Some(n) || repeats, || {
            format!("nothing is sent whose attempt is not in the journal: {id} {n}")
        });
        let is_ahead = |other: &&Delivery| {
            other.channel == known.channel
                && !(other.is_draft || other.is_over || other.is_retried)
                && other.place < known.place
        };
        let overtaken = !known.is_draft && self.deliveries.values().any(|other| is_ahead(&other));
        scene.check(!overtaken, || format!("deliveries keep their order: {id}"));
    }

    /// A part reached the network.
    pub(super) fn arrived(&mut self, scene: &Scene, part: &SendPart) -> MessageId {
        let key = (part.delivery.clone(), part.part);
        if let Some(there) = self.arrived.get(&key) {
            let retried = self.deliveries.get(&part.delivery).is_some_and(|known| known.is_retried);
            let harmless = part.delivery.as_str().contains(":unsure:");
            scene.check(scene.mood.guards || retried || harmless, || {
                format!("nothing is sent twice: {} {}", part.delivery, part.part)
            });
            return there.clone();
        }
        let message = MessageId::from(format!("{}", 10_000 + self.arrived.len()));
        self.arrived.insert(key, message.clone());
        message
    }

    /// The message of a part that reached the network.
    pub(super) fn found(&self, id: &OutboxId, part: u32) -> Option<MessageId> {
        self.arrived.get(&(id.clone(), part)).cloned()
    }

    /// A tool changes something.
    pub(super) fn altered(&mut self, scene: &Scene, n: u64) {
        scene.check(self.altered.insert(n), || format!("no call is made twice: {n}"));
        let granted = matches!(self.approvals.get(&n), Some((_, Some(ApprovalOutcome::Granted))));
        scene.check(granted || scene.mood.trusting, || format!("no call is made without its approval: {n}"));
    }

    /// Everything has come to rest.
    pub(super) fn at_rest(&self, scene: &Scene, conversation: &Conversation) {
        let channel = &conversation.channel;
        for (known, _) in self.waiting.iter().filter(|((of, _), n)| of == channel && **n > 0) {
            let is_open = conversation.pending.iter().any(|pending| pending.message == known.1);
            scene.check(is_open || self.amended.contains(known), || {
                format!("whoever waits is answered: {} in {channel}", known.1)
            });
        }
        for ((_, message), _) in self.accepted.iter().filter(|((of, _), _)| of == channel) {
            let known = (channel.clone(), message.clone());
            let waits = || conversation.pending.iter().any(|pending| pending.message == *message);
            scene.check(self.taken.contains(&known) || self.deleted.contains(&known) || waits(), || {
                format!("every message that was taken in ends: {message} in {channel}")
            });
        }
    }
}

/// Every number of the session is in exactly one place, in order; turns that were taken back may be missing.
fn covers(scene: &Scene, conversation: &Conversation) {
    let mut next = conversation.first_seq;
    let ranges = conversation.stack.items().iter().map(|item| item.range());
    for (from, to) in ranges.chain(conversation.live.iter().map(|entry| (entry.seq, entry.seq))) {
        while next < from && conversation.is_undone(next) {
            next = Seq(next.0 + 1);
        }
        scene.check(next == from, || {
            format!("every number is in one place: {} where {next} is due in {}", from, conversation.channel)
        });
        next = Seq(to.0 + 1);
    }
    while next < conversation.next_seq && conversation.is_undone(next) {
        next = Seq(next.0 + 1);
    }
    scene.check(next == conversation.next_seq, || {
        format!("every number is in one place: {next} is missing in {}", conversation.channel)
    });
}

fn run_ended(scene: &Scene, end: &RunEnd, is_new: bool) {
    let is_committed = end.outcome == RunOutcome::Committed;
    scene.check(is_committed || (end.summary.is_none() && end.memories.is_empty()), || {
        format!("a run that failed saves nothing: {}", end.run)
    });
    scene.check(end.outcome != RunOutcome::Cancelled || is_new, || {
        format!("only a new session cancels a run: {}", end.run)
    });
}

fn bytes(request: &ChatRequest) -> u64 {
    let of_message = |message: &ChatMessage| match message {
        ChatMessage::User { parts } => text_of(parts).len(),
        ChatMessage::Assistant { text, tool_calls, .. } => text.len() + tool_calls.len() * 40,
        ChatMessage::Tool { text, .. } | ChatMessage::Context { text } => text.len(),
    };
    let messages: usize = request.messages.iter().map(of_message).sum();
    let system: usize = request.system.iter().map(String::len).sum();
    (messages + system) as u64 + 4 * request.tools.tokens()
}

/// A call is followed by its results, a result follows its call.
fn whole_pairs(scene: &Scene, request: &ChatRequest) {
    let mut owed: Vec<&str> = Vec::new();
    let mut parted = false;
    for message in &request.messages {
        match message {
            ChatMessage::Tool { call_id, .. } => {
                let place = owed.iter().position(|id| id == call_id);
                parted |= place.is_none();
                place.map(|place| owed.remove(place));
            }
            ChatMessage::Assistant { tool_calls, .. } => {
                parted |= !owed.is_empty();
                owed = tool_calls.iter().map(|call| call.id.as_str()).collect();
            }
            ChatMessage::User { .. } | ChatMessage::Context { .. } => parted |= !owed.is_empty(),
        }
    }
    scene.check(!parted && owed.is_empty(), || format!("a call keeps its results: {}", request.channel));
}

/// Whether the bytes before the newest entries may change with it.
fn may_change_prefix(event: &Event) -> bool {
    match event {
        Event::Turn(event) => !matches!(
            event,
            TurnEvent::Started { .. }
                | TurnEvent::Joined { .. }
                | TurnEvent::EntryAdded { .. }
                | TurnEvent::UsageReported { .. }
                | TurnEvent::ToolUsed(_)
                | TurnEvent::Ended(_)
                | TurnEvent::Interrupted { .. }
        ),
        Event::Compaction(event) => !matches!(
            event,
            CompactionEvent::RunStarted { .. }
                | CompactionEvent::RunQueued { .. }
                | CompactionEvent::RunAttemptFailed { .. }
                | CompactionEvent::RunCheckpointed { .. }
                | CompactionEvent::UsageSpent { .. }
        ),
        Event::Artifact(_) | Event::Message(MessageEvent::Deleted { .. }) => true,
        Event::Message(_) | Event::Delivery(_) | Event::Approval(_) | Event::Memory(_) => false,
        Event::Reminder(_) | Event::Registry(_) | Event::Maintenance(_) => false,
    }
}
