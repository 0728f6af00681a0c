//! Commands to a conversation: `/compact`, `/new`, `/undo`, `/stop`.

use cairn_actors::HouseError;
use cairn_core::command::CommandCall;

use super::{DaemonDesk, Trouble};

impl DaemonDesk {
    /// `/compact [INSTRUCTION]`.
    pub(super) async fn compact(
        &self,
        call: &CommandCall,
        instruction: Option<String>,
    ) -> Result<String, Trouble> {
        let ticket = self.deps.house.compact(&call.channel, instruction).await?;
        Ok(match ticket {
            None => "There is nothing to compact yet.".to_owned(),
            Some(ticket) if ticket.queued => {
                format!("A compaction is under way; `{}` follows it. Talk on meanwhile.", ticket.run)
            }
            Some(ticket) => format!(
                "Compaction `{}` has begun. Talk on meanwhile; `/context` shows what comes of it.",
                ticket.run
            ),
        })
    }

    /// `/new`.
    pub(super) async fn new_conversation(&self, call: &CommandCall) -> Result<String, Trouble> {
        self.deps.house.new_generation(&call.channel).await?;
        Ok("A new conversation begins. The old one is in the archive, and memories stay.".to_owned())
    }

    /// `/undo`.
    pub(super) async fn undo(&self, call: &CommandCall) -> Result<String, Trouble> {
        match self.deps.house.undo(&call.channel).await {
            Ok(_turn) => {
                Ok("The last question and its answer are taken back: I no longer see them.".to_owned())
            }
            Err(HouseError::NothingToUndo(why)) => Err(Trouble::Said(format!("I took nothing back: {why}."))),
            Err(error) => Err(error.into()),
        }
    }

    /// `/stop`.
    pub(super) async fn stop(&self, call: &CommandCall) -> Result<String, Trouble> {
        let stopped = self.deps.house.stop_turn(&call.channel).await?;
        Ok(if stopped { "Stopped." } else { "I am not answering anything just now." }.to_owned())
    }
}
