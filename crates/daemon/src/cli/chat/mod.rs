//! `cairn chat`: talking to an agent, on a terminal or through a pipe.

mod piped;
mod terminal;
mod turn;

use std::io::IsTerminal;

use cairn_core::ids::ChannelId;
use clap::Args;

use super::client::Client;
use super::connect::Surroundings;
use super::failure::Failure;
use super::global::Global;
use super::values;

/// Arguments of `chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn chat                                talk; /help lists the commands
  cairn chat --channel ops --user ann
  echo 'What did we decide?' | cairn chat   a line a message, replies in order

Piped, a call that needs an approval is denied at once, since nobody can be
asked; the exit code is 1 if that happened or if any turn failed. With --json
each reply is one line of JSON.")]
pub(crate) struct ChatArgs {
    /// The agent to talk to [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// The channel to talk in
    #[arg(long, value_name = "C", default_value = "main")]
    channel: String,
    /// Who is talking
    #[arg(long, value_name = "U", default_value = "user", value_parser = values::name)]
    user: String,
}

/// A conversation from this side.
pub(super) struct Talk {
    client: Client,
    channel: ChannelId,
    user: String,
    json: bool,
}

/// `cairn chat`.
pub(crate) async fn chat(global: Global, args: ChatArgs) -> Result<(), Failure> {
    let surroundings = Surroundings::load(&global).await?;
    let channel = surroundings.channel(&args.channel, args.agent.as_deref())?;
    let session = surroundings.changing().await?;
    let talk = Talk { client: session.client.clone(), channel, user: args.user, json: global.json };
    if std::io::stdin().is_terminal() {
        // There Ctrl-C stops an answer, not the program.
        session.finish(Box::pin(terminal::talk(&talk)).await).await
    } else {
        session.carry_out(Box::pin(piped::talk(&talk, tokio::io::stdin()))).await
    }
}
