//! `[commands]`: who may use which command in chats.

use cairn_core::command::{Command, Permission};
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::network::check_operator;

/// `[commands]`: operators, and who may use which command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commands {
    /// People who may use every command that is not for nobody: `PLATFORM/USER`.
    pub operators: Vec<String>,
    /// `/compact`.
    pub compact: Permission,
    /// `/context`.
    pub context: Permission,
    /// `/status`.
    pub status: Permission,
    /// `/memory`.
    pub memory: Permission,
    /// `/remember`.
    pub remember: Permission,
    /// `/forget`.
    pub forget: Permission,
    /// `/export`.
    pub export: Permission,
    /// `/forgetme`.
    pub forgetme: Permission,
    /// `/new`.
    pub new: Permission,
    /// `/undo`.
    pub undo: Permission,
    /// `/stop`.
    pub stop: Permission,
    /// `/approve`: who may say yes is decided by each agent's approvers, too.
    pub approve: Permission,
    /// `/deny`.
    pub deny: Permission,
    /// `/help`.
    pub help: Permission,
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

/// Checks the names of the operators.
pub(super) fn check(check: &mut Check<'_, '_>, commands: &Commands) {
    for (idx, operator) in commands.operators.iter().enumerate() {
        check_operator(check, idx, operator);
    }
}
