//! Work beside the turns: compaction runs, which the compactor proposes and the channel decides and journals; notes to the
//! chat about messages lost from view; artifacts that expire.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::artifact::due;
use cairn_core::compaction::{self, Decision, SummaryDraft};
use cairn_core::conversation::Conversation;
use cairn_core::notice::{self, Due};
use cairn_types::event::{ArtifactEvent, Checkpoint, CompactionEvent, Event, RunOutcome};
use cairn_types::ids::RunId;
use cairn_types::model::Usage;
use cairn_types::trace::CallTrace;

use super::requests::in_time;
use super::state::{ChannelState, answer};
use crate::failure::ChannelFault;
use crate::messages::{ChannelMsg, CompactorMsg};

/// How often an awake channel checks for expired artifacts.
const EXPIRE_EVERY: Duration = Duration::from_secs(24 * 3600);

impl ChannelState {
    /// Checks again whether a run is due, in the order of the journal, and starts it.
    pub(super) async fn propose(&mut self) -> Result<(), ChannelFault> {
        if self.going_idle || self.draining {
            return Ok(());
        }
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let decision = self.handle.read(|conversation| self.handle.due(conversation, &settings, now));
        let events = match decision {
            Decision::Start(run) => vec![Event::Compaction(CompactionEvent::RunStarted { run: *run })],
            Decision::Apply(events) => events,
            Decision::Idle | Decision::WaitUntil(_) => return Ok(()),
        };
        self.conclude(Some(events)).await
    }

