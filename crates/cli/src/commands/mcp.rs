//! `cairn mcp`: tool servers, shown, approved and revoked.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::client::encode;
use crate::connect::{Connection, Connector};
use crate::failure::Failure;
use crate::out;
use cairn_api::records::{ServerRecord, ServerView};
use cairn_api::text::counted;

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

const NO_SERVERS: &str = "no tool servers; add one to [[mcp]] in the configuration";

pub async fn mcp(global: Global, command: McpCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        McpCommand::List => {
            let records: Vec<ServerRecord> = connector.get("/v1/mcp").await?;
            out::listed(global.json, &records, NO_SERVERS)
        }
        McpCommand::Show { id } => {
            let connection = connector.changing().await?;
            let view = look(&connection, &id).await;
            out::shown(global.json, &connection.finish(view).await?)
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

async fn approve(connection: &Connection, global: &Global, args: &ApproveArgs) -> Result<(), Failure> {
    let view = look(connection, &args.id).await?;
    if global.json && !args.yes {
        return Err(Failure::usage(
            "with --json no question is asked",
            "look with `cairn mcp show`, then add --yes",
        ));
    }
    if !global.json {
        out::text(&out::of(&view))?;
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
