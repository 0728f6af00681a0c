//! What happened in a compaction run, as its records tell it.

use jiff::Timestamp;

use crate::trace::StoryCall;
use cairn_types::event::{CompactionEvent, Event, Record, Run, RunEnd};
use cairn_types::ids::{RunId, Seq};
use cairn_types::model::ChatMessage;

/// A run, from its start up to its end, or to where it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStory {
    /// As it was when it began.
    pub run: Run,
    pub calls: Vec<StoryCall>,
    /// Attempts that failed, and why.
    pub failed: Vec<(Timestamp, u32, String)>,
    /// Chunks that were finished, each with its last entry.
    pub chunks: Vec<(Timestamp, Seq)>,
    pub end: Option<(Timestamp, RunEnd)>,
}

/// Whether an event tells of that run.
pub fn is_of_run(event: &Event, run: &RunId) -> bool {
    let Event::Compaction(event) = event else { return false };
    match event {
        CompactionEvent::RunStarted { run: started } => started.id == *run,
        CompactionEvent::RunAttemptFailed { run: of, .. }
        | CompactionEvent::RunCheckpointed { run: of, .. } => of == run,
        CompactionEvent::RunEnded(end) => end.run == *run,
        CompactionEvent::UsageSpent { trace, .. } => {
            trace.as_ref().and_then(|trace| trace.work.as_ref()).is_some_and(|work| work.run == *run)
        }
        CompactionEvent::RunQueued { .. }
        | CompactionEvent::EmergencyApplied { .. }
        | CompactionEvent::StackRetired { .. }
        | CompactionEvent::WindowSlid { .. }
        | CompactionEvent::ResultsPruned { .. } => false,
    }
}

/// The story of a run. `records`: those that tell of it, in order. `None`: they do not have its start.
pub fn run_story(records: &[Record]) -> Option<RunStory> {
    let mut story: Option<RunStory> = None;
    for record in records {
        let at = record.at;
        match (&record.event, &mut story) {
            (Event::Compaction(CompactionEvent::RunStarted { run }), _) => {
                let (calls, failed, chunks) = (Vec::new(), Vec::new(), Vec::new());
                story = Some(RunStory { run: run.clone(), calls, failed, chunks, end: None });
            }
            (Event::Compaction(event), Some(story)) => story.take(at, event),
            _ => {}
        }
    }
    story
}

impl RunStory {
    fn take(&mut self, at: Timestamp, event: &CompactionEvent) {
        match event {
            CompactionEvent::RunAttemptFailed { attempt, reason, .. } => {
                self.failed.push((at, *attempt, reason.clone()));
            }
            CompactionEvent::RunCheckpointed { checkpoint, .. } => self.chunks.push((at, checkpoint.to_seq)),
            CompactionEvent::RunEnded(end) => self.end = Some((at, end.clone())),
            CompactionEvent::UsageSpent { model, usage, is_estimate, trace: Some(trace) } => {
                self.calls.push(StoryCall::of_run(at, model, *usage, *is_estimate, trace));
            }
            _ => {}
        }
    }

    /// What its talk with the model had come to when it made that call, beside the request of the first round.
    pub fn talk(&self, call_idx: usize) -> Vec<ChatMessage> {
        let work = |call: &StoryCall| call.trace.as_ref().and_then(|trace| trace.work.clone());
        let mut rounds = Vec::new();
        for call in self.calls[..=call_idx].iter().rev().filter_map(work) {
            let is_first = call.round == 1;
            rounds.push(call.added);
            if is_first {
                break;
            }
        }
        rounds.into_iter().rev().flatten().collect()
    }
}
