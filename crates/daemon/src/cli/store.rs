//! `cairn store`: the store checked or rebuilt.

use cairn_store::{VerifyReport, rebuild_dir, verify_dir};
use clap::Subcommand;

use super::connect::{Surroundings, store_failure};
use super::failure::Failure;
use super::text::{counted, grouped};
use super::{Global, exit, out};
use crate::wiring::store_options;

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
        /// Set damaged journal lines aside, so that the daemon starts again; the loss is shown as a marker
        #[arg(long)]
        quarantine: bool,
    },
    /// Make sled and the search index anew from the journal; the daemon must be stopped
    #[command(after_help = "Example:\n  cairn store rebuild")]
    Rebuild,
}

/// `cairn store …`.
pub(crate) async fn store(global: Global, command: StoreCommand) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global)?;
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
    let report = match command {
        StoreCommand::Verify { quarantine: false } => match running {
            Some(client) => client.get("/v1/store/verify").await.map_err(Failure::from)?,
            None => verify_dir(options, false).await.map_err(store_failure)?,
        },
        StoreCommand::Verify { quarantine: true } => {
            verify_dir(options, true).await.map_err(store_failure)?
        }
        StoreCommand::Rebuild => rebuild_dir(options).await.map_err(store_failure)?,
    };
    if global.json {
        out::json(&report)?;
    } else {
        out::raw(drawn(&report).as_bytes())?;
    }
    if report.ok { Ok(()) } else { Err(Failure::Silent(exit::DAMAGED)) }
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
        text.push_str(&format!("problem   {}\n", super::text::plain(problem)));
    }
    text
}
