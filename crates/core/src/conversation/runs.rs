//! The fold of what makes room: runs, emergencies, the stack.

use super::{Conversation, Failures, OUTCOMES_KEPT};
use crate::event::{Event, Outcome, Record, Run, RunEnd, RunOutcome, SummarySize, Work};

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
        let run = self.run.take_if(|run| run.id == end.run).ok_or("that run is not under way")?;
        let source_tokens = self.source_tokens(&run);
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
        // A provisional one says nothing of what models write.
        let summary = end.summary.as_ref().filter(|summary| !summary.provisional);
        let summary_size = summary.zip(source_tokens).map(|(summary, source_tokens)| {
            let merge = matches!(run.work, Work::Merge { .. });
            SummarySize { tokens: summary.tokens, source_tokens, merge }
        });
        self.outcomes.push_back(Outcome { summary_size, ..end.to_outcome() });
        Ok(())
    }

    /// Tokens of what a run works on; `None` when not all of it is in the window any more.
    fn source_tokens(&self, run: &Run) -> Option<u64> {
        match &run.work {
            Work::Merge { sources, .. } => {
                let tokens = |id| self.stack.summary(id).map(|summary| u64::from(summary.tokens));
                sources.iter().map(tokens).sum()
            }
            Work::Sealed | Work::Truncated => {
                let range = run.from_seq..=run.to_seq;
                let sealed = || self.live.iter().filter(|entry| range.contains(&entry.seq));
                let whole = sealed().count() as u64 == run.messages;
                whole.then(|| sealed().map(|entry| u64::from(entry.tokens)).sum())
            }
        }
    }
}
