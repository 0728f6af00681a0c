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
use cairn_core::compaction::NothingToCompact;
use cairn_core::settings::INSTRUCTION_MAX_CHARS;
use cairn_store::Store;
use cairn_types::command::{COMMANDS, Command, CommandAnswer, CommandCall, Permission, Settled};
use cairn_types::ids::{ApprovalId, LOCAL_PLATFORM};
use cairn_types::ports::{ChatCommands, Clock, Intake, Refusal, StoreError};
use cairn_types::texts::{Key, Saying, Texts, Value};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::parts::people::DaemonPairings;
use cairn_api::text::{cut, grouped, one_line};
use cairn_config::Live;

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
    Told(Saying),
    /// The caller is told this, as a sentence.
    Sentence(Saying),
    /// The caller is told this, with a list below it.
    Listed(Saying, String),
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
            RuntimeError::Stopping => Self::Told(Key::AboutToStop.into()),
            RuntimeError::UnknownAgent(_) => Self::Told(Key::AgentGone.into()),
            RuntimeError::Instruction(error) => Self::Told(
                Key::InstructionTooLong.with("chars", error.chars).with("max", INSTRUCTION_MAX_CHARS),
            ),
            RuntimeError::Limited(words) => Self::Told(words),
            RuntimeError::Reminder(why) => Self::Sentence(why),
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
        let texts = self.texts(&call);
        let command = match call.command.clone() {
            Ok(command) => command,
            Err(wrong) => {
                return Some(CommandAnswer {
                    words: texts.say(Key::CannotRead.with("wrong", wrong)),
                    private: false,
                    failed: true,
                    settled: None,
                });
            }
        };
        let name = command.name();
        if !self.deps.config.now().config.commands.allows(&command, &call.caller.id, call.direct) {
            tracing::info!(channel = %call.channel, command = name, "a command was denied");
            return Some(private(texts.say(self.denial(&command, &call))));
        }
        let _at_work = match self.admit(&call, &command) {
            Ok(at_work) => at_work,
            Err(words) => return Some(private(texts.say(words))),
        };
        let approval = match &command {
            Command::Approve { id } | Command::Deny { id } => Some(approval_of(&call, id.clone())),
            _ => None,
        };
        if let Some((which, by)) = approval.clone()
            && let Err(undecided) = self.deps.runtime.may_decide(which, by)
        {
            return Some(undecided_answer(&undecided, &texts));
        }
        // Only what is carried out is journalled, so that nobody makes the journal grow by what they may not do.
        match self.claim(&call, &command).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(answer) => return Some(answer),
        }
        if let Some(approval) = approval {
            return Some(self.decide(approval, matches!(command, Command::Approve { .. }), &texts).await);
        }
        let ran = self.run_command(&call, &command).await;
        let failed = ran.is_err();
        let words = match ran {
            Ok(words) => words,
            Err(CommandError::NothingYet) => texts.say(Key::NothingYet),
            Err(CommandError::Told(words)) => texts.say(words),
            Err(CommandError::Sentence(words)) => texts.sentence(words),
            Err(CommandError::Listed(words, list)) => format!("{}\n\n{list}", texts.say(words)),
            Err(CommandError::Failed(error)) => {
                tracing::error!(channel = %call.channel, command = name, %error, "a command failed");
                metrics::counter!("cairn_command_failures_total", "command" => name).increment(1);
                texts.say(Key::CommandFailed.with("command", name))
            }
        };
        Some(CommandAnswer { words, private: command.is_private(), failed, settled: None })
    }

    /// Counts a command that reads or writes what is stored. The caller's next one waits for the result to be dropped; `None`:
    /// the command is not counted.
    fn admit(&self, call: &CommandCall, command: &Command) -> Result<Option<AtWork<'_>>, Saying> {
        if !command.is_counted() {
            return Ok(None);
        }
        let caller = call.caller.id.clone();
        if !self.at_work.lock().insert(caller.clone()) {
            return Err(Key::StillAtWork.into());
        }
        let at_work = AtWork { runner: self, caller };
        let admitted = self.deps.runtime.admit_command(&call.channel, &at_work.caller);
        admitted.map(|()| Some(at_work)).map_err(|limited| match limited {
            RuntimeError::Limited(words) => words,
            _ => Key::CannotRunNow.with("command", command.name()),
        })
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
            tracing::warn!(channel = %call.channel, command = command.name(), %refusal, "a command was not accepted");
            private(match refusal {
                Refusal::UnknownAgent(_) => self.texts(call).say(Key::AgentGone),
                _ => self.texts(call).say(Key::CannotRunNow.with("command", command.name())),
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
            Command::Pair { code } => self.pair(call, code.as_deref()).await,
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
        let texts = self.texts(call);
        let lines: Vec<String> =
            mine.map(|spec| format!("- `{}`: {}", spec.usage(), texts.say(spec.description))).collect();
        format!("{}\n\n{}", texts.say(Key::Help), lines.join("\n"))
    }

    /// The texts for the answer to a call: in the language of its place, else in its agent's.
    fn texts(&self, call: &CommandCall) -> Arc<Texts> {
        let loaded = self.deps.config.now();
        let agent = loaded.config.agent(call.channel.agent().as_str());
        let texts = agent.map(|agent| Arc::clone(agent.languages.of(call.language.as_deref())));
        texts.unwrap_or_else(|| Arc::clone(Texts::english()))
    }

    /// The answer to a caller who may not use a command.
    fn denial(&self, command: &Command, call: &CommandCall) -> Saying {
        let name = command.name();
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        match commands.permission_of(command) {
            Permission::Direct if commands.permission(name) == Permission::Everyone && name == "compact" => {
                Key::DeniedInstruction.into()
            }
            Permission::Direct if commands.permission(name) == Permission::Everyone => {
                Key::DeniedPrivate.into()
            }
            Permission::Direct if !call.direct => Key::DeniedInGroup.with("command", name),
            Permission::Nobody => Key::DeniedToAll.with("command", name),
            _ => Key::DeniedToYou.with("command", name),
        }
    }

    /// `/compact [INSTRUCTION]`.
    async fn compact(&self, call: &CommandCall, instruction: Option<String>) -> Result<String, CommandError> {
        let texts = self.texts(call);
        let is_instructed = instruction.is_some();
        let is_local = call.channel.platform() == LOCAL_PLATFORM;
        let end = if is_local { Key::CompactEndContext } else { Key::CompactEndHere };
        let asked = self.deps.runtime.compact(&call.channel, instruction, true).await?;
        let ticket = match asked {
            Compaction::Nothing(why) => return Ok(texts.say(nothing_to_compact(&why))),
            Compaction::Made(made) => return Ok(texts.say(made_room(made))),
            Compaction::Run(ticket) => ticket,
        };
        let key = match (ticket.queued, ticket.joined) {
            (true, _) if is_instructed => Key::CompactQueuedInstruction,
            (true, _) => Key::CompactQueued,
            (false, true) => Key::CompactJoined,
            (false, false) => Key::CompactBegun,
        };
        Ok(texts.say(key.with("run", ticket.run.as_str()).with("end", end)))
    }

    /// `/new`.
    async fn new_conversation(&self, call: &CommandCall) -> Result<String, CommandError> {
        self.deps.runtime.new_generation(&call.channel).await?;
        Ok(self.texts(call).say(Key::NewConversation))
    }

    /// `/undo`.
    async fn undo(&self, call: &CommandCall) -> Result<String, CommandError> {
        match self.deps.runtime.undo(&call.channel).await {
            Ok(said) => {
                let undone = self.texts(call).say(Key::Undone);
                Ok(format!("{undone}\n> {}", cut(&one_line(&said), SHOWN_OF_UNDONE)))
            }
            Err(RuntimeError::NothingToUndo(why)) => Err(CommandError::Told(Key::NotUndone.with("why", why))),
            Err(error) => Err(error.into()),
        }
    }

    /// `/stop`.
    async fn stop(&self, call: &CommandCall) -> Result<String, CommandError> {
        let stopped = self.deps.runtime.stop_turn(&call.channel).await?;
        Ok(self.texts(call).say(if stopped { Key::Stopped } else { Key::NotAnswering }))
    }

    /// Approves or denies a tool call.
    async fn decide(
        &self,
        (which, by): (ApprovalTarget, Approver),
        granted: bool,
        texts: &Texts,
    ) -> CommandAnswer {
        match self.deps.runtime.decide(which, granted, by).await {
            Ok(decided) => CommandAnswer {
                words: texts.say(decided.told()),
                private: false,
                failed: false,
                settled: Some(Settled::Now),
            },
            Err(undecided) => undecided_answer(&undecided, texts),
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
fn undecided_answer(undecided: &ApprovalError, texts: &Texts) -> CommandAnswer {
    let settled = matches!(undecided, ApprovalError::Nothing).then_some(Settled::Before);
    CommandAnswer { words: texts.sentence(undecided.told()), private: false, failed: true, settled }
}

/// Room that was made at once, in a sentence.
fn made_room(made: RoomMade) -> Saying {
    let (before, after) = (grouped(made.tokens_before), grouped(made.tokens_after));
    Key::MadeRoom.count(made.messages).with("before", before).with("after", after)
}

/// Why there is nothing to compact, in a sentence.
fn nothing_to_compact(why: &NothingToCompact) -> Saying {
    let NothingToCompact { messages, turns, tokens, free_messages, free_tokens, compacted } = *why;
    let before: Value = match compacted {
        0 => "".into(),
        n => Key::CompactBefore.with("messages", Key::CountMessages.count(n)).into(),
    };
    let seen = |key: Key| {
        let (messages, turns) = (Key::CountMessages.count(messages), Key::CountTurns.count(turns));
        key.with("messages", messages).with("turns", turns).with("tokens", tokens)
    };
    let saying = match (messages, free_messages) {
        (0, _) => Key::CompactNone.into(),
        (_, 0) => seen(Key::CompactLast),
        (_, n) => {
            let little = seen(Key::CompactLittle).with("free", Key::CountMessages.count(n));
            little.with("free_tokens", free_tokens)
        }
    };
    saying.with("before", before)
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
