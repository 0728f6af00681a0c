//! All channels, a page at a time.

use axum::extract::{Query, State};
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{After, channel_link, pages};
use crate::pieces::{command, table, text, time};
use crate::visitor::Visitor;
use cairn_api::records::ChannelRecord;
use cairn_api::text::{grouped, percent};
use cairn_server::api::channels::list;
use cairn_server::api::{ListParams, Page, Params, Shared};

/// Channels on a page.
const LINES: usize = 100;

/// `GET /channels`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<After>,
) -> Result<Markup, PageError> {
    let params = ListParams { limit: Some(LINES), after: query.after.filter(|after| !after.is_empty()) };
    let begins = params.after.is_none();
    let Page { items, next } = list(State(admin), Params(params)).await?;
    let rows: Vec<_> = items.iter().map(row).collect();
    let body = html! {
        @if rows.is_empty() { p { "There are no channels" @if !begins { " after this" } ". A channel begins with its first message." } }
        @else { (table("Channels by name", &COLUMNS, &rows)) }
        (pages("/channels", begins, next.as_deref()))
    };
    let command = command(&["channels"]);
    Ok(layout(&Frame { title: "Channels", section: Section::Channels, visitor, command }, &body))
}

const COLUMNS: [(&str, &str); 6] = [
    ("channel", ""),
    ("window", "number"),
    ("tier", ""),
    ("entries", "number"),
    ("summaries", "number wide"),
    ("last", "wide"),
];

fn row(record: &ChannelRecord) -> Vec<Markup> {
    vec![
        channel_link(&record.channel),
        text(percent(record.usage_ratio)),
        html! { span class={ "tier " (record.tier.name()) } { (record.tier.name()) } },
        text(grouped(record.entries)),
        text(grouped(record.summaries)),
        time(record.last_at),
    ]
}
