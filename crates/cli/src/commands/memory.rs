//! `cairn memory`: what agents remember.

use axum::http::Method;
use cairn_types::memory::{Memory, MemoryKind, Scope};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::client::{encode, with_params};
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out::Table;
use crate::pages::PageArgs;
use crate::{args, out, pages};
use cairn_api::records::{MemoryChanged, MemoryStep, MemoryView, turn_outcome};
use cairn_api::text::{counted, grouped, minute, one_line, plain};

#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// List memories, oldest first
    #[command(
        after_help = "Examples:\n  cairn memory list\n  cairn memory list --scope chat:local/main --kind decision --json"
    )]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Only what comes after this place; a list that was cut names its own
        #[arg(long, value_name = "PLACE")]
        after: Option<String>,
    },
    /// Search memories, best first
    #[command(after_help = "Example:\n  cairn memory search 'allergic peanuts' --agent main")]
    Search {
        /// Words to search for
        #[arg(value_name = "QUERY")]
        query: String,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Show a memory: its fields, how it became what it is, and the turns that it was recalled in
    #[command(after_help = "\
Example:
  cairn memory show m0123456789abcdef

Its history is read from the journal: an edit keeps the text before it. Of
many changes the first and the newest 15 are shown, of the turns the newest
32; `cairn explain C TURN` explains one of them.")]
    Show {
        /// The memory's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Add a memory; adding the same one again counts as one more occurrence
    #[command(
        after_help = "Example:\n  cairn memory add 'The harbour closes at noon.' --kind fact --scope agent"
    )]
    Add(AddArgs),
    /// Change a memory's text
    #[command(
        after_help = "Example:\n  cairn memory edit m0123456789abcdef 'The harbour office closes at one.'"
    )]
    Edit {
        /// The memory's id
        #[arg(value_name = "ID")]
        id: String,
        /// Its new text
        #[arg(value_name = "TEXT", value_parser = args::words)]
        text: String,
    },
    /// Make one memory of several: the first is kept, the others are forgotten
    #[command(after_help = "\
Example:
  cairn memory unite m0123456789abcdef m0011223344556677 \\
    --text 'Anna moved to Berlin in May.'

All must be of one agent and one scope. The one that is kept takes the highest
importance of them.")]
    Unite {
        /// The memory that is kept
        #[arg(value_name = "ID")]
        id: String,
        /// Those that go into it
        #[arg(value_name = "OTHER", required = true)]
        others: Vec<String>,
        /// What it says then [default: what it says]
        #[arg(long, value_name = "TEXT", value_parser = args::words)]
        text: Option<String>,
    },
    /// Forget a memory; it does not come back on its own
    #[command(after_help = "Example:\n  cairn memory forget m0123456789abcdef")]
    Forget {
        /// The memory's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Which memories.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only memories of this agent [default: all agents]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// Only of this scope: agent, chat:PLATFORM/CHAT or user:PLATFORM/USER
    #[arg(long, value_name = "S")]
    scope: Option<Scope>,
    /// Only of this kind
    #[arg(long, value_name = "K", value_parser = args::kind())]
    kind: Option<MemoryKind>,
    /// Only about this person or thing
    #[arg(long, value_name = "U")]
    subject: Option<String>,
    /// Most memories, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
          value_parser = args::limit())]
    limit: u64,
}

/// A new memory.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The memory, a sentence or two
    #[arg(value_name = "TEXT", value_parser = args::words)]
    text: String,
    /// Its kind
    #[arg(long, value_name = "K", value_parser = args::kind())]
    kind: MemoryKind,
    /// Who may read it: agent, chat:PLATFORM/CHAT or user:PLATFORM/USER
    #[arg(long, value_name = "S")]
    scope: Scope,
    /// The person or thing it is about
    #[arg(long, value_name = "U")]
    subject: Option<String>,
    /// The agent that remembers it [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// How much it matters, 0 to 1
    #[arg(long, value_name = "I", allow_negative_numbers = true, value_parser = args::importance)]
    importance: Option<f64>,
}

