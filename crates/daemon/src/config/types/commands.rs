//! `[commands]`: who may use which command in chats.

use cairn_core::command::{Command, Permission};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Commands {
    /// People who may use every command that is not for nobody: "discord/ID", "telegram/ID".
    pub operators: Vec<String>,
    /// Who may use a command, of those whom the bot serves. "everyone"; "direct": everybody in a private chat, in a group the
    /// operators alone; "operators"; "nobody". Who may approve is decided by [defaults.trust] and [agents.trust].
    pub help: Permission,
    pub status: Permission,
    pub context: Permission,
    pub memory: Permission,
    pub remember: Permission,
    pub forget: Permission,
    pub export: Permission,
    pub forgetme: Permission,
    pub compact: Permission,
    pub new: Permission,
    pub undo: Permission,
    pub stop: Permission,
    pub approve: Permission,
    pub deny: Permission,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            operators: Vec::new(),
            compact: Permission::Everyone,
            context: Permission::Everyone,
            status: Permission::Everyone,
            memory: Permission::Everyone,
            remember: Permission::Everyone,
            forget: Permission::Direct,
            export: Permission::Everyone,
            forgetme: Permission::Everyone,
            new: Permission::Direct,
            undo: Permission::Direct,
            stop: Permission::Everyone,
            approve: Permission::Everyone,
            deny: Permission::Everyone,
            help: Permission::Everyone,
        }
    }
}

impl Commands {
    /// Who may use the command of that name; nobody, when there is none.
    pub fn permission(&self, name: &str) -> Permission {
        match name {
            "compact" => self.compact,
            "context" => self.context,
            "status" => self.status,
            "memory" => self.memory,
            "remember" => self.remember,
            "forget" => self.forget,
            "export" => self.export,
            "forgetme" => self.forgetme,
            "new" => self.new,
            "undo" => self.undo,
            "stop" => self.stop,
            "approve" => self.approve,
            "deny" => self.deny,
            "help" => self.help,
            _ => Permission::Nobody,
        }
    }

    /// Whether a person (`PLATFORM/USER`) may use a command, in a private chat or in a group.
    pub fn allows(&self, command: &Command, person: &str, direct: bool) -> bool {
        self.permission(command.name()).allows(direct, self.is_operator(person))
    }

    /// Whether a person (`PLATFORM/USER`) is an operator.
    pub fn is_operator(&self, person: &str) -> bool {
        self.operators.iter().any(|operator| operator == person)
    }
}
