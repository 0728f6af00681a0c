//! `cairn status`: the daemon, its agents, its outbox and its chat networks.

use clap::Args;

use crate::args::Global;
use crate::connect::Connector;
use crate::failure::{Failure, exit};
use crate::out;

use cairn_api::records::StatusRecord;
use cairn_api::show::troubles;
use cairn_api::text::one_line;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn status
  cairn status --json

The exit code is 1 when no daemon runs.")]
pub struct StatusArgs {}

pub async fn status(global: Global, _args: StatusArgs) -> Result<(), Failure> {
    let status: StatusRecord = Connector::load(&global).await?.get("/v1/status").await?;
    out::record(global.json, &status, text)?;
    if status.running { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

fn text(status: &StatusRecord) -> String {
    let mut text = out::of(status);
    let troubles = troubles(status);
    if !troubles.is_empty() {
        text.push_str("\nProblems\n");
    }
    troubles.iter().for_each(|trouble| text.push_str(&format!("  ! {}\n", one_line(trouble))));
    text
}
