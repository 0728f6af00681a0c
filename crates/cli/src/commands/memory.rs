//! `cairn memory`: what agents remember.

use axum::http::Method;
use cairn_types::memory::{Memory, MemoryKind, Scope};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::client::{encode, with_params};
use crate::connect::Connector;
use crate::failure::Failure;
use crate::pages::PageArgs;
use crate::{args, out, pages};
use cairn_api::records::MemoryView;
use cairn_api::text::{counted, one_line};

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

const NONE: &str = "no memories";

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
            return out::shown(global.json, &view);
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
    let shown = |memories: &[Memory], first: bool| out::list(memories, first, NONE);
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
    out::listed(global.json, &memories, NONE)?;
    if !global.json && memories.len() as u64 == limit {
        out::note(&format!("the first {}; --limit shows more", counted(limit, "memory", "memories")));
    }
    Ok(())
}
