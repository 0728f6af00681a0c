//! Tools: the effect of a call, its result, and what is logged of it.

pub mod approval;
pub mod defs;
pub mod mcp;
pub mod result_class;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ApprovalId, TurnId};
use crate::message::{Part, ToolCall, text_of};
use crate::tool::defs::ToolDef;

/// Most bytes of a call's arguments, as JSON, that [`ToolUse`] keeps; the call itself is in the history whole.
pub const LOGGED_ARGUMENTS_BYTES: usize = 4_096;

/// Most characters of an error that [`ToolUse`] keeps.
pub const LOGGED_ERROR_CHARS: usize = 500;

/// Most calls of one answer that are run.
pub const CALLS_MAX: usize = 64;

/// Cuts the calls of an answer before they are journalled, to [`CALLS_MAX`] and one more. That one is refused, and its result
/// tells the model of the cut. Returns how many were left out.
pub fn bound_calls(calls: &mut Vec<ToolCall>) -> usize {
    let left_out = calls.len().saturating_sub(CALLS_MAX + 1);
    calls.truncate(CALLS_MAX + 1);
    left_out
}

/// Whether any of these calls names an existing tool and has arguments that could be read.
pub fn any_can_be_run(calls: &[ToolCall], tools: &[ToolDef]) -> bool {
    let is_known = |call: &ToolCall| tools.iter().any(|tool| tool.name == call.name);
    calls.iter().any(|call| !call.arguments.is_string() && is_known(call))
}

/// What calling a tool does to the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Reads,
    /// It may change something, as far as anybody knows.
    #[default]
    Changes,
}

impl Effect {
    /// The effect that a tool's hints tell (MCP: `readOnlyHint`, `destructiveHint`). Only a tool that is said to read, and
    /// not said to destroy, counts as reading.
    pub fn of_hints(read_only: Option<bool>, destructive: Option<bool>) -> Self {
        match (read_only, destructive) {
            (Some(true), None | Some(false)) => Self::Reads,
            _ => Self::Changes,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Changes => "changes",
        }
    }
}

/// The result of a tool. It is data, whoever wrote it, never instructions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    pub parts: Vec<Part>,
    /// Pictures, sounds and other files, which are kept as artifacts and, unless they say otherwise, sent to the chat.
    pub files: Vec<OutputFile>,
}

/// A file that a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputFile {
    /// Its name, where the tool gave one.
    pub name: Option<String>,
    /// MIME type, such as `image/png`.
    pub media_type: String,
    pub data: Vec<u8>,
    /// Whether it is sent to the chat; otherwise it is only kept.
    pub is_sent: bool,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], files: Vec::new() }
    }

    /// Its text, with pictures by their names.
    pub fn words(&self) -> String {
        text_of(&self.parts)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    Done,
    /// The tool said that it failed, or its server did.
    Failed,
    /// It was not run: no such tool, wrong arguments, not allowed.
    Refused,
    /// It was not run: a person denied it.
    Denied,
    /// It was not run: nobody approved it in time.
    Expired,
    TimedOut,
    /// It was cut short: by a command, or by a stop of the daemon.
    Stopped,
}

impl ToolOutcome {
    pub const ALL: [Self; 7] =
        [Self::Done, Self::Failed, Self::Refused, Self::Denied, Self::Expired, Self::TimedOut, Self::Stopped];

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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    pub message: String,
    pub timed_out: bool,
}

impl From<String> for ToolFailure {
    fn from(message: String) -> Self {
        Self { message, timed_out: false }
    }
}

impl ToolFailure {
    pub fn outcome(&self) -> ToolOutcome {
        if self.timed_out { ToolOutcome::TimedOut } else { ToolOutcome::Failed }
    }
}

/// A finished tool call, for the log of calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    pub turn: TurnId,
    /// The call's id, as in the entry that asks for it.
    pub call: String,
    /// The tool, by the name that the model knows it by.
    pub tool: String,
    pub effect: Effect,
    /// Who caused it: the people whose messages the turn answers (`PLATFORM/USER`).
    pub caused_by: BTreeSet<String>,
    /// The arguments; over [`LOGGED_ARGUMENTS_BYTES`] the beginning of their JSON, as text.
    pub arguments: Value,
    pub outcome: ToolOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the call to its end, without the wait for approval.
    pub duration_ms: u64,
    /// Bytes of the result's text.
    pub bytes: u64,
    /// The approval that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The entry of `always_allow` that let the call run without the approval that it would have needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<String>,
}

