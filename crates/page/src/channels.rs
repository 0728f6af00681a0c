//! All channels, a page at a time.

use axum::extract::{Query, State};
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{After, pages};
use crate::paint::paint;
use crate::pieces::command;
use crate::visitor::Visitor;
use cairn_api::show::Show as _;
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
    let body = html! {
        @if items.is_empty() { p { "There are no channels" @if !begins { " after this" } ". A channel starts with its first message." } }
        @else { (paint(&items.show())) }
        (pages("/channels", begins, next.as_deref()))
    };
    let command = command(&["channels"]);
    Ok(layout(&Frame { title: "Channels", section: Section::Channels, visitor, command }, &body))
}
