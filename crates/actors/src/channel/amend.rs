//! Changes of what was said, and commands: each taken once.

use cairn_core::event::Event;
use cairn_core::ids::{MessageId, TurnId};
use cairn_core::message::{Amendment, Author};
use cairn_core::model::Usage;
use cairn_core::ports::Refusal;

use super::ChannelState;
use super::accept::{Standing, in_time};
use super::journal::Fault;
use crate::house::HouseError;

impl ChannelState {
    /// Takes a change of an earlier message in: durable when this returns.
    pub(super) async fn amend(&mut self, _amendment: &Amendment) -> Result<Result<(), Refusal>, Fault> {
        Ok(Err(Refusal::Unavailable("without a way to amend messages")))
    }

    /// Takes the last turn back.
    pub(super) async fn undo(&mut self) -> Result<Result<TurnId, HouseError>, Fault> {
        Ok(Err(HouseError::NothingToUndo("not possible yet".to_owned())))
    }

    /// Notes that a command is about to be run. False: it was run before.
    pub(super) async fn claim(
        &mut self,
        message: MessageId,
        command: &'static str,
        caller: Author,
    ) -> Result<Result<bool, Refusal>, Fault> {
        if self.draining {
            return Ok(Err(Refusal::Unavailable("stopping")));
        }
        match in_time(self.standing(&message)).await {
            Ok(Standing::New) => {}
            Ok(Standing::Open(..) | Standing::Ended(..)) => return Ok(Ok(false)),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let taken = Event::CommandTaken { message, command: command.to_owned(), caller };
        metrics::counter!("cairn_commands_total", "command" => command).increment(1);
        Ok(self.commit(vec![taken]).await?.map(|()| true).map_err(Refusal::Store))
    }

    /// A run used tokens.
    pub(super) async fn spent(&mut self, model: String, usage: Usage) -> Result<(), Fault> {
        self.shared.count_usage(&self.cell.id, &[], &model, usage);
        if let Err(error) = self.commit(vec![Event::UsageSpent { model, usage }]).await? {
            tracing::warn!(channel = %self.cell.id, %error, "what a run used is not journalled");
        }
        Ok(())
    }
}
