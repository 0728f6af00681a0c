//! `cairn reminder`: what fires when, in which channel.

use axum::http::Method;
use clap::Subcommand;
use serde_json::json;

use crate::args::Global;
use crate::client::{encode, with_params};
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use cairn_api::records::{ReminderRecord, ReminderRequest};
use cairn_api::text::minute;

#[derive(Debug, Subcommand)]
pub enum ReminderCommand {
    /// List reminders and schedules
    #[command(
        after_help = "Examples:\n  cairn reminder list\n  cairn reminder list --channel main/telegram/7 --json"
    )]
    List {
        /// Only reminders of this channel
        #[arg(long, value_name = "C")]
        channel: Option<String>,
    },
    /// Show a reminder in full
    #[command(after_help = "Example:\n  cairn reminder show main/telegram/7 3")]
    Show {
        /// The channel
        #[arg(value_name = "C")]
        channel: String,
        /// The id that `cairn reminder list` shows
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Set a reminder in a channel
    #[command(after_help = "\
Examples:
  cairn reminder add main/telegram/7 in 2h30m call the plumber
  cairn reminder add main/telegram/7 every monday 9:00 what is on this week?
  cairn reminder add main/telegram/7 '0 9 1 * *' send the invoices

Times are in the agent's time zone: in 20m, at 18:30, tomorrow 9:00,
friday 9:00, 2026-12-24 18:00, every day 9:00, every weekday 9:00, or five
cron fields.")]
    Add {
        /// The channel
        #[arg(value_name = "C")]
        channel: String,
        /// The time, then the text
        #[arg(value_name = "TIME TEXT", required = true)]
        words: Vec<String>,
    },
    /// Cancel a reminder
    #[command(after_help = "Example:\n  cairn reminder cancel main/telegram/7 3")]
    Cancel {
        /// The channel
        #[arg(value_name = "C")]
        channel: String,
        /// The id that `cairn reminder list` shows
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub async fn reminder(global: Global, command: ReminderCommand) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let of = |channel: &str, rest: &str| {
        let channel = connector.channel(channel, None)?;
        Ok::<_, Failure>(format!("/v1/channels/{}/reminders{rest}", encode(channel.as_str())))
    };
    match command {
        ReminderCommand::List { channel } => {
            let channel = channel.map(|name| connector.channel(&name, None)).transpose()?;
            let params = [("channel", channel.map(|channel| channel.to_string()))];
            let records: Vec<ReminderRecord> = connector.get(&with_params("/v1/reminders", &params)).await?;
            out::listed(global.json, &records, "no reminders")
        }
        ReminderCommand::Show { channel, id } => {
            let path = of(&channel, &format!("/{}", encode(id.trim())))?;
            let record: ReminderRecord = connector.get(&path).await?;
            out::shown(global.json, &record)
        }
        ReminderCommand::Add { channel, words } => {
            let request = ReminderRequest { words: words.join(" ") };
            let record: ReminderRecord = connector.change(Method::POST, &of(&channel, "")?, &request).await?;
            out::record(global.json, &record, |ReminderRecord { channel, reminder }| {
                format!("reminder {} is set in {channel} for {}\n", reminder.id, minute(reminder.due))
            })
        }
        ReminderCommand::Cancel { channel, id } => {
            let path = of(&channel, &format!("/{}", encode(id.trim())))?;
            let record: ReminderRecord = connector.change(Method::DELETE, &path, &json!({})).await?;
            out::record(global.json, &record, |ReminderRecord { channel, reminder }| {
                format!("reminder {} of {channel} is cancelled\n", reminder.id)
            })
        }
    }
}
