//! `cairn pair`: who may talk to the bot privately.

use axum::http::Method;
use clap::Subcommand;

use super::client::encode;
use super::connect::Surroundings;
use super::failure::Failure;
use super::global::Global;
use super::out;
use super::table::Table;
use crate::admin::PairingRecord;
use crate::text::{minute, one_line};

/// Subcommands of `pair`.
#[derive(Debug, Subcommand)]
pub(crate) enum PairCommand {
    /// List who waits for your word, and who has it
    #[command(after_help = "Examples:\n  cairn pair list\n  cairn pair list --json")]
    List,
    /// Let the person in who was told this code
    #[command(after_help = "\
Example:
  cairn pair approve K7P2XMQA

A stranger who writes to the bot is told a code and passes it on to you. A
code is void after a day.")]
    Approve {
        /// The code
        #[arg(value_name = "CODE")]
        code: String,
    },
    /// Take the permission back, or refuse it
    #[command(after_help = "Example:\n  cairn pair revoke telegram/123456789")]
    Revoke {
        /// The person: PLATFORM/USER, as `cairn pair list` shows them
        #[arg(value_name = "USER")]
        user: String,
    },
}

/// `cairn pair …`.
pub(crate) async fn pair(global: Global, command: PairCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    match command {
        PairCommand::List => list(&surroundings, &global).await,
        PairCommand::Approve { code } => {
            let path = format!("/v1/pairings/{}/approve", encode(code.trim()));
            let record = change(&surroundings, Method::POST, &path).await?;
            if global.json {
                return out::json(&record);
            }
            out::line(&format!("{} ({}) may talk to the bot now", record.user, one_line(&record.name)))?;
            if record.told != Some(true) {
                out::note(
                    "they were not told: no `cairn run` reaches them; tell them, or let them write again",
                );
            }
            Ok(())
        }
        PairCommand::Revoke { user } => {
            let path = format!("/v1/pairings/{}", encode(user.trim()));
            let record = change(&surroundings, Method::DELETE, &path).await?;
            if global.json {
                return out::json(&record);
            }
            out::line(&format!("{} ({}) may no longer talk to the bot", record.user, one_line(&record.name)))
        }
    }
}

async fn change(surroundings: &Surroundings, method: Method, path: &str) -> Result<PairingRecord, Failure> {
    let session = surroundings.changing_what_is_there().await?;
    let answer = session.client.call::<PairingRecord>(method, path, None::<&()>).await;
    session.finish(answer.map(|(_, record)| record).map_err(Failure::from)).await
}

async fn list(surroundings: &Surroundings, global: &Global) -> Result<(), Failure> {
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<PairingRecord>>("/v1/pairings").await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("nobody is paired, and nobody waits");
    }
    let mut table = Table::new(&["user", "state", "code", "since", "name"], &[]);
    for record in &records {
        table.row(vec![
            one_line(&record.user),
            record.state.clone(),
            if record.approved_at.is_some() { "-".to_owned() } else { record.code.clone() },
            minute(record.approved_at.unwrap_or(record.asked_at)),
            one_line(&record.name),
        ]);
    }
    out::raw(table.render(out::width()).as_bytes())
}
