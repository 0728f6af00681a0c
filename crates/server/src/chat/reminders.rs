//! `/remind`, `/reminders`: what fires in this chat.

use cairn_api::records::ReminderRecord;
use cairn_api::show::Show as _;
use cairn_api::text::{cut, one_line};
use cairn_core::reminder::{CHANNEL_MAX, local_time, read, zone};
use cairn_core::reminder::{NewReminder, TEXT_MAX};
use cairn_types::command::CommandCall;
use cairn_types::ids::ReminderId;
use cairn_types::message::Provenance;

use crate::chat::paint::paint;
use crate::chat::{CommandError, NO_AGENT, Runner};

/// Columns of its text that the answer shows.
const SHOWN: usize = 80;

/// Longest argument of `/remind` that is read, in bytes: a time, and a text of any script.
const WORDS_MAX: usize = 5 * TEXT_MAX;

impl Runner {
    /// `/remind TIME TEXT`, `/remind cancel ID`.
    pub(super) async fn remind(&self, call: &CommandCall, words: &str) -> Result<String, CommandError> {
        if words.len() > WORDS_MAX {
            return Err(CommandError::Told(format!("A reminder has at most {TEXT_MAX} characters.")));
        }
        if let Some(id) = words.strip_prefix("cancel ") {
            return self.cancel_reminder(call, id.trim()).await;
        }
        let zone_name = self.timezone(call)?;
        let zone = zone(&zone_name);
        let (when, text) = read(words, self.deps.clock.now(), &zone)
            .map_err(|how| CommandError::Told(format!("I cannot read that time: {how}.")))?;
        let new = NewReminder {
            id: None,
            by: call.caller.clone(),
            text: text.to_owned(),
            when,
            zone: zone_name,
            provenance: Provenance::default(),
        };
        let set = self.deps.runtime.set_reminder(&call.channel, new, true).await?;
        let (id, at) = (&set.id, local_time(set.due, &zone));
        let every =
            set.rule.as_ref().map_or_else(String::new, |rule| format!(", and then again by `{rule}`"));
        let text = cut(&one_line(&set.text), SHOWN);
        Ok(format!("Reminder {id} is set for {at}{every}: {text}\n`/remind cancel {id}` cancels it."))
    }

    /// Operators cancel any reminder, others their own.
    async fn cancel_reminder(&self, call: &CommandCall, id: &str) -> Result<String, CommandError> {
        let caller = call.caller.id.as_str();
        let is_operator = self.deps.config.now().config.commands.is_operator(caller);
        let owner = (!is_operator).then_some(caller);
        let id = ReminderId::from(id);
        let gone = self.deps.runtime.cancel_reminder(&call.channel, &id, caller, owner).await?;
        Ok(format!("Reminder {} is cancelled: {}", gone.id, cut(&one_line(&gone.text), SHOWN)))
    }

    /// `/reminders`.
    pub(super) async fn reminders(&self, call: &CommandCall) -> Result<String, CommandError> {
        let found = self.deps.runtime.reminders(Some(&call.channel), CHANNEL_MAX).await?;
        if found.is_empty() {
            return Ok("No reminder is set in this chat. `/remind in 2h tea` sets one.".to_owned());
        }
        let found: Vec<ReminderRecord> = found.into_iter().map(ReminderRecord::from).collect();
        Ok(paint(&found.show(), CHANNEL_MAX))
    }

    /// The time zone of the chat's agent.
    fn timezone(&self, call: &CommandCall) -> Result<String, CommandError> {
        let loaded = self.deps.config.now();
        let agent = loaded.config.agent(call.channel.agent().as_str());
        agent.map(|agent| agent.timezone.clone()).ok_or_else(|| CommandError::Told(NO_AGENT.to_owned()))
    }
}
