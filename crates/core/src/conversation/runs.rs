//! The fold of what makes room: runs, emergencies, the stack.

use super::{Conversation, Failures, OUTCOMES_KEPT};
use crate::event::{Event, Record, Run, RunEnd, RunOutcome};

impl Conversation {
    pub(super) fn fold_run(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::RunStarted { run } => self.start_run(run)?,
            Event::RunQueued { request } => self.queued_runs.push_back(request.clone()),
            Event::RunAttemptFailed { run, attempt, reason, retry_at } => {
                let current = self.run.as_mut().filter(|current| current.id == *run);
                let current = current.ok_or("that run is not under way")?;
                current.attempt = attempt + 1;
                current.retry_at = Some(*retry_at);
                current.failure = Some(reason.clone());
            }
            Event::RunCheckpointed { run, checkpoint } => {
                let current = self.run.as_mut().filter(|current| current.id == *run);
                current.ok_or("that run is not under way")?.checkpoint = Some(checkpoint.clone());
            }
            Event::RunEnded(end) => self.end_run(record, end)?,
            Event::EmergencyApplied { marker, .. } => {
                self.drop_live(marker.to_seq);
                self.place_item(marker.clone().into());
                self.emergencies += 1;
                self.fold_loss(record.at, marker.to_seq);
            }
            Event::WindowSlid { marker, .. } => {
                self.drop_live(marker.to_seq);
                self.place_item(marker.clone().into());
            }
            Event::StackRetired { marker } => self.place_item(marker.clone().into()),
            _ => {}
        }
        Ok(())
    }

    fn start_run(&mut self, run: &Run) -> Result<(), String> {
        if let Some(current) = &self.run {
            return Err(format!("run {} is under way", current.id));
        }
        if let Some(idx) = self.queued_runs.iter().position(|queued| queued.trigger == run.trigger) {
            self.queued_runs.remove(idx);
        }
        self.runs += 1;
        self.run = Some(run.clone());
        Ok(())
    }

    fn end_run(&mut self, record: &Record, end: &RunEnd) -> Result<(), String> {
        self.run.take_if(|run| run.id == end.run).ok_or("that run is not under way")?;
        let failures =
            if end.trigger.is_deferrable() { &mut self.deferred_failures } else { &mut self.failures };
        match end.outcome {
            RunOutcome::Committed => *failures = Failures::default(),
            RunOutcome::Rejected | RunOutcome::Failed => {
                *failures = Failures { n: failures.n + 1, last_at: Some(record.at) };
            }
            RunOutcome::Superseded | RunOutcome::Cancelled => {}
        }
        if let Some(summary) = &end.summary {
            self.drop_live(summary.to_seq);
            self.place_item(summary.clone().into());
            if summary.provisional {
                // No model is well just now: what can be deferred waits.
                let n = self.deferred_failures.n.max(1);
                self.deferred_failures = Failures { n, last_at: Some(record.at) };
            }
        }
        if self.outcomes.len() == OUTCOMES_KEPT {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(end.to_outcome());
        Ok(())
    }
}
