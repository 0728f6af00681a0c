//! `cairn store`: the store checked or rebuilt. No daemon may run meanwhile.

use clap::Subcommand;

use super::Global;
use super::failure::Failure;

/// Subcommands of `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check journal and views; exit code 5 when something is damaged
    #[command(after_help = "Examples:\n  cairn store verify\n  cairn store verify --quarantine --json")]
    Verify {
        /// Set damaged journal lines aside, so that the daemon starts again; the loss is shown as a marker
        #[arg(long)]
        quarantine: bool,
    },
    /// Make sled and the search index anew from the journal
    #[command(after_help = "Example:\n  cairn store rebuild")]
    Rebuild,
}

/// `cairn store …`.
pub(crate) async fn store(_global: Global, _command: StoreCommand) -> Result<(), Failure> {
    std::future::ready(Err(Failure::failed("not yet", ""))).await
}
