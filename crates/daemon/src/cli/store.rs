//! `cairn store`: the store checked or rebuilt; copied and put back: `backup`.

use cairn_store::{VerifyReport, rebuild_dir, verify_dir};
use clap::Subcommand;

use super::connect::{Surroundings, store_failure};
use super::failure::Failure;
use super::global::Global;
use super::{backup, exit, out};
use crate::admin::RetainRequest;
use crate::retention_job::RetainRecord;
use crate::text::{counted, grouped};
use crate::wiring::store_options;
use cairn_store::Shrunk;

/// Subcommands of `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check journal and views; exit code 5 when something is damaged
    #[command(after_help = "\
Examples:
  cairn store verify
  cairn store verify --quarantine --json

A running daemon is asked to check itself; --quarantine needs it stopped.")]
    Verify {
        /// Go on without journal lines that are damaged or lost: damaged ones are quarantined, and history shows the loss
        #[arg(long)]
        quarantine: bool,
    },
    /// Compress old journal segments, take expired words out of them and forget old memories now, as `[retention]` says
    #[command(after_help = "\
Examples:
  cairn store retain --dry-run
  cairn store retain --json

`cairn run` does it once a day when [retention] is set.")]
    Retain {
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Make sled and the search index again from the journal; the daemon must be stopped
    #[command(after_help = "\
Example:
  cairn store rebuild

It is refused while they alone show records that the journal has lost: see
`cairn store verify`.")]
    Rebuild,
    /// Copy the state to a folder, while the daemon runs or without one
    Backup(backup::BackupArgs),
    /// Put a backup in the place of the state; the daemon must be stopped
    Restore(backup::RestoreArgs),
}

/// `cairn store …`.
pub(crate) async fn store(global: Global, command: StoreCommand) -> Result<(), Failure> {
    match command {
        StoreCommand::Backup(args) => return backup::backup(&global, args).await,
        StoreCommand::Restore(args) => return backup::restore(&global, args).await,
        StoreCommand::Retain { dry_run } => return retain(global, dry_run).await,
        StoreCommand::Verify { .. } | StoreCommand::Rebuild => {}
    }
    let surroundings = match command {
        StoreCommand::Verify { quarantine: false } => Surroundings::load(&global).await?,
        _ => Surroundings::configured(&global)?,
    };
    let options = store_options(&surroundings.loaded.config, &surroundings.state);
    let running = match command {
        StoreCommand::Verify { quarantine: false } => surroundings.running().await,
        _ => None,
    };
    if running.is_none() && !surroundings.state.is_there() {
        return Err(Failure::failed(
            format!("there is no state in {} yet", surroundings.state.path.display()),
            "name the state folder by --state or $CAIRN_STATE",
        ));
    }
    if running.is_none() {
        surroundings.may_do_without()?;
    }
    let report = match command {
        StoreCommand::Rebuild => rebuild_dir(options).await.map_err(store_failure)?,
        StoreCommand::Verify { quarantine } => match running {
            Some(client) => client.get("/v1/store/verify").await.map_err(Failure::from)?,
            None => verify_dir(options, quarantine).await.map_err(store_failure)?,
        },
        StoreCommand::Backup(_) | StoreCommand::Restore(_) | StoreCommand::Retain { .. } => return Ok(()),
    };
    if global.json {
        out::json(&report)?;
    } else {
        out::raw(drawn(&report).as_bytes())?;
    }
    if report.ok { Ok(()) } else { Err(Failure::Silent(exit::DAMAGED)) }
}

/// `cairn store retain`: asked of the daemon, or done by one that is started inside.
async fn retain(global: Global, dry_run: bool) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let session = surroundings.changing_what_is_there().await?;
    let answer = session.client.post::<RetainRecord>("/v1/store/retain", &RetainRequest { dry_run }).await;
    let record = session.finish(answer.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&record);
    }
    out::line(&retained(&record))
}

fn retained(record: &RetainRecord) -> String {
    let RetainRecord { dry_run, compressed, expired, over_bytes, memories, seconds: _ } = record;
    let bytes = |shrunk: &Shrunk| {
        let (segments, before) =
            (counted(shrunk.segments, "segment", "segments"), grouped(shrunk.bytes_before));
        format!("{segments}, from {before} to {} bytes", grouped(shrunk.bytes_after))
    };
    let mut lines = Vec::new();
    if compressed.segments > 0 {
        lines.push(format!("compressed  {}", bytes(compressed)));
    }
    if expired.shrunk.segments > 0 {
        lines.push(format!(
            "expired     the words of {} and {} in {}",
            counted(expired.entries, "message", "messages"),
            counted(expired.summaries, "summary", "summaries"),
            bytes(&expired.shrunk)
        ));
    }
    if *memories > 0 {
        lines.push(format!("forgotten   {}", counted(*memories, "memory", "memories")));
    }
    let failed = compressed.failed + expired.shrunk.failed;
    if failed > 0 {
        let failed = counted(failed, "segment", "segments");
        lines.push(format!("failed      {failed}, as before; the log says why"));
    }
    if lines.is_empty() {
        lines.push("nothing is to be done by [retention]".to_owned());
    } else if *dry_run {
        lines.insert(0, "it would be so:".to_owned());
    }
    if *over_bytes > 0 {
        let over = grouped(*over_bytes);
        lines.push(format!("over        journal_mib by {over} bytes: no closed segment has more to give"));
    }
    lines.join("\n")
}

fn drawn(report: &VerifyReport) -> String {
    let mut text = format!(
        "{}\njournal   {} in {}, the last is {}\nviews     {}, {} bad, applied up to {}\nchannels  {}\nmemories  {}\n",
        if report.ok { "the store is fine" } else { "the store is damaged" },
        counted(report.journal.events, "event", "events"),
        counted(report.journal.segments, "segment", "segments"),
        grouped(report.journal.last),
        counted(report.views.records, "row", "rows"),
        grouped(report.views.bad),
        grouped(report.views.applied),
        grouped(report.channels),
        grouped(report.memories),
    );
    for problem in &report.problems {
        text.push_str(&format!("problem   {}\n", crate::text::plain(problem)));
    }
    text
}
