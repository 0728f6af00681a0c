//! Runs: the compactor proposes, the channel decides, journals and applies.

use cairn_core::compaction::{self, Decision, Draft};
use cairn_core::event::{Checkpoint, CompactionEvent, Event, RunOutcome};
use cairn_core::ids::RunId;

use super::ChannelState;
use super::journal::Fault;
use crate::compactor::CompactorMsg;

impl ChannelState {
    /// A run may be due: decided again here, in the order of the journal.
    pub(super) async fn propose(&mut self) -> Result<(), Fault> {
        if self.falling || self.draining {
            return Ok(());
        }
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let decision = self.handle.read(|conversation| self.handle.due(conversation, &settings, now));
        let events = match decision {
            Decision::Start(run) => vec![Event::Compaction(CompactionEvent::RunStarted { run: *run })],
            Decision::Apply(events) => events,
            Decision::Idle | Decision::WaitUntil(_) => return Ok(()),
        };
        self.conclude(Some(events)).await
    }

    /// An attempt has a result. A run that is no longer under way came too late: nothing to do.
    pub(super) async fn finish_run(&mut self, run: &RunId, draft: Draft) -> Result<(), Fault> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let conversation = self.handle.snapshot();
        let events = compaction::commit(&conversation, &settings, run, draft, now);
        drop(conversation);
        self.conclude(events).await
    }

    /// A chunk is finished. False: the store refused it for now.
    pub(super) async fn checkpoint(&mut self, run: &RunId, checkpoint: Checkpoint) -> Result<bool, Fault> {
        let is_wanted =
            self.handle.read(|conversation| conversation.run.as_ref().is_some_and(|r| r.id == *run));
        if !is_wanted {
            return Ok(true);
        }
        let event = Event::Compaction(CompactionEvent::RunCheckpointed { run: run.clone(), checkpoint });
        Ok(self.commit(vec![event]).await?.is_ok())
    }

    /// An attempt failed: the next one waits its time, or the digest stands in.
    pub(super) async fn fail_attempt(
        &mut self,
        run: &RunId,
        attempt: u32,
        reason: &str,
        retry_after_ms: Option<u64>,
    ) -> Result<(), Fault> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let current = self.handle.read(|conversation| conversation.run.clone());
        let failed = current.filter(|current| current.id == *run && current.attempt == attempt);
        let event = failed.map(|run| {
            let (event, next) = compaction::fail_attempt(&run, &settings, reason, retry_after_ms, now);
            tracing::debug!(channel = %self.handle.id, run = %run.id, reason, "why an attempt failed");
            tracing::warn!(channel = %self.handle.id, run = %run.id, attempt, ?next,
                "an attempt of a compaction run failed (`cairn context` says why); the conversation is as it was");
            vec![event]
        });
        self.conclude(event).await
    }

    /// A run cannot come to a result: what is still sealed is live again.
    pub(super) async fn give_up(
        &mut self,
        run: &RunId,
        outcome: RunOutcome,
        reason: &str,
    ) -> Result<(), Fault> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let event = self.handle.read(|conversation| {
            conversation.run.as_ref().filter(|current| current.id == *run)?;
            compaction::give_up(conversation, &settings, outcome, reason, now)
        });
        self.conclude(event.map(|event| vec![event])).await
    }

    /// Journals what became of a run and has the compactor look again; what the store refuses it brings again.
    async fn conclude(&mut self, events: Option<Vec<Event>>) -> Result<(), Fault> {
        let refused = match events {
            Some(events) => {
                let events = self.with_notes(events);
                self.commit(events).await?.is_err()
            }
            None => false,
        };
        if refused {
            let handle = std::sync::Arc::clone(&self.handle);
            let pause = self.shared.limits().store_retry_pause;
            self.shared.tasks.spawn("bring a run again", async move {
                tokio::time::sleep(pause).await;
                handle.tell_compactor(CompactorMsg::Resume);
            });
        } else {
            self.handle.tell_compactor(CompactorMsg::Look);
        }
        Ok(())
    }
}