    /// Commits the result of an attempt. A result for a run that is over is ignored.
    pub(super) async fn finish_run(&mut self, run: &RunId, draft: SummaryDraft) -> Result<(), ChannelFault> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let conversation = self.handle.snapshot();
        let events = compaction::commit(&conversation, &settings, run, draft, now);
        drop(conversation);
        self.conclude(events).await
    }

    /// Journals a finished chunk. False: the store refused it for now.
    pub(super) async fn checkpoint(
        &mut self,
        run: &RunId,
        checkpoint: Checkpoint,
    ) -> Result<bool, ChannelFault> {
        let is_wanted =
            self.handle.read(|conversation| conversation.run.as_ref().is_some_and(|r| r.id == *run));
        if !is_wanted {
            return Ok(true);
        }
        let event = Event::Compaction(CompactionEvent::RunCheckpointed { run: run.clone(), checkpoint });
        Ok(answer(self.commit(vec![event]).await)?.is_ok())
    }

    /// Journals a failed attempt. The next one waits for its time, or makes a digest.
    pub(super) async fn fail_attempt(
        &mut self,
        run: &RunId,
        attempt: u32,
        reason: &str,
        retry_after_ms: Option<u64>,
    ) -> Result<(), ChannelFault> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let current = self.handle.read(|conversation| conversation.run.clone());
        let failed = current.filter(|current| current.id == *run && current.attempt == attempt);
        let event = failed.map(|run| {
            let (event, next) = compaction::fail_attempt(&run, &settings, reason, retry_after_ms, now);
            tracing::debug!(channel = %self.handle.id, run = %run.id, reason, "why an attempt failed");
            tracing::warn!(channel = %self.handle.id, run = %run.id, attempt, ?next,
                "an attempt of a compaction run failed; the conversation is unchanged; `cairn context` shows the \
                 reason");
            vec![event]
        });
        self.conclude(event).await
    }

    /// Ends a run without a result: its sealed entries are live again.
    pub(super) async fn give_up_run(
        &mut self,
        run: &RunId,
        outcome: RunOutcome,
        reason: &str,
    ) -> Result<(), ChannelFault> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let event = self.handle.read(|conversation| {
            conversation.run.as_ref().filter(|current| current.id == *run)?;
            compaction::give_up(conversation, &settings, outcome, reason, now)
        });
        self.conclude(event.map(|event| vec![event])).await
    }

    /// Journals a run's progress and notifies the compactor. If the store refuses it, the compactor delivers the result
    /// again after a pause.
    async fn conclude(&mut self, events: Option<Vec<Event>>) -> Result<(), ChannelFault> {
        let refused = match events {
            Some(events) => {
                let events = self.with_notes(events);
                answer(self.commit(events).await)?.is_err()
            }
            None => false,
        };
        if refused {
            let handle = Arc::clone(&self.handle);
            let pause = self.shared.live.limits().store_retry_pause;
            self.shared.lifecycle.tasks.spawn("bring a run again", async move {
                tokio::time::sleep(pause).await;
                handle.tell_compactor(CompactorMsg::Resume);
            });
        } else {
            self.handle.tell_compactor(CompactorMsg::Look);
        }
        Ok(())
    }

    /// Counts and journals the tokens of a run's call.
    pub(super) async fn spent(
        &mut self,
        model: String,
        usage: Usage,
        is_estimate: bool,
        trace: Option<Box<CallTrace>>,
    ) -> Result<(), ChannelFault> {
        self.shared.budgets.count_usage(&self.handle.id, &[], &model, usage, self.shared.ports.now());
        let spent = Event::Compaction(CompactionEvent::UsageSpent { model, usage, is_estimate, trace });
        if let Err(error) = answer(self.commit(vec![spent]).await)? {
            tracing::warn!(channel = %self.handle.id, %error, "cannot journal the token usage of a run");
        }
        Ok(())
    }

    /// Adds the notes to the chat that ended runs make due.
    fn with_notes(&mut self, events: Vec<Event>) -> Vec<Event> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let mut conversation = self.handle.snapshot();
        if let Some(run) = &mut conversation.run {
            run.tell |= self.asked_for.contains(&run.id);
        }
        notice::with_notes(&conversation, &settings, events, now)
    }

    /// Plans the next check whether a note about lost messages is due.
    pub(super) fn expect_loss(&mut self) {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        let wait = match self.handle.read(|conversation| notice::due(conversation, &settings, now)) {
            Due::Nothing => return,
            Due::At(at) => Duration::try_from(at.duration_since(now)).unwrap_or_default(),
            Due::Now(_) => Duration::ZERO,
        };
        // A little longer, so that a clock with milliseconds has surely passed the time.
        self.later(wait + Duration::from_millis(1), || ChannelMsg::TellLoss);
    }

    /// Tells the chat about messages lost from view, if it is time.
    pub(super) async fn tell_loss(&mut self) -> Result<(), ChannelFault> {
        let (now, settings) = (self.shared.ports.now(), self.handle.settings());
        match self.handle.read(|conversation| notice::due(conversation, &settings, now)) {
            Due::Nothing => {}
            Due::At(_) => self.expect_loss(),
            Due::Now(event) => {
                if answer(self.commit(vec![*event]).await)?.is_err() {
                    let pause = self.shared.live.limits().store_retry_pause;
                    self.later(pause, || ChannelMsg::TellLoss);
                }
            }
        }
        Ok(())
    }

    /// Expires artifacts that are due, and removes files that a crash left behind: at a wake and then once a day.
    pub(super) async fn expire(&mut self) -> Result<(), ChannelFault> {
        self.later(EXPIRE_EVERY, || ChannelMsg::Expire);
        let has_any =
            |conversation: &Conversation| conversation.newest_artifact > 0 || conversation.has_recordings;
        if !self.handle.read(has_any) {
            return Ok(());
        }
        self.remove_expired();
        self.expire_due().await
    }

    /// Expires artifacts that are due.
    pub(super) async fn expire_due(&mut self) -> Result<(), ChannelFault> {
        let artifacts = match in_time(self.shared.ports.store.artifacts(&self.handle.id, false)).await {
            Ok(artifacts) => artifacts,
            Err(error) => {
                tracing::warn!(channel = %self.handle.id, %error, "cannot determine which artifacts expire");
                return Ok(());
            }
        };
        let (settings, now) = (self.handle.settings(), self.shared.ports.now());
        let mut ids =
            self.handle.read(|conversation| due(&artifacts, conversation, &settings.result_guard, now));
        ids.extend(self.wordless_recordings(&artifacts, &ids).await);
        if ids.is_empty() {
            return Ok(());
        }
        tracing::info!(channel = %self.handle.id, n = ids.len(),
            "artifacts expired: unread for too long, over the channel's size limit, or recordings whose words expired");
        // Refused by the store: retried in a day, or at the next wake.
        if answer(
            self.commit(vec![Event::Artifact(ArtifactEvent::Expired { ids: ids.clone(), lost: false })])
                .await,
        )?
        .is_ok()
        {
            metrics::counter!("cairn_artifacts_expired_total").increment(ids.len() as u64);
            self.remove_expired();
        }
        Ok(())
    }

    pub(super) fn remove_expired(&self) {
        let (store, channel) = (Arc::clone(&self.shared.ports.store), self.handle.id.clone());
        self.shared.lifecycle.tasks.spawn("remove expired artifacts", async move {
            if let Err(error) = store.remove_expired(&channel).await {
                tracing::warn!(%channel, %error,
                    "files of expired artifacts could not be deleted; they are deleted when the channel wakes again");
            }
        });
    }
}
