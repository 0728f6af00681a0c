//! Tool servers: is their program there, did an operator approve them. None is started.

use std::collections::BTreeSet;

use cairn_tools::mcp::find_program;

use super::Facts;
use super::report::Finding;
use crate::admin::ServerRecord;
use crate::config::{Environment, Loaded, McpConfig};

/// Looks at all servers of the configuration.
pub(super) fn check(loaded: &Loaded, facts: &Facts, env: &dyn Environment) -> Vec<Finding> {
    let used: BTreeSet<&str> = loaded
        .config
        .agents
        .iter()
        .flat_map(|agent| agent.tools.iter().filter_map(|tool| Some(tool.split_once('/')?.0)))
        .collect();
    let servers = loaded.config.mcp.iter();
    servers.map(|server| one(server, used.contains(server.id.as_str()), facts, env)).collect()
}

fn one(server: &McpConfig, is_used: bool, facts: &Facts, env: &dyn Environment) -> Finding {
    let id = &server.id;
    let check = format!("mcp {id}");
    if let Some(command) = &server.command
        && let Err(why) = find_program(command, env.var("PATH").as_deref())
    {
        return Finding::failed(&check, why, "install it, or correct `command` in [[mcp]]");
    }
    let look = format!("`cairn mcp show {id}`, then `cairn mcp approve {id}`");
    let records = facts.servers.as_ref();
    let record = records.and_then(|all| all.iter().find(|record| record.status.server == *id));
    match record {
        None if records.is_none() => {
            // Without a state nothing can have been approved.
            Finding::warning(&check, "its program is there; whether it is approved nobody could tell", look)
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
                    "approved, and no agent names a tool of it",
                    format!("tools = [\"{id}/*\"] of an agent"),
                ),
                (None, None, true) => Finding::ok(&check, "approved, and its program is there"),
            }
        }
        None | Some(_) => Finding::warning(&check, "nobody has approved it: it is not used", look),
    }
}
