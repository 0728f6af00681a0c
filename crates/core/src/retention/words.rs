//! Words that expire: taken out of old records of the journal where nothing needs them any more. Who spoke, when and in
//! what order stays, and with it all that a conversation folds to; memories keep their texts.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::conversation::Conversation;
use cairn_types::event::{
    ApprovalEvent, Checkpoint, CompactionEvent, DeliveryEvent, Event, MessageEvent, RunEnd, TurnEvent,
};
use cairn_types::ids::{MessageId, OutboxId, RunId, Seq, SummaryId, TurnId};
use cairn_types::message::Pending;
use cairn_types::ports::OutboxItem;
use cairn_types::summary::{Marker, MarkerKind};

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

/// What of a channel is in use: the words that its window shows, that a run still has to read, or that are owed.
#[derive(Debug, Clone, Default)]
pub struct InUse {
    entries: BTreeSet<Seq>,
    owed: Vec<(Seq, Seq)>,
    pending: HashSet<MessageId>,
    turn: Option<TurnId>,
    run: Option<RunId>,
    waits: bool,
    summaries: HashSet<SummaryId>,
    markers: Vec<(Seq, Seq)>,
    deliveries: HashSet<OutboxId>,
}

impl InUse {
    /// Of a conversation, and of the deliveries of its channel that no platform has confirmed.
    ///
    /// It only shrinks as far as what is there now goes: what comes later is of later records.
    pub fn of<'a>(conversation: &Conversation, deliveries: impl Iterator<Item = &'a OutboxItem>) -> Self {
        let stack = &conversation.stack;
        let truncated = |marker: &&Marker| marker.kind == MarkerKind::Truncated;
        let range = |marker: &Marker| (marker.from_seq, marker.to_seq);
        let mut in_use = Self {
            entries: conversation.live.iter().map(|entry| entry.seq).collect(),
            owed: stack.markers().filter(truncated).map(range).collect(),
            pending: conversation.pending.iter().map(|pending| pending.message.clone()).collect(),
            turn: conversation.open_turn.as_ref().map(|open| open.id.clone()),
            run: conversation.run.as_ref().map(|run| run.id.clone()),
            waits: !conversation.queued_runs.is_empty(),
            summaries: stack.summaries().map(|summary| summary.id.clone()).collect(),
            markers: stack.markers().map(range).collect(),
            deliveries: conversation.owed.iter().chain(&conversation.undelivered).cloned().collect(),
        };
        let provisional = stack.summaries().filter(|summary| summary.provisional);
        in_use.owed.extend(provisional.map(|summary| (summary.from_seq, summary.to_seq)));
        in_use.owed.extend(conversation.run.as_ref().map(|run| (run.from_seq, run.to_seq)));
        for item in deliveries.filter(|item| item.channel == conversation.channel) {
            in_use.entries.insert(item.seq);
            in_use.deliveries.insert(item.id.clone());
        }
        in_use
    }

    fn has(&self, seq: Seq) -> bool {
        let within = |(from, to): &(Seq, Seq)| (*from..=*to).contains(&seq);
        self.entries.contains(&seq) || self.owed.iter().any(within)
    }

    fn needs(&self, event: &Event, seq: Option<Seq>) -> bool {
        let is_open = |turn: &TurnId| self.turn.as_ref() == Some(turn);
        let is_under_way = |run: &RunId| self.run.as_ref() == Some(run);
        match event {
            Event::Message(event) => match event {
                MessageEvent::Accepted(Pending { message, .. }) | MessageEvent::Edited { message, .. } => {
                    self.pending.contains(message) || seq.is_some_and(|seq| self.has(seq))
                }
                MessageEvent::Deleted { .. }
                | MessageEvent::CommandTaken { .. }
                | MessageEvent::Refused { .. } => false,
            },
            Event::Turn(TurnEvent::EntryAdded { entry }) => self.has(entry.seq),
            Event::Turn(TurnEvent::ToolUsed(used)) => is_open(&used.turn),
            Event::Approval(ApprovalEvent::Asked { approval }) => is_open(&approval.turn),
            Event::Compaction(event) => match event {
                CompactionEvent::RunStarted { run } => is_under_way(&run.id),
                CompactionEvent::RunCheckpointed { run, .. } => is_under_way(run),
                CompactionEvent::RunQueued { .. } => self.waits,
                CompactionEvent::RunEnded(end) => {
                    end.summary.as_ref().is_some_and(|summary| self.summaries.contains(&summary.id))
                }
                CompactionEvent::EmergencyApplied { marker, .. }
                | CompactionEvent::WindowSlid { marker, .. }
                | CompactionEvent::StackRetired { marker } => {
                    let overlaps = |(from, to): &(Seq, Seq)| marker.from_seq <= *to && *from <= marker.to_seq;
                    self.markers.iter().any(overlaps)
                }
                CompactionEvent::RunAttemptFailed { .. }
                | CompactionEvent::ResultsPruned { .. }
                | CompactionEvent::UsageSpent { .. } => false,
            },
            Event::Delivery(event) => self.deliveries.contains(event.id()),
            Event::Turn(_)
            | Event::Approval(_)
            | Event::Artifact(_)
            | Event::Memory(_)
            | Event::Registry(_)
            | Event::Maintenance(_) => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordsExpiry {
    /// None that could expire.
    None,
    Needed,
    Expired,
}

/// Takes the words out of an event of a channel, unless they are in use. `seq`: of a message, the entry that it became;
/// `None`: no turn has taken it up.
///
/// The event never gets longer as JSON.
pub fn expire(event: &mut Event, seq: Option<Seq>, in_use: &InUse) -> WordsExpiry {
    if in_use.needs(event, seq) {
        return if take_out(&mut event.clone()) { WordsExpiry::Needed } else { WordsExpiry::None };
    }
    if take_out(event) { WordsExpiry::Expired } else { WordsExpiry::None }
}

fn take_out(event: &mut Event) -> bool {
    match event {
        Event::Message(
            MessageEvent::Accepted(Pending { parts, .. }) | MessageEvent::Edited { parts, .. },
        ) => !std::mem::take(parts).is_empty(),
        Event::Turn(TurnEvent::EntryAdded { entry }) => {
            let had = !std::mem::take(&mut entry.parts).is_empty()
                | entry.reasoning.take().is_some()
                | entry.provider_state.take().is_some();
            let calls = entry.tool_calls.iter_mut();
            calls.fold(had, |had, call| had | take_arguments(&mut call.arguments))
        }
        Event::Turn(TurnEvent::ToolUsed(used)) => {
            used.error.take().is_some() | take_arguments(&mut used.arguments)
        }
        Event::Approval(ApprovalEvent::Asked { approval }) => take_arguments(&mut approval.arguments),
        Event::Compaction(event) => match event {
            CompactionEvent::RunStarted { run } => {
                run.instruction.take().is_some() | run.checkpoint.as_mut().is_some_and(take_checkpoint)
            }
            CompactionEvent::RunQueued { request } => request.instruction.take().is_some(),
            CompactionEvent::RunCheckpointed { checkpoint, .. } => take_checkpoint(checkpoint),
            CompactionEvent::RunEnded(RunEnd { summary: Some(summary), .. }) => {
                !std::mem::take(&mut summary.text).is_empty()
                    | !std::mem::take(&mut summary.identifiers).is_empty()
            }
            CompactionEvent::EmergencyApplied { marker, .. }
            | CompactionEvent::WindowSlid { marker, .. }
            | CompactionEvent::StackRetired { marker } => !std::mem::take(&mut marker.digest).is_empty(),
            CompactionEvent::UsageSpent { trace, .. } => {
                let work = trace.as_mut().and_then(|trace| trace.work.as_mut());
                work.is_some_and(|work| !std::mem::take(&mut work.added).is_empty())
            }
            CompactionEvent::RunEnded(_)
            | CompactionEvent::RunAttemptFailed { .. }
            | CompactionEvent::ResultsPruned { .. } => false,
        },
        Event::Delivery(DeliveryEvent::Intended { note: Some(note), .. }) => !std::mem::take(note).is_empty(),
        Event::Message(_)
        | Event::Turn(_)
        | Event::Approval(_)
        | Event::Artifact(_)
        | Event::Delivery(_)
        | Event::Memory(_)
        | Event::Registry(_)
        | Event::Maintenance(_) => false,
    }
}

fn take_arguments(arguments: &mut Value) -> bool {
    let had = has_arguments(arguments);
    if had {
        *arguments = no_arguments();
    }
    had
}

fn take_checkpoint(checkpoint: &mut Checkpoint) -> bool {
    !std::mem::take(&mut checkpoint.text).is_empty() | !std::mem::take(&mut checkpoint.memories).is_empty()
}

fn has_arguments(arguments: &Value) -> bool {
    match arguments {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::Object(map) => !map.is_empty(),
        Value::String(_) | Value::Array(_) => true,
    }
}

/// Numbers as ranges, both ends included. In order and without doubles.
pub fn ranges(seqs: impl IntoIterator<Item = Seq>) -> Vec<(Seq, Seq)> {
    let seqs: BTreeSet<Seq> = seqs.into_iter().collect();
    let mut ranges: Vec<(Seq, Seq)> = Vec::new();
    for seq in seqs {
        match ranges.last_mut() {
            Some((_, to)) if to.next() == seq => *to = seq,
            _ => ranges.push((seq, seq)),
        }
    }
    ranges
}
