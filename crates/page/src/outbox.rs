//! The outbox: what no chat network has confirmed, sent again or given up here.

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{After, channel_link, pages, path, seen_again};
use crate::pieces::{command, said, text, time};
use crate::visitor::Visitor;
use cairn_api::records::OutboxRecord;
use cairn_api::text::counted;
use cairn_server::api::{ListParams, Page, Params, Segment, Shared, outbox};

/// Deliveries on a page.
const LINES: usize = 100;

const HERE: &str = "/outbox";

/// `GET /outbox`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<After>,
) -> Result<Markup, PageError> {
    let params = ListParams { limit: Some(LINES), after: query.after.filter(|after| !after.is_empty()) };
    let begins = params.after.is_none();
    let Page { items, next } = outbox::list(State(admin), Params(params)).await?;
    let body = html! {
        p.note {
            "Owed: it is sent by itself. Dead: the network refuses it. Unknown: the connection broke after it was sent, so that \
             sending it again might show it twice; look into the chat first."
        }
        @if items.is_empty() { p { "Nothing" @if !begins { " further" } " is in the outbox: every message has arrived." } }
        @for item in &items { (delivery(item, visitor)) }
        (pages(HERE, begins, next.as_deref()))
    };
    let command = command(&["outbox", "list"]);
    Ok(layout(&Frame { title: "Outbox", section: Section::Outbox, visitor, command }, &body))
}

fn delivery(item: &OutboxRecord, visitor: Visitor) -> Markup {
    let id = item.id.to_string();
    let act = |what: &str| path(&["outbox", &id, what]);
    html! {
        article.item aria-label={ "Delivery " (text(&id)) } {
            h2 { span class={ "state " (item.state) } { (text(&item.state)) } " to " (channel_link(&item.channel))
                @if let Some(name) = &item.chat_name { " (" (text(name)) ")" } }
            p.note {
                code { (text(&id)) } " · " (time(item.at)) " · " (counted(item.parts_sent, "part", "parts")) " arrived"
            }
            @if let Some(reason) = &item.reason { p.trouble { (text(reason)) } }
            (said(&item.text))
            @if visitor.may_operate() {
                div.actions {
                    form method="post" action=(act("retry")) { button { "Retry" } }
                    form method="post" action=(act("drop")) { button.grave { "Drop" } }
                }
            }
        }
    }
}

/// `POST /outbox/{id}/retry`.
pub(super) async fn retry(admin: State<Shared>, id: Segment) -> Result<Response, PageError> {
    let _owed = outbox::retry(admin, id).await?;
    Ok(seen_again(HERE))
}

/// `POST /outbox/{id}/drop`.
pub(super) async fn drop(admin: State<Shared>, id: Segment) -> Result<Response, PageError> {
    let _dropped = outbox::drop(admin, id).await?;
    Ok(seen_again(HERE))
}
