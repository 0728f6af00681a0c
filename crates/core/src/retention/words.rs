//! Words that expire: taken out of old records of the journal where nothing needs them any more. Who spoke, when and in
//! what order stays, and with it all that a conversation folds to; memories keep their texts.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::event::{Checkpoint, Event, RunEnd};
use crate::ids::{MessageId, OutboxId, RunId, Seq, SummaryId, TurnId};
use crate::message::{Entry, Part};
use crate::ports::OutboxItem;
use crate::summary::{Marker, MarkerKind};

/// The words that stand in the place of those that have expired.
pub const EXPIRED_TEXT: &str = "[expired]";

impl Entry {
    /// What is left of it when its words have expired. Its tokens stay what they were.
    pub fn expired(&self) -> Self {
        let mut left = Self { parts: vec![Part::text(EXPIRED_TEXT)], reasoning: None, ..self.clone() };
        left.tool_calls.iter_mut().for_each(|call| call.arguments = no_arguments());
        left
    }

    pub fn is_expired(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text { text }] if text == EXPIRED_TEXT)
    }
}

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

    fn has_message(&self, message: &MessageId, seq: Option<Seq>) -> bool {
        self.pending.contains(message) || seq.is_some_and(|seq| self.has(seq))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// None that could expire.
    None,
    Needed,
    Expired,
}

/// Takes the words out of an event of a channel, unless they are in use. `seq`: of a message, the entry that it became;
/// `None`: no turn has taken it up.
///
/// The event never gets longer as JSON.
pub fn expire(event: &mut Event, seq: Option<Seq>, in_use: &InUse) -> Words {
    let (had, needed) = match event {
        Event::Accepted(pending) => (!pending.parts.is_empty(), in_use.has_message(&pending.message, seq)),
        Event::MessageEdited { message, parts, .. } => (!parts.is_empty(), in_use.has_message(message, seq)),
        Event::EntryAdded { entry } => (has_words(entry), in_use.has(entry.seq)),
        Event::ToolUsed(used) => {
            (has_arguments(&used.arguments) || used.error.is_some(), in_use.turn.as_ref() == Some(&used.turn))
        }
        Event::ApprovalAsked { approval } => {
            (has_arguments(&approval.arguments), in_use.turn.as_ref() == Some(&approval.turn))
        }
        Event::RunStarted { run } => {
            let had = run.instruction.is_some() || run.checkpoint.as_ref().is_some_and(has_text);
            (had, in_use.run.as_ref() == Some(&run.id))
        }
        Event::RunQueued { request } => (request.instruction.is_some(), in_use.waits),
        Event::RunCheckpointed { run, checkpoint } => {
            (has_text(checkpoint), in_use.run.as_ref() == Some(run))
        }
        Event::RunEnded(RunEnd { summary: Some(summary), .. }) => {
            let had = !summary.text.is_empty() || !summary.identifiers.is_empty();
            (had, in_use.summaries.contains(&summary.id))
        }
        Event::EmergencyApplied { marker, .. }
        | Event::WindowSlid { marker, .. }
        | Event::StackRetired { marker } => {
            let overlaps = |(from, to): &(Seq, Seq)| marker.from_seq <= *to && *from <= marker.to_seq;
            (!marker.digest.is_empty(), in_use.markers.iter().any(overlaps))
        }
        Event::OutboxIntended { id, note: Some(note), .. } => {
            (!note.is_empty(), in_use.deliveries.contains(id))
        }
        _ => (false, false),
    };
    match (had, needed) {
        (false, _) => Words::None,
        (true, true) => Words::Needed,
        (true, false) => {
            take_out(event);
            Words::Expired
        }
    }
}

fn has_arguments(arguments: &Value) -> bool {
    match arguments {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::Object(map) => !map.is_empty(),
        Value::String(_) | Value::Array(_) => true,
    }
}

fn has_words(entry: &Entry) -> bool {
    !entry.parts.is_empty()
        || entry.reasoning.is_some()
        || entry.tool_calls.iter().any(|call| has_arguments(&call.arguments))
}

fn has_text(checkpoint: &Checkpoint) -> bool {
    !checkpoint.text.is_empty() || !checkpoint.memories.is_empty()
}

fn clear_checkpoint(checkpoint: &mut Checkpoint) {
    checkpoint.text.clear();
    checkpoint.memories.clear();
}

fn take_out(event: &mut Event) {
    match event {
        Event::Accepted(pending) => pending.parts.clear(),
        Event::MessageEdited { parts, .. } => parts.clear(),
        Event::EntryAdded { entry } => {
            entry.parts.clear();
            entry.reasoning = None;
            let calls = entry.tool_calls.iter_mut().filter(|call| has_arguments(&call.arguments));
            calls.for_each(|call| call.arguments = no_arguments());
        }
        Event::ToolUsed(used) => {
            used.error = None;
            if has_arguments(&used.arguments) {
                used.arguments = no_arguments();
            }
        }
        Event::ApprovalAsked { approval } => approval.arguments = no_arguments(),
        Event::RunStarted { run } => {
            run.instruction = None;
            run.checkpoint.iter_mut().for_each(clear_checkpoint);
        }
        Event::RunQueued { request } => request.instruction = None,
        Event::RunCheckpointed { checkpoint, .. } => clear_checkpoint(checkpoint),
        Event::RunEnded(RunEnd { summary: Some(summary), .. }) => {
            summary.text.clear();
            summary.identifiers.clear();
        }
        Event::EmergencyApplied { marker, .. }
        | Event::WindowSlid { marker, .. }
        | Event::StackRetired { marker } => marker.digest.clear(),
        Event::OutboxIntended { note: Some(note), .. } => note.clear(),
        _ => {}
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
