//! Tool calls: those that wait for approval, answered here, and those that were made.

use axum::Form;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use cairn_types::tool::ToolOutcome;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, encoded, path, seen_again, turn_link};
use crate::login::local;
use crate::paint::list;
use crate::pieces::{command, is_poll, json, live, text, time};
use crate::servers;
use crate::visitor::Visitor;
use cairn_api::records::ApprovalRecord;
use cairn_api::show::Show as _;
use cairn_api::text::one_line;
use cairn_server::api::tools::{Answer, LogParams};
use cairn_server::api::{Body, Page, Params, Segment, Shared, tools};

/// Calls on a page.
const LINES: usize = 100;

const HERE: &str = "/tools";

#[derive(Deserialize)]
pub(super) struct ToolsQuery {
    channel: Option<String>,
    tool: Option<String>,
    outcome: Option<String>,
    before: Option<u64>,
}

/// `GET /tools`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    headers: HeaderMap,
    Query(query): Query<ToolsQuery>,
) -> Result<Markup, PageError> {
    let open = tools::approvals(State(Shared::clone(&admin))).await.0;
    let now = live(
        "waiting",
        &html! { @if open.is_empty() { p { "No call is waiting." } } (waiting(&open, visitor, HERE)) },
    );
    if is_poll(&headers, "waiting") {
        return Ok(now);
    }
    let given = |value: &Option<String>| value.clone().filter(|value| !value.trim().is_empty());
    let (channel, tool) = (given(&query.channel), given(&query.tool));
    let outcome = given(&query.outcome)
        .and_then(|name| ToolOutcome::ALL.into_iter().find(|known| known.name() == name));
    let params = LogParams {
        channel: channel.clone(),
        tool: tool.clone(),
        outcome,
        before: query.before,
        after: None,
        limit: Some(LINES),
    };
    let Page { mut items, .. } = tools::log(State(admin), Params(params)).await?;
    items.reverse();
    let filters =
        [("channel", &channel), ("tool", &tool), ("outcome", &outcome.map(|it| it.name().to_owned()))];
    let kept: String = filters
        .iter()
        .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))))
        .collect();
    let older = items
        .last()
        .filter(|_| items.len() == LINES)
        .map(|oldest| format!("{HERE}?before={}{kept}", oldest.n));
    let body = html! {
        p { a href=(servers::HERE) { "Tool servers" } ": their state, and what they offer" }
        section aria-labelledby="waiting-for" {
            h2 #waiting-for { "Waiting for approval" }
            (now)
        }
        section aria-labelledby="calls" {
            h2 #calls { "Calls" }
            (filter(channel.as_deref(), tool.as_deref(), outcome))
            @if items.is_empty() { p { "No tool call matches." } }
            @else { (list("Newest first", &items.show(), |_| html! {})) }
            nav.pages aria-label="Pages" {
                @if query.before.is_some() { a href=(HERE) { "Newest" } }
                @if let Some(older) = older { a rel="next" href=(older) { "Older" } }
            }
        }
    };
    let flag =
        |name: &'static str, value: &Option<String>| value.clone().map(|value| [name.to_owned(), value]);
    let flags = [
        flag("--channel", &channel),
        flag("--tool", &tool),
        flag("--outcome", &outcome.map(|it| it.name().to_owned())),
    ];
    let args: Vec<String> = ["tools".to_owned(), "log".to_owned()]
        .into_iter()
        .chain(flags.into_iter().flatten().flatten())
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let command = command(&args);
    Ok(layout(&Frame { title: "Tools", section: Section::Tools, visitor, command }, &body))
}

fn filter(channel: Option<&str>, tool: Option<&str>, outcome: Option<ToolOutcome>) -> Markup {
    html! {
        form.filter method="get" action=(HERE) {
            p { label for="channel" { "Channel" } input #channel name="channel" value=(channel.unwrap_or_default()); }
            p { label for="tool" { "Tool" } input #tool name="tool" value=(tool.unwrap_or_default()); }
            p {
                label for="outcome" { "Outcome" }
                select #outcome name="outcome" {
                    option value="" { "any" }
                    @for known in ToolOutcome::ALL {
                        option value=(known.name()) selected[outcome == Some(known)] { (known.name()) }
                    }
                }
            }
            p { button { "Show" } }
        }
    }
}

/// Calls that wait, each with its answers; these lead back to the view `back`.
pub(super) fn waiting(waiting: &[ApprovalRecord], visitor: Visitor, back: &str) -> Markup {
    html! {
        @for ApprovalRecord { channel, approval, .. } in waiting {
            article.item aria-label={ "Request " (text(&approval.id)) } {
                h3 { code { (text(&approval.tool)) } " in " (channel_link(channel)) " " (turn_link(channel, &approval.turn)) }
                p {
                    "Caused by " (text(approval.caused_by.iter().map(|who| one_line(who)).collect::<Vec<_>>().join(", ")))
                    "; reason: " (text(&approval.reason)) "; waits until " (time(approval.expires_at)) "."
                }
                (json(&approval.arguments))
                @if visitor.may_operate() {
                    form.actions method="post" action=(path(&["approvals", approval.id.as_str()])) {
                        input type="hidden" name="back" value=(back);
                        button id={ "yes-" (text(&approval.id)) } name="approve" value="yes" { "Approve" }
                        button.grave id={ "no-" (text(&approval.id)) } name="approve" value="no" { "Deny" }
                    }
                }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Decision {
    approve: String,
    #[serde(default)]
    back: String,
}

/// `POST /approvals/{id}`.
pub(super) async fn answer(
    admin: State<Shared>,
    id: Segment,
    Form(Decision { approve, back }): Form<Decision>,
) -> Result<Response, PageError> {
    let _answered = tools::answer(admin, id, Body(Answer { approve: approve == "yes" })).await?;
    Ok(seen_again(if back.is_empty() { HERE } else { local(&back) }))
}
