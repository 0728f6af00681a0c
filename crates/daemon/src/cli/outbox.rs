//! `cairn outbox`: what is owed to chat networks, and what could not be delivered.

use axum::http::Method;
use clap::Subcommand;

use super::client::encode;
use super::connect::Surroundings;
use super::failure::Failure;
use super::global::Global;
use super::out;
use super::table::Table;
use crate::admin::{OutboxCounts, OutboxRecord};
use crate::text::{grouped, one_line};

/// Characters of a delivery's words that the list shows.
const TEXT_SHOWN: usize = 72;

/// Subcommands of `outbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// List deliveries that no network has confirmed, oldest first
    #[command(after_help = "\
Examples:
  cairn outbox list
  cairn outbox list --json

States: owed, to be sent, by itself; dead, the network will not take it;
unknown, the connection broke after the message had left, so that sending it
again might show it twice: look into the chat, then retry or drop it.")]
    List,
    /// Send one again, from its first part that is not there
    #[command(after_help = "Example:\n  cairn outbox retry main/telegram/7:t12")]
    Retry {
        /// The delivery's id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Give one up
    #[command(after_help = "Example:\n  cairn outbox drop main/telegram/7:t12")]
    Drop {
        /// The delivery's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// `cairn outbox …`.
pub(crate) async fn outbox(global: Global, command: OutboxCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let (method, path, done) = match command {
        OutboxCommand::List => return list(&surroundings, &global).await,
        OutboxCommand::Retry { id } => {
            (Method::POST, format!("/v1/outbox/{}/retry", encode(id.trim())), "is owed again")
        }
        OutboxCommand::Drop { id } => {
            (Method::DELETE, format!("/v1/outbox/{}", encode(id.trim())), "is given up")
        }
    };
    let session = surroundings.changing_what_is_there().await?;
    let is_inside = session.is_inside();
    let retried = method == Method::POST;
    let answer = session.client.call::<OutboxRecord>(method, &path, None::<&()>).await;
    let record = session.finish(answer.map(|(_, record)| record).map_err(Failure::from)).await?;
    if global.json {
        return out::json(&record);
    }
    out::line(&format!("{} to {} {done}", record.id, record.channel))?;
    if retried && is_inside {
        out::note("no daemon runs: the next `cairn run` sends it");
    }
    Ok(())
}

async fn list(surroundings: &Surroundings, global: &Global) -> Result<(), Failure> {
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<OutboxRecord>>("/v1/outbox").await.map_err(Failure::from);
    let records = session.finish(records).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line("nothing is owed");
    }
    let mut table = Table::new(&["id", "channel", "age", "state"], &[2]);
    for record in &records {
        table.row(vec![
            record.id.to_string(),
            record.channel.to_string(),
            age(record.age_seconds),
            record.state.clone(),
        ]);
    }
    // What it says and why it is not there stand below each, whole: that is what decides about it.
    let rows = table.render(out::width());
    let mut rows = rows.lines();
    out::line(rows.next().unwrap_or_default())?;
    for (row, record) in rows.zip(&records) {
        let reason = record.reason.as_deref().map(one_line);
        let text: String = one_line(&record.text).chars().take(TEXT_SHOWN).collect();
        out::line(&format!("{row}\n    {text}"))?;
        if let Some(reason) = reason {
            out::line(&format!("    {reason}"))?;
        }
    }
    Ok(())
}

/// The outbox in `cairn status`; nothing, when nothing is in it.
pub(crate) fn drawn(counts: OutboxCounts) -> Vec<String> {
    let counted = [(counts.unknown, "of unknown fate"), (counts.dead, "dead"), (counts.owed, "owed")];
    let some: Vec<String> =
        counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
    if some.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("outbox    {}", some.join(", "))];
    if counts.unknown + counts.dead > 0 {
        lines.push(
            "          > `cairn outbox list` shows them, `retry ID` and `drop ID` settle them".to_owned(),
        );
    }
    lines
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_what_was_not_delivered_and_where_to_look() {
        let lines = |unknown, dead, owed| drawn(OutboxCounts { owed, dead, unknown }).join("\n");
        assert_eq!(lines(0, 0, 0), "");
        assert_eq!(lines(0, 0, 3), "outbox    3 owed");
        let hint = "\n          > `cairn outbox list` shows them, `retry ID` and `drop ID` settle them";
        assert_eq!(lines(2, 1, 3), format!("outbox    2 of unknown fate, 1 dead, 3 owed{hint}"));
        assert_eq!(lines(0, 1, 0), format!("outbox    1 dead{hint}"));
    }
}