/// A filter for the log of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolLogQuery {
    pub channel: Option<crate::ids::ChannelId>,
    pub tool: Option<String>,
    /// Only those with that outcome.
    pub outcome: Option<ToolOutcome>,
    /// Only those before that record; none: up to the newest.
    pub before: Option<u64>,
    /// Only those after that record; none: from the first.
    pub after: Option<u64>,
    /// Most calls that are returned: the newest, or with `after` the oldest.
    pub limit: usize,
}

impl ToolLogQuery {
    /// Whether a call fits, whenever it was.
    pub fn fits(&self, channel: &crate::ids::ChannelId, tool: &str, outcome: ToolOutcome) -> bool {
        self.channel.as_ref().is_none_or(|wanted| wanted == channel)
            && self.tool.as_deref().is_none_or(|wanted| wanted == tool)
            && self.outcome.is_none_or(|wanted| wanted == outcome)
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

/// Separates the server's id from the tool's name in [`offered_name`].
pub const SERVER_SEPARATOR: &str = "__";

/// Longest name of a tool, as the large providers accept it.
pub const NAME_MAX: usize = 64;

/// Whether models' servers accept a name of a tool.
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

/// How closely an entry of a list names a tool, the loosest first. Of several entries the closest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    /// `*`: every tool.
    Any,
    /// `SERVER/*`: every tool of that server.
    Server,
    /// `TOOL`: the tool of that name, whichever server has it.
    Name,
    /// `SERVER/TOOL`, or the name of a tool that is not a server's: this tool and no other.
    Exact,
}

/// How an entry of a list names a tool, if it does. `offered`: the name that models know the tool by, which is accepted as
/// an entry, too.
pub fn closeness(entry: &str, offered: &str) -> Option<Closeness> {
    if entry == "*" {
        return Some(Closeness::Any);
    }
    if entry == offered {
        return Some(Closeness::Exact);
    }
    let (server, tool) = offered.split_once(SERVER_SEPARATOR)?;
    match entry.split_once('/') {
        Some((of, "*")) if of == server => Some(Closeness::Server),
        Some((of, name)) if of == server && name == tool => Some(Closeness::Exact),
        None if entry == tool => Some(Closeness::Name),
        Some(_) | None => None,
    }
}

/// The entry of a list that names a tool most closely.
pub fn closest<'a>(
    entries: impl IntoIterator<Item = &'a String>,
    offered: &str,
) -> Option<(&'a String, Closeness)> {
    let named = entries.into_iter().filter_map(|entry| Some((entry, closeness(entry, offered)?)));
    named.max_by_key(|(_, closeness)| *closeness)
}

/// The server that an entry of a list is about, whether or not there is one.
pub fn server_of(entry: &str) -> Option<&str> {
    entry.split_once('/').or_else(|| entry.split_once(SERVER_SEPARATOR)).map(|(server, _)| server)
}

/// Whether an entry could name a tool at all: `*`, `TOOL`, `SERVER/TOOL` or `SERVER/*`.
pub fn is_entry(entry: &str) -> bool {
    match entry.split_once('/') {
        None => entry == "*" || is_name(entry),
        Some((server, tool)) => is_name(server) && (tool == "*" || is_name(tool)),
    }
}

/// A tool's name for people: `SERVER/TOOL`, or the name of one that is not a server's.
pub fn shown_name(offered: &str) -> String {
    offered.replacen(SERVER_SEPARATOR, "/", 1)
}

