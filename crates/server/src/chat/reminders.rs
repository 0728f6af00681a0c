//! `/remind`, `/reminders`: what fires in this chat.

use cairn_api::records::ReminderRecord;
use cairn_api::show::Show as _;
use cairn_api::text::{cut, one_line};
use cairn_core::reminder::{CHANNEL_MAX, local_time, read, zone};
use cairn_core::reminder::{NewReminder, TEXT_MAX};
use cairn_types::command::CommandCall;
use cairn_types::ids::ReminderId;
use cairn_types::message::Provenance;
use cairn_types::texts::{Key, Saying};

use crate::chat::paint::paint;
use crate::chat::{CommandError, Runner};

/// Columns of its text that the answer shows.
const SHOWN: usize = 80;

/// Longest argument of `/remind` that is read, in bytes: a time, and a text of any script.
const WORDS_MAX: usize = 5 * TEXT_MAX;

impl Runner {
    /// `/remind TIME TEXT`, `/remind cancel ID`.
    pub(super) async fn remind(&self, call: &CommandCall, words: &str) -> Result<String, CommandError> {
        if words.len() > WORDS_MAX {
            return Err(CommandError::Told(Key::ReminderLongest.with("max", TEXT_MAX)));
        }
        if let Some(id) = words.strip_prefix("cancel ") {
            return self.cancel_reminder(call, id.trim()).await;
        }
        let zone_name = self.timezone(call)?;
        let zone = zone(&zone_name);
        let (when, text) = read(words, self.deps.clock.now(), &zone)
            .map_err(|how| CommandError::Told(Key::ReminderTime.with("how", how)))?;
        let new = NewReminder {
            id: None,
            by: call.caller.clone(),
            text: text.to_owned(),
            when,
            zone: zone_name,
            provenance: Provenance::default(),
        };
        let set = self.deps.runtime.set_reminder(&call.channel, new, true).await?;
        let told = match set.rule {
            None => Saying::from(Key::ReminderSet),
            Some(rule) => Key::ReminderSetEvery.with("rule", rule),
        };
        let told = told.with("id", set.id.as_str()).with("at", local_time(set.due, &zone));
        Ok(self.texts(call).say(told.with("text", cut(&one_line(&set.text), SHOWN))))
    }

    /// Operators cancel any reminder, others their own.
    async fn cancel_reminder(&self, call: &CommandCall, id: &str) -> Result<String, CommandError> {
        let caller = call.caller.id.as_str();
        let is_operator = self.deps.config.now().config.commands.is_operator(caller);
        let owner = (!is_operator).then_some(caller);
        let id = ReminderId::from(id);
        let gone = self.deps.runtime.cancel_reminder(&call.channel, &id, caller, owner).await?;
        let told = Key::ReminderCancelled.with("id", gone.id.as_str());
        Ok(self.texts(call).say(told.with("text", cut(&one_line(&gone.text), SHOWN))))
    }

    /// `/reminders`.
    pub(super) async fn reminders(&self, call: &CommandCall) -> Result<String, CommandError> {
        let found = self.deps.runtime.reminders(Some(&call.channel), CHANNEL_MAX).await?;
        if found.is_empty() {
            return Ok(self.texts(call).say(Key::RemindersNone));
        }
        let found: Vec<ReminderRecord> = found.into_iter().map(ReminderRecord::from).collect();
        Ok(paint(&found.show(), CHANNEL_MAX, &self.texts(call)))
    }

    /// The time zone of the chat's agent.
    fn timezone(&self, call: &CommandCall) -> Result<String, CommandError> {
        let loaded = self.deps.config.now();
        let agent = loaded.config.agent(call.channel.agent().as_str());
        agent.map(|agent| agent.timezone.clone()).ok_or_else(|| CommandError::Told(Key::AgentGone.into()))
    }
}
