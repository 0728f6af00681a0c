//! The tools of a channel's model: the built-in ones, which reach this channel and the scopes that may be read in it and
//! nothing else, and those that the house was given.

mod artifact;
mod guard;
mod history;
mod memory;

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_core::compaction::memory_save_tool;
use cairn_core::event::Event;
use cairn_core::memory::Scope;
use cairn_core::message::ToolCall;
use cairn_core::model::ToolDef;
use cairn_core::ports::Tool;
use cairn_core::result_guard::Room;
use cairn_core::settings::{ResultClass, ResultGuardSettings};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::cell::Cell;
use crate::shared::Shared;
use crate::tasks::Ended;

pub(crate) use guard::Guard;

/// Most results of a search.
const HITS_MAX: usize = 10;

/// Longest name of a tool; what the large providers take.
const NAME_MAX: usize = 64;

/// A tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// Two have that name, or it is that of a built-in one.
    #[error("there are two tools of the name `{0}`; give one of them another name")]
    Twice(String),
    /// Models' servers would refuse it.
    #[error("`{0}` is no name for a tool: it has 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    Name(String),
}

/// The definitions of all built-in tools, for [`cairn_core::agent::AgentSettings::tools`].
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
        tool("memory_search", "Search what is remembered beyond this conversation.", query.clone()),
        tool(
            "history_search",
            "Search the whole history of this channel, also what is only summarised or no longer shown. Results \
             name the number of each message for history_read.",
            query,
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
        artifact::definition(),
    ]
}

/// The built-in tools and those beside them, by name, so that their order is the same at every start.
///
/// # Errors
/// A name is taken, or no model's server would take it.
pub fn all_tools(others: &[Arc<dyn Tool>]) -> Result<Vec<ToolDef>, BadTool> {
    let mut tools = builtin_tools();
    let mut names: BTreeSet<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let mut more: Vec<ToolDef> = others.iter().map(|tool| tool.def()).collect();
    more.sort_by(|a, b| a.name.cmp(&b.name));
    for tool in &more {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if tool.name.is_empty() || tool.name.len() > NAME_MAX || !tool.name.bytes().all(fits) {
            return Err(BadTool::Name(tool.name.chars().take(NAME_MAX).collect()));
        }
        if !names.insert(tool.name.clone()) {
            return Err(BadTool::Twice(tool.name.clone()));
        }
    }
    tools.extend(more);
    Ok(tools)
}

/// What a call came to.
pub(crate) struct Used {
    /// The result, whole.
    pub(crate) text: String,
    /// It failed.
    pub(crate) failed: bool,
    /// What is to be journalled with the result.
    pub(crate) events: Vec<Event>,
}

/// The tools of one channel.
pub(crate) struct Toolbox {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    scopes: Vec<Scope>,
}

impl Toolbox {
    pub(crate) fn new(shared: Arc<Shared>, cell: Arc<Cell>) -> Self {
        let scopes =
            cell.read(|conversation| Scope::readable_in(&cell.id, conversation.direct_with.as_deref()));
        Self { scopes, shared, cell }
    }

    /// Calls a tool. Whatever goes wrong is told to the model, which can do better. `room`: what is free for its result.
    pub(crate) async fn call(&self, call: &ToolCall, model: &str, ordinal: usize, room: &Room) -> Used {
        let limit = self.shared.deps.limits.tool_timeout;
        let result = match tokio::time::timeout(limit, self.dispatch(call, model, ordinal, room)).await {
            Ok(result) => result,
            Err(_) => Err(format!("`{}` took longer than {} s", call.name, limit.as_secs())),
        };
        match result {
            Ok((text, events)) => Used { text, failed: false, events },
            Err(message) => {
                tracing::debug!(channel = %self.cell.id, tool = call.name, message, "a tool call failed");
                Used { text: format!("error: {message}"), failed: true, events: Vec::new() }
            }
        }
    }

    async fn dispatch(
        &self,
        call: &ToolCall,
        model: &str,
        ordinal: usize,
        room: &Room,
    ) -> Result<(String, Vec<Event>), String> {
        let settings = self.cell.settings();
        let tools = &settings.tools;
        if !tools.iter().any(|tool| tool.name == call.name) {
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            return Err(format!("there is no tool `{}`; the tools are {}", call.name, names.join(", ")));
        }
        let arguments = &call.arguments;
        match call.name.as_str() {
            "memory_save" => {
                let save = self.memory_save(arguments, model, ordinal)?;
                Ok(("saved".to_owned(), vec![Event::MemorySaved(save)]))
            }
            "memory_search" => Ok((self.memory_search(arguments).await?, Vec::new())),
            "history_search" => Ok((self.history_search(arguments).await?, Vec::new())),
            "history_read" => Ok((self.history_read(arguments).await?, Vec::new())),
            artifact::NAME => self.artifact_read(arguments, &settings.result_guard, room).await,
            name => match self.other(name) {
                Some(tool) => Ok((self.call_other(tool, name, arguments.clone()).await?, Vec::new())),
                None => Err(format!("`{name}` cannot be called here")),
            },
        }
    }

    fn other(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.shared.deps.tools.get(name)
    }

    /// Calls a tool that is not our own, as a watched task: a panic in it is an error like any other, and it is
    /// dropped at its time limit.
    async fn call_other(&self, tool: Arc<dyn Tool>, name: &str, arguments: Value) -> Result<String, String> {
        let channel = self.cell.id.clone();
        let token = self.shared.tasks.token();
        let _cancel = token.clone().drop_guard();
        let (told, done) = oneshot::channel();
        let work = async move { tool.call(channel, arguments).await };
        self.shared.tasks.watch(token, work, move |ended| drop(told.send(ended)));
        match done.await {
            Ok(Ended::Done(result)) => result.map(|output| output.words()),
            Ok(Ended::Panicked(message)) => {
                tracing::error!(channel = %self.cell.id, tool = name, message, "a tool panicked; please report it");
                metrics::counter!("cairn_tool_panics_total", "tool" => name.to_owned()).increment(1);
                Err(format!("`{name}` broke down; do without it"))
            }
            Ok(Ended::Cancelled) | Err(_) => Err(format!("`{name}` was stopped")),
        }
    }

    /// The class of a tool's results: as the configuration says, else as the tool does.
    fn class(&self, name: &str, settings: &ResultGuardSettings) -> ResultClass {
        let own = || self.other(name).map_or(ResultClass::Auto, |tool| tool.class());
        settings.class(name).unwrap_or_else(own)
    }
}

fn text_argument(arguments: &Value, name: &str) -> Result<String, String> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{name}` is missing or empty"))
}
