//! Chat commands: their names, their arguments, and who may use which.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{ApprovalId, ChannelId, LOCAL_PLATFORM, MessageId};
use crate::message::Author;
use crate::text::when;
use crate::texts::{Key, Saying};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Compact {
        /// What the summary should focus on.
        instruction: Option<String>,
    },
    /// Show the window: bar, tier, tokens by region, summaries, run.
    Context,
    Status,
    Memory {
        /// What to search for; `None`: list the newest memories.
        query: Option<String>,
    },
    Remember {
        text: String,
    },
    Forget {
        /// The memory's id, or text that only this memory has.
        what: String,
    },
    /// Set a reminder, or cancel one.
    Remind {
        /// A time and a text, or `cancel ID`.
        words: String,
    },
    /// List the reminders of this chat.
    Reminders,
    /// Learn nothing from what is said in this chat, or from what the caller says anywhere.
    Private {
        /// The caller, not the chat.
        me: bool,
        /// `None`: show how it is.
        on: Option<bool>,
    },
    /// Show everything stored about the caller.
    Export,
    /// Forget everything stored about the caller.
    ForgetMe {
        confirmed: bool,
    },
    /// Archive the conversation and start a new conversation.
    New,
    Undo,
    Stop,
    /// Approve a tool call that waits for approval.
    Approve {
        /// The request's id; `None`: the only request that waits in this channel.
        id: Option<ApprovalId>,
    },
    /// Deny a tool call that waits for approval.
    Deny {
        /// The request's id; `None`: the only request that waits in this channel.
        id: Option<ApprovalId>,
    },
    /// Ban a person: the bot ignores them everywhere.
    Ban(BanOrder),
    /// Lift a person's ban.
    Unban {
        /// An id, a mention, or `PLATFORM/USER`.
        who: String,
    },
    /// Approve the person who has a pairing code.
    Pair {
        /// The code; `None`: show who waits for approval.
        code: Option<String>,
    },
    Help,
}

/// Whom to ban, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanOrder {
    /// An id, a mention, or `PLATFORM/USER`.
    pub who: String,
    /// None: until it is lifted.
    pub lasts: Option<SignedDuration>,
    pub reason: Option<String>,
}

/// How the arguments of `/private` are written.
const PRIVATE_WORDS: &str = "[me] [on|off]";

/// How the arguments of `/ban` are written.
const BAN_WORDS: &str = "WHO [for 3d] [REASON]";

impl BanOrder {
    /// Parses the arguments of `/ban`, as in [`BAN_WORDS`].
    ///
    /// # Errors
    /// The duration cannot be read, or it was written in the place of the reason. The message says which.
    fn read(words: &str) -> Result<Self, Saying> {
        let (who, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let mut rest = rest.trim();
        let mut lasts = None;
        if let Some(timed) = rest.strip_prefix("for ") {
            let (length, reason) =
                timed.trim_start().split_once(char::is_whitespace).unwrap_or((timed.trim(), ""));
            lasts = Some(ban_length(length)?);
            rest = reason.trim();
        } else if let Some(length) = rest.split_whitespace().next()
            && when::length(length).is_some()
        {
            return Err(Key::BanReasonOrEnd.with("length", length));
        }
        let reason = (!rest.is_empty()).then(|| rest.to_owned());
        Ok(Self { who: who.to_owned(), lasts, reason })
    }
}

/// Parses how long a ban lasts, such as `3d` or `12h`. A day has 24 hours.
///
/// # Errors
/// The text is not a duration above zero. The message says what to write.
pub fn ban_length(text: &str) -> Result<SignedDuration, Saying> {
    when::length(text).ok_or_else(|| Key::NoLength.with("text", text))
}

/// The argument of a command, as platforms register it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentSpec {
    /// Lower case, up to 32 letters.
    pub name: &'static str,
    /// The text that describes it, of up to 100 characters.
    pub description: Key,
    pub required: bool,
    /// How it is written in the usage line; `None`: as its name.
    pub form: Option<&'static str>,
}

