//! What happened in a turn, as its records tell it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use cairn_types::event::{
    CompactionEvent, DeliveryEvent, Event, MemoryEvent, MessageEvent, Record, TurnEnd, TurnEvent,
};
use cairn_types::ids::{MemoryId, MessageId, Seq, TurnId};
use cairn_types::memory::Quote;
use cairn_types::message::{Entry, Finish, Pending, Role};
use cairn_types::model::Usage;
use cairn_types::tool::ToolUse;
use cairn_types::trace::CallTrace;

/// A turn, from the messages that it took up to its end, or to where it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    pub turn: TurnId,
    /// When the first of its messages was accepted; none where that is not known any more.
    pub accepted_at: Option<Timestamp>,
    pub started_at: Timestamp,
    /// The messages that it took up, in order, as far as their records are there.
    pub asked: Vec<(Seq, Pending)>,
    pub recalled: Option<Told>,
    pub calls: Vec<StoryCall>,
    /// Calls of compactions that ended between its beginning and that of the next turn, as far as they have traces.
    pub beside: Vec<StoryCall>,
    pub tools: Vec<ToolUse>,
    /// Other models that were chosen in it, and why.
    pub chosen: Vec<(Timestamp, String, String)>,
    /// What the model said, and results of tools, in order.
    pub said: Vec<Entry>,
    pub end: Option<(Timestamp, TurnEnd)>,
    /// Starts of the daemon that found it open after an unclean stop.
    pub interruptions: u32,
    /// `/undo` took it back.
    pub undone: bool,
    /// When a chat confirmed its answer.
    pub delivered_at: Option<Timestamp>,
}

/// Memories as they came into its window, and those that almost did, with how well each fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Their record.
    pub n: u64,
    pub at: Timestamp,
    pub memories: Vec<(MemoryId, Option<f64>)>,
    pub near: Vec<(MemoryId, f64)>,
    /// What was quoted of entries that had left the window.
    pub quotes: Vec<Quote>,
    pub tokens: u32,
}

/// A call of a model within a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct StoryCall {
    /// When it ended.
    pub at: Timestamp,
    pub model: String,
    /// Our own estimate of the request, before correction.
    pub estimated: u64,
    pub usage: Usage,
    pub is_estimate: bool,
    pub trace: Option<Box<CallTrace>>,
    /// How many tools it called.
    pub tools: usize,
    /// Why its answer ended, where the model did not end it itself.
    pub finish: Option<Finish>,
}

impl StoryCall {
    pub(super) fn of_run(
        at: Timestamp,
        model: &str,
        usage: Usage,
        is_estimate: bool,
        trace: &CallTrace,
    ) -> Self {
        let trace = Some(Box::new(trace.clone()));
        Self { at, model: model.to_owned(), estimated: 0, usage, is_estimate, trace, tools: 0, finish: None }
    }
}

/// A part of a turn's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    pub name: &'static str,
    pub ms: u64,
}

/// The story of a turn. `records`: those of its channel from its first message on; later ones do no harm. `None`: they do
/// not tell of it.
pub fn story(turn: &TurnId, records: &[Record]) -> Option<Story> {
    let mut pending: BTreeMap<&MessageId, (Timestamp, Pending)> = BTreeMap::new();
    let mut found: Option<Story> = None;
    let mut is_open = false;
    for record in records {
        match &record.event {
            Event::Message(MessageEvent::Accepted(one)) => {
                pending.insert(&one.message, (record.at, one.clone()));
            }
            Event::Message(MessageEvent::Edited { message, parts, .. }) => {
                if let Some((_, one)) = pending.get_mut(message) {
                    one.parts.clone_from(parts);
                }
            }
            Event::Turn(TurnEvent::Started { turn: started, messages, first_seq }) => {
                is_open = started == turn;
                if is_open {
                    found = Some(begun(turn, record.at, messages, *first_seq, &pending));
                }
            }
            Event::Turn(TurnEvent::Joined { turn: joined, messages, first_seq }) if joined == turn => {
                if let Some(story) = &mut found {
                    story
                        .asked
                        .extend(known(messages, *first_seq, &pending).map(|(seq, one)| (seq, one.1.clone())));
                }
            }
            Event::Turn(TurnEvent::Reopened { turn: reopened, .. }) => is_open = reopened == turn,
            _ => {
                if let Some(story) = &mut found {
                    is_open = story.take(record, is_open);
                }
            }
        }
    }
    found
}

/// Those of the messages whose records are there, with their numbers.
fn known<'a>(
    messages: &'a [MessageId],
    first_seq: Seq,
    pending: &'a BTreeMap<&MessageId, (Timestamp, Pending)>,
) -> impl Iterator<Item = (Seq, &'a (Timestamp, Pending))> {
    let numbered = (first_seq.0..).map(Seq).zip(messages);
    numbered.filter_map(|(seq, id)| Some((seq, pending.get(id)?)))
}

