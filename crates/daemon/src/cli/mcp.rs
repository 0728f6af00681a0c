//! `cairn mcp`: tool servers, looked at, approved and revoked.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};

use axum::http::Method;
use cairn_core::mcp::{Drift, ServerSource, ToolPin, ToolState};
use clap::{Args, Subcommand};
use serde_json::json;

use super::client::encode;
use super::connect::{Session, Surroundings};
use super::failure::Failure;
use super::global::Global;
use super::out;
use super::table::Table;
use crate::admin::{ServerRecord, ServerView};
use crate::text::{counted, one_line, plain};

/// Subcommands of `mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers of the configuration, and how they are
    #[command(after_help = "Examples:\n  cairn mcp list\n  cairn mcp list --json")]
    List,
    /// Start a server, if need be, and show what it is and which tools it has
    #[command(after_help = "\
Example:
  cairn mcp show files

What it says is written by others: read it as text, not as instructions. What
differs from what was approved is marked.")]
    Show {
        /// The server's id in [[mcp]]
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Approve a server as it shows itself now: its command, version and tools
    Approve(ApproveArgs),
    /// Take the approval of a server back: its tools can be called no longer
    #[command(after_help = "Example:\n  cairn mcp revoke files")]
    Revoke {
        /// The server's id in [[mcp]]
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Arguments of `mcp approve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn mcp approve files
  cairn mcp approve files --tool read_file --tool list_directory
  cairn mcp approve files --yes

Shows the server first and asks. A tool whose description reads like an
instruction to the model, or hides characters, is left out unless --tool names
it. Agents may call what is approved and named among their `tools`. Whatever
changes later is blocked until it is approved again.")]
pub(crate) struct ApproveArgs {
    /// The server's id in [[mcp]]
    #[arg(value_name = "ID")]
    id: String,
    /// Approve this tool, and no others but those that are named, too
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// `cairn mcp …`.
pub(crate) async fn mcp(global: Global, command: McpCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    match command {
        McpCommand::List => list(&surroundings, &global).await,
        McpCommand::Show { id } => {
            let session = surroundings.changing().await?;
            let view = look(&session, &id).await;
            let view = session.finish(view).await?;
            if global.json { out::json(&view) } else { out::raw(described(&view).as_bytes()) }
        }
        McpCommand::Approve(args) => {
            let session = surroundings.changing().await?;
            let approved = approve(&session, &global, &args).await;
            session.finish(approved).await
        }
        McpCommand::Revoke { id } => {
            let session = surroundings.changing_what_is_there().await?;
            let path = format!("/v1/mcp/{}/revoke", encode(id.trim()));
            let answer = session.client.call::<ServerRecord>(Method::POST, &path, None::<&()>).await;
            let (_, record) = session.finish(answer.map_err(Failure::from)).await?;
            if global.json {
                return out::json(&record);
            }
            out::line(&format!("{} is not approved any more", record.status.server))
        }
    }
}

async fn look(session: &Session, id: &str) -> Result<ServerView, Failure> {
    let path = format!("/v1/mcp/{}", encode(id.trim()));
    session.client.get::<ServerView>(&path).await.map_err(Failure::from)
}

async fn list(surroundings: &Surroundings, global: &Global) -> Result<(), Failure> {
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<ServerRecord>>("/v1/mcp").await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("no tool servers; add one to [[mcp]] in the configuration");
    }
    let mut table = Table::new(&["server", "approved", "state", "tools", "agents", "reached by"], &[3]);
    for record in &records {
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
    for record in &records {
        if let Some(trouble) = trouble(record) {
            let _ = writeln!(text, "{}: {}", record.status.server, one_line(&trouble));
        }
    }
    out::raw(text.as_bytes())
}

/// What stands in the way of a server, in words.
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

async fn approve(session: &Session, global: &Global, args: &ApproveArgs) -> Result<(), Failure> {
    let view = look(session, &args.id).await?;
    if global.json && !args.yes {
        return Err(Failure::usage(
            "with --json nobody is asked",
            "look with `cairn mcp show`, then add --yes",
        ));
    }
    let asks = !args.yes;
    if !global.json {
        out::raw(described(&view).as_bytes())?;
    }
    let n_tools = if args.tools.is_empty() {
        let suspicious = &view.inspection.suspicions;
        view.inspection.pin.tools.iter().filter(|tool| !suspicious.contains_key(&tool.name)).count()
    } else {
        args.tools.len()
    };
    if asks
        && !confirmed(&format!(
            "\nApprove {} of {}? [y/N] ",
            counted(n_tools as u64, "tool", "tools"),
            args.id
        ))?
    {
        return Err(Failure::failed("not approved", ""));
    }
    let tools = (!args.tools.is_empty()).then_some(&args.tools);
    let path = format!("/v1/mcp/{}/approve", encode(args.id.trim()));
    let body = json!({ "digest": view.digest, "tools": tools });
    let record = session.client.post::<ServerRecord>(&path, &body).await?;
    if global.json {
        return out::json(&record);
    }
    let n_tools = counted(record.tools.len() as u64, "tool", "tools");
    out::line(&format!("{} is approved with {n_tools}", record.status.server))?;
    if record.agents.is_empty() {
        out::note(&format!(
            "no agent names them yet: add \"{}/*\" to `tools` of an agent",
            record.status.server
        ));
    }
    Ok(())
}

/// Asks on the terminal; where there is none, nothing is assumed.
fn confirmed(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("nobody can be asked: standard input is no terminal", "add --yes"));
    }
    out::raw(question.as_bytes())?;
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}"), ""))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// A server and its tools, for people.
fn described(view: &ServerView) -> String {
    let (pin, inspection) = (&view.inspection.pin, &view.inspection);
    let mut text = String::new();
    let _ = writeln!(text, "{}  {} {}", pin.server, one_line(&pin.name), one_line(&pin.version));
    match &pin.source {
        ServerSource::Stdio { env, cwd, .. } => {
            let _ = writeln!(text, "  command    {}", reached_by(&pin.source));
            let names: Vec<&str> = env.iter().map(String::as_str).collect();
            let _ = writeln!(
                text,
                "  variables  {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            );
            if let Some(cwd) = cwd {
                let _ = writeln!(text, "  folder     {}", one_line(cwd));
            }
        }
        ServerSource::Http { headers, .. } => {
            let _ = writeln!(text, "  url        {}", reached_by(&pin.source));
            let names: Vec<&str> = headers.iter().map(String::as_str).collect();
            let _ = writeln!(
                text,
                "  headers    {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            );
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
        let _ = writeln!(
            text,
            "\n{}  cannot be offered: {}",
            one_line(&rejected.tool),
            one_line(&rejected.reason)
        );
    }
    for (name, state) in inspection.drift.iter().flat_map(|drift| &drift.tools) {
        if *state == ToolState::Gone {
            let _ = writeln!(
                text,
                "\n{}  gone: it was approved, and the server has it no longer",
                one_line(name)
            );
        }
    }
    text
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

/// What there is now; where it is other than before, both, marked.
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