/// A command, as platforms register it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandSpec {
    /// Lower case, up to 32 letters.
    pub name: &'static str,
    /// The text that describes it, of up to 100 characters.
    pub description: Key,
    pub argument: Option<ArgumentSpec>,
}

impl CommandSpec {
    /// The usage line, such as `/ban WHO [for 3d] [REASON]`.
    pub fn usage(&self) -> String {
        let name = self.name;
        match self.argument {
            None => format!("/{name}"),
            Some(ArgumentSpec { form: Some(form), .. }) => format!("/{name} {form}"),
            Some(argument) if argument.required => format!("/{name} {}", argument.name.to_uppercase()),
            Some(argument) => format!("/{name} [{}]", argument.name.to_uppercase()),
        }
    }
}

const fn spec(name: &'static str, description: Key) -> CommandSpec {
    CommandSpec { name, description, argument: None }
}

const fn with(
    name: &'static str,
    description: Key,
    argument: &'static str,
    what: Key,
    required: bool,
) -> CommandSpec {
    let argument = ArgumentSpec { name: argument, description: what, required, form: None };
    CommandSpec { name, description, argument: Some(argument) }
}

/// All commands, in the order of the help.
pub const COMMANDS: &[CommandSpec] = &[
    with("compact", Key::CommandCompact, "instruction", Key::CommandCompactInstruction, false),
    spec("context", Key::CommandContext),
    spec("status", Key::CommandStatus),
    with("memory", Key::CommandMemory, "query", Key::CommandMemoryQuery, false),
    with("remember", Key::CommandRemember, "text", Key::CommandRememberText, true),
    with("forget", Key::CommandForget, "what", Key::CommandForgetWhat, true),
    CommandSpec {
        name: "remind",
        description: Key::CommandRemind,
        argument: Some(ArgumentSpec {
            name: "when",
            description: Key::CommandRemindWhen,
            required: true,
            form: Some("TIME TEXT | cancel ID"),
        }),
    },
    spec("reminders", Key::CommandReminders),
    CommandSpec {
        name: "private",
        description: Key::CommandPrivate,
        argument: Some(ArgumentSpec {
            name: "what",
            description: Key::CommandPrivateWhat,
            required: false,
            form: Some(PRIVATE_WORDS),
        }),
    },
    spec("export", Key::CommandExport),
    with("forgetme", Key::CommandForgetme, "confirm", Key::CommandForgetmeConfirm, false),
    spec("new", Key::CommandNew),
    spec("undo", Key::CommandUndo),
    spec("stop", Key::CommandStop),
    with("approve", Key::CommandApprove, "id", Key::CommandApproveId, false),
    with("deny", Key::CommandDeny, "id", Key::CommandApproveId, false),
    CommandSpec {
        name: "ban",
        description: Key::CommandBan,
        argument: Some(ArgumentSpec {
            name: "who",
            description: Key::CommandBanWho,
            required: true,
            form: Some(BAN_WORDS),
        }),
    },
    with("unban", Key::CommandUnban, "who", Key::CommandUnbanWho, true),
    with("pair", Key::CommandPair, "code", Key::CommandPairCode, false),
    spec("help", Key::CommandHelp),
];

