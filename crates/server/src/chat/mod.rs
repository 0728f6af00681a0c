//! Runs the commands that people give in chats, once each, if they may, and answers in Markdown.

mod memories;
mod paint;
mod people;
mod reminders;
#[cfg(test)]
mod tests;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_actors::{ApprovalError, ApprovalTarget, Approver, Compaction, RoomMade, Runtime, RuntimeError};
use cairn_store::Store;
use cairn_types::command::{COMMANDS, Command, CommandAnswer, CommandCall, Permission, Settled};
use cairn_types::ids::{ApprovalId, LOCAL_PLATFORM};
use cairn_types::ports::{ChatCommands, Clock, Intake, Refusal, StoreError};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::parts::people::DaemonPairings;
use cairn_api::text::{counted, cut, grouped, one_line};
use cairn_config::Live;

const NOTHING_YET: &str = "Nothing has been said here yet.";

const NO_AGENT: &str = "The agent of this chat is no longer configured.";

pub struct RunnerDeps {
    pub store: Store,
    pub runtime: Runtime,
    pub people: Arc<DaemonPairings>,
    /// The configuration as it is now: who may what, and the agents.
    pub config: Live,
    pub clock: Arc<dyn Clock>,
    pub started_at: Timestamp,
}

pub struct Runner {
    deps: RunnerDeps,
    /// The people whose counted command is under way.
    at_work: Mutex<BTreeSet<String>>,
}

/// A counted command under way; its caller may give the next one when this is dropped.
struct AtWork<'r> {
    runner: &'r Runner,
    caller: String,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.runner.at_work.lock().remove(&self.caller);
    }
}

/// Why a command has no answer of its own.
#[derive(Debug)]
enum CommandError {
    /// Nothing was ever said in the channel.
    NothingYet,
    /// The caller is told this.
    Told(String),
    /// Something failed: the caller is told that it did, the log why.
    Failed(String),
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<RuntimeError> for CommandError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::NoSuchChannel(_) => Self::NothingYet,
            RuntimeError::Stopping => Self::Told("I am about to stop; try again in a moment.".to_owned()),
            RuntimeError::UnknownAgent(_) => Self::Told(NO_AGENT.to_owned()),
            RuntimeError::Instruction(error) => Self::Told(format!("I did not start: {error}.")),
            RuntimeError::Limited(words) => Self::Told(words),
            RuntimeError::Reminder(why) => Self::Told(sentence(&why)),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Columns that `/undo` shows of what it took back.
const SHOWN_OF_UNDONE: usize = 120;

impl Runner {
    pub fn new(deps: RunnerDeps) -> Self {
        Self { deps, at_work: Mutex::default() }
    }

    async fn answer(&self, call: CommandCall) -> Option<CommandAnswer> {
        let command = match call.command.clone() {
            Ok(command) => command,
            Err(wrong) => {
                return Some(CommandAnswer {
                    words: format!("I cannot read that: {wrong}"),
                    private: false,
                    failed: true,
                    settled: None,
                });
            }
        };
        let name = command.name();
        if !self.deps.config.now().config.commands.allows(&command, &call.caller.id, call.direct) {
            tracing::info!(channel = %call.channel, command = name, "a command was denied");
            return Some(private(self.denial(&command, &call)));
        }
        let _at_work = match self.admit(&call, &command) {
            Ok(at_work) => at_work,
            Err(words) => return Some(private(words)),
        };
        let approval = match &command {
            Command::Approve { id } | Command::Deny { id } => Some(approval_of(&call, id.clone())),
            _ => None,
        };
        if let Some((which, by)) = approval.clone()
            && let Err(undecided) = self.deps.runtime.may_decide(which, by)
        {
            return Some(undecided_answer(&undecided));
        }
        // Only what is carried out is journalled, so that nobody makes the journal grow by what they may not do.
        match self.claim(&call, &command).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(answer) => return Some(answer),
        }
        if let Some(approval) = approval {
            return Some(self.decide(approval, matches!(command, Command::Approve { .. })).await);
        }
        let ran = self.run_command(&call, &command).await;
        let failed = ran.is_err();
        let words = match ran {
            Ok(words) => words,
            Err(CommandError::NothingYet) => NOTHING_YET.to_owned(),
            Err(CommandError::Told(words)) => words,
            Err(CommandError::Failed(error)) => {
                tracing::error!(channel = %call.channel, command = name, %error, "a command failed");
                metrics::counter!("cairn_command_failures_total", "command" => name).increment(1);
                format!("`/{name}` failed; the log has the reason.")
            }
        };
        Some(CommandAnswer { words, private: command.is_private(), failed, settled: None })
    }

