//! `cairn private`: people and chats from which nothing is learnt.

use axum::http::Method;
use clap::{Args, ValueEnum};

use crate::args::Global;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::records::{PrivateRecord, PrivateRequest};
use cairn_api::text::{minute, one_line};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Save no memories from it
    On,
    /// Learn again, but not from messages sent in the meantime
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn private                                 list who is private
  cairn private on main/telegram/-1001234       a chat
  cairn private on --user telegram/123456789    a person, in all chats
  cairn private off --user telegram/123456789

Messages stay in the history and can be searched; existing memories are kept.
In a chat people write `/private on` and `/private me on`.")]
pub struct PrivateArgs {
    /// on or off [default: list who is private]
    #[arg(value_name = "ON|OFF", hide_possible_values = true)]
    switch: Option<Switch>,
    /// The chat, by one of its channels
    #[arg(value_name = "CHANNEL", conflicts_with = "user")]
    channel: Option<String>,
    /// The person: PLATFORM/USER, as `cairn history` shows them
    #[arg(long, value_name = "USER", requires = "switch")]
    user: Option<String>,
}

pub async fn private(global: Global, args: PrivateArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let PrivateArgs { switch, channel, user } = args;
    let records: Vec<PrivateRecord> = match switch {
        None => connector.get("/v1/private").await?,
        Some(switch) => {
            let channel = channel.map(|channel| connector.channel(&channel, None)).transpose()?;
            let chat = channel.map(|channel| format!("{}/{}", channel.platform(), channel.chat()));
            if user.is_none() && chat.is_none() {
                let hint = "`cairn channels` lists the channels, `cairn history` shows people";
                return Err(Failure::usage("name a channel, or a person with --user", hint));
            }
            let request = PrivateRequest { user, chat, on: switch == Switch::On };
            connector.change(Method::POST, "/v1/private", &request).await?
        }
    };
    out::record(global.json, &records, |records| listed(records))
}

fn listed(records: &[PrivateRecord]) -> String {
    if records.is_empty() {
        return "nobody is private\n".to_owned();
    }
    let mut table = Table::new(&["private", "id", "since"], &[]);
    for PrivateRecord { who, is_chat, since } in records {
        let kind = if *is_chat { "chat" } else { "person" };
        table.row(vec![kind.to_owned(), one_line(who), minute(*since)]);
    }
    table.render(out::width())
}
