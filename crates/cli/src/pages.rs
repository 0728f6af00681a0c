//! Lists: fetched page after page, and printed as the pages come.

use std::io::Write as _;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::with_params;
use crate::connect::Connector;
use crate::failure::Failure;
use crate::{args, out};
use cairn_api::lists::NEXT;
use cairn_api::text::plain_json;

/// Most items of a page.
const PAGE: u64 = 1_000;

/// Which part of a list.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Maximum number of items [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(1, u64::MAX))]
    pub limit: Option<u64>,
    /// Only items after this place, which a truncated list prints
    #[arg(long, value_name = "PLACE")]
    pub after: Option<String>,
}

/// Prints a list: as one JSON array with `json`, else each page as `text` shows it, which is told whether it is the first.
/// Returns where the rest of the list begins when `limit` cut it.
pub async fn print<T: DeserializeOwned + Serialize>(
    connector: &Connector,
    json: bool,
    (path, params): (&str, Vec<(&str, Option<String>)>),
    PageArgs { limit, mut after }: PageArgs,
    text: impl Fn(&[T], bool) -> String,
) -> Result<Option<String>, Failure> {
    let connection = connector.reading().await?;
    let goes_on = after.is_some();
    let printed = async {
        let (mut n, mut left) = (0, limit.unwrap_or(u64::MAX));
        loop {
            let page = [("limit", Some(left.min(PAGE).to_string())), ("after", after.take())];
            let path = with_params(path, &[&params[..], &page].concat());
            let (records, [next]) = connection.client.get_with_headers::<Vec<T>, 1>(&path, [NEXT]).await?;
            if json {
                print_json(&records, n)?;
            } else if goes_on && n + records.len() == 0 {
                out::text("nothing comes after that\n")?;
            } else {
                out::text(&text(&records, n == 0))?;
            }
            n += records.len();
            left = left.saturating_sub(records.len() as u64);
            after = next;
            if after.is_none() || left == 0 {
                break;
            }
        }
        if json {
            out::raw(if n == 0 { b"[]\n" } else { b"\n]\n" })?;
        }
        Ok(after)
    };
    let printed = printed.await;
    connection.finish(printed).await
}

/// Prints further items of an array, of which so many are printed already.
fn print_json(records: &[impl Serialize], before: usize) -> Result<(), Failure> {
    let mut text = Vec::new();
    for (idx, record) in records.iter().enumerate() {
        text.extend_from_slice(if before + idx == 0 { b"[" } else { b"," });
        let record = plain_json(&serde_json::to_string_pretty(record).map_err(std::io::Error::from)?);
        for line in record.lines() {
            write!(text, "\n  {line}")?;
        }
    }
    out::raw(&text)
}
