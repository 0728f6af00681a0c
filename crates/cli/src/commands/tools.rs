//! `cairn tools`: what agents may call, what was called, and what waits for approval.

use axum::http::Method;
use clap::Subcommand;
use serde_json::json;

use crate::args::Global;
use crate::client::{encode, with_params};
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out::Table;
use crate::pages::PageArgs;
use crate::{args, out, pages};
use cairn_api::records::{ApprovalRecord, ToolRecord, ToolUseRecord};
use cairn_api::text::{grouped, minute, one_line, plain};

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools that each agent may call
    #[command(after_help = "\
Examples:
  cairn tools list
  cairn tools list --agent main

`reads`: it only reads. `changes`: it may change something. Such a call waits
for approval while the window holds text from untrusted people or tool
results, unless `always_allow` names it. A server's tools are listed once you
approve it (`cairn mcp`) and an agent's `tools` name them.")]
    List {
        /// Only the tools of this agent
        #[arg(long, value_name = "A")]
        agent: Option<String>,
    },
    /// List tool calls: who caused them, arguments, outcome, duration
    #[command(after_help = "\
Examples:
  cairn tools log
  cairn tools log --channel main --outcome denied
  cairn tools log --tool files__write_file --limit 20 --json

Outcomes: done, failed, refused (no such tool, wrong arguments, not allowed),
denied, expired, timed_out, stopped. If `always_allow` permitted a call, the
outcome names its entry.")]
    Log {
        /// Only calls from this channel
        #[arg(long, value_name = "C")]
        channel: Option<String>,
        /// Only calls of this tool
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Only calls with this outcome
        #[arg(long, value_name = "OUTCOME", value_parser = ["done", "failed", "refused", "denied", "expired", "timed_out", "stopped"])]
        outcome: Option<String>,
        /// Maximum number of calls, up to 10000: the newest, with --after the oldest
        #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
              value_parser = args::limit())]
        limit: u64,
        /// Only calls before this one: `n` of a call in --json
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(1, u64::MAX))]
        before: Option<u64>,
        /// Only calls after this one
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(0, u64::MAX))]
        after: Option<u64>,
    },
    /// List calls waiting for approval
    Approvals,
    /// Approve a waiting call
    #[command(after_help = "Example:\n  cairn tools approve k7p2xm")]
    Approve {
        /// The id that `cairn tools approvals` shows
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Deny a waiting call
    #[command(after_help = "Example:\n  cairn tools deny k7p2xm")]
    Deny {
        /// The id that `cairn tools approvals` shows
        #[arg(value_name = "ID")]
        id: String,
    },
}

const NO_CALLS: &str = "no tool calls";

pub async fn tools(global: Global, command: ToolsCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        ToolsCommand::List { agent } => {
            let path = with_params("/v1/tools", &[("agent", agent)]);
            let records: Vec<ToolRecord> = connector.get(&path).await?;
            out::record(global.json, &records, |records| listed(records))
        }
        ToolsCommand::Log { channel, tool, outcome, limit, before, after } => {
            let channel = channel.map(|name| connector.channel(&name, None)).transpose()?;
            let params = [
                ("channel", channel.map(|channel| channel.to_string())),
                ("tool", tool),
                ("outcome", outcome),
                ("before", before.map(|n| n.to_string())),
            ];
            if let Some(n) = after {
                return log_after(&connector, &global, params.to_vec(), (n, limit)).await;
            }
            let params = [&params[..], &[("limit", Some(limit.to_string()))]].concat();
            let records: Vec<ToolUseRecord> = connector.get(&with_params("/v1/tools/log", &params)).await?;
            out::listed(global.json, &records, NO_CALLS)?;
            if let (false, true, Some(oldest)) = (global.json, records.len() as u64 == limit, records.first())
            {
                out::note(&format!("the newest {}; older ones: --before {}", grouped(limit), oldest.n));
            }
            Ok(())
        }
        ToolsCommand::Approvals => {
            let records: Vec<ApprovalRecord> = connector.get("/v1/approvals").await?;
            out::record(global.json, &records, |records| approvals(records))
        }
        ToolsCommand::Approve { id } => answer(&connector, &global, &id, true).await,
        ToolsCommand::Deny { id } => answer(&connector, &global, &id, false).await,
    }
}

/// At most so many calls behind one, oldest first.
async fn log_after(
    connector: &Connector,
    global: &Global,
    params: Vec<(&str, Option<String>)>,
    (n, limit): (u64, u64),
) -> Result<(), Failure> {
    let page = PageArgs { limit: Some(limit), after: Some(n.to_string()) };
    let text = |records: &[ToolUseRecord], first: bool| out::list(records, first, NO_CALLS);
    let rest = pages::print(connector, global.json, ("/v1/tools/log", params), page, text).await?;
    if let (false, Some(rest)) = (global.json, rest) {
        out::note(&format!("there are more: --after {rest}"));
    }
    Ok(())
}

fn listed(records: &[ToolRecord]) -> String {
    let mut table = Table::new(&["agent", "tool", "from", "effect", "description"], &[]);
    for record in records {
        table.row(vec![
            record.agent.clone(),
            record.tool.clone(),
            record.source.clone(),
            record.effect.name().to_owned(),
            one_line(&record.description),
        ]);
    }
    table.render(out::width())
}

fn approvals(records: &[ApprovalRecord]) -> String {
    if records.is_empty() {
        return "no call waits for approval\n".to_owned();
    }
    let mut text = String::new();
    for record in records {
        let approval = &record.approval;
        text.push_str(&format!(
            "{}  {} in {}, caused by {}, until {}\n  because of {}\n",
            approval.id,
            one_line(&approval.tool),
            record.channel,
            approval.caused_by.iter().map(|person| one_line(person)).collect::<Vec<_>>().join(", "),
            minute(approval.expires_at),
            one_line(&approval.reason),
        ));
        let arguments = serde_json::to_string_pretty(&approval.arguments).unwrap_or_default();
        plain(&arguments).lines().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

async fn answer(connector: &Connector, global: &Global, id: &str, approve: bool) -> Result<(), Failure> {
    let path = format!("/v1/approvals/{}", encode(id.trim()));
    let record: ApprovalRecord =
        connector.change(Method::POST, &path, &json!({ "approve": approve })).await?;
    out::record(global.json, &record, |record| {
        let tool = one_line(&record.approval.tool);
        if approve {
            format!("approved: {tool} is called\n")
        } else {
            format!("denied: {tool} is not called\n")
        }
    })
}
