//! Tools: what calling one does, what it gives back, and what is kept of a call.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ApprovalId, TurnId};
use crate::message::{Part, text_of};

/// Most bytes of a call's arguments, as JSON, that [`ToolUse`] keeps; the call itself is in the history whole.
pub const LOGGED_ARGUMENTS_BYTES: usize = 4_096;

/// Most characters of an error that [`ToolUse`] keeps.
pub const LOGGED_ERROR_CHARS: usize = 500;

/// What calling a tool does to the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only reads.
    Reads,
    /// It may change something, as far as anybody knows.
    #[default]
    Changes,
}

impl Effect {
    /// As a tool's hints say (MCP: `readOnlyHint`, `destructiveHint`). Only what is said to read, and not said to destroy,
    /// does no more than that.
    pub fn of_hints(read_only: Option<bool>, destructive: Option<bool>) -> Self {
        match (read_only, destructive) {
            (Some(true), None | Some(false)) => Self::Reads,
            _ => Self::Changes,
        }
    }

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Changes => "changes",
        }
    }
}

/// What a tool gave back: data, whoever wrote it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Words and pictures, in order.
    pub parts: Vec<Part>,
}

impl ToolOutput {
    /// Words alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)] }
    }

    /// Its words, pictures by their names.
    pub fn words(&self) -> String {
        text_of(&self.parts)
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It gave a result.
    Done,
    /// The tool said that it failed, or its server did.
    Failed,
    /// It was not made: no such tool, wrong arguments, not allowed.
    Refused,
    /// It was not made: whoever was asked said no.
    Denied,
    /// It was not made: nobody who was asked answered in time.
    Expired,
    /// It took longer than its time.
    TimedOut,
    /// It was cut short: by a command, or by a stop of the daemon.
    Stopped,
}

impl ToolOutcome {
    /// Its name in records, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::TimedOut => "timed_out",
            Self::Stopped => "stopped",
        }
    }
}

/// Why a tool gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// What went wrong, for the model.
    pub message: String,
    /// It took too long.
    pub timed_out: bool,
}

impl From<String> for ToolFailure {
    fn from(message: String) -> Self {
        Self { message, timed_out: false }
    }
}

impl ToolFailure {
    /// How the call ended.
    pub fn outcome(&self) -> ToolOutcome {
        if self.timed_out { ToolOutcome::TimedOut } else { ToolOutcome::Failed }
    }
}

/// A call of a tool that has ended, for the log of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The turn that it was made in.
    pub turn: TurnId,
    /// The call's id, as in the entry that asks for it.
    pub call: String,
    /// The tool, by the name that the model knows it by.
    pub tool: String,
    /// What it does to the world.
    pub effect: Effect,
    /// Who caused it: the people whose messages the turn answers (`PLATFORM/USER`).
    pub caused_by: BTreeSet<String>,
    /// The arguments; over [`LOGGED_ARGUMENTS_BYTES`] the beginning of their JSON, as text.
    pub arguments: Value,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What went wrong, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the call to its end, waiting for a yes not counted.
    pub duration_ms: u64,
    /// Bytes of the result's words.
    pub bytes: u64,
    /// The approval that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
}

/// Which calls of the log are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolLogQuery {
    /// Of that channel alone.
    pub channel: Option<crate::ids::ChannelId>,
    /// Of that tool alone.
    pub tool: Option<String>,
    /// With that outcome alone.
    pub outcome: Option<ToolOutcome>,
    /// Only those before that record; none: up to the newest.
    pub before: Option<u64>,
    /// Most of them: the newest.
    pub limit: usize,
}

impl ToolLogQuery {
    /// Whether a call fits, whatever its channel.
    pub fn fits(&self, used: &ToolUse) -> bool {
        self.tool.as_deref().is_none_or(|tool| tool == used.tool)
            && self.outcome.is_none_or(|outcome| outcome == used.outcome)
    }
}

