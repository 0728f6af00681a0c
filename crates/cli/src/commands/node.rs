//! `cairn node`: the machines that share a database.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use crate::args::Global;
use crate::client::CallError;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use cairn_api::records::{DrainRecord, StatusRecord};

/// How long another node may take to lead.
const WAIT_MAX: Duration = Duration::from_secs(90);

const ASK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Hand over to another node of the same database, and become a standby
    #[command(after_help = "\
Example:
  cairn node drain && sudo systemctl stop cairn

Running turns may finish first, as when the service is stopped. `cairn status`
lists the nodes.")]
    Drain,
}

/// What the command prints.
#[derive(Serialize)]
struct Printed {
    leader: String,
}

pub async fn node(global: Global, NodeCommand::Drain: NodeCommand) -> Result<(), Failure> {
    let connector = Connector::without_config(&global)?;
    let Some(client) = connector.running().await? else {
        return Err(Failure::failed("no daemon runs here", "use --state for another state folder"));
    };
    let asked: DrainRecord = match client.post("/v1/node/drain", &json!({})).await {
        Ok(asked) => asked,
        Err(CallError::Api { status: StatusCode::CONFLICT, body, .. }) => {
            return Err(Failure::failed(body.error.message, body.error.hint));
        }
        Err(error) => return Err(error.into()),
    };
    let (began, mut has_stepped_down) = (Instant::now(), false);
    while began.elapsed() < WAIT_MAX {
        tokio::time::sleep(ASK_EVERY).await;
        let Ok(Some(client)) = connector.running().await else { continue };
        let Ok(status) = client.get::<StatusRecord>("/v1/status").await else { continue };
        let Some(node) = status.node else { continue };
        if let Some(leader) = node.leader.filter(|leader| *leader != asked.node) {
            return out::record(global.json, &Printed { leader }, |done| format!("{} leads\n", done.leader));
        }
        if has_stepped_down && node.leads {
            return Err(Failure::failed(
                format!("no other node took over; {} leads again", asked.node),
                "`cairn status` on each node shows why it is a standby",
            ));
        }
        has_stepped_down |= !node.leads;
    }
    Err(Failure::failed("no other node leads yet", "`cairn status` on each node shows why it is a standby"))
}
