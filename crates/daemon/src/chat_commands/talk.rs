//! Commands to a conversation: `/compact`, `/new`, `/undo`, `/stop`.

use cairn_actors::{Compaction, RoomMade, RuntimeError};
use cairn_core::command::CommandCall;

use super::{DaemonDesk, Trouble};
use crate::text::{counted, grouped};

impl DaemonDesk {
    /// `/compact [INSTRUCTION]`.
    pub(super) async fn compact(
        &self,
        call: &CommandCall,
        instruction: Option<String>,
    ) -> Result<String, Trouble> {
        let with = if instruction.is_some() { " with your instruction" } else { "" };
        let asked = self.deps.runtime.compact(&call.channel, instruction, true).await?;
        let ticket = match asked {
            Compaction::Nothing(why) => return Ok(format!("There is {why}.")),
            Compaction::Made(made) => return Ok(made_room(made)),
            Compaction::Run(ticket) => ticket,
        };
        let run = ticket.run;
        Ok(match (ticket.queued, ticket.joined) {
            (true, _) => format!(
                "A compaction is under way; `{run}` follows it{with}. Talk on meanwhile; I will say here what comes of it."
            ),
            (false, true) => format!(
                "Compaction `{run}` is under way already, over all that there is. I will say here what comes of it."
            ),
            (false, false) => {
                format!("Compaction `{run}` has begun. Talk on meanwhile; I will say here what comes of it.")
            }
        })
    }

    /// `/new`.
    pub(super) async fn new_conversation(&self, call: &CommandCall) -> Result<String, Trouble> {
        self.deps.runtime.new_generation(&call.channel).await?;
        Ok("A new conversation begins. The old one is in the archive, and memories stay.".to_owned())
    }

    /// `/undo`.
    pub(super) async fn undo(&self, call: &CommandCall) -> Result<String, Trouble> {
        match self.deps.runtime.undo(&call.channel).await {
            Ok(_turn) => {
                Ok("The last question and its answer are taken back: I no longer see them.".to_owned())
            }
            Err(RuntimeError::NothingToUndo(why)) => {
                Err(Trouble::Said(format!("I took nothing back: {why}.")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// `/stop`.
    pub(super) async fn stop(&self, call: &CommandCall) -> Result<String, Trouble> {
        let stopped = self.deps.runtime.stop_turn(&call.channel).await?;
        Ok(if stopped { "Stopped." } else { "I am not answering anything just now." }.to_owned())
    }
}

/// Room that was made at once, in a sentence.
fn made_room(made: RoomMade) -> String {
    format!(
        "{} left my window: {} to {} tokens. They are kept and can be searched.",
        counted(made.messages, "message", "messages"),
        grouped(made.tokens_before),
        grouped(made.tokens_after)
    )
}