/// Whether an agent's list of tools grants it that tool: a server's tool has to be named with its server.
pub fn is_granted<'a>(list: impl IntoIterator<Item = &'a String>, offered: &str) -> bool {
    let granted =
        |entry: &String| matches!(closeness(entry, offered), Some(Closeness::Server | Closeness::Exact));
    list.into_iter().any(granted)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(0, 0, 0)]
    #[case(CALLS_MAX, CALLS_MAX, 0)]
    #[case(CALLS_MAX + 1, CALLS_MAX + 1, 0)]
    #[case(CALLS_MAX + 2, CALLS_MAX + 1, 1)]
    #[case(5_000, CALLS_MAX + 1, 4_935)]
    fn the_calls_of_an_answer_are_bounded(#[case] made: usize, #[case] kept: usize, #[case] left_out: usize) {
        let call = |n: usize| ToolCall { id: n.to_string(), name: "time".to_owned(), arguments: json!({}) };
        let mut calls: Vec<_> = (0..made).map(call).collect();
        assert_eq!(bound_calls(&mut calls), left_out);
        assert!(
            calls.iter().enumerate().all(|(n, call)| call.id == n.to_string()),
            "the first ones are kept"
        );
        assert_eq!(calls.len(), kept);
    }

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
    #[case("*", "files__read", Some(Closeness::Any))]
    #[case("*", "history_read", Some(Closeness::Any))]
    #[case("files/*", "files__read", Some(Closeness::Server))]
    #[case("read", "files__read", Some(Closeness::Name))]
    #[case("files/read", "files__read", Some(Closeness::Exact))]
    #[case("files__read", "files__read", Some(Closeness::Exact))]
    #[case("history_read", "history_read", Some(Closeness::Exact))]
    #[case("files/_read", "files___read", Some(Closeness::Exact))]
    #[case("files/a__b", "files__a__b", Some(Closeness::Exact))]
    #[case("files/write", "files__read", None)]
    #[case("file/*", "files__read", None)]
    #[case("files", "files__read", None)]
    #[case("files/", "files__read", None)]
    #[case("files/re*", "files__read", None)]
    #[case("*/read", "files__read", None)]
    #[case("Read", "files__read", None)]
    #[case("history/read", "history_read", None)]
    #[case("", "files__read", None)]
    fn an_entry_names_tools_as_people_and_as_models_know_them(
        #[case] entry: &str,
        #[case] offered: &str,
        #[case] named: Option<Closeness>,
    ) {
        assert_eq!(closeness(entry, offered), named);
    }

    #[test]
    fn the_closest_entry_counts_wherever_it_stands() {
        let list = |entries: &[&str]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
        for entries in [["*", "files/*", "read", "files/read"], ["files/read", "read", "files/*", "*"]] {
            for (n, closest_is) in [(4, "files/read"), (3, "read"), (2, "files/*"), (1, "*")] {
                let rank = |entry: &&str| closeness(entry, "files__read").unwrap();
                let mut entries = entries;
                entries.sort_by_key(rank);
                let entries = list(&entries[..n]);
                assert_eq!(closest(&entries, "files__read").unwrap().0, closest_is);
            }
        }
        assert_eq!(closest(&list(&["other/*", "write"]), "files__read"), None);
    }

    #[rstest]
    #[case("*", true, None)]
    #[case("browse", true, None)]
    #[case("web/browse", true, Some("web"))]
    #[case("web/*", true, Some("web"))]
    #[case("web__browse", true, Some("web"))]
    #[case("web/", false, Some("web"))]
    #[case("/browse", false, Some(""))]
    #[case("web/browse/it", false, Some("web"))]
    #[case("web/br*", false, Some("web"))]
    #[case("br*", false, None)]
    #[case("", false, None)]
    fn what_can_name_no_tool_is_no_entry(
        #[case] entry: &str,
        #[case] fits: bool,
        #[case] server: Option<&str>,
    ) {
        assert_eq!((is_entry(entry), server_of(entry)), (fits, server));
    }

    #[rstest]
    #[case(&["files/*"], "files__read", true)]
    #[case(&["files/read"], "files__read", true)]
    #[case(&["files/read"], "files__write", false)]
    #[case(&["files/*"], "file__read", false)]
    #[case(&["fetch"], "fetch", true)]
    #[case(&["fetch"], "fetch__fetch", false)]
    #[case(&["fetch", "fetch/*"], "fetch__fetch", true)]
    #[case(&["*"], "files__read", false)]
    #[case(&[], "files__read", false)]
    fn an_agent_is_granted_what_its_list_names_with_its_server(
        #[case] list: &[&str],
        #[case] offered: &str,
        #[case] granted: bool,
    ) {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(is_granted(&list, offered), granted);
    }

    #[rstest]
    #[case("files__read", "files/read")]
    #[case("files__a__b", "files/a__b")]
    #[case("memory_save", "memory_save")]
    fn people_see_a_servers_tool_below_its_server(#[case] offered: &str, #[case] shown: &str) {
        assert_eq!(shown_name(offered), shown);
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
