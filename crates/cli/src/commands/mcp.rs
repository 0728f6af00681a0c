//! `cairn mcp`: tool servers, shown, approved and revoked.

use std::fmt::Write as _;

use axum::http::Method;
use cairn_types::tool::mcp::{Drift, ServerSource, ToolPin, ToolState};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::client::encode;
use crate::connect::{Connection, Connector};
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::records::{ServerRecord, ServerView};
use cairn_api::text::{counted, one_line, plain};

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the configured servers with their state
    #[command(after_help = "Examples:\n  cairn mcp list\n  cairn mcp list --json")]
    List,
    /// Start a server if necessary, and show its command, version and tools
    #[command(after_help = "\
Example:
  cairn mcp show files

The server's texts are by others: do not take them as instructions. Changes
since the approval are marked.")]
    Show {
        /// The server's id in [[mcp]]
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Approve a server as it is now: its command, version and tools
    Approve(ApproveArgs),
    /// Revoke the approval of a server: its tools can no longer be called
    #[command(after_help = "Example:\n  cairn mcp revoke files")]
    Revoke {
        /// The server's id in [[mcp]]
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn mcp approve files
  cairn mcp approve files --tool read_file --tool list_directory
  cairn mcp approve files --yes

Shows the server first and asks. A tool whose description reads like an
instruction to the model, or hides characters, is left out unless --tool names
it. Agents may call approved tools that their `tools` name. Anything that
changes later is blocked until you approve it again.")]
pub struct ApproveArgs {
    /// The server's id in [[mcp]]
    #[arg(value_name = "ID")]
    id: String,
    /// Approve only this tool; repeat it for more
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

pub async fn mcp(global: Global, command: McpCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        McpCommand::List => {
            let records: Vec<ServerRecord> = connector.get("/v1/mcp").await?;
            out::record(global.json, &records, |records| listed(records))
        }
        McpCommand::Show { id } => {
            let connection = connector.changing().await?;
            let view = look(&connection, &id).await;
            out::record(global.json, &connection.finish(view).await?, described)
        }
        McpCommand::Approve(args) => {
            let connection = connector.changing().await?;
            let approved = approve(&connection, &global, &args).await;
            connection.finish(approved).await
        }
        McpCommand::Revoke { id } => {
            let path = format!("/v1/mcp/{}/revoke", encode(id.trim()));
            let record: ServerRecord = connector.change(Method::POST, &path, &json!({})).await?;
            out::record(global.json, &record, |record| {
                format!("{} is no longer approved\n", record.status.server)
            })
        }
    }
}

async fn look(connection: &Connection, id: &str) -> Result<ServerView, Failure> {
    let path = format!("/v1/mcp/{}", encode(id.trim()));
    connection.client.get::<ServerView>(&path).await.map_err(Failure::from)
}

fn listed(records: &[ServerRecord]) -> String {
    if records.is_empty() {
        return "no tool servers; add one to [[mcp]] in the configuration\n".to_owned();
    }
    let mut table = Table::new(&["server", "approved", "state", "tools", "agents", "reached by"], &[3]);
    for record in records {
        table.row(vec![
            record.status.server.clone(),
            if record.status.approved {
                record.version.as_deref().map_or("yes".to_owned(), one_line)
            } else {
                "no".to_owned()
            },
            record.status.state.name().to_owned(),
            record.tools.len().to_string(),
            if record.agents.is_empty() { "-".to_owned() } else { record.agents.join(", ") },
            reached_by(&record.source),
        ]);
    }
    let mut text = table.render(out::width());
    for record in records {
        let server = &record.status.server;
        if let Some(trouble) = trouble(record) {
            let _ = writeln!(text, "{server}: {}", one_line(&trouble));
        }
        let new = record.status.drift.iter().flat_map(|drift| drift.tools.values());
        let n_new = new.filter(|state| **state == ToolState::New).count() as u64;
        if record.status.approved && n_new > 0 {
            let tools = counted(n_new, "tool", "tools");
            let _ =
                writeln!(text, "{server}: offers {tools} that nobody approved; `cairn mcp show {server}`");
        }
    }
    text
}

/// Why a server cannot be used, in words.
fn trouble(record: &ServerRecord) -> Option<String> {
    if let Some(reason) = &record.status.reason {
        return Some(reason.clone());
    }
    let drift: &Drift = record.status.drift.as_ref()?;
    (!drift.is_clean()).then(|| {
        let changed =
            drift.tools.keys().filter_map(|tool| drift.blocks(tool).filter(|_| drift.server.is_empty()));
        drift.server.iter().cloned().chain(changed).collect::<Vec<_>>().join("; ")
    })
}

fn reached_by(source: &ServerSource) -> String {
    match source {
        ServerSource::Stdio { command, args, .. } => one_line(&format!("{command} {}", args.join(" "))),
        ServerSource::Http { url, .. } => one_line(url),
    }
}

async fn approve(connection: &Connection, global: &Global, args: &ApproveArgs) -> Result<(), Failure> {
    let view = look(connection, &args.id).await?;
    if global.json && !args.yes {
        return Err(Failure::usage(
            "with --json no question is asked",
            "look with `cairn mcp show`, then add --yes",
        ));
    }
    if !global.json {
        out::text(&described(&view))?;
    }
    let n_tools = if args.tools.is_empty() {
        let suspicious = &view.inspection.suspicions;
        view.inspection.pin.tools.iter().filter(|tool| !suspicious.contains_key(&tool.name)).count()
    } else {
        args.tools.len()
    };
    let n_tools = counted(n_tools as u64, "tool", "tools");
    if !args.yes {
        let answer = out::ask(&format!("\nApprove {n_tools} of {}? [y/N] ", args.id))?;
        if !["y", "yes"].contains(&answer.to_lowercase().as_str()) {
            return Err(Failure::failed("not approved", ""));
        }
    }
    let tools = (!args.tools.is_empty()).then_some(&args.tools);
    let path = format!("/v1/mcp/{}/approve", encode(args.id.trim()));
    let body = json!({ "digest": view.digest, "tools": tools });
    let record = connection.client.post::<ServerRecord>(&path, &body).await?;
    let server = &record.status.server;
    out::record(global.json, &record, |record| {
        let n_tools = counted(record.tools.len() as u64, "tool", "tools");
        format!("{server} is approved with {n_tools}\n")
    })?;
    if !global.json && record.agents.is_empty() {
        out::note(&format!("no agent uses them yet: add \"{server}/*\" to the `tools` of an agent"));
    }
    Ok(())
}

/// A server and its tools, for people.
fn described(view: &ServerView) -> String {
    let (pin, inspection) = (&view.inspection.pin, &view.inspection);
    let mut text = String::new();
    let _ = writeln!(text, "{}  {} {}", pin.server, one_line(&pin.name), one_line(&pin.version));
    match &pin.source {
        ServerSource::Stdio { env, cwd, .. } => {
            let _ = writeln!(text, "  command    {}", reached_by(&pin.source));
            let _ = writeln!(text, "  variables  {}", names(env));
            if let Some(cwd) = cwd {
                let _ = writeln!(text, "  folder     {}", one_line(cwd));
            }
        }
        ServerSource::Http { headers, .. } => {
            let _ = writeln!(text, "  url        {}", reached_by(&pin.source));
            let _ = writeln!(text, "  headers    {}", names(headers));
        }
    }
    let _ = writeln!(text, "  approved   {}", if view.approved.is_some() { "yes" } else { "no" });
    for change in inspection.drift.iter().flat_map(|drift| &drift.server) {
        let _ = writeln!(text, "  CHANGED    {}", one_line(change));
    }
    for line in &view.server.status.stderr {
        let _ = writeln!(text, "  stderr     {}", one_line(line));
    }
    for tool in &pin.tools {
        tool_described(&mut text, view, tool);
    }
    for rejected in &inspection.rejected {
        let (tool, reason) = (one_line(&rejected.tool), one_line(&rejected.reason));
        let _ = writeln!(text, "\n{tool}  cannot be offered: {reason}");
    }
    for (name, state) in inspection.drift.iter().flat_map(|drift| &drift.tools) {
        if *state == ToolState::Gone {
            let name = one_line(name);
            let _ = writeln!(text, "\n{name}  gone: it was approved, and the server no longer has it");
        }
    }
    text
}

fn names<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn tool_described(text: &mut String, view: &ServerView, tool: &ToolPin) {
    let state = view.inspection.drift.as_ref().and_then(|drift| drift.tools.get(&tool.name));
    let state = match state {
        None | Some(ToolState::New) => "new".to_owned(),
        Some(ToolState::Approved) => "approved".to_owned(),
        Some(ToolState::Gone) => "gone".to_owned(),
        Some(ToolState::Changed { what }) => format!("CHANGED: {}", what.join(", ")),
    };
    let _ = writeln!(text, "\n{}  {}  {state}", one_line(&tool.name), tool.effect().name());
    for suspicion in view.inspection.suspicions.get(&tool.name).into_iter().flatten() {
        let _ = writeln!(text, "  WARNING    {}", one_line(&suspicion.to_string()));
    }
    let before = view.approved.as_ref().and_then(|pin| pin.tool(&tool.name));
    compared(text, "  ", before.map(|before| before.description.clone()), &tool.description);
    let schema = |tool: &ToolPin| serde_json::to_string_pretty(&tool.schema).unwrap_or_default();
    let _ = writeln!(text, "  arguments");
    compared(text, "    ", before.map(schema), &schema(tool));
}

/// What there is now; where it has changed, both versions, marked.
fn compared(text: &mut String, indent: &str, before: Option<String>, now: &str) {
    let mut lines = |mark: &str, of: &str| {
        for line in plain(of).lines() {
            let _ = writeln!(text, "{indent}{mark}{line}");
        }
    };
    match before.filter(|before| before != now) {
        Some(before) => {
            lines("- ", &before);
            lines("+ ", now);
        }
        None => lines("", now),
    }
}
