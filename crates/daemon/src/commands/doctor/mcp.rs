//! Tool servers: whether their program is installed and they are approved. None is started.

use std::collections::BTreeSet;

use cairn_tools::mcp::find_program;

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;
use cairn_api::records::ServerRecord;
use cairn_config::{Environment as _, McpConfig, shown_text};

pub(super) fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(loaded) = &x.loaded else { return Vec::new() };
    let used: BTreeSet<&str> = loaded
        .config
        .agents
        .iter()
        .flat_map(|agent| agent.tools.iter().filter_map(|tool| Some(tool.split_once('/')?.0)))
        .collect();
    let servers = loaded.config.mcp.iter();
    servers.map(|server| one(server, used.contains(server.id.as_str()), x)).collect()
}

fn one(server: &McpConfig, is_used: bool, x: &Examination) -> Finding {
    let id = &server.id;
    let check = format!("mcp {id}");
    if let Some(command) = &server.command
        && let Err(why) = find_program(command, x.env.var("PATH").as_deref())
    {
        let why = why.replace(command.as_str(), &shown_text(command));
        return Finding::failed(&check, why, "install it, or correct `command` in [[mcp]]");
    }
    let look = format!("`cairn mcp show {id}`, then `cairn mcp approve {id}`");
    let records = x.servers.as_ref();
    let record = records.and_then(|all| all.iter().find(|record| record.status.server == *id));
    match record {
        None if records.is_none() => {
            Finding::warning(&check, "its program is installed; approval unknown", look)
        }
        Some(ServerRecord { status, .. }) if status.approved => {
            let drift = status.drift.as_ref().filter(|drift| !drift.is_clean());
            match (drift, &status.reason, is_used) {
                (Some(drift), _, _) => Finding::warning(
                    &check,
                    format!("it has changed since it was approved: {}", drift.server.join("; ")),
                    look,
                ),
                (None, Some(reason), _) => Finding::warning(&check, reason.as_str(), look),
                (None, None, false) => Finding::warning(
                    &check,
                    "approved, but no agent uses its tools",
                    format!("set tools = [\"{id}/*\"] for an agent"),
                ),
                (None, None, true) => Finding::ok(&check, "approved, and its program is installed"),
            }
        }
        None | Some(_) => Finding::warning(&check, "not approved, so not used", look),
    }
}