impl Command {
    /// Parses a command from its name, without the slash, and the text after it. `None`: no command has that name.
    ///
    /// # Errors
    /// Its argument is missing or wrong. The message says what to write.
    pub fn parse(name: &str, words: &str) -> Option<Result<Self, Saying>> {
        let name = name.to_ascii_lowercase();
        let name = if name == "start" { "help" } else { name.as_str() };
        let spec = COMMANDS.iter().find(|spec| spec.name == name)?;
        let words = words.trim();
        let given = (!words.is_empty()).then(|| words.to_owned());
        if let (Some(ArgumentSpec { required: true, .. }), None) = (spec.argument, &given) {
            return Some(Err(Key::WriteLike.with("usage", spec.usage())));
        }
        Some(Ok(match spec.name {
            "compact" => Self::Compact { instruction: given },
            "context" => Self::Context,
            "status" => Self::Status,
            "memory" => Self::Memory { query: given },
            "remember" => Self::Remember { text: words.to_owned() },
            "forget" => Self::Forget { what: words.to_owned() },
            "remind" => Self::Remind { words: words.to_owned() },
            "reminders" => Self::Reminders,
            "private" => match *words.split_whitespace().collect::<Vec<_>>() {
                [] => Self::Private { me: false, on: None },
                ["me"] => Self::Private { me: true, on: None },
                ["on"] => Self::Private { me: false, on: Some(true) },
                ["off"] => Self::Private { me: false, on: Some(false) },
                ["me", "on"] => Self::Private { me: true, on: Some(true) },
                ["me", "off"] => Self::Private { me: true, on: Some(false) },
                _ => return Some(Err(Key::WriteLike.with("usage", spec.usage()))),
            },
            "export" => Self::Export,
            "forgetme" => Self::ForgetMe { confirmed: matches!(words, "yes" | "true" | "confirm") },
            "new" => Self::New,
            "undo" => Self::Undo,
            "stop" => Self::Stop,
            "approve" => Self::Approve { id: given.map(|id| ApprovalId::from(id.to_lowercase())) },
            "ban" => match BanOrder::read(words) {
                Ok(order) => Self::Ban(order),
                Err(wrong) => return Some(Err(wrong)),
            },
            "unban" => Self::Unban { who: words.to_owned() },
            "pair" => Self::Pair { code: given },
            "deny" => Self::Deny { id: given.map(|id| ApprovalId::from(id.to_lowercase())) },
            _ => Self::Help,
        }))
    }

