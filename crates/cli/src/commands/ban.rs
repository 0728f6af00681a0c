//! `cairn ban`, `cairn unban`: who is heard nowhere.

use axum::http::Method;
use clap::Args;
use serde_json::json;

use crate::args::Global;
use crate::client::encode;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::out;
use crate::out::Table;
use cairn_api::records::{BanRecord, BanRequest};
use cairn_api::text::{minute, one_line};
use cairn_config::is_person;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn ban                                        list banned people
  cairn ban telegram/123456789
  cairn ban discord/80351110224678912 --for 3d --reason 'sells watches'

The bot ignores banned people everywhere, even if an allow-list names them.
It sends them nothing, but refuses their buttons and slash commands.
Earlier messages stay in the history; `cairn forget-user` erases them. In a
chat, operators write `/ban WHO [for 3d] [REASON]`.")]
pub struct BanArgs {
    /// The person: PLATFORM/USER, as `cairn history` shows them [default: list banned people]
    #[arg(value_name = "USER")]
    user: Option<String>,
    /// How long, such as 3d, 12h or 30m [default: until you lift it]
    #[arg(long = "for", value_name = "TIME", requires = "user")]
    lasts: Option<String>,
    /// The reason, for your records
    #[arg(long, value_name = "TEXT", requires = "user")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cairn unban telegram/123456789")]
pub struct UnbanArgs {
    /// The person: PLATFORM/USER, as `cairn ban` lists them
    #[arg(value_name = "USER")]
    user: String,
}

pub async fn ban(global: Global, args: BanArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let BanArgs { user, lasts, reason } = args;
    let Some(user) = user else {
        let records: Vec<BanRecord> = connector.get("/v1/bans").await?;
        return out::record(global.json, &records, |records| listed(records));
    };
    let user = user.trim().to_owned();
    if !is_person(&user) {
        return Err(Failure::usage(
            format!("`{}` is not a person", user.escape_debug()),
            "write PLATFORM/USER with the person's id there, such as telegram/123456789",
        ));
    }
    let request = BanRequest { user, reason, lasts };
    let record: BanRecord = connector.change(Method::POST, "/v1/bans", &request).await?;
    out::record(global.json, &record, |record| {
        let end = record
            .until
            .map_or_else(|| "until `cairn unban`".to_owned(), |at| format!("until {}", minute(at)));
        format!("{} is banned {end}\n", record.user)
    })
}

pub async fn unban(global: Global, args: UnbanArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let path = format!("/v1/bans/{}", encode(args.user.trim()));
    let record: BanRecord = connector.change(Method::DELETE, &path, &json!({})).await?;
    out::record(global.json, &record, |record| format!("{} is no longer banned\n", record.user))
}

fn listed(records: &[BanRecord]) -> String {
    if records.is_empty() {
        return "nobody is banned\n".to_owned();
    }
    let mut table = Table::new(&["user", "since", "until", "by", "reason"], &[]);
    for record in records {
        table.row(vec![
            one_line(&record.user),
            minute(record.since),
            record.until.map_or_else(|| "-".to_owned(), minute),
            one_line(&record.by),
            record.reason.as_deref().map_or_else(|| "-".to_owned(), one_line),
        ]);
    }
    table.render(out::width())
}
