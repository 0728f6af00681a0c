//! The tools of a channel's model: `memory_save`, `memory_search`, `history_search`, `history_read`. All of them
//! reach this channel and the scopes that may be read in it, nothing else.

use std::sync::Arc;

use cairn_core::compaction::{memory_save_tool, parse_memory};
use cairn_core::event::Event;
use cairn_core::ids::Seq;
use cairn_core::memory::{MemorySave, Scope, Source};
use cairn_core::message::{Entry, Role, ToolCall};
use cairn_core::model::ToolDef;
use cairn_core::ports::{HitKind, MemoryFilter, Query};
use cairn_core::window::{escape_name, short_time};
use serde_json::{Value, json};

use crate::cell::Cell;
use crate::shared::Shared;

/// Most results of a search.
const HITS_MAX: usize = 10;

/// Most entries that one `history_read` returns.
const READ_MAX: usize = 50;

/// Longest result of a tool, in characters.
const RESULT_MAX_CHARS: usize = 12_000;

/// Longest text of one hit or entry, in characters.
const ITEM_MAX_CHARS: usize = 1_500;

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
    ]
}

/// What a call came to.
pub(crate) struct Used {
    /// What the model is told.
    pub(crate) text: String,
    /// It failed.
    pub(crate) failed: bool,
    /// What is to be journalled with the result.
    pub(crate) event: Option<Event>,
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

    /// Calls a tool. Whatever goes wrong is told to the model, which can do better.
    pub(crate) async fn call(&self, call: &ToolCall, model: &str, ordinal: usize) -> Used {
        let limit = self.shared.deps.limits.tool_timeout;
        let result = match tokio::time::timeout(limit, self.dispatch(call, model, ordinal)).await {
            Ok(result) => result,
            Err(_) => Err(format!("`{}` took longer than {} s", call.name, limit.as_secs())),
        };
        match result {
            Ok((text, event)) => Used { text: shorten(&text, RESULT_MAX_CHARS), failed: false, event },
            Err(message) => {
                tracing::debug!(channel = %self.cell.id, tool = call.name, message, "a tool call failed");
                Used { text: format!("error: {message}"), failed: true, event: None }
            }
        }
    }

    async fn dispatch(
        &self,
        call: &ToolCall,
        model: &str,
        ordinal: usize,
    ) -> Result<(String, Option<Event>), String> {
        let tools = &self.cell.settings().tools;
        if !tools.iter().any(|tool| tool.name == call.name) {
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            return Err(format!("there is no tool `{}`; the tools are {}", call.name, names.join(", ")));
        }
        match call.name.as_str() {
            "memory_save" => {
                let save = self.memory_save(&call.arguments, model, ordinal)?;
                Ok(("saved".to_owned(), Some(Event::MemorySaved(save))))
            }
            "memory_search" => Ok((self.memory_search(&call.arguments).await?, None)),
            "history_search" => Ok((self.history_search(&call.arguments).await?, None)),
            "history_read" => Ok((self.history_read(&call.arguments).await?, None)),
            name => Err(format!("`{name}` cannot be called here")),
        }
    }

    fn memory_save(&self, arguments: &Value, model: &str, ordinal: usize) -> Result<MemorySave, String> {
        let draft = parse_memory(arguments)?;
        self.cell.read(|conversation| {
            let open = conversation.open_turn.as_ref().ok_or("the turn has ended")?;
            let last = Seq(conversation.next_seq.0 - 1);
            Ok(MemorySave {
                agent: self.cell.agent.id.clone(),
                scope: Scope::learnt_in(&self.cell.id, conversation.direct_with.as_deref()),
                kind: draft.kind,
                text: draft.text,
                subject: draft.subject,
                importance: draft.importance,
                source: Source {
                    channel: Some(self.cell.id.clone()),
                    from_seq: Some(open.first_seq),
                    to_seq: Some(last),
                    summary: None,
                    model: model.to_owned(),
                },
                // The number of the entry that calls, and the place of the call in it.
                sighting: format!("{}/{last}/{ordinal}", self.cell.id),
                explicit: false,
            })
        })
    }

    async fn memory_search(&self, arguments: &Value) -> Result<String, String> {
        let query = text_argument(arguments, "query")?;
        let filter = MemoryFilter { query: Some(query), limit: HITS_MAX, ..MemoryFilter::default() };
        let agent = &self.cell.agent.id;
        let found = self.shared.deps.memories.list(agent, &self.scopes, filter).await;
        let lines: Vec<String> = found
            .map_err(|error| error.to_string())?
            .iter()
            .map(|memory| {
                format!("[{} | {}] {}", memory.kind.name(), short_time(memory.created_at), memory.text)
            })
            .collect();
        Ok(if lines.is_empty() { "nothing is remembered about that".to_owned() } else { lines.join("\n") })
    }

    async fn history_search(&self, arguments: &Value) -> Result<String, String> {
        let query = Query {
            channel: self.cell.id.clone(),
            text: text_argument(arguments, "query")?,
            kind: None,
            scopes: Vec::new(),
            limit: HITS_MAX,
            settled: false,
        };
        let hits = self.shared.deps.search.search(query).await.map_err(|error| error.to_string())?;
        let lines: Vec<String> = hits
            .iter()
            .filter(|hit| hit.kind != HitKind::Memory)
            .map(|hit| {
                let number = hit.seq.map_or_else(|| "summary".to_owned(), |seq| format!("#{seq}"));
                let who = hit.author.as_ref().map_or_else(String::new, |author| escape_name(&author.name));
                format!("[{number} | {} | {who}] {}", short_time(hit.at), shorten(&hit.text, ITEM_MAX_CHARS))
            })
            .collect();
        Ok(if lines.is_empty() { "nothing found".to_owned() } else { lines.join("\n") })
    }

    async fn history_read(&self, arguments: &Value) -> Result<String, String> {
        let number = |name: &str| {
            let value = arguments.get(name).and_then(Value::as_u64);
            value.ok_or_else(|| format!("`{name}` is missing or not a message number"))
        };
        let (from, to) = (Seq(number("from")?), Seq(number("to")?));
        if from > to {
            return Err(format!("`from` = {from} is after `to` = {to}"));
        }
        let entries = self.shared.deps.archive.entries(&self.cell.id, from, to, READ_MAX).await;
        let lines: Vec<String> =
            entries.map_err(|error| error.to_string())?.iter().map(|e| line(e)).collect();
        Ok(if lines.is_empty() { "no messages with these numbers".to_owned() } else { lines.join("\n") })
    }
}

fn line(entry: &Entry) -> String {
    let who = match entry.role {
        Role::User => entry.author.as_ref().map_or_else(String::new, |author| escape_name(&author.name)),
        Role::Assistant => "assistant".to_owned(),
        Role::Tool => "tool".to_owned(),
    };
    format!("[#{} | {} | {who}] {}", entry.seq, short_time(entry.at), shorten(&entry.text(), ITEM_MAX_CHARS))
}

fn text_argument(arguments: &Value, name: &str) -> Result<String, String> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{name}` is missing or empty"))
}

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} […]", &text[..end]),
        None => text.to_owned(),
    }
}
