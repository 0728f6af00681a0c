//! `cairn context`: what is in a channel's window, as a record or drawn.

use clap::Args;

use super::connect::{Surroundings, channel_path};
use super::draw;
use super::failure::Failure;
use super::global::{ChannelArg, Global};
use super::out;
use crate::records::ContextRecord;

/// Arguments of `context`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn context main
  cairn context main --json
  cairn context helper/local/ops

The bar shows how full the window is and where the tiers begin; NO_COLOR turns
colours off.")]
pub(crate) struct ContextArgs {
    #[command(flatten)]
    channel: ChannelArg,
}

/// `cairn context`.
pub(crate) async fn context(global: Global, args: ContextArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel.channel, None)?;
    let session = surroundings.reading().await?;
    let record = session.client.get::<ContextRecord>(&channel_path(&channel, "context")).await;
    let record = session.finish(record.map_err(Failure::from)).await?;
    if global.json {
        return out::json(&record);
    }
    out::raw(draw::context(&record, out::width()).as_bytes())
}
