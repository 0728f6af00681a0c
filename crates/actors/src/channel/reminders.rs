//! Reminders: set, cancelled and fired, each by one journal record.

use cairn_core::reminder::{NewReminder, due, fire, set};
use cairn_types::event::{Event, MessageEvent, ReminderEvent};
use cairn_types::ids::ReminderId;
use cairn_types::ports::StoreError;
use cairn_types::reminder::Reminder;
use cairn_types::texts::Key;

use super::state::{ChannelState, Failed, answer};
use crate::failure::{ChannelFault, RuntimeError};

impl ChannelState {
    pub(super) async fn set_reminder(&mut self, new: NewReminder) -> Result<Reminder, Failed<RuntimeError>> {
        if self.draining {
            return Err(RuntimeError::Stopping.into());
        }
        let now = self.shared.ports.now();
        let reminder = self.handle.read(|conversation| set(conversation, new, now));
        let reminder = reminder.map_err(RuntimeError::Reminder)?;
        self.commit(vec![Event::Reminder(ReminderEvent::Set(reminder.clone()))]).await?;
        Ok(reminder)
    }

    /// `owner`: the reminder has to be theirs; `None`: of whomever.
    pub(super) async fn cancel_reminder(
        &mut self,
        id: ReminderId,
        by: String,
        owner: Option<String>,
    ) -> Result<Reminder, Failed<RuntimeError>> {
        let known = self.handle.read(|conversation| conversation.reminders.get(&id).cloned());
        let theirs = known.filter(|known| owner.is_none_or(|owner| known.by.id == owner));
        let Some(reminder) = theirs else {
            return Err(RuntimeError::Reminder(Key::ReminderUnknown.with("id", id.as_str())).into());
        };
        self.commit(vec![Event::Reminder(ReminderEvent::Cancelled { id, by: Some(by) })]).await?;
        Ok(reminder)
    }

    /// Fires what is due: one record makes each a message of its channel and says when it fires again, so that it fires once
    /// whatever happens then. What a limit holds back, or the store refuses, stays due: the alarm asks again.
    pub(super) async fn fire_due(&mut self) -> Result<(), ChannelFault> {
        let now = self.shared.ports.now();
        for reminder in self.handle.read(|conversation| due(conversation, now)) {
            if self.draining || self.is_full() {
                break;
            }
            let fired = answer(self.fire(&reminder).await)?;
            if let Err(error) = fired {
                tracing::warn!(channel = %self.handle.id, reminder = %reminder.id, %error,
                    "a due reminder could not be fired; trying again");
                break;
            }
        }
        self.advance().await
    }

    async fn fire(&mut self, reminder: &Reminder) -> Result<(), Failed<StoreError>> {
        let now = self.shared.ports.now();
        let by = &reminder.by.id;
        let registry = self.shared.ports.store.registry().await.map_err(Failed::Refused)?;
        if registry.is_shut_out(by, now) {
            tracing::info!(channel = %self.handle.id, reminder = %reminder.id,
                "a reminder was cancelled: the person who set it may no longer use the bot");
            let cancelled = ReminderEvent::Cancelled { id: reminder.id.clone(), by: None };
            return self.commit(vec![Event::Reminder(cancelled)]).await;
        }
        if let Err(limited) = self.shared.budgets.admit(&self.handle.id, by, now) {
            tracing::debug!(channel = %self.handle.id, reminder = %reminder.id, %limited, "a reminder waits");
            return Ok(());
        }
        let pending = self.handle.read(|conversation| fire(conversation, reminder, now));
        self.commit(vec![Event::Message(MessageEvent::Accepted(pending))]).await?;
        metrics::counter!("cairn_reminders_fired_total").increment(1);
        Ok(())
    }

    fn is_full(&self) -> bool {
        let n_pending = self.handle.read(|conversation| conversation.pending.len());
        n_pending >= self.shared.live.limits().channel_queue
    }
}
