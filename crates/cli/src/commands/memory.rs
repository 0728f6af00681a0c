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
        /// Only items after this place, which a truncated list prints
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
    /// Show a memory: its fields, its history, and the turns that recalled it
    #[command(after_help = "\
Example:
  cairn memory show m0123456789abcdef

The history includes the text before each edit. It shows the first record, the
last 15 changes and the last 32 turns; `cairn explain C TURN` explains a turn.")]
    Show {
        /// The memory's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Add a memory; adding it again counts as another occurrence
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
    /// Combine several memories: keep the first, forget the others
    #[command(after_help = "\
Example:
  cairn memory unite m0123456789abcdef m0011223344556677 \\
    --text 'Anna moved to Berlin in May.'

All must have the same agent and scope. The result gets the highest importance
of them.")]
    Unite {
        /// The memory to keep
        #[arg(value_name = "ID")]
        id: String,
        /// The memories to merge into it
        #[arg(value_name = "OTHER", required = true)]
        others: Vec<String>,
        /// Its new text [default: its current text]
        #[arg(long, value_name = "TEXT", value_parser = args::words)]
        text: Option<String>,
    },
    /// Forget a memory; it will not be extracted again
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
    /// Only memories of this scope: agent, chat:PLATFORM/CHAT or user:PLATFORM/USER
    #[arg(long, value_name = "S")]
    scope: Option<Scope>,
    /// Only memories of this kind
    #[arg(long, value_name = "K", value_parser = args::kind())]
    kind: Option<MemoryKind>,
    /// Only memories about this person or thing
    #[arg(long, value_name = "U")]
    subject: Option<String>,
    /// Maximum number of memories, up to 10000
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
            ("combined into", connector.change(Method::POST, &path, &body).await?)
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
        out::note(&format!("the first {these}; --limit shows more; next page: --after {rest}"));
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