    /// Its name, as in [`COMMANDS`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compact { .. } => "compact",
            Self::Context => "context",
            Self::Status => "status",
            Self::Memory { .. } => "memory",
            Self::Remember { .. } => "remember",
            Self::Forget { .. } => "forget",
            Self::Remind { .. } => "remind",
            Self::Reminders => "reminders",
            Self::Private { .. } => "private",
            Self::Export => "export",
            Self::ForgetMe { .. } => "forgetme",
            Self::New => "new",
            Self::Undo => "undo",
            Self::Stop => "stop",
            Self::Approve { .. } => "approve",
            Self::Deny { .. } => "deny",
            Self::Ban(_) => "ban",
            Self::Unban { .. } => "unban",
            Self::Pair { .. } => "pair",
            Self::Help => "help",
        }
    }

    /// Whether it counts like a message, and runs only once at a time for each person: it reads or writes what is stored.
    pub fn is_counted(&self) -> bool {
        matches!(
            self,
            Self::Memory { .. }
                | Self::Remember { .. }
                | Self::Forget { .. }
                | Self::Remind { .. }
                | Self::Reminders
                | Self::Private { .. }
                | Self::Export
                | Self::ForgetMe { .. }
        )
    }

    /// Whether only the caller may see its answer.
    pub fn is_private(&self) -> bool {
        matches!(
            self,
            Self::Export
                | Self::ForgetMe { .. }
                | Self::Memory { .. }
                | Self::Forget { .. }
                | Self::Ban(_)
                | Self::Unban { .. }
                | Self::Pair { .. }
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    Everyone,
    /// Everybody in a private chat; in a group the operators alone.
    Direct,
    Operators,
    Nobody,
}

impl Permission {
    pub fn allows(self, direct: bool, operator: bool) -> bool {
        match self {
            Self::Everyone => true,
            Self::Direct => direct || operator,
            Self::Operators => operator,
            Self::Nobody => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CommandPermissions {
    /// People who may use every command except those set to "nobody": "discord/ID", "telegram/ID".
    pub operators: Vec<String>,
    /// Who may use a command, among the people whom the bot serves. "everyone"; "direct": everybody in private chats,
    /// only operators in groups; "operators"; "nobody". [defaults.trust] and [agents.trust] decide who may approve.
    pub help: Permission,
    pub status: Permission,
    pub context: Permission,
    pub memory: Permission,
    pub remember: Permission,
    pub forget: Permission,
    pub remind: Permission,
    pub reminders: Permission,
    /// In a group, "everyone" may show the setting, and set it for themselves with `/private me`; for the whole chat it
    /// counts as "direct".
    pub private: Permission,
    pub export: Permission,
    pub forgetme: Permission,
    /// With an instruction "everyone" counts as "direct".
    pub compact: Permission,
    pub new: Permission,
    pub undo: Permission,
    pub stop: Permission,
    pub approve: Permission,
    pub deny: Permission,
    pub ban: Permission,
    pub unban: Permission,
    pub pair: Permission,
}

impl Default for CommandPermissions {
    fn default() -> Self {
        Self {
            operators: Vec::new(),
            compact: Permission::Everyone,
            context: Permission::Everyone,
            status: Permission::Everyone,
            memory: Permission::Everyone,
            remember: Permission::Everyone,
            forget: Permission::Direct,
            remind: Permission::Everyone,
            reminders: Permission::Everyone,
            private: Permission::Everyone,
            export: Permission::Everyone,
            forgetme: Permission::Everyone,
            new: Permission::Direct,
            undo: Permission::Direct,
            stop: Permission::Everyone,
            approve: Permission::Everyone,
            deny: Permission::Everyone,
            ban: Permission::Operators,
            unban: Permission::Operators,
            pair: Permission::Operators,
            help: Permission::Everyone,
        }
    }
}

impl CommandPermissions {
    /// Who may use the command with that name; [`Permission::Nobody`] if there is none.
    pub fn permission(&self, name: &str) -> Permission {
        match name {
            "compact" => self.compact,
            "context" => self.context,
            "status" => self.status,
            "memory" => self.memory,
            "remember" => self.remember,
            "forget" => self.forget,
            "remind" => self.remind,
            "reminders" => self.reminders,
            "private" => self.private,
            "export" => self.export,
            "forgetme" => self.forgetme,
            "new" => self.new,
            "undo" => self.undo,
            "stop" => self.stop,
            "approve" => self.approve,
            "deny" => self.deny,
            "ban" => self.ban,
            "unban" => self.unban,
            "pair" => self.pair,
            "help" => self.help,
            _ => Permission::Nobody,
        }
    }

    /// Who may use a command as it was given. The instruction of `/compact` shapes what others are answered from, and may have the
    /// newest summary made again: in a group it is for operators.
    pub fn permission_of(&self, command: &Command) -> Permission {
        match (command, self.permission(command.name())) {
            (Command::Compact { instruction: Some(_) }, Permission::Everyone) => Permission::Direct,
            (Command::Private { me: false, on: Some(_) }, Permission::Everyone) => Permission::Direct,
            (_, permission) => permission,
        }
    }

    /// Whether a person (`PLATFORM/USER`) may use a command, in a private chat or in a group.
    pub fn allows(&self, command: &Command, person: &str, direct: bool) -> bool {
        self.permission_of(command).allows(direct, self.is_operator(person))
    }

    /// Whether a person (`PLATFORM/USER`) is an operator. Everyone who can reach the socket is one.
    pub fn is_operator(&self, person: &str) -> bool {
        let local = person.split_once('/').is_some_and(|(platform, _)| platform == LOCAL_PLATFORM);
        local || self.operators.iter().any(|operator| operator == person)
    }
}

/// A command to be run, with its channel and its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandCall {
    /// The channel in which it was given.
    pub channel: ChannelId,
    /// The id of its message or interaction. A command runs once per id.
    pub message: MessageId,
    pub caller: Author,
    /// It was given in a private chat with the bot.
    pub direct: bool,
    pub at: Timestamp,
    /// The command, or what is wrong with it.
    pub command: Result<Command, Saying>,
    /// The language of the place, where it has one of its own.
    pub language: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAnswer {
    pub words: String,
    /// Only the caller may see it. In a group it is shown only to them, if the platform supports that.
    pub private: bool,
    /// The command was not carried out; `words` says why.
    pub failed: bool,
    /// The state of the approval request that the command answered. `None`: the request still waits, as after a refusal or a
    /// fault, or the command answered none.
    pub settled: Option<Settled>,
}

/// The state of an approval request after a command that answered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Now,
    /// It was decided earlier, or is void.
    Before,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_command_is_read_back_by_its_name() {
        for spec in COMMANDS {
            let words = if spec.name == "private" { "on" } else { "words" };
            let command = Command::parse(spec.name, words).expect("is known").expect("is whole");
            assert_eq!(command.name(), spec.name);
            assert!(spec.name.len() <= 32, "{}", spec.name);
        }
    }

    #[test]
    fn a_ban_names_whom_for_how_long_and_why() {
        let read = |words: &str| match Command::parse("ban", words) {
            Some(Ok(Command::Ban(BanOrder { who, lasts, reason }))) => {
                Ok((who, lasts.map(|lasts| lasts.as_hours()), reason))
            }
            Some(Err(wrong)) => Err(wrong.to_string()),
            other => panic!("{other:?}"),
        };
        let why = |why: &str| Some(why.to_owned());
        assert_eq!(read("<@7>"), Ok(("<@7>".to_owned(), None, None)));
        assert_eq!(read("7 for 3d"), Ok(("7".to_owned(), Some(72), None)));
        assert_eq!(
            read("telegram/7  for 12h spam and worse"),
            Ok(("telegram/7".to_owned(), Some(12), why("spam and worse")))
        );
        assert_eq!(read("7 forever a nuisance"), Ok(("7".to_owned(), None, why("forever a nuisance"))));
        for wrong in ["7 1h rude", "telegram/7 3d"] {
            assert!(read(wrong).is_err_and(|wrong| wrong.contains("write `for ")), "{wrong}");
        }
        for wrong in ["7 for ever", "7 for -3d", "7 for 0h", "7 for 99999999999d"] {
            assert!(
                read(wrong).is_err_and(|wrong| wrong.contains("such as") || wrong.contains("3d")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_missing_argument_is_named() {
        let error = Command::parse("remember", "  ").expect("is known").expect_err("needs words").to_string();
        assert!(error.contains("/remember TEXT"), "{error}");
        assert!(Command::parse("dance", "").is_none());
    }

    #[test]
    fn a_command_is_shown_as_it_is_written() {
        let usage = |name: &str| COMMANDS.iter().find(|spec| spec.name == name).map(CommandSpec::usage);
        for (name, shown) in [
            ("ban", "/ban WHO [for 3d] [REASON]"),
            ("unban", "/unban WHO"),
            ("memory", "/memory [QUERY]"),
            ("help", "/help"),
        ] {
            assert_eq!(usage(name).as_deref(), Some(shown));
        }
    }

    #[test]
    fn whoever_reaches_the_socket_is_an_operator() {
        let permissions = CommandPermissions::default();
        assert!(permissions.is_operator("local/ann"));
        assert!(!permissions.is_operator("localx/ann") && !permissions.is_operator("discord/local/1"));
    }

    #[test]
    fn in_a_group_only_operators_have_what_is_for_private_chats() {
        assert!(Permission::Direct.allows(true, false));
        assert!(!Permission::Direct.allows(false, false));
        assert!(Permission::Direct.allows(false, true));
        assert!(!Permission::Nobody.allows(true, true));
    }
    #[test]
    fn an_instruction_for_a_compaction_is_for_operators_in_a_group() {
        let permissions =
            CommandPermissions { operators: vec!["discord/1".to_owned()], ..CommandPermissions::default() };
        let plain = Command::Compact { instruction: None };
        let told = Command::Compact { instruction: Some("keep the rhymes".to_owned()) };
        let allowed = |person, direct| {
            (permissions.allows(&plain, person, direct), permissions.allows(&told, person, direct))
        };
        assert_eq!(allowed("discord/2", false), (true, false));
        assert_eq!(allowed("discord/2", true), (true, true));
        assert_eq!(allowed("discord/1", false), (true, true));
    }
}
