//! `cairn outbox`: messages that no chat network has confirmed.

use axum::http::Method;
use clap::Subcommand;
use serde_json::json;

use crate::args::Global;
use crate::client::encode;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out::Table;
use crate::pages::PageArgs;
use crate::{out, pages};
use cairn_api::records::OutboxRecord;
use cairn_api::text::one_line;

/// Characters of a message that the list shows.
const TEXT_SHOWN: usize = 72;

#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// List unconfirmed deliveries, oldest first
    #[command(after_help = "\
Examples:
  cairn outbox list
  cairn outbox list --limit 20
  cairn outbox list --json

States: owed: it will be sent automatically; dead: the network refuses it;
unknown: the connection broke after the message was sent, so a retry might
show it twice. Look at the chat, then retry or drop it.")]
    List(PageArgs),
    /// Retry a delivery, from its first part that did not arrive
    #[command(after_help = "Example:\n  cairn outbox retry main/telegram/7:t12")]
    Retry {
        /// The delivery's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Drop a delivery
    #[command(after_help = "Example:\n  cairn outbox drop main/telegram/7:t12")]
    Drop {
        /// The delivery's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub async fn outbox(global: Global, command: OutboxCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let (method, path, done) = match command {
        OutboxCommand::List(page) => {
            let rest =
                pages::print(&connector, global.json, ("/v1/outbox", Vec::new()), page, listed).await?;
            if let (false, Some(rest)) = (global.json, rest) {
                out::note(&format!("there are more: --after {rest}"));
            }
            return Ok(());
        }
        OutboxCommand::Retry { id } => {
            (Method::POST, format!("/v1/outbox/{}/retry", encode(id.trim())), "will be sent again")
        }
        OutboxCommand::Drop { id } => {
            (Method::DELETE, format!("/v1/outbox/{}", encode(id.trim())), "is dropped")
        }
    };
    let connection = connector.changing_what_is_there().await?;
    let waits_for_daemon = connection.is_inside() && method == Method::POST;
    let answer = connection.client.call::<OutboxRecord>(method, &path, Some(&json!({}))).await;
    let record = connection.finish(answer.map_err(Failure::from)).await?;
    out::record(global.json, &record, |record| format!("{} to {} {done}\n", record.id, record.channel))?;
    if !global.json && waits_for_daemon {
        out::note("no daemon runs: the next `cairn run` sends it");
    }
    Ok(())
}

fn listed(records: &[OutboxRecord], first: bool) -> String {
    if records.is_empty() && first {
        return "the outbox is empty\n".to_owned();
    }
    let mut table = Table::new(&["id", "channel", "age", "state"], &[2]);
    for record in records {
        let name = record.chat_name.as_deref().map(|name| format!(" ({})", one_line(name)));
        table.row(vec![
            record.id.to_string(),
            format!("{}{}", record.channel, name.unwrap_or_default()),
            age(record.age_seconds),
            record.state.clone(),
        ]);
    }
    // Below each delivery: its text, and in full why it did not arrive, which decides what to do about it.
    let rows = table.render(out::width());
    let mut rows = rows.lines();
    let heading = format!("{}\n", rows.next().unwrap_or_default());
    let mut text = if first { heading } else { String::new() };
    for (row, record) in rows.zip(records) {
        let words: String = one_line(&record.text).chars().take(TEXT_SHOWN).collect();
        text.push_str(&format!("{row}\n    {words}\n"));
        if let Some(reason) = &record.reason {
            text.push_str(&format!("    {}\n", one_line(reason)));
        }
    }
    text
}

/// An age in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
