//! `/help`, and what is said to whom may not.

use cairn_core::command::{COMMANDS, Command, CommandCall, Permission};

use super::DaemonDesk;

impl DaemonDesk {
    /// The commands that the caller may use here.
    pub(super) fn help(&self, call: &CommandCall) -> String {
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        let operator = commands.is_operator(&call.caller.id);
        let mine =
            COMMANDS.iter().filter(|spec| commands.permission(spec.name).allows(call.direct, operator));
        let lines = mine.map(|spec| {
            let argument = spec.argument.map(|argument| {
                let name = argument.name.to_uppercase();
                if argument.required { format!(" {name}") } else { format!(" [{name}]") }
            });
            format!("- `/{}{}`: {}", spec.name, argument.unwrap_or_default(), spec.description)
        });
        let lines: Vec<String> = lines.collect();
        format!("Talk to me, or use a command:\n\n{}", lines.join("\n"))
    }

    /// What is said to somebody who may not use a command.
    pub(super) fn denial(&self, command: &Command, call: &CommandCall) -> String {
        let name = command.name();
        match self.deps.config.now().config.commands.permission(name) {
            Permission::Direct if !call.direct => {
                format!("`/{name}` is for private chats; here only operators may use it.")
            }
            Permission::Nobody => format!("`/{name}` is switched off."),
            _ => format!("`/{name}` is for operators; sorry."),
        }
    }
}
