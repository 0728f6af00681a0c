//! The commands in Telegram's own menu, so that they complete.

use std::time::Duration;

use cairn_core::command::COMMANDS;
use teloxide::payloads::{GetMyCommands, SetMyCommands};
use teloxide::types::BotCommand;

use super::Telegram;
use super::api::CallError;
use super::wire::MenuEntry;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

impl Telegram {
    /// Registers the commands where Telegram has others. Without it they work all the same.
    pub(super) async fn register_commands(&self) {
        match self.try_register().await {
            Ok(true) => tracing::info!("telegram has the list of commands"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "telegram did not take the list of commands; they work, but do not complete");
            }
        }
    }

    async fn try_register(&self) -> Result<bool, CallError> {
        let wanted: Vec<MenuEntry> = COMMANDS
            .iter()
            .map(|spec| MenuEntry { command: spec.name.to_owned(), description: spec.description.to_owned() })
            .collect();
        if let Ok(known) = self.api.call(&GetMyCommands::new(), CALL_TIMEOUT).await
            && serde_json::from_value::<Vec<MenuEntry>>(known).is_ok_and(|known| known == wanted)
        {
            return Ok(false);
        }
        let commands = wanted.into_iter().map(|entry| BotCommand::new(entry.command, entry.description));
        self.api.call(&SetMyCommands::new(commands), CALL_TIMEOUT).await.map(|_| true)
    }
}
