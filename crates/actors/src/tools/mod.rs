//! The tools of a channel's model: the built-in ones, which reach this channel and the memories that may be read in it and
//! nothing else, and those that the runtime was given.

mod artifact;
mod call;
mod clock;
mod guard;
mod history;
mod memory;

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_core::compaction::memory_save_tool;
use cairn_core::memory::Reach;
use cairn_core::model::ToolDef;
use cairn_core::ports::Tool;
use cairn_core::settings::{ResultClass, ResultGuardSettings};
use cairn_core::tool::{NAME_MAX, is_name};
use serde_json::{Value, json};

use crate::handle::ChannelHandle;
use crate::shared::Shared;

pub use call::effect_of_builtin;
pub(crate) use call::{Used, Verdict, effect_of};
pub(crate) use guard::{Content, Guard, keep};

const HITS_MAX: usize = 10;

/// The tool by which memories are saved.
const MEMORY_SAVE: &str = "memory_save";

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
        clock::definition(),
    ]
}

/// Whether a tool of that name is built in.
fn is_builtin(name: &str) -> bool {
    let names = [MEMORY_SAVE, "memory_search", "history_search", "history_read", artifact::NAME, clock::NAME];
    names.contains(&name)
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
        if !is_name(&tool.name) {
            return Err(BadTool::Name(tool.name.chars().take(NAME_MAX).collect()));
        }
        if !names.insert(tool.name.clone()) {
            return Err(BadTool::Twice(tool.name.clone()));
        }
    }
    tools.extend(more);
    Ok(tools)
}

pub(crate) struct Toolbox {
    shared: Arc<Shared>,
    handle: Arc<ChannelHandle>,
    reach: Vec<Reach>,
}

impl Toolbox {
    pub(crate) fn new(shared: Arc<Shared>, handle: Arc<ChannelHandle>) -> Self {
        let share = handle.settings().memory.share;
        let reach =
            handle.read(|conversation| Reach::of(&handle.id, conversation.direct_with.as_deref(), share));
        Self { reach, shared, handle }
    }

    fn other(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.shared.deps.tools.get(name)
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
