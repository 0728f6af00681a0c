//! Changes of what was said, and commands: each taken once.

use cairn_core::conversation::{amend, undo};
use cairn_core::event::Event;
use cairn_core::ids::{MessageId, TurnId};
use cairn_core::limits::Limited;
use cairn_core::message::{Amendment, Author, Change};
use cairn_core::model::Usage;
use cairn_core::ports::Refusal;

use super::ChannelState;
use super::accept::{Standing, in_time};
use super::journal::Fault;
use crate::compactor::CompactorMsg;
use crate::runtime::RuntimeError;

impl ChannelState {
    /// Takes a change of an earlier message in: durable when this returns.
    pub(super) async fn amend(&mut self, amendment: &Amendment) -> Result<Result<(), Refusal>, Fault> {
        if self.draining {
            return Ok(Err(Refusal::Unavailable("stopping")));
        }
        let store = &self.shared.deps.store;
        let said = match in_time(store.entries_of(&self.handle.id, &amendment.message)).await {
            Ok(said) => said,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(event) = self.handle.read(|conversation| amend(conversation, amendment, &said)) else {
            return Ok(Ok(()));
        };
        if let Some(limited) = self.limit_of(&event, amendment) {
            return Ok(Err(limited));
        }
        let change = match amendment.change {
            Change::Edited { .. } => "edited",
            Change::Deleted => "deleted",
        };
        metrics::counter!("cairn_amendments_total", "change" => change).increment(1);
        if let Err(error) = self.commit(vec![event]).await? {
            return Ok(Err(Refusal::Store(error)));
        }
        // It may be addressed to the bot by now.
        self.go_on().await?;
        Ok(Ok(()))
    }

    /// An edit that addresses the bot for the first time counts like a message that does.
    fn limit_of(&self, event: &Event, amendment: &Amendment) -> Option<Refusal> {
        let Event::MessageEdited { message, addressed: true, .. } = event else { return None };
        let Change::Edited { author, .. } = &amendment.change else { return None };
        let was_addressed = self.handle.read(|conversation| {
            let pending = conversation.pending.iter().find(|pending| pending.message == *message);
            pending.is_some_and(|pending| pending.addressed)
        });
        if was_addressed {
            return None;
        }
        let Limited { retry_after_secs, words, tell } =
            self.shared.admit(&self.handle.id, &author.id).err()?;
        Some(Refusal::Limited { retry_after_secs, words, tell })
    }

    /// Takes the last turn back: the open one, which is stopped first, or the one that ended last.
    pub(super) async fn undo(&mut self) -> Result<Result<TurnId, RuntimeError>, Fault> {
        if self.unsaved.is_some() {
            return Ok(Err(RuntimeError::Interrupted(self.handle.id.clone())));
        }
        // What is pending begins when the last turn has left.
        let was_draining = std::mem::replace(&mut self.draining, true);
        let result = self.take_back().await;
        self.draining = was_draining;
        let undone = result?;
        self.go_on().await?;
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(undone)
    }

    async fn take_back(&mut self) -> Result<Result<TurnId, RuntimeError>, Fault> {
        if let Err(error) = self.stop_open_turn().await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        let event = match self.handle.read(undo) {
            Ok(event) => event,
            Err(error) => return Ok(Err(RuntimeError::NothingToUndo(error.to_string()))),
        };
        let Event::TurnUndone { turn, .. } = &event else {
            return Ok(Err(RuntimeError::NothingToUndo("there is no turn to take back".to_owned())));
        };
        let turn = turn.clone();
        if let Err(error) = self.commit(vec![event]).await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        tracing::info!(channel = %self.handle.id, %turn, "a turn was taken back");
        Ok(Ok(turn))
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
        self.shared.count_usage(&self.handle.id, &[], &model, usage);
        if let Err(error) = self.commit(vec![Event::UsageSpent { model, usage }]).await? {
            tracing::warn!(channel = %self.handle.id, %error, "what a run used is not journalled");
        }
        Ok(())
    }
}
