//! The desk: runs the commands that people give in chats, for those who may, once, and answers in Markdown.

mod about_me;
mod help;
mod memories;
mod talk;
#[cfg(test)]
mod tests;
mod window;
mod words;

use std::sync::Arc;

use cairn_actors::{Approver, Runtime, RuntimeError, Undecided, Which};
use cairn_core::command::{Command, CommandAnswer, CommandCall, Settled};
use cairn_core::ids::ApprovalId;
use cairn_core::ports::{ChatCommands, Clock, Intake, Refusal, StoreError};
use cairn_store::Store;
use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::config::Live;
use crate::pairing_store::DaemonPairings;

/// What is said where nobody has said anything.
const NOTHING_YET: &str = "Nothing has been said here yet.";

pub struct DeskDeps {
    pub store: Store,
    pub runtime: Runtime,
    pub pairing_store: Arc<DaemonPairings>,
    /// The configuration as it is now: who may what, and the agents.
    pub config: Live,
    pub clock: Arc<dyn Clock>,
    pub started_at: Timestamp,
}

pub struct DaemonDesk {
    deps: DeskDeps,
}

/// Why a command has no answer of its own.
#[derive(Debug)]
enum Trouble {
    /// Nothing was ever said in the channel.
    NothingYet,
    /// To be told to the caller as it is.
    Said(String),
    /// Something failed: the caller is told that it did, the log why.
    Failed(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<RuntimeError> for Trouble {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::NoSuchChannel(_) => Self::NothingYet,
            RuntimeError::Stopping => Self::Said("I am about to stop; try again in a moment.".to_owned()),
            RuntimeError::UnknownAgent(_) => {
                Self::Said("The agent that talked here is no longer configured.".to_owned())
            }
            RuntimeError::Instruction(error) => Self::Said(format!("I did not begin: {error}.")),
            RuntimeError::Limited(words) => Self::Said(words),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl DaemonDesk {
    pub fn new(deps: DeskDeps) -> Self {
        Self { deps }
    }

    async fn answer(&self, call: CommandCall) -> Option<CommandAnswer> {
        let command = match call.command.clone() {
            Ok(command) => command,
            Err(wrong) => {
                return Some(CommandAnswer {
                    words: format!("That cannot be read: {wrong}"),
                    private: false,
                    settled: None,
                });
            }
        };
        match self.claim(&call, &command).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(answer) => return Some(answer),
        }
        let name = command.name();
        if !self.deps.config.now().config.commands.allows(&command, &call.caller.id, call.direct) {
            tracing::info!(channel = %call.channel, command = name, "a command was denied");
            return Some(private(self.denial(&command, &call)));
        }
        if let Command::Approve { id } | Command::Deny { id } = &command {
            let granted = matches!(command, Command::Approve { .. });
            return Some(self.decide(&call, id.clone(), granted).await);
        }
        let words = match self.run_command(&call, &command).await {
            Ok(words) => words,
            Err(Trouble::NothingYet) => NOTHING_YET.to_owned(),
            Err(Trouble::Said(words)) => words,
            Err(Trouble::Failed(error)) => {
                tracing::error!(channel = %call.channel, command = name, %error, "a command failed");
                metrics::counter!("cairn_command_failures_total", "command" => name).increment(1);
                format!("`/{name}` failed; whoever runs me finds the reason in the log.")
            }
        };
        Some(CommandAnswer { words, private: command.is_private(), settled: None })
    }

    /// Whether this call is to be run now; an answer where that cannot be said.
    async fn claim(&self, call: &CommandCall, command: &Command) -> Result<bool, CommandAnswer> {
        let claim = self.deps.runtime.claim(
            call.channel.clone(),
            call.message.clone(),
            command.clone(),
            call.caller.clone(),
        );
        claim.await.map_err(|refusal| {
            tracing::warn!(channel = %call.channel, command = command.name(), %refusal, "a command was not taken");
            private(match refusal {
                Refusal::UnknownAgent(_) => "The agent that talked here is no longer configured.".to_owned(),
                _ => format!("I cannot run `/{}` just now; try again in a moment.", command.name()),
            })
        })
    }

    async fn run_command(&self, call: &CommandCall, command: &Command) -> Result<String, Trouble> {
        match command {
            Command::Help => Ok(self.help(call)),
            Command::Status => self.status(call).await,
            Command::Context => self.context(call).await,
            Command::Memory { query } => self.memory(call, query.as_deref()).await,
            Command::Remember { text } => self.remember(call, text).await,
            Command::Forget { what } => self.forget(call, what).await,
            Command::Export => self.export(call).await,
            Command::ForgetMe { confirmed } => self.forget_me(call, *confirmed).await,
            Command::Compact { instruction } => self.compact(call, instruction.clone()).await,
            Command::New => self.new_conversation(call).await,
            Command::Undo => self.undo(call).await,
            Command::Stop => self.stop(call).await,
            // They are answered before anything else is looked at.
            Command::Approve { .. } | Command::Deny { .. } => Ok(String::new()),
        }
    }
}

impl DaemonDesk {
    /// Takes somebody's yes or no to a call of a tool.
    async fn decide(&self, call: &CommandCall, id: Option<ApprovalId>, granted: bool) -> CommandAnswer {
        let which = id.map_or_else(|| Which::OnlyOf(call.channel.clone()), Which::Id);
        let by = Approver::Person(call.caller.id.clone());
        let (words, settled) = match self.deps.runtime.decide(which, granted, by).await {
            Ok(decided) => (decided.words(), Some(Settled::Now)),
            Err(undecided) => {
                let settled = matches!(undecided, Undecided::Nothing).then_some(Settled::Before);
                (sentence(&undecided.to_string()), settled)
            }
        };
        CommandAnswer { words, private: false, settled }
    }
}

/// With a capital at its beginning and a full stop at its end.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(char::to_uppercase).into_iter().flatten();
    format!("{}{}.", first.collect::<String>(), chars.as_str())
}

impl ChatCommands for DaemonDesk {
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>> {
        Box::pin(self.answer(call))
    }
}

fn private(words: String) -> CommandAnswer {
    CommandAnswer { words, private: true, settled: None }
}