/// Arguments as [`ToolUse`] keeps them.
pub fn logged_arguments(arguments: &Value) -> Value {
    let text = arguments.to_string();
    if text.len() <= LOGGED_ARGUMENTS_BYTES {
        return arguments.clone();
    }
    let end = text.floor_char_boundary(LOGGED_ARGUMENTS_BYTES);
    Value::String(format!("{} [cut: {} bytes in all]", &text[..end], text.len()))
}

/// An error as [`ToolUse`] keeps it.
pub fn logged_error(error: &str) -> String {
    error.chars().take(LOGGED_ERROR_CHARS).collect()
}

/// The name that models know a tool of a server by; see [`offered_name`].
pub const SERVER_SEPARATOR: &str = "__";

/// Longest name of a tool; what the large providers take.
pub const NAME_MAX: usize = 64;

/// A name that models' servers take.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// The name that models know a server's tool by: the server's id before it, so that no tool passes for a built-in one or
/// for another server's. `None`: the name has characters that models' servers refuse, or is too long with the server's.
pub fn offered_name(server: &str, tool: &str) -> Option<String> {
    let name = format!("{server}{SERVER_SEPARATOR}{tool}");
    (!tool.is_empty() && is_name(&name)).then_some(name)
}

/// Whether a list of tools names that tool. A tool of a server is named `SERVER/TOOL`, all of a server's `SERVER/*`; others by
/// their name.
pub fn is_listed<'a>(list: impl IntoIterator<Item = &'a String>, server: Option<&str>, tool: &str) -> bool {
    list.into_iter().any(|listed| match server {
        Some(server) => {
            listed.split_once('/').is_some_and(|(of, name)| of == server && (name == "*" || name == tool))
        }
        None => listed == tool,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(Some(true), None, Effect::Reads)]
    #[case(Some(true), Some(false), Effect::Reads)]
    #[case(Some(true), Some(true), Effect::Changes)]
    #[case(Some(false), Some(false), Effect::Changes)]
    #[case(None, Some(false), Effect::Changes)]
    #[case(None, None, Effect::Changes)]
    fn only_what_is_said_to_read_reads(
        #[case] read_only: Option<bool>,
        #[case] destructive: Option<bool>,
        #[case] effect: Effect,
    ) {
        assert_eq!(Effect::of_hints(read_only, destructive), effect);
    }

    #[rstest]
    #[case("files", "read_file", Some("files__read_file"))]
    #[case("files", "memory_save", Some("files__memory_save"))]
    #[case("files", "", None)]
    #[case("files", "read file", None)]
    #[case("files", "läs", None)]
    fn a_servers_tool_carries_its_servers_name(
        #[case] server: &str,
        #[case] tool: &str,
        #[case] name: Option<&str>,
    ) {
        assert_eq!(offered_name(server, tool).as_deref(), name);
        assert_eq!(offered_name(server, &"x".repeat(65 - server.len())), None, "too long");
    }

    #[rstest]
    #[case(&["files/*"], Some("files"), "read", true)]
    #[case(&["files/read"], Some("files"), "read", true)]
    #[case(&["files/read"], Some("files"), "write", false)]
    #[case(&["files/*"], Some("file"), "read", false)]
    #[case(&["fetch"], None, "fetch", true)]
    #[case(&["fetch"], Some("fetch"), "fetch", false)]
    #[case(&["*"], Some("files"), "read", false)]
    #[case(&[], Some("files"), "read", false)]
    fn a_list_names_tools(
        #[case] list: &[&str],
        #[case] server: Option<&str>,
        #[case] tool: &str,
        #[case] listed: bool,
    ) {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(is_listed(&list, server, tool), listed);
    }

    #[test]
    fn large_arguments_are_logged_by_their_beginning() {
        let small = json!({ "path": "/etc" });
        assert_eq!(logged_arguments(&small), small);
        let large = logged_arguments(&json!({ "text": "ä".repeat(10_000) }));
        let text = large.as_str().unwrap();
        assert!(text.len() < 4_200 && text.ends_with("[cut: 20011 bytes in all]"), "{text}");
    }
}