    /// Counts a command that reads or writes what is stored. The caller's next one waits for the result to be dropped; `None`:
    /// the command is not counted.
    fn admit(&self, call: &CommandCall, command: &Command) -> Result<Option<AtWork<'_>>, String> {
        if !command.is_counted() {
            return Ok(None);
        }
        let caller = call.caller.id.clone();
        if !self.at_work.lock().insert(caller.clone()) {
            return Err("I am still at your last command. Try again when it is answered.".to_owned());
        }
        let at_work = AtWork { runner: self, caller };
        let admitted = self.deps.runtime.admit_command(&call.channel, &at_work.caller);
        admitted.map(|()| Some(at_work)).map_err(|limited| limited.to_string())
    }

    /// Whether this call is to be run now; an answer where that is unknown.
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
                Refusal::UnknownAgent(_) => NO_AGENT.to_owned(),
                _ => format!("I cannot run `/{}` just now; try again in a moment.", command.name()),
            })
        })
    }

    async fn run_command(&self, call: &CommandCall, command: &Command) -> Result<String, CommandError> {
        match command {
            Command::Help => Ok(self.help(call)),
            Command::Status => self.status(call).await,
            Command::Context => self.context(call).await,
            Command::Memory { query } => self.memory(call, query.as_deref()).await,
            Command::Remember { text } => self.remember(call, text).await,
            Command::Forget { what } => self.forget(call, what).await,
            Command::Remind { words } => self.remind(call, words).await,
            Command::Reminders => self.reminders(call).await,
            Command::Private { me, on } => self.set_private(call, *me, *on).await,
            Command::Export => self.export(call).await,
            Command::ForgetMe { confirmed } => self.forget_me(call, *confirmed).await,
            Command::Compact { instruction } => self.compact(call, instruction.clone()).await,
            Command::New => self.new_conversation(call).await,
            Command::Undo => self.undo(call).await,
            Command::Stop => self.stop(call).await,
            Command::Ban(order) => self.ban(call, order).await,
            Command::Unban { who } => self.unban(call, who).await,
            Command::Pair { code } => self.pair(code.as_deref()).await,
            // They are answered before anything else is looked at.
            Command::Approve { .. } | Command::Deny { .. } => Ok(String::new()),
        }
    }
}

impl Runner {
    /// The commands that the caller may use here.
    fn help(&self, call: &CommandCall) -> String {
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        let operator = commands.is_operator(&call.caller.id);
        let mine =
            COMMANDS.iter().filter(|spec| commands.permission(spec.name).allows(call.direct, operator));
        let lines: Vec<String> =
            mine.map(|spec| format!("- `{}`: {}", spec.usage(), spec.description)).collect();
        format!("Talk to me, or use a command:\n\n{}", lines.join("\n"))
    }

    /// The answer to a caller who may not use a command.
    fn denial(&self, command: &Command, call: &CommandCall) -> String {
        let name = command.name();
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        match commands.permission_of(command) {
            Permission::Direct if commands.permission(name) == Permission::Everyone && name == "compact" => {
                "Here only operators may give `/compact` an instruction; `/compact` alone works.".to_owned()
            }
            Permission::Direct if commands.permission(name) == Permission::Everyone => {
                "Here only operators may set `/private` for the chat; `/private me on` is for you.".to_owned()
            }
            Permission::Direct if !call.direct => {
                format!("`/{name}` is for private chats; here only operators may use it.")
            }
            Permission::Nobody => format!("`/{name}` is switched off."),
            _ => format!("Sorry, `/{name}` is for operators."),
        }
    }

