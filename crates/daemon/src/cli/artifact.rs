//! `cairn artifact`: large results of tools and large messages, which are kept outside of the window.

use clap::Subcommand;

use super::client::{encode, with_params};
use super::connect::{Surroundings, channel_path};
use super::failure::Failure;
use super::global::{ChannelArg, Global};
use super::table::Table;
use super::{out, values};
use crate::records::{ArtifactPage, ArtifactRecord};
use crate::text::{day, grouped, minute, plain};

/// Subcommands of `artifact`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    /// List the artifacts of a channel, oldest first
    #[command(after_help = "Examples:\n  cairn artifact list main\n  cairn artifact list main --json")]
    List {
        #[command(flatten)]
        channel: ChannelArg,
    },
    /// Show lines of one
    #[command(after_help = "\
Examples:
  cairn artifact show main a3               the first 1000 lines, up to 1 MiB
  cairn artifact show main a3 --from 501 --count 20
  cairn artifact show main a3 --offset 1048576     the middle of a giant line

Looking at one does not count as reading it: it expires all the same.")]
    Show {
        #[command(flatten)]
        channel: ChannelArg,
        /// The artifact, such as a3
        #[arg(value_name = "ID")]
        id: String,
        /// First line
        #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
              value_parser = values::number(1, u64::MAX))]
        from: u64,
        /// Most lines
        #[arg(long, value_name = "N", default_value_t = 1_000, allow_negative_numbers = true,
              value_parser = values::number(1, u64::MAX))]
        count: u64,
        /// Bytes of the first line to pass over
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true,
              value_parser = values::number(0, u64::MAX))]
        offset: u64,
    },
}

/// `cairn artifact …`.
pub(crate) async fn artifact(global: Global, command: ArtifactCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    match command {
        ArtifactCommand::List { channel } => list(&surroundings, &global, &channel.channel).await,
        ArtifactCommand::Show { channel, id, from, count, offset } => {
            let channel = surroundings.channel(&channel.channel, None)?;
            let session = surroundings.reading().await?;
            let params = [("from", from), ("count", count), ("offset", offset)];
            let params = params.map(|(name, n)| (name, Some(n.to_string())));
            let path = channel_path(&channel, &format!("artifacts/{}", encode(id.trim())));
            let page = session.client.get::<ArtifactPage>(&with_params(&path, &params)).await;
            let page = session.finish(page.map_err(Failure::from)).await?;
            if global.json {
                return out::json(&page);
            }
            out::line(&plain(&page.text))?;
            if let Some(next) = page.next {
                let offset =
                    if next.offset > 0 { format!(" --offset {}", next.offset) } else { String::new() };
                out::note(&format!(
                    "{} of {} lines; it goes on: --from {}{offset}",
                    grouped(page.count),
                    grouped(page.artifact.lines),
                    next.from
                ));
            }
            Ok(())
        }
    }
}

async fn list(surroundings: &Surroundings, global: &Global, channel: &str) -> Result<(), Failure> {
    let channel = surroundings.channel(channel, None)?;
    let session = surroundings.reading().await?;
    let records = session.client.get::<Vec<ArtifactRecord>>(&channel_path(&channel, "artifacts")).await;
    let records = session.finish(records.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&records);
    }
    if records.is_empty() {
        return out::line(
            "no artifacts: there was no large result of a tool here, and no message larger than the window",
        );
    }
    let mut table = Table::new(&["id", "from", "bytes", "lines", "stored", "read", "state"], &[2, 3]);
    for record in &records {
        let expired = |at| format!("expired {}", day(at));
        table.row(vec![
            record.id.to_string(),
            record.message.map_or_else(|| plain(&record.tool), |seq| format!("message {seq}")),
            grouped(record.bytes),
            grouped(record.lines),
            minute(record.stored_at),
            minute(record.used_at),
            record.expired_at.map_or_else(|| "kept".to_owned(), expired),
        ]);
    }
    out::raw(table.render(out::width()).as_bytes())
}