pub async fn memory(global: Global, command: MemoryCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let path = |id: &str| format!("/v1/memories/{}", encode(id));
    let (done, memory) = match command {
        MemoryCommand::List { filter, after } => return list(&connector, &global, filter, after).await,
        MemoryCommand::Search { query, filter } => {
            if query.trim().is_empty() {
                return Err(Failure::usage("the query is empty", "give the words to search for"));
            }
            return search(&connector, &global, query, filter).await;
        }
        MemoryCommand::Show { id } => {
            let view: MemoryView = connector.get(&path(&id)).await?;
            return out::record(global.json, &view, shown);
        }
        MemoryCommand::Add(args) => {
            let body = json!({
                "text": args.text, "kind": args.kind, "scope": args.scope, "subject": args.subject,
                "agent": args.agent, "importance": args.importance,
            });
            let connection = connector.changing().await?;
            let answer = connection.client.post("/v1/memories", &body).await;
            ("saved", connection.finish(answer.map_err(Failure::from)).await?)
        }
        MemoryCommand::Edit { id, text } => {
            let body = json!({ "text": text });
            ("changed", connector.change(Method::PATCH, &path(&id), &body).await?)
        }
        MemoryCommand::Unite { id, others, text } => {
            let others: Vec<&str> = others.iter().map(|other| other.trim()).collect();
            let body = json!({ "others": others, "text": text });
            let path = format!("{}/unite", path(&id));
            ("united in", connector.change(Method::POST, &path, &body).await?)
        }
        MemoryCommand::Forget { id } => {
            ("forgotten", connector.change(Method::DELETE, &path(&id), &json!({})).await?)
        }
    };
    out::record(global.json, &memory, |memory: &Memory| {
        format!("{done} {}: {}\n", memory.id, one_line(&memory.text))
    })
}

/// Columns from which on memories are shown as a table.
const TABLE_MIN_WIDTH: usize = 110;

impl FilterArgs {
    fn params(self) -> Vec<(&'static str, Option<String>)> {
        vec![
            ("agent", self.agent),
            ("scope", self.scope.map(|scope| scope.to_string())),
            ("kind", self.kind.map(|kind| kind.name().to_owned())),
            ("subject", self.subject),
        ]
    }
}

async fn list(
    connector: &Connector,
    global: &Global,
    filter: FilterArgs,
    after: Option<String>,
) -> Result<(), Failure> {
    let limit = filter.limit;
    let page = PageArgs { limit: Some(limit), after };
    let shown = |memories: &[Memory], first: bool| listed(memories, first, out::width());
    let rest = pages::print(connector, global.json, ("/v1/memories", filter.params()), page, shown).await?;
    if let (false, Some(rest)) = (global.json, rest) {
        let these = counted(limit, "memory", "memories");
        out::note(&format!("the first {these}; --limit shows more, --after {rest} those that follow"));
    }
    Ok(())
}

async fn search(
    connector: &Connector,
    global: &Global,
    query: String,
    filter: FilterArgs,
) -> Result<(), Failure> {
    let limit = filter.limit;
    let mut params = filter.params();
    params.extend([("q", Some(query)), ("limit", Some(limit.to_string()))]);
    let memories: Vec<Memory> = connector.get(&with_params("/v1/memories", &params)).await?;
    out::record(global.json, &memories, |memories| listed(memories, true, out::width()))?;
    if !global.json && memories.len() as u64 == limit {
        out::note(&format!("the first {}; --limit shows more", counted(limit, "memory", "memories")));
    }
    Ok(())
}

/// Memories as a table, or, where that would leave too little room for their texts, each text on a line of its own.
fn listed(memories: &[Memory], first: bool, width: usize) -> String {
    if memories.is_empty() && first {
        return "no memories\n".to_owned();
    }
    if width < TABLE_MIN_WIDTH {
        let lines = memories.iter().map(|memory| {
            let about = memory.subject.as_deref().map(|subject| format!("  about {}", one_line(subject)));
            let seen = counted(u64::from(memory.sightings), "time", "times");
            let head = format!("{}  {}  {}  seen {seen}", memory.id, memory.kind.name(), memory.scope);
            format!("{head}{}\n    {}\n", about.unwrap_or_default(), one_line(&memory.text))
        });
        return lines.collect();
    }
    let mut table = Table::new(&["id", "kind", "scope", "seen", "subject", "text"], &[3]);
    for memory in memories {
        table.row(vec![
            memory.id.to_string(),
            memory.kind.name().to_owned(),
            memory.scope.to_string(),
            memory.sightings.to_string(),
            memory.subject.as_deref().map(one_line).unwrap_or_default(),
            one_line(&memory.text),
        ]);
    }
    let rows = table.render(width);
    if first { rows } else { pages::without_heading(rows) }
}

