//! The record of a memory with its history: `cairn memory show`.

use cairn_types::event::{CompactionEvent, Event, MemoryEvent, TurnEvent, TurnOutcome};
use cairn_types::ids::{ChannelId, Seq, TurnId};
use cairn_types::memory::{Memory, MemoryKind, MemorySave, Trust};
use cairn_types::ports::{MemoryTrail, TrailStep};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::records::history::AuthorRecord;

/// A memory, who said it, how it changed, and where it was recalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryView {
    #[serde(flatten)]
    pub memory: Memory,
    pub trust: Trust,
    /// Its weight among memories that fit a question equally well, from 0 to 1.
    pub weight: f64,
    /// Oldest first: its creation, and the newest of its changes.
    pub history: Vec<MemoryStep>,
    /// The newest turns that had it in their window, oldest first.
    pub used_in: Vec<MemoryUse>,
}

/// A change of a memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryStep {
    /// The number of its journal record.
    pub n: u64,
    pub at: Timestamp,
    pub what: MemoryChanged,
    /// How many such steps before it are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The channel in which it was said; `None`: an operator typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_seq: Option<Seq>,
    /// The model that wrote it; `operator` or `member` if a person typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AuthorRecord>,
    /// Its text from here on, or as it was found again; `None`: it did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryChanged {
    Made,
    /// It was said again.
    Seen,
    Edited,
}

/// A turn that had a memory in its window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The number of the journal record of its end.
    pub n: u64,
    pub at: Timestamp,
    pub channel: ChannelId,
    pub turn: TurnId,
    #[serde(flatten)]
    pub outcome: TurnOutcome,
    pub model: Option<String>,
}

impl MemoryView {
    pub fn of(memory: Memory, trail: MemoryTrail) -> Self {
        let steps = trail.steps.into_iter().enumerate();
        let used_in = trail.uses.into_iter().filter_map(|record| match (record.event, record.channel) {
            (Event::Turn(TurnEvent::Ended(end)), Some(channel)) => Some(MemoryUse {
                n: record.n,
                at: record.at,
                channel,
                turn: end.turn,
                outcome: end.outcome,
                model: end.model,
            }),
            _ => None,
        });
        Self {
            trust: memory.trust(),
            weight: memory.weight(),
            history: steps.filter_map(|(idx, step)| MemoryStep::of(idx == 0, step)).collect(),
            used_in: used_in.collect(),
            memory,
        }
    }
}

impl MemoryView {
    /// Who said it and its weight, in words.
    pub fn whose(&self) -> String {
        let whose = match self.trust {
            Trust::Operator => "an operator's word",
            Trust::Own => "the word of the person it is about",
            Trust::Other => "the word of somebody else than whom it is about",
            Trust::Found => "found by a model in what was said",
        };
        if self.weight < 1.0 {
            format!("{whose}; counts {:.1} in a recall", self.weight)
        } else {
            whose.to_owned()
        }
    }
}

impl MemoryChanged {
    pub fn name(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Seen => "seen again",
            Self::Edited => "edited",
        }
    }
}

impl MemoryStep {
    /// `None`: the record says nothing of the memory, such as a replacement for a lost line.
    fn of(is_first: bool, TrailStep { record, idx, left_out }: TrailStep) -> Option<Self> {
        let bare = Self {
            n: record.n,
            at: record.at,
            what: if is_first { MemoryChanged::Made } else { MemoryChanged::Seen },
            left_out,
            channel: None,
            from_seq: None,
            to_seq: None,
            model: None,
            by: None,
            text: None,
            kind: None,
            importance: None,
        };
        match record.event {
            Event::Memory(MemoryEvent::Saved(save)) => Some(bare.saved(save)),
            Event::Compaction(CompactionEvent::RunEnded(end)) => {
                end.memories.into_iter().nth(idx).map(|save| bare.saved(save))
            }
            Event::Memory(MemoryEvent::Edited { text, kind, importance, .. }) => {
                Some(Self { what: MemoryChanged::Edited, text, kind, importance, ..bare })
            }
            _ => None,
        }
    }

    fn saved(self, save: MemorySave) -> Self {
        let source = save.source;
        Self {
            channel: source.channel,
            from_seq: source.from_seq,
            to_seq: source.to_seq,
            model: Some(source.model),
            by: source.by.as_ref().or(source.told_by.as_ref()).map(AuthorRecord::of),
            text: Some(save.text),
            kind: Some(save.kind),
            importance: Some(save.importance),
            ..self
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
