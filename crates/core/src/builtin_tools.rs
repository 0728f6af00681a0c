//! The definitions of the built-in tools.

use cairn_types::text::edges::READ_TOOL;
use cairn_types::tool::Effect;
use cairn_types::tool::defs::ToolDef;
use serde_json::{Value, json};

use crate::compaction::memory_save_tool;

/// Name of the tool that saves a memory.
pub const MEMORY_SAVE: &str = "memory_save";

/// Name of the tool that forgets a memory.
pub const MEMORY_FORGET: &str = "memory_forget";

/// Name of the tool that tells the time.
pub const TIME: &str = "time";

/// Name of the tool that searches the channel's history.
pub const HISTORY_SEARCH: &str = "history_search";

/// Most pages of what [`HISTORY_SEARCH`] finds.
pub const PAGES_MAX: u64 = 3;

/// Name of the tool that sets a reminder.
pub const REMIND: &str = "remind";

/// Name of the tool that lists reminders.
pub const REMINDERS: &str = "reminders";

/// Name of the tool that cancels a reminder.
pub const REMINDER_CANCEL: &str = "reminder_cancel";

/// Name of the tool that sends a file to the chat.
pub const SEND_FILE: &str = "send_file";

/// Longest caption of a file, in characters. Telegram takes 1,024 (Bot API, `sendDocument`).
pub const CAPTION_MAX: usize = 1_000;

/// The definitions of all built-in tools, for [`crate::agent::AgentSettings::tools`].
pub fn builtin_tools() -> Vec<ToolDef> {
    let tool = |name: &str, description: &str, parameters: Value| ToolDef {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    };
    let query = json!({
        "type": "object",
        "properties": { "query": { "type": "string", "description": "words to look for, in any order" } },
        "required": ["query"]
    });
    vec![
        memory_save_tool(),
        tool("memory_search", "Search what is remembered beyond this conversation.", query),
        tool(
            MEMORY_FORGET,
            "Forget a memory because the person whom you answer wishes it: what they said of themselves.",
            json!({
                "type": "object",
                "properties": { "id": { "type": "string", "description": "from memory_search" } },
                "required": ["id"]
            }),
        ),
        tool(
            HISTORY_SEARCH,
            "Search the whole history of this channel, also what is only summarised or no longer shown. Results \
             name the number of each message for history_read.",
            json!({
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "words to look for, in any order" },
                    "by": { "type": "string", "description": "a person's name" },
                    "from": { "type": "string", "description": "first day, such as 2026-03-01" },
                    "until": { "type": "string", "description": "last day" },
                    "page": { "type": "integer", "minimum": 1, "maximum": PAGES_MAX, "description": "twenty results each" }
                },
                "required": ["query"]
            }),
        ),
        tool(
            "history_read",
            "Read messages of this channel word for word, by their numbers.",
            json!({
                "type": "object",
                "properties": {
                    "from": { "type": "integer", "minimum": 1, "description": "first message number" },
                    "to": { "type": "integer", "minimum": 1, "description": "last message number" }
                },
                "required": ["from", "to"]
            }),
        ),
        artifact_read_def(),
        send_file_def(),
        time_def(),
        remind_def(),
        tool(REMINDERS, "The reminders of this chat.", json!({ "type": "object", "properties": {} })),
        tool(
            REMINDER_CANCEL,
            "Cancel a reminder of the person whom you answer.",
            json!({
                "type": "object",
                "properties": { "id": { "type": "string" } },
                "required": ["id"]
            }),
        ),
    ]
}

/// Whether a tool of that name is built in.
pub fn is_builtin(name: &str) -> bool {
    let own = [REMIND, REMINDERS, REMINDER_CANCEL];
    let names = [
        MEMORY_SAVE,
        MEMORY_FORGET,
        "memory_search",
        HISTORY_SEARCH,
        "history_read",
        READ_TOOL,
        SEND_FILE,
        TIME,
    ];
    names.contains(&name) || own.contains(&name)
}

/// What calling a built-in tool does.
pub fn effect_of_builtin(name: &str) -> Effect {
    if [MEMORY_SAVE, MEMORY_FORGET, SEND_FILE, REMIND, REMINDER_CANCEL].contains(&name) {
        Effect::Changes
    } else {
        Effect::Reads
    }
}

fn artifact_read_def() -> ToolDef {
    ToolDef {
        name: READ_TOOL.to_owned(),
        description:
            "Read on in a large result of a tool, or a large message, that is not shown whole: the note in it names \
             the artifact and the line to read on from."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "the artifact, such as a1" },
                "from": { "type": "integer", "minimum": 1, "description": "first line; 1 when left out" },
                "count": { "type": "integer", "minimum": 1, "description": "most lines; as many as fit when left out" },
                "offset": { "type": "integer", "minimum": 0, "description": "bytes of the first line to pass over" }
            },
            "required": ["id"]
        }),
    }
}

fn send_file_def() -> ToolDef {
    ToolDef {
        name: SEND_FILE.to_owned(),
        description: "Send an artifact of this chat to it as a file.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "the artifact, such as a1" },
                "name": { "type": "string", "description": "name of the file" },
                "caption": { "type": "string", "maxLength": CAPTION_MAX },
                "alt": { "type": "string", "description": "alternative text" }
            },
            "required": ["id"]
        }),
    }
}

fn time_def() -> ToolDef {
    ToolDef {
        name: TIME.to_owned(),
        description: "The time now.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "zone": { "type": "string", "description": "IANA time zone, such as Europe/Berlin" }
            }
        }),
    }
}

fn remind_def() -> ToolDef {
    ToolDef {
        name: REMIND.to_owned(),
        description:
            "Set a reminder for the person whom you answer: at its time you get the text as a message here."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "what to remind of, or to do then" },
                "at": { "type": "string", "description": "18:30, tomorrow 9:00, or 2026-12-24 18:00" },
                "after": { "type": "string", "description": "20m or 2h30m" },
                "every": { "type": "string", "description": "day 9:00, monday 9:00, or five cron fields" }
            },
            "required": ["text"]
        }),
    }
}
