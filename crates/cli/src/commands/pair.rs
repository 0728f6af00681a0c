//! `cairn pair`: who may talk to the bot privately, and which groups it serves that no list names.

use axum::http::Method;
use clap::Subcommand;
use serde_json::json;

use crate::args::Global;
use crate::client::encode;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::records::PairingRecord;
use cairn_api::text::{minute, one_line};

#[derive(Debug, Subcommand)]
pub enum PairCommand {
    /// List people and groups that may talk to the bot, and those that have asked to
    #[command(after_help = "Examples:\n  cairn pair list\n  cairn pair list --json")]
    List,
    /// Approve the person or group with this code, or a revoked one
    #[command(after_help = "\
Example:
  cairn pair approve K7P2XMQA

A stranger who writes to the bot gets a code to pass on to you. So does a
group that is on no list, when somebody mentions the bot there. A code expires
after a day. Revoked people and groups get no new code: approve them by the
name in `cairn pair list`.")]
    Approve {
        /// The code; or the revoked PLATFORM/USER or PLATFORM/chat:ID
        #[arg(value_name = "CODE")]
        code: String,
    },
    /// Revoke an approval, or refuse a request; the person gets no further message
    #[command(after_help = "\
Example:
  cairn pair revoke telegram/123456789

The bot still reads the person's messages in groups; `cairn ban` stops that.")]
    Revoke {
        /// The person or group, as `cairn pair list` shows it
        #[arg(value_name = "USER")]
        user: String,
    },
}

pub async fn pair(global: Global, command: PairCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    match command {
        PairCommand::List => {
            let records: Vec<PairingRecord> = connector.get("/v1/pairings").await?;
            out::record(global.json, &records, |records| listed(records))
        }
        PairCommand::Approve { code } => {
            let path = format!("/v1/pairings/{}/approve", encode(code.trim()));
            let record: PairingRecord = connector.change(Method::POST, &path, &json!({})).await?;
            let who = format!("{} ({})", record.user, one_line(&record.name));
            out::record(global.json, &record, |_| format!("{who} may talk to the bot now\n"))?;
            if !global.json && record.told != Some(true) {
                out::note("the bot could not notify them: tell them yourself, or ask them to write again");
            }
            Ok(())
        }
        PairCommand::Revoke { user } => {
            let path = format!("/v1/pairings/{}", encode(user.trim()));
            let record: PairingRecord = connector.change(Method::DELETE, &path, &json!({})).await?;
            let who = format!("{} ({})", record.user, one_line(&record.name));
            out::record(global.json, &record, |_| format!("{who} may no longer talk to the bot\n"))
        }
    }
}

fn listed(records: &[PairingRecord]) -> String {
    if records.is_empty() {
        return "nobody is paired, and nobody has asked\n".to_owned();
    }
    let mut table = Table::new(&["user", "state", "code", "since", "name"], &[]);
    for record in records {
        table.row(vec![
            one_line(&record.user),
            record.state.clone(),
            if record.state == "waiting" { record.code.clone() } else { "-".to_owned() },
            minute(record.approved_at.unwrap_or(record.asked_at)),
            one_line(&record.name),
        ]);
    }
    table.render(out::width())
}
