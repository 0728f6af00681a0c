//! `cairn tools`: what agents may call, what was called, and what waits for a yes.

use clap::Subcommand;
use serde_json::json;

use super::client::encode;
use super::connect::Surroundings;
use super::failure::Failure;
use super::global::Global;
use super::table::Table;
use super::{out, values};
use crate::admin::{ApprovalRecord, ToolRecord, ToolUseRecord};
use crate::text::{grouped, minute, one_line, plain};

/// Subcommands of `tools`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools that agents' models may call
    #[command(after_help = "\
Examples:
  cairn tools list
  cairn tools list --agent main

`reads`: it only reads. `changes`: it may change something, so that a call
waits for a yes while the window holds text of people who are not trusted, or
results of tools, unless `always_allow` names it. Tools of servers are listed
once they are approved (`cairn mcp`) and named among the `tools` of an
agent.")]
    List {
        /// Only those of this agent
        #[arg(long, value_name = "A")]
        agent: Option<String>,
    },
    /// List calls of tools: who caused them, arguments, outcome, duration
    #[command(after_help = "\
Examples:
  cairn tools log
  cairn tools log --channel main --outcome denied
  cairn tools log --tool files__write_file --limit 20 --json

Outcomes: done, failed, refused (no such tool, wrong arguments, not allowed),
denied, expired, timed_out, stopped. A call that was made without an approval
that it would have needed is marked (always_allow); --json names the entry.")]
    Log {
        /// Only those of this channel
        #[arg(long, value_name = "C")]
        channel: Option<String>,
        /// Only those of this tool
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Only those with this outcome
        #[arg(long, value_name = "OUTCOME", value_parser = ["done", "failed", "refused", "denied", "expired", "timed_out", "stopped"])]
        outcome: Option<String>,
        /// Most of them, up to 10000: the newest
        #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
              value_parser = values::limit())]
        limit: u64,
    },
    /// List the calls that wait for a yes
    Approvals,
    /// Say yes to a call that waits for it
    #[command(after_help = "Example:\n  cairn tools approve k7p2xm")]
    Approve {
        /// The id that `cairn tools approvals` shows
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Say no to a call that waits for a yes
    #[command(after_help = "Example:\n  cairn tools deny k7p2xm")]
    Deny {
        /// The id that `cairn tools approvals` shows
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// `cairn tools …`.
pub(crate) async fn tools(global: Global, command: ToolsCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    match command {
        ToolsCommand::List { agent } => list(&surroundings, &global, agent).await,
        ToolsCommand::Log { channel, tool, outcome, limit } => {
            let channel = channel.map(|name| surroundings.channel(&name, None)).transpose()?;
            let mut path = format!("/v1/tools/log?limit={limit}");
            let given = [
                ("channel", channel.map(|channel| channel.to_string())),
                ("tool", tool),
                ("outcome", outcome),
            ];
            for (key, value) in given {
                if let Some(value) = value {
                    path.push_str(&format!("&{key}={}", encode(&value)));
                }
            }
            log(&surroundings, &global, &path).await
        }
        ToolsCommand::Approvals => approvals(&surroundings, &global).await,
        ToolsCommand::Approve { id } => answer(&surroundings, &global, &id, true).await,
        ToolsCommand::Deny { id } => answer(&surroundings, &global, &id, false).await,
    }
}

async fn list(surroundings: &Surroundings, global: &Global, agent: Option<String>) -> Result<(), Failure> {
    let query = agent.map(|agent| format!("?agent={}", encode(&agent))).unwrap_or_default();
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<ToolRecord>>(&format!("/v1/tools{query}")).await;
    let records = session.finish(records.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&records);
    }
    let mut table = Table::new(&["agent", "tool", "from", "effect", "description"], &[]);
    for record in &records {
        table.row(vec![
            record.agent.clone(),
            record.tool.clone(),
            record.source.clone(),
            record.effect.name().to_owned(),
            one_line(&record.description),
        ]);
    }
    out::raw(table.render(out::width()).as_bytes())
}

async fn log(surroundings: &Surroundings, global: &Global, path: &str) -> Result<(), Failure> {
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<ToolUseRecord>>(path).await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("no calls of tools");
    }
    let heading = ["at", "channel", "caused by", "tool", "outcome", "ms", "arguments"];
    let mut table = Table::new(&heading, &[5]);
    for record in &records {
        let used = &record.used;
        let caused_by: Vec<_> = used.caused_by.iter().map(|person| one_line(person)).collect();
        let mut what = one_line(&used.arguments.to_string());
        if let Some(error) = &used.error {
            what = format!("{what}  ({})", one_line(error));
        }
        table.row(vec![
            minute(record.at),
            record.channel.to_string(),
            caused_by.join(", "),
            one_line(&used.tool),
            match &used.allowed_by {
                Some(_) => format!("{} (always_allow)", used.outcome.name()),
                None => used.outcome.name().to_owned(),
            },
            grouped(used.duration_ms),
            what,
        ]);
    }
    out::raw(table.render(out::width()).as_bytes())
}

async fn approvals(surroundings: &Surroundings, global: &Global) -> Result<(), Failure> {
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<ApprovalRecord>>("/v1/approvals").await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("nothing waits for a yes");
    }
    for record in &records {
        let approval = &record.approval;
        out::line(&format!(
            "{}  {} in {}, caused by {}, until {}",
            approval.id,
            one_line(&approval.tool),
            record.channel,
            approval.caused_by.iter().map(|person| one_line(person)).collect::<Vec<_>>().join(", "),
            minute(approval.expires_at),
        ))?;
        out::line(&format!("  because of {}", one_line(&approval.reason)))?;
        let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
        for line in plain(&arguments).lines() {
            out::line(&format!("  {line}"))?;
        }
    }
    Ok(())
}

async fn answer(
    surroundings: &Surroundings,
    global: &Global,
    id: &str,
    approve: bool,
) -> Result<(), Failure> {
    let session = surroundings.changing_what_is_there().await?;
    let path = format!("/v1/approvals/{}", encode(id.trim()));
    let answer = session.client.post::<ApprovalRecord>(&path, &json!({ "approve": approve })).await;
    let record = session.finish(answer.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&record);
    }
    let tool = one_line(&record.approval.tool);
    out::line(&if approve { format!("yes: {tool} is called") } else { format!("no: {tool} is not called") })
}
