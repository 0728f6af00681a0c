//! Patience: a turn does not fail because no model answers. People are told once, in a chat that their message is kept;
//! then it is tried again, with growing pauses, until it is answered or somebody stops it. A local turn, for which
//! somebody waits, does so within the turn's limit.

use std::time::Duration;

use cairn_core::event::{DeliveryEvent, Event};
use cairn_core::ids::{ChannelId, OutboxId, Seq, TurnId};
use cairn_core::model::ModelError;
use cairn_core::ports::TurnFailure;
use tokio::time::Instant;

use super::{Turn, TurnArgs};
use crate::channel::ChannelMsg;
use crate::failure;
use crate::outbox::{Pace, Paced};

/// Longest that a server may have us wait.
const ASKED_MAX: Duration = Duration::from_secs(10 * 60);

/// The note that tells people so: one per turn, whatever restarts there are.
pub(crate) fn note_id(channel: &ChannelId, turn: &TurnId) -> OutboxId {
    OutboxId::from(format!("{channel}:{turn}:wait"))
}

/// How a turn bears a model that does not answer.
pub(super) struct OutageWait {
    is_chat: bool,
    told: bool,
    waits: bool,
    /// When the first call failed since one succeeded last.
    since: Option<Instant>,
    /// A local turn waits for no server that asks for more.
    asked_max: Duration,
    pace: Pace,
}

impl OutageWait {
    /// As a turn begins, or is taken up again.
    pub(super) fn of(args: &TurnArgs) -> Self {
        let told = args.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref();
            open.is_some_and(|open| open.notes.contains(&note_id(&conversation.channel, &open.id)))
        });
        Self {
            is_chat: args.show.is_some(),
            told,
            waits: false,
            since: None,
            asked_max: args.shared.limits().model_retry_max,
            pace: Pace::up_to(args.shared.limits().patience_max),
        }
    }

    /// Whether it waits after this error instead of failing.
    pub(super) fn covers(&self, error: &ModelError) -> bool {
        match error {
            ModelError::BadRequest(_)
            | ModelError::NoTools(_)
            | ModelError::ContextOverflow { .. }
            // It answers, with nothing that can be used: every further call would cost as much and end alike.
            | ModelError::Protocol(_) => false,
            // Somebody must mend that first: who waits for an answer is told at once, a chat goes on by itself.
            ModelError::Auth(_) => self.is_chat,
            ModelError::RateLimited { retry_after, .. } => {
                self.is_chat || retry_after.is_none_or(|asked| asked <= self.asked_max)
            }
            ModelError::Overloaded { .. } | ModelError::Timeout(_) | ModelError::Transport(_) => true,
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    pub(super) fn failed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}

impl Turn {
    pub(super) fn calm(&mut self) {
        self.outage_wait.since = None;
        self.budget.note(None);
        if std::mem::take(&mut self.outage_wait.waits) {
            self.outage_wait.pace = Pace::up_to(self.args.shared.limits().patience_max);
            self.budget.go_on();
            tracing::info!(channel = %self.args.handle.id, "the model answers again");
        }
    }

    /// Runs `work`, and tells people meanwhile when it is time to.
    pub(super) async fn telling<T>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, TurnFailure> {
        let outage_wait = &self.outage_wait;
        let due = outage_wait.since.filter(|_| !outage_wait.waits);
        let Some(since) = due else { return Ok(work.await) };
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = tokio::time::sleep_until(since + self.args.shared.limits().tell_after) => {}
        }
        // Whoever sees words coming needs no comfort.
        if self.args.handle.subscribers.so_far().is_empty() {
            self.bear(None).await?;
        }
        Ok(work.await)
    }

    /// From here on it waits: people are told, unless they have been. `failure`: why, for who waits for a local turn.
    pub(super) async fn bear(&mut self, failure: Option<&TurnFailure>) -> Result<(), TurnFailure> {
        if std::mem::replace(&mut self.outage_wait.waits, true) {
            return Ok(());
        }
        if !self.outage_wait.is_chat {
            self.bear_locally(failure);
            return Ok(());
        }
        self.budget.hold();
        if let Some(show) = &self.args.show {
            show.typing().pause().await;
        }
        if std::mem::replace(&mut self.outage_wait.told, true) {
            return Ok(());
        }
        let note = self.args.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            Some(Event::Delivery(DeliveryEvent::Intended {
                id: note_id(&conversation.channel, &open.id),
                turn: open.id.clone(),
                seq: Seq(conversation.next_seq.0.saturating_sub(1)),
                note: Some(failure::PATIENCE_NOTE.to_owned()),
                approval: None,
                reply_to: open.reply_to.clone(),
                edits: None,
                draft: false,
            }))
        });
        metrics::counter!("cairn_patience_total").increment(1);
        tracing::error!(channel = %self.args.handle.id,
            "no model answers; the chat is told, and its message is answered when one does: check the model's server");
        self.step(note.into_iter().collect()).await
    }

    /// Whoever waits for the answer is told; the turn's clock goes on.
    fn bear_locally(&self, failure: Option<&TurnFailure>) {
        let why =
            failure.map_or_else(|| "the model does not answer".to_owned(), |failure| failure.message.clone());
        self.args.handle.subscribers.waits(&format!("{why}; waiting until it answers"));
        metrics::counter!("cairn_patience_total").increment(1);
        tracing::warn!(channel = %self.args.handle.id,
            "no model answers; the turn waits within its limit: check the model's server");
    }

    /// Waits before the next call, as long as the model's server has `asked` for at the least. When the runtime stops first,
    /// the turn stays open and this never returns.
    pub(super) async fn pause(&mut self, error: &ModelError, asked: Option<Duration>) {
        let outage_wait = &mut self.outage_wait;
        let pause = outage_wait.pace.next().max(asked.unwrap_or_default().min(ASKED_MAX));
        tracing::debug!(channel = %self.args.handle.id, %error, ?pause, "the model still does not answer");
        if outage_wait.pace.wait(&self.args.shared, Some(pause)).await == Paced::Stopping {
            let attempt = self.args.turn.attempt;
            // A channel that is gone has no need of it.
            let _ = self.args.turn.channel.send_message(ChannelMsg::Yield { attempt });
            std::future::pending::<()>().await;
        }
    }
}