/// A memory with all its fields, and what became of it.
fn shown(view: &MemoryView) -> String {
    let memory = &view.memory;
    let mut source = match (&memory.source.channel, memory.source.from_seq, memory.source.to_seq) {
        (Some(channel), Some(from), Some(to)) => format!("{channel}, entries {from} to {to}"),
        (Some(channel), _, _) => channel.to_string(),
        (None, _, _) => "typed by an operator".to_owned(),
    };
    if !memory.source.is_typed() {
        source = format!("{source}, by {}", memory.source.model);
    } else if memory.source.channel.is_some() {
        source.push_str(", /remember");
    }
    let rows = [
        ("id", memory.id.to_string()),
        ("agent", memory.agent.to_string()),
        ("scope", memory.scope.to_string()),
        ("kind", memory.kind.name().to_owned()),
        ("subject", memory.subject.clone().unwrap_or_else(|| "-".to_owned())),
        ("importance", format!("{:.2}", memory.importance)),
        ("seen", counted(u64::from(memory.sightings), "time", "times")),
        ("source", source),
        ("said by", said_by(memory)),
        ("trust", view.whose()),
        ("recalled in", recalled_in(memory)),
        ("said", minute(memory.said_at())),
        ("created", minute(memory.created_at)),
        ("updated", minute(memory.updated_at)),
        ("recalled", memory.recalled_at.map_or_else(|| "never".to_owned(), minute)),
        ("uses", memory.uses.to_string()),
    ];
    let rows = rows.map(|(name, value)| format!("  {name:<13}{}\n", one_line(&value)));
    format!("{}\n{}{}{}", plain(&memory.text), rows.concat(), history(&view.history), used_in(view))
}

fn history(steps: &[MemoryStep]) -> String {
    let mut text = String::new();
    let mut before: Option<&str> = None;
    for step in steps {
        if text.is_empty() {
            text.push_str("history\n");
        }
        if step.left_out > 0 {
            text.push_str(&format!("  … {} more\n", grouped(step.left_out)));
        }
        let mut parts = vec![minute(step.at), step.what.name().to_owned()];
        parts.extend(step.channel.as_ref().map(|channel| match (step.from_seq, step.to_seq) {
            (Some(from), Some(to)) if from != to => format!("{channel}, entries {from} to {to}"),
            (Some(seq), _) => format!("{channel}, entry {seq}"),
            _ => channel.to_string(),
        }));
        parts.extend(
            step.by.as_ref().map(|by| format!("said by {} ({})", one_line(&by.name), one_line(&by.id))),
        );
        parts.extend(step.model.as_ref().map(|model| format!("by {}", one_line(model))));
        if step.what == MemoryChanged::Edited {
            parts.extend(step.kind.map(|kind| format!("kind {}", kind.name())));
            parts.extend(step.importance.map(|importance| format!("importance {importance:.2}")));
        }
        text.push_str(&format!("  {}\n", parts.join("  ")));
        // Only where it says something else than before.
        if let Some(said) = step.text.as_deref().filter(|said| before != Some(*said)) {
            text.push_str(&format!("      {}\n", one_line(said)));
            before = Some(said);
        }
    }
    text
}

fn used_in(view: &MemoryView) -> String {
    if view.used_in.is_empty() {
        return String::new();
    }
    let all = u64::from(view.memory.uses);
    let shown = view.used_in.len() as u64;
    let of = if all > shown {
        format!(", the newest; recalled {} in all", counted(all, "time", "times"))
    } else {
        String::new()
    };
    let mut text = format!("used in {}{of}\n", counted(shown, "turn", "turns"));
    let mut table = Table::new(&["at", "channel", "turn", "outcome", "model"], &[]);
    for used in &view.used_in {
        table.row(vec![
            minute(used.at),
            used.channel.to_string(),
            used.turn.to_string(),
            turn_outcome(Some(&used.outcome)).0.to_owned(),
            used.model.as_deref().map_or_else(|| "-".to_owned(), one_line),
        ]);
    }
    // Names are there to be copied, so none is cut.
    table.render(usize::MAX).lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}

/// Whose word it is, and that it is an operator's only where it is.
fn said_by(memory: &Memory) -> String {
    let who = match (&memory.source.by, memory.speaker()) {
        (Some(by), _) => format!("{} ({})", by.name, by.id),
        (None, Some(speaker)) => speaker.to_owned(),
        (None, None) if memory.source.is_typed() => return "an operator".to_owned(),
        (None, None) => return "-".to_owned(),
    };
    let whose = match &memory.source {
        source if source.is_of_member() => ", a member, not an operator",
        source if source.is_typed() && source.by.is_some() => ", an operator",
        _ => "",
    };
    format!("{who}{whose}")
}

/// The places in which it may be recalled while `memory.share` is `person`.
fn recalled_in(memory: &Memory) -> String {
    match memory.follows() {
        Some(person) => format!("{}, and private chats with {person} (memory.share)", memory.scope),
        None => memory.scope.to_string(),
    }
}