    /// `/compact [INSTRUCTION]`.
    async fn compact(&self, call: &CommandCall, instruction: Option<String>) -> Result<String, CommandError> {
        let with = if instruction.is_some() { " with your instruction" } else { "" };
        let end = if call.channel.platform() == LOCAL_PLATFORM {
            "`/context` shows how it ended"
        } else {
            "I will post the result here"
        };
        let asked = self.deps.runtime.compact(&call.channel, instruction, true).await?;
        let ticket = match asked {
            Compaction::Nothing(why) => return Ok(format!("There is {why}.")),
            Compaction::Made(made) => return Ok(made_room(made)),
            Compaction::Run(ticket) => ticket,
        };
        let run = ticket.run;
        Ok(match (ticket.queued, ticket.joined) {
            (true, _) => {
                format!("A compaction is under way; `{run}` follows it{with}. You can keep talking; {end}.")
            }
            (false, true) => format!("Compaction `{run}` is already under way and covers everything; {end}."),
            (false, false) => {
                format!("Compaction `{run}` has begun. You can keep talking; {end}.")
            }
        })
    }

    /// `/new`.
    async fn new_conversation(&self, call: &CommandCall) -> Result<String, CommandError> {
        self.deps.runtime.new_generation(&call.channel).await?;
        Ok("A new conversation begins. The old one is archived, and memories stay.".to_owned())
    }

    /// `/undo`.
    async fn undo(&self, call: &CommandCall) -> Result<String, CommandError> {
        match self.deps.runtime.undo(&call.channel).await {
            Ok(said) => Ok(format!(
                "This question and its answer are taken back, I no longer see them:\n> {}",
                cut(&one_line(&said), SHOWN_OF_UNDONE)
            )),
            Err(RuntimeError::NothingToUndo(why)) => {
                Err(CommandError::Told(format!("I took nothing back: {why}.")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// `/stop`.
    async fn stop(&self, call: &CommandCall) -> Result<String, CommandError> {
        let stopped = self.deps.runtime.stop_turn(&call.channel).await?;
        Ok(if stopped { "Stopped." } else { "I am not answering anything just now." }.to_owned())
    }

    /// Approves or denies a tool call.
    async fn decide(&self, (which, by): (ApprovalTarget, Approver), granted: bool) -> CommandAnswer {
        match self.deps.runtime.decide(which, granted, by).await {
            Ok(decided) => CommandAnswer {
                words: decided.words(),
                private: false,
                failed: false,
                settled: Some(Settled::Now),
            },
            Err(undecided) => undecided_answer(&undecided),
        }
    }
}

/// Which request for approval a command answers, and who answers it.
fn approval_of(call: &CommandCall, id: Option<ApprovalId>) -> (ApprovalTarget, Approver) {
    let which = id.map_or_else(|| ApprovalTarget::OnlyOf(call.channel.clone()), ApprovalTarget::Id);
    let by = if call.channel.platform() == LOCAL_PLATFORM {
        Approver::Socket
    } else {
        Approver::Person(call.caller.id.clone())
    };
    (which, by)
}

/// Why a request for approval was not answered.
fn undecided_answer(undecided: &ApprovalError) -> CommandAnswer {
    let settled = matches!(undecided, ApprovalError::Nothing).then_some(Settled::Before);
    CommandAnswer { words: sentence(&undecided.to_string()), private: false, failed: true, settled }
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

/// With a capital at its beginning and a full stop at its end.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first = chars.next().map(char::to_uppercase).into_iter().flatten();
    format!("{}{}.", first.collect::<String>(), chars.as_str())
}

impl ChatCommands for Runner {
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>> {
        Box::pin(self.answer(call))
    }
}

/// Why a command was not carried out, for its caller alone.
fn private(words: String) -> CommandAnswer {
    CommandAnswer { words, private: true, failed: true, settled: None }
}
