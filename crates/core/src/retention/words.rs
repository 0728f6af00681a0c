//! Words that expire: taken out of old records of the journal where nothing needs them any more. Who spoke, when and in
//! what order stays, and with it all that a conversation folds to; memories keep their texts.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::conversation::Conversation;
use cairn_types::event::visit::{Kind, Visit};
use cairn_types::event::{ApprovalEvent, CompactionEvent, Event, MessageEvent, ReminderEvent, TurnEvent};
use cairn_types::ids::{MessageId, OutboxId, ReminderId, RunId, Seq, SummaryId, TurnId};
use cairn_types::memory::DraftMemory;
use cairn_types::message::{Part, Pending};
use cairn_types::model::ChatMessage;
use cairn_types::ports::OutboxItem;
use cairn_types::provider_state::ProviderState;
use cairn_types::summary::{DigestLine, Marker, MarkerKind};

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
    reminders: HashSet<ReminderId>,
    client_system: Option<Arc<str>>,
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
            reminders: conversation.reminders.keys().cloned().collect(),
            client_system: conversation.client_system.as_ref().map(|system| Arc::clone(&system.text)),
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
                MessageEvent::SystemSet { text, .. } => self.client_system.as_deref() == Some(text.as_str()),
                MessageEvent::Deleted { .. }
                | MessageEvent::Reacted { .. }
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
            Event::Reminder(ReminderEvent::Set(reminder)) => self.reminders.contains(&reminder.id),
            Event::Delivery(event) => self.deliveries.contains(event.id()),
            Event::Turn(_)
            | Event::Approval(_)
            | Event::Artifact(_)
            | Event::Memory(_)
            | Event::Reminder(ReminderEvent::Cancelled { .. })
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
        return if event.clone().visit_mut(&mut TakeOut) { WordsExpiry::Needed } else { WordsExpiry::None };
    }
    if event.visit_mut(&mut TakeOut) { WordsExpiry::Expired } else { WordsExpiry::None }
}

/// Takes out what was said and what was made of it. Reasons and memories stay, and tokens stay those of the text that was there.
struct TakeOut;

impl Visit for TakeOut {
    const MEASURES: bool = false;

    fn words(&mut self, words: &mut String, kind: Kind) -> bool {
        is_taken(kind) && !std::mem::take(words).is_empty()
    }

    fn option(&mut self, words: &mut Option<String>, kind: Kind) -> bool {
        is_taken(kind) && words.take().is_some()
    }

    fn json(&mut self, value: &mut Value) -> bool {
        let had = has_arguments(value);
        if had {
            *value = Value::Object(Map::new());
        }
        had
    }

    fn parts(&mut self, parts: &mut Vec<Part>) -> bool {
        !std::mem::take(parts).is_empty()
    }

    fn state(&mut self, state: &mut Option<Box<ProviderState>>) -> bool {
        state.take().is_some()
    }

    fn talk(&mut self, talk: &mut Vec<ChatMessage>) -> bool {
        !std::mem::take(talk).is_empty()
    }

    fn digest(&mut self, lines: &mut Vec<DigestLine>) -> bool {
        !std::mem::take(lines).is_empty()
    }

    fn identifiers(&mut self, identifiers: &mut Vec<String>) -> bool {
        !std::mem::take(identifiers).is_empty()
    }

    fn drafts(&mut self, drafts: &mut Vec<DraftMemory>) -> bool {
        !std::mem::take(drafts).is_empty()
    }
}

fn is_taken(kind: Kind) -> bool {
    match kind {
        Kind::Said | Kind::Made => true,
        Kind::Reason | Kind::Memory => false,
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cairn_types::testing::{every_event, is_in_texts, with_each_text};

    use super::*;

    /// Reasons and memories.
    const STAY: [&str; 14] = [
        "approval_asked/approval/reason",
        "ban_set/reason",
        "memory_edited/text",
        "memory_saved/subject",
        "memory_saved/text",
        "model_chosen/reason",
        "outbox_put_off/reason",
        "outbox_settled/receipt/reason",
        "run_attempt_failed/reason",
        "run_ended/memories/subject",
        "run_ended/memories/text",
        "run_ended/reason",
        "run_started/run/failure",
        "turn_ended/outcome/message",
    ];

    #[test]
    fn texts_expire_but_for_reasons_and_memories() {
        let events = every_event();
        let canary = |text: &str| if text.contains('/') { text.to_owned() } else { "quokka".to_owned() };
        let mut stay = BTreeSet::new();
        for (path, mut event) in with_each_text(&events, canary) {
            let bytes = |event: &Event| serde_json::to_string(event).unwrap();
            let (before, is_text) = (bytes(&event), is_in_texts(&event, "quokka"));
            expire(&mut event, None, &InUse::default());
            let after = bytes(&event);
            assert!(after.len() <= before.len(), "{before} became {after}");
            assert_eq!(
                expire(&mut event, None, &InUse::default()),
                WordsExpiry::None,
                "nothing is left of it"
            );
            stay.extend((is_text && after.contains("quokka")).then_some(path));
        }
        assert_eq!(Vec::from_iter(stay), STAY);
    }
}