fn begun(
    turn: &TurnId,
    at: Timestamp,
    messages: &[MessageId],
    first_seq: Seq,
    pending: &BTreeMap<&MessageId, (Timestamp, Pending)>,
) -> Story {
    let known: Vec<_> = known(messages, first_seq, pending).collect();
    Story {
        turn: turn.clone(),
        accepted_at: known.iter().map(|(_, (at, _))| *at).min(),
        started_at: at,
        asked: known.into_iter().map(|(seq, (_, pending))| (seq, pending.clone())).collect(),
        recalled: None,
        calls: Vec::new(),
        beside: Vec::new(),
        tools: Vec::new(),
        chosen: Vec::new(),
        said: Vec::new(),
        end: None,
        interruptions: 0,
        undone: false,
        delivered_at: None,
    }
}

impl Story {
    /// Takes in what happened after it began; whether it is open then.
    fn take(&mut self, record: &Record, is_open: bool) -> bool {
        let (n, at) = (record.n, record.at);
        match &record.event {
            Event::Memory(MemoryEvent::Recalled { ids, tokens, scores, near, quotes }) if is_open => {
                let scores = scores.iter().copied().map(Some).chain(std::iter::repeat(None));
                let memories = ids.iter().cloned().zip(scores).collect();
                self.recalled = Some(Told {
                    n,
                    at,
                    memories,
                    near: near.clone(),
                    quotes: quotes.clone(),
                    tokens: *tokens,
                });
            }
            Event::Turn(TurnEvent::EntryAdded { entry }) if entry.turn == self.turn => {
                if let (Role::Assistant, Some(call)) = (entry.role, self.calls.last_mut()) {
                    call.tools = call.tools.max(entry.tool_calls.len());
                    call.finish = call.finish.or(entry.finish);
                }
                self.said.push(entry.clone());
            }
            Event::Turn(TurnEvent::UsageReported { model, estimated, usage, is_estimate, trace, .. })
                if is_open =>
            {
                let last = self.said.last().filter(|entry| entry.role == Role::Assistant);
                self.calls.push(StoryCall {
                    at,
                    model: model.clone(),
                    estimated: *estimated,
                    usage: *usage,
                    is_estimate: *is_estimate,
                    trace: trace.clone(),
                    tools: last.map_or(0, |entry| entry.tool_calls.len()),
                    finish: last.and_then(|entry| entry.finish),
                });
            }
            Event::Compaction(CompactionEvent::UsageSpent {
                model,
                usage,
                is_estimate,
                trace: Some(trace),
            }) => self.beside.push(StoryCall::of_run(at, model, *usage, *is_estimate, trace)),
            Event::Turn(TurnEvent::ToolUsed(used)) if used.turn == self.turn => self.tools.push(used.clone()),
            Event::Turn(TurnEvent::ModelChosen { model, reason }) if is_open => {
                self.chosen.push((at, model.clone(), reason.clone()));
            }
            Event::Turn(TurnEvent::Interrupted { turn }) if *turn == self.turn => self.interruptions += 1,
            Event::Turn(TurnEvent::Undone { turn, .. }) if *turn == self.turn => self.undone = true,
            Event::Turn(TurnEvent::Ended(end)) if end.turn == self.turn => {
                self.end = Some((at, end.clone()));
                return false;
            }
            Event::Delivery(DeliveryEvent::Settled { id, .. }) if self.is_answer(id.as_str()) => {
                self.delivered_at = Some(at);
            }
            _ => {}
        }
        is_open
    }

    /// The delivery of that id brings its answer.
    fn is_answer(&self, delivery: &str) -> bool {
        use cairn_types::event::TurnOutcome::Answered;
        let Some((_, TurnEnd { outcome: Answered { reply }, .. })) = &self.end else { return false };
        delivery.rsplit(':').next() == Some(reply.to_string().as_str())
    }

    /// Where its time went, in order; what is not known is left out.
    pub fn stages(&self) -> Vec<Stage> {
        let between = |from: Timestamp, to: Timestamp| {
            u64::try_from(to.duration_since(from).as_millis()).unwrap_or_default()
        };
        let mut stages = Vec::new();
        let mut add = |name, ms: Option<u64>| stages.extend(ms.map(|ms| Stage { name, ms }));
        add("waiting", self.accepted_at.map(|at| between(at, self.started_at)));
        let traces = || self.calls.iter().filter_map(|call| call.trace.as_deref());
        let first = traces().next();
        let places: u64 = traces().map(|trace| trace.waited_ms).sum();
        add("waiting for a place", (places > 0).then_some(places));
        let ready = first.map(|trace| between(self.started_at, trace.asked_at));
        let ready = ready.map(|ms| ms.saturating_sub(first.map_or(0, |trace| trace.waited_ms)));
        add("recall and assembling", ready);
        add("to the first word", first.and_then(|trace| trace.first_ms));
        let of_models = traces().map(|trace| trace.total_ms).sum::<u64>();
        add("models", first.is_some().then_some(of_models));
        let of_tools = self.tools.iter().map(|used| used.duration_ms).sum::<u64>();
        add("tools", (!self.tools.is_empty()).then_some(of_tools));
        add("whole turn", self.end.as_ref().map(|(at, _)| between(self.started_at, *at)));
        stages
    }
}
