//! A context engine for tests, with a state of its own: it counts turns, and knows nothing of tokens.

use std::collections::VecDeque;
use std::sync::Mutex;

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::Decision;
use cairn_core::conversation::Conversation;
use cairn_core::engine::{ContextEngine, EngineInfo, MakeRoom};
use cairn_core::turn::spans;
use cairn_core::window::measure;
use cairn_types::event::{CompactionEvent, Event, Record, TurnEvent};
use cairn_types::ids::{Seq, TurnId};
use cairn_types::summary::{Marker, MarkerKind};
use cairn_types::tier::Tier;
use jiff::Timestamp;

/// Turns that [`Latest`] lets gather, and that it keeps when it drops some.
const GATHERED: usize = 7;
const KEPT: usize = 3;

#[derive(Default)]
pub(crate) struct Latest {
    closed: Mutex<VecDeque<(TurnId, Seq)>>,
}

impl Latest {
    fn slide(&self, conversation: &Conversation, n_kept: usize) -> Vec<Event> {
        let closed = self.closed.lock().unwrap();
        let Some(n_gone) = closed.len().checked_sub(n_kept).filter(|n| *n > 0) else { return Vec::new() };
        let to_seq = closed[n_gone - 1].1;
        let gone = conversation.live.iter().take_while(|entry| entry.seq <= to_seq);
        let messages = gone.count() as u64;
        let from_seq = match conversation.stack.items().last() {
            Some(item) if conversation.stack.markers().last().is_some() => item.range().0,
            _ => conversation.live.front().unwrap().seq,
        };
        let mut marker = Marker::new(MarkerKind::Retired, from_seq, to_seq, Vec::new());
        marker.messages = conversation.count(from_seq, to_seq);
        vec![Event::Compaction(CompactionEvent::WindowSlid {
            marker,
            messages,
            tokens_before: 0,
            tokens_after: 0,
        })]
    }
}

impl ContextEngine for Latest {
    fn info(&self) -> EngineInfo {
        EngineInfo { id: "latest", name: "the latest turns", version: "1", owns_compaction: true }
    }

    fn bootstrap(&self, conversation: &Conversation) {
        let open = conversation.open_turn.as_ref().map(|open| &open.id);
        let turns = spans(conversation).into_iter().filter(|span| Some(&span.turn) != open);
        *self.closed.lock().unwrap() = turns.map(|span| (span.turn, span.to_seq)).collect();
    }

    fn ingest(&self, conversation: &Conversation, record: &Record) {
        let mut closed = self.closed.lock().unwrap();
        match &record.event {
            Event::Turn(TurnEvent::Ended(end)) => {
                let last = conversation.live.iter().rfind(|entry| entry.turn == end.turn);
                closed.extend(last.map(|entry| (end.turn.clone(), entry.seq)));
            }
            Event::Compaction(CompactionEvent::WindowSlid { marker, .. }) => {
                closed.retain(|(_, to_seq)| *to_seq > marker.to_seq)
            }
            Event::Turn(TurnEvent::Undone { turn, .. }) => closed.retain(|(closed, _)| closed != turn),
            _ => {}
        }
    }

    fn compact(
        &self,
        conversation: &Conversation,
        agent: &AgentSettings,
        cause: MakeRoom,
        _now: Timestamp,
    ) -> Vec<Event> {
        match cause {
            MakeRoom::Tier if measure(conversation, agent).tier < Tier::Emergency => Vec::new(),
            MakeRoom::Tier | MakeRoom::Overflow => self.slide(conversation, 0),
            MakeRoom::Manual => self.slide(conversation, KEPT),
        }
    }

    fn after_turn(&self, conversation: &Conversation, _agent: &AgentSettings, _now: Timestamp) -> Decision {
        let is_due = self.closed.lock().unwrap().len() > GATHERED;
        let events = if is_due { self.slide(conversation, KEPT) } else { Vec::new() };
        if events.is_empty() { Decision::Idle } else { Decision::Apply(events) }
    }

    fn reset(&self, _conversation: &Conversation) {
        self.closed.lock().unwrap().clear();
    }

    fn dispose(&self) {
        self.closed.lock().unwrap().clear();
    }
}
